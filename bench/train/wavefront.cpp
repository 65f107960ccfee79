// SPDX-License-Identifier: Apache-2.0

/// @file
/// Steps of a BigLstm of two layers, 2048 numbers to 512, 20 rows of time, on two one-core devices,
/// whose rows come in five chunks of time, against one such device and against a pipeline of four
/// microbatches.
///
///   bench_wavefront [--batch 128] [--rounds 9]
///
/// All take turns, pinned to no core; prints medians of milliseconds a step, how many times as fast
/// as one device, and what p stages of equal cost could be, p m K / (m K + p - 1). Run it on two
/// cores that nothing else uses: taskset -c 0,1.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace {

using namespace tandem;

constexpr int words = 20'000;
constexpr int time_rows = 20;

struct Net : models::BigLstm<words, 2048, 512, 2, Sampled<1024>, Stateful, RowGradient> {};
static_assert(graph<Net>.node[0].out[0] == time_rows);

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// A strategy at work.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual void step() = 0;

  std::string name;
  double bound = 1.0;
  std::vector<double> seconds{};
};

template <class S>
class Strategist final : public Contender {
 public:
  explicit Strategist(int batch)
      : trainer_{{.batch = batch, .shuffle = false, .threads_per_device = 1},
                 Adagrad{.learning_rate = 0.1F}} {
    for (int i = 0; i < batch * time_rows; ++i) {
      x_.push_back(static_cast<std::int32_t>((std::int64_t{i} * 7919) % words));
      y_.push_back(static_cast<std::int32_t>((std::int64_t{i} * 104'729) % words));
    }
  }
  void step() override {
    bench::Stopwatch const watch;
    trainer_.step(x_, y_);
    seconds.push_back(watch.wall_s());
  }

 private:
  Trainer<Net, S, Host> trainer_;
  std::vector<std::int32_t> x_;
  std::vector<std::int32_t> y_;
};

template <class S>
void add(std::vector<std::unique_ptr<Contender>>& all, char const* name, int batch) {
  all.push_back(std::make_unique<Strategist<S>>(batch));
  all.back()->name = name;
  all.back()->bound = ranks_in_wave(S::devices, S::batching.microbatches, S::batching.chunks);
  all.back()->step();  // the first is slower
  all.back()->seconds.clear();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::Flags const flags{argc, argv, {"batch", "rounds"}};
    int const batch = flags.number("batch", 128);
    std::vector<std::unique_ptr<Contender>> all;
    add<SingleDevice<>>(all, "one device", batch);
    add<ModelParallel<Split<3>, Split<2>>>(all, "two, one after the other", batch);
    add<Pipeline<OneFOneB, 4, Split<3>, Split<2>>>(all, "two, 4 microbatches", batch);
    add<Pipeline<OneFOneB, 1, Chunks<5>, Split<3>, Split<2>>>(all, "two, 5 chunks", batch);
    for (int round = 0; round < std::max(1, flags.number("rounds", 9)); ++round) {
      for (auto const& one : all) {
        one->step();
      }
    }
    std::printf("%-26s %10s %10s %8s\n", "batch of samples of 20 rows", "ms", "speed", "bound");
    double const alone = median(all.front()->seconds);
    for (auto const& one : all) {
      double const own = median(one->seconds);
      std::printf("%-26s %10.1f %10.2f %8.2f\n", one->name.c_str(), 1e3 * own, alone / own,
                  one->bound);
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_wavefront: %s\n", error.what());
    return 1;
  }
  return 0;
}
