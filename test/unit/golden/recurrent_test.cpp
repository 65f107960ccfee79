// SPDX-License-Identifier: Apache-2.0
// Lstm and Gru against PyTorch's: outputs, the loss, every gradient, and five steps, in double and
// in float; under strategies.

#include "../ops/sequence_op.hpp"
#include "golden.hpp"

#include <support/watchdog.hpp>

namespace tandem {
namespace recurrent_test {

constexpr int words = 13;
constexpr int time = 9;
constexpr int channels = 6;

template <class L>
struct Net
    : Network<Tokens<time, words>, Sequential<Embedding<words, channels>, L, Vocabulary<words>>> {};

using Double = BasicHost<Portable, Fp64>;
using Both = Lstm<7, Bidirectional>;

static_assert(graph<Net<Lstm<7>>>.parameter_elements() ==
              words * channels + 4 * 7 * (channels + 7) + 8 * 7 + words * 7 + words);

/// What leaves the layer, below the trainer's door.
template <class L>
void check_outputs(std::string const& name) {
  test::Golden const golden{name};
  test::OpTask const task{.batch = 3,
                          .time = time,
                          .lengths = golden.values<std::int32_t>("lengths"),
                          .training = false};
  test::Numbers x;
  test::Numbers const table = golden.values("0.weight");
  for (std::int32_t const word : golden.values<std::int32_t>("x")) {
    x.insert(x.end(), table.begin() + word * channels, table.begin() + (word + 1) * channels);
  }
  Shape const in = timed_shape(time, channels);
  std::vector<test::Numbers> weights;
  Parameters const list = L::parameters(in);
  for (int p = 0; p < list.count; ++p) {
    weights.push_back(golden.values(std::string{"1."} + list.item[p].name));
  }
  auto const y = test::run_op<L, Double>(in, task, x, weights, {}).y;
  test::check_close<double>(name, y, golden.values("hidden"), 1.0, 1e-14);
}

/// PyTorch's numbers under S, where a network's parts are the embedding, the layer, the criterion.
template <class L, class Backend, class S = SingleDevice<>>
void check_steps(std::string const& name, double bound) {
  test::Watchdog const watchdog{name.c_str()};
  test::Golden const golden{name};
  using TrainerType = Trainer<Net<L>, S, Backend>;
  using T = typename TrainerType::T;
  auto const lengths = golden.values<std::int32_t>("lengths");
  TrainerType trainer{{.batch = static_cast<int>(lengths.size()),
                       .optimizer = Sgd{.learning_rate = 0.5F, .momentum = 0.9F},
                       .threads_per_device = 1}};
  trainer.load_weights(golden.path());
  auto const x = golden.values<std::int32_t>("x");
  auto const targets = golden.values<std::int32_t>("targets");
  auto const losses = golden.values("losses.sgd");
  for (std::size_t s = 0; s < losses.size(); ++s) {
    StepResult const result = trainer.step(x, targets, {.lengths = lengths});
    INFO(name << ", step " << s);
    CHECK(std::abs(result.loss - losses[s]) <= bound * losses[s]);
    for (NamedParameter<T> const& p : trainer.parameters()) {
      if (s == 0) {
        auto const wanted = golden.values("gradient." + std::string{p.name});
        test::check_close<T>(p.name, p.gradient, wanted, test::largest(wanted), bound);
      }
    }
  }
}

template <class L, class... Backends>
void check(std::string const& name) {
  check_outputs<L>(name);
  check_steps<L, Double>(name, 1e-12);
  (check_steps<L, Backends>(name, 1e-5), ...);
}

TEST_CASE("Lstm has PyTorch's outputs, loss, gradients and steps") {
  check<Lstm<7>>("lstm");
  check<Lstm<7, OneBias>>("lstm_one_bias");
  check<Lstm<7, Projection<4>>, Host>("lstm_projected");
}

TEST_CASE("so it has in two directions on samples of several lengths, and Gru") {
  check<Both, Host>("lstm_both");
  check<Gru<7>, Host>("gru");
}

TEST_CASE("replicas have PyTorch's numbers, too") {
  check_steps<Both, Double, DataParallel<3>>("lstm_both", 1e-12);
}

}  // namespace recurrent_test
}  // namespace tandem
