// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What bench_gpt does, whatever the size: a unit each instantiates it for its own.

#include <cstdint>
#include <cstdio>
#include <vector>

#include <tandem/tandem.hpp>

#include "../profiled.hpp"
#include "../rounds.hpp"
#include "settings.hpp"

namespace tandem::bench::gpt {

/// A network's extents, and its operations as peers/pytorch_gpt.py counts them.
template <int V, int T, int C, int Heads, int Layers>
struct Size {
  struct Net : models::Gpt<V, T, C, Heads, Layers, Gelu> {};
  static constexpr int vocabulary = V;
  static constexpr int time = T;

  /// Of a step's products: 2 a weight and token, three times; scores and sums where j <= i.
  static double flops(int batch) {
    double const tokens = static_cast<double>(batch) * T;
    double const weights = Layers * 12.0 * C * C + static_cast<double>(V) * C;
    return 3.0 * (2.0 * tokens * weights + Layers * 2.0 * tokens * (T + 1) * C);
  }
};

template <class S>
struct Data {
  explicit Data(int samples)
      : x(static_cast<std::size_t>(samples) * S::time),
        y(static_cast<std::size_t>(samples) * S::time) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      Random4 const random = philox(1, RandomUse::user, i, 0);
      x[i] = static_cast<std::int32_t>(random.word[0] % S::vocabulary);
      y[i] = static_cast<std::int32_t>(random.word[1] % S::vocabulary);
    }
  }
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;
};

inline TrainerOptions trainer_options(Settings const& settings) {
  return {.batch = settings.batch,
          .optimizer = AdamW{.learning_rate = 1e-3F, .beta2 = 0.99F, .weight_decay = 0.1F},
          .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}},
          .threads_per_device = settings.threads};
}

template <class S, class Backend>
void serve(Settings const& settings) {
  Data<S> const data{settings.batch};
  Trainer<typename S::Net, SingleDevice<>, Backend> trainer{trainer_options(settings)};
  double const loss = trainer.step(data.x, data.y).loss;
  std::printf(
      "{\"kernels\": \"%s\", \"precision\": \"%s\", \"threads\": %d, \"parameters\": %lld, "
      "\"loss\": %.6f, \"planned_bytes\": %lld, \"flops\": %.6e}\n",
      settings.kernels.c_str(), settings.precision.c_str(), settings.threads,
      static_cast<long long>(trainer.graph.parameter_elements()), loss,
      static_cast<long long>(trainer.memory().total()), S::flops(settings.batch));
  serve_rounds([&] { trainer.step(data.x, data.y); });
}

template <class S, class Backend>
void print_profile(Settings const& settings) {
  Data<S> const data{settings.batch};
  Trainer<typename S::Net, SingleDevice<>, Profiled<Backend>> trainer{trainer_options(settings)};
  trainer.step(data.x, data.y);
  Profile& profile = Profile::instance();
  profile.clear(settings.threads == 1);
  Stopwatch const watch;
  for (int step = 0; step < settings.profile; ++step) {
    trainer.step(data.x, data.y);
  }
  profile.print(settings.profile, profile.seconds(watch) / settings.profile);
}

template <class S, class Kernels, class Precision>
bool run_as(Settings const& settings) {
  if (settings.kernels != Kernels::name || settings.precision != Precision::name) {
    return false;
  }
  using Backend = BasicHost<Kernels, Precision>;
  if (settings.profile > 0) {
    print_profile<S, Backend>(settings);
  } else {
    serve<S, Backend>(settings);
  }
  return true;
}

template <class S>
void run(Settings const& settings) {
#if defined(TANDEM_ONEDNN)
  bool const done = run_as<S, OneDnn, Fp32>(settings) || run_as<S, OneDnn, Bf16>(settings);
  expects(done, "compiled with oneDNN it has --kernels onednn in fp32 and bf16 only");
#else
  bool const done = run_as<S, Portable, Fp32>(settings);
  expects(done, "compiled without oneDNN it has --kernels portable in fp32 only");
#endif
}

}  // namespace tandem::bench::gpt
