// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a checkpoint beside training costs: steps of GoogLeNet for CIFAR with
/// Adam, of which every second one is followed by a checkpoint of
/// TrainerOptions::checkpoints.
///
///   bench_checkpoint [--batch 64] [--threads 1] [--steps 40] [--folder .]
///
/// Prints a line of JSON: bytes of the tensors; medians over the steps without
/// a checkpoint, and of the differences, pair by pair, to those while one is
/// begun and written: step_s and longer_s by the clock on the wall, step_cpu_s
/// and more_cpu_s of all threads; stall_s, CPU time of the calling thread,
/// which is what the ranks wait for, and what that is of a step's; and the
/// median time of save_in(), which does all of it between two steps.

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include "flags.hpp"

namespace td = tandem;

namespace {

struct Net : td::models::GoogLeNet<10> {};

/// Seconds by one of the system's clocks since the last call.
class Laps {
 public:
  explicit Laps(::clockid_t clock) : clock_{clock} { lap(); }
  double lap() {
    ::timespec now{};
    ::clock_gettime(clock_, &now);
    double const seconds =
        static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    return seconds - std::exchange(last_, seconds);
  }

 private:
  ::clockid_t clock_;
  double last_ = 0.0;
};

/// Of steps with a checkpoint, and of those without.
struct Times {
  std::vector<double> with;
  std::vector<double> without;
};

double median(std::vector<double> list) {
  std::sort(list.begin(), list.end());
  return list[list.size() / 2];
}

/// Of the differences, pair by pair.
double median_difference(Times const& times) {
  std::vector<double> list;
  for (std::size_t i = 0; i < std::min(times.with.size(), times.without.size()); ++i) {
    list.push_back(times.with[i] - times.without[i]);
  }
  return median(list);
}

}  // namespace

int main(int argc, char** argv) try {
  td::bench::Flags const flags{argc, argv, {"batch", "threads", "steps", "folder"}};
  int const batch = flags.number("batch", 64);
  int const steps = flags.number("steps", 40);
  int const threads = flags.number("threads", 1);
  std::string const folder = flags.text("folder", ".");
  td::TrainerOptions options{.batch = batch,
                             .optimizer = td::Adam{.learning_rate = 0.0001F},
                             .threads_per_device = threads};
  options.checkpoints.folder = folder;  // g++ 12 warns falsely of a copy in the braces
  options.checkpoints.every_steps = 2;
  options.checkpoints.keep = 1;
  td::Trainer<Net, td::SingleDevice<>, td::Host> trainer{options};
  std::vector<float> x(static_cast<std::size_t>(batch * trainer.input.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = td::uniform(td::philox(1, td::RandomUse::user, i, 0).word[0]) - 0.5F;
  }
  td::TensorDataset<std::int32_t> const data{
      trainer.input, std::move(x), std::vector<std::int32_t>(static_cast<std::size_t>(batch), 3)};

  Times wall;
  Times cpu;     // of all threads
  Times caller;  // CPU time of this thread, which copies while the ranks wait,
                 // and sleeps else
  Laps wall_laps{CLOCK_MONOTONIC};
  Laps cpu_laps{CLOCK_PROCESS_CPUTIME_ID};
  Laps caller_laps{CLOCK_THREAD_CPUTIME_ID};
  for (auto epoch : td::epochs(steps + 4)) {  // of one step each
    trainer.train(data, epoch, [&](td::StepReport const& report) {
      double const seconds[] = {wall_laps.lap(), cpu_laps.lap(), caller_laps.lap()};
      int i = 0;
      for (Times* const times : {&wall, &cpu, &caller}) {
        if (report.step > 4) {  // warm, and the copy has its memory
          (report.step % 2 == 1 ? times->with : times->without).push_back(seconds[i]);
        }
        ++i;
      }
    });
  }
  trainer.await_checkpoint();
  std::vector<double> whole;
  for (int i = 0; i < 5; ++i) {
    wall_laps.lap();
    trainer.save_in(folder);
    whole.push_back(wall_laps.lap());
  }
  std::int64_t bytes = 0;
  for (auto const& p : trainer.parameters()) {
    bytes += static_cast<std::int64_t>(p.value.size_bytes() * (1 + p.states.size()));
  }
  std::printf(
      "{\"bytes\": %lld, \"step_s\": %.4f, \"longer_s\": %.4f, "
      "\"step_cpu_s\": %.4f, "
      "\"more_cpu_s\": %.4f, \"stall_s\": %.4f, \"stall_percent\": "
      "%.2f, \"save_in_s\": %.4f}\n",
      static_cast<long long>(bytes), median(wall.without), median_difference(wall),
      median(cpu.without), median_difference(cpu), median_difference(caller),
      100.0 * median_difference(caller) / (median(cpu.without) / threads), median(whole));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_checkpoint: %s\n", error.what());
  return 1;
}
