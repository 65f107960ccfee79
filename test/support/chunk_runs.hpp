// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Small networks whose rows may come in chunks of time, and what three steps of them give.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/data/text/text_stream.hpp>
#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>

namespace chunks_test {

using namespace tandem;

constexpr int words = 11;
constexpr int batch = 7;
constexpr int rows = 6;

/// @tparam Option  of its recurrent layers
template <class... Option>
struct Layers : Network<Tokens<rows, words>,
                        Sequential<Embedding<words, 5>, Dropout<Percent<20>>,
                                   Lstm<6, Projection<4>, Option...>, Linear<7>, Tanh,
                                   Gru<5, Option...>, Residual<LayerNorm<>>, Vocabulary<words>>> {};

/// One that looks back.
struct Llama
    : Network<Tokens<rows, words>,
              Sequential<Embedding<words, 8>, Linear<16>,
                         Residual<Sequential<RotaryPositions<4, KeyHeads<2>>,
                                             Attention<4, Causal, KeyHeads<2>, Percent<20>>,
                                             Linear<24>, SwiGlu, Dropout<Percent<10>>, Linear<16>>>,
                         RotaryPositions<4, KeyHeads<2>>, Attention<4, Causal, KeyHeads<2>>,
                         Vocabulary<words>>> {};

using Double = BasicHost<Portable, Fp64>;

/// Losses of three steps of @p time rows and of an evaluation between them, then all parameters.
template <class S, class Net = Layers<>, class Backend = Double,
          template <int> class Transport = DefaultTransport<Backend>::template type>
struct Run {
  Trainer<Net, S, Backend, DefaultLoss<Net>, Accuracy, Transport> trainer;
  std::vector<double> numbers{};

  /// Whether a gradient is GradientRows, which momentum would change everywhere.
  static constexpr bool by_rows() {
    bool any = false;
    for (int p = 0; p < graph<Net>.parameters; ++p) {
      any = any || graph<Net>.parameter[p].parameter.touched.sparse();
    }
    return any;
  }

  /// @param order   passes to run in place of the schedule's, if any
  /// @param record  on a GPU, whether steps are recorded and replayed
  explicit Run(std::vector<std::int32_t> const& lengths = {}, int time = rows,
               ActionRows const& order = {}, bool record = true)
      : trainer{{.batch = batch,
                 .optimizer = Sgd{.learning_rate = 0.5F, .momentum = by_rows() ? 0.0F : 0.9F},
                 .seed = 3,
                 .threads_per_device = 1,
                 .rows = order,
                 .record = record}} {
    test::Watchdog const watchdog{"steps in chunks of time"};
    for (int step = 0; step < 3; ++step) {
      std::vector<std::int32_t> x;
      std::vector<std::int32_t> y;
      for (int i = 0; i < batch * time; ++i) {
        x.push_back((i * i + i / 3 + step) % words);
        bool const counts =
            lengths.empty() || i % time < lengths[static_cast<std::size_t>(i / time)];
        y.push_back(counts ? (7 * i + 3 * step) % words : -1);
      }
      numbers.push_back(trainer.step(x, y, {.time = time, .lengths = lengths}).loss);
      numbers.push_back(trainer.evaluate(TextStream{TokenSpan{x, words}, rows}).loss);
    }
    for (auto const& parameter : trainer.parameters()) {
      numbers.insert(numbers.end(), parameter.value.begin(), parameter.value.end());
    }
  }
};

/// The largest difference; infinite if one of them is no number.
inline double distance(std::vector<double> const& a, std::vector<double> const& b) {
  double most = a.size() == b.size() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    double const apart = std::fabs(a[i] - b[i]);
    most = std::isnan(apart) ? HUGE_VAL : std::max(most, apart);
  }
  return most;
}

/// That S has one device's numbers, but for about 50 roundings of numbers of size 1 each way, a
/// thousandfold.
template <class S, class Net = Layers<>>
void check_chunks(std::vector<std::int32_t> const& lengths = {}, int time = rows,
                  ActionRows const& order = {}) {
  using One = SingleDevice<Microbatches<S::batching.all_microbatches()>>;
  CAPTURE(time);
  Run<One, Net> const one{lengths, time};
  CHECK(distance(one.numbers, Run<S, Net>{lengths, time, order}.numbers) <= 1e-12);
}

}  // namespace chunks_test
