// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps of GoogLeNet for CIFAR on Host, a round at a time, for run.py to compare.
///
///   bench_googlenet [--kernels onednn|portable] [--precision fp32|bf16] [--batch 128]
///                   [--threads 1] [--devices 1|2] [--profile STEPS]
///
/// Prints a line of JSON about itself; then, for each line "round N" that it reads, trains N steps
/// and prints {"step_s": ..., "cpu_s": ...}. Threads are those of a device; two devices are a
/// DataParallel<2> that shares the batch. With --profile it prints instead where STEPS steps spend
/// their time: CPU time with one thread, else wall time.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/tandem.hpp>

#include "flags.hpp"
#include "profiled.hpp"
#include "rounds.hpp"

namespace {

namespace td = tandem;

struct Net : td::models::GoogLeNet<10> {};

struct Settings {
  std::string kernels;
  std::string precision;
  int batch;
  int threads;
  int devices;
  int profile;
};

struct Data {
  explicit Data(int samples)
      : x(static_cast<std::size_t>(samples) * 3 * 32 * 32), y(static_cast<std::size_t>(samples)) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = td::uniform(td::philox(1, td::RandomUse::user, i, 0).word[0]) - 0.5F;
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = static_cast<std::int32_t>(i % 10);
    }
  }
  std::vector<float> x;
  std::vector<std::int32_t> y;
};

td::TrainerOptions trainer_options(Settings const& settings) {
  return {.batch = settings.batch,
          .optimizer = td::Sgd{.learning_rate = 0.001F, .momentum = 0.9F},
          .threads_per_device = settings.threads};
}

template <class Strategy, class Backend>
void serve(Settings const& settings) {
  Data const data{settings.batch};
  td::Trainer<Net, Strategy, Backend> trainer{trainer_options(settings)};
  double const loss = trainer.step(data.x, data.y).loss;
  std::printf(
      "{\"kernels\": \"%s\", \"precision\": \"%s\", \"devices\": %d, \"threads\": %d, "
      "\"parameters\": %lld, \"loss\": %.6f, \"planned_bytes\": %lld, \"flops\": %.6e}\n",
      settings.kernels.c_str(), settings.precision.c_str(), Strategy::ranks, settings.threads,
      static_cast<long long>(trainer.graph.parameter_elements()), loss,
      static_cast<long long>(trainer.memory().total()) * Strategy::ranks,
      6.0 * static_cast<double>(trainer.graph.macs()) * settings.batch);
  td::bench::serve_rounds([&] { trainer.step(data.x, data.y); });
}

template <class Backend>
void print_profile(Settings const& settings) {
  Data const data{settings.batch};
  td::Trainer<Net, td::SingleDevice<>, td::bench::Profiled<Backend>> trainer{
      trainer_options(settings)};
  trainer.step(data.x, data.y);
  td::bench::Profile& profile = td::bench::Profile::instance();
  profile.clear(settings.threads == 1);
  td::bench::Stopwatch const watch;
  for (int step = 0; step < settings.profile; ++step) {
    trainer.step(data.x, data.y);
  }
  profile.print(settings.profile, profile.seconds(watch) / settings.profile);
}

template <class Kernels, class Precision>
bool run(Settings const& settings) {
  if (settings.kernels != Kernels::name || settings.precision != Precision::name) {
    return false;
  }
  using Backend = td::BasicHost<Kernels, Precision>;
  if (settings.profile > 0) {
    print_profile<Backend>(settings);
  } else if (settings.devices == 2) {
    serve<td::DataParallel<2>, Backend>(settings);
  } else {
    serve<td::SingleDevice<>, Backend>(settings);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{
        argc, argv, {"kernels", "precision", "batch", "threads", "devices", "profile"}};
    Settings const settings{.kernels = flags.text("kernels", td::DefaultHostKernels::name),
                            .precision = flags.text("precision", "fp32"),
                            .batch = flags.number("batch", 128),
                            .threads = flags.number("threads", 1),
                            .devices = flags.number("devices", 1),
                            .profile = flags.number("profile", 0)};
#if defined(TANDEM_ONEDNN)
    bool const done = run<td::OneDnn, td::Fp32>(settings) || run<td::OneDnn, td::Bf16>(settings);
    td::expects(done, "compiled with oneDNN it has --kernels onednn in fp32 and bf16 only");
#else
    bool const done = run<td::Portable, td::Fp32>(settings);
    td::expects(done, "compiled without oneDNN it has --kernels portable in fp32 only");
#endif
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_googlenet: %s\n", error.what());
    return 1;
  }
  return 0;
}
