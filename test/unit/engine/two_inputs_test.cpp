// SPDX-License-Identifier: Apache-2.0
// A network on two inputs, each with a time and lengths of its own: a pair of sentences, read by
// two towers that meet in a vector.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <small_gnmt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace two_inputs_test {

using Double = BasicHost<Portable, Fp64>;

struct Questions : Tokens<7, 11> {};
struct Answers : Tokens<5, 9> {};

template <int V>
struct Tower : Sequential<Embedding<V, 8>, Positions<>,
                          Residual<Sequential<Linear<24>, Attention<2>>>, MeanOverTime> {};
template <class First, class Second, int FirstWords, int SecondWords>
struct Match
    : Network<Inputs<First, Second>, Sequential<Concat<Sequential<Input<0>, Tower<FirstWords>>,
                                                       Sequential<Input<1>, Tower<SecondWords>>>,
                                                Linear<6>, Tanh, Linear<3>>> {};
struct Net : Match<Questions, Answers, 11, 9> {};
/// The same towers on one input and a time.
struct Alone : Network<Questions, Sequential<Tower<11>, Linear<6>, Tanh, Linear<3>>> {};

/// The second input where the first one's tower has ended: a stage of its own may read it.
struct Later
    : Network<Inputs<Questions, Answers>,
              Sequential<Tower<11>,
                         Concat<Sequential<>, Sequential<Input<1>, Embedding<9, 4>, LastRow>>, Tanh,
                         Linear<3>>> {};
/// The same of an input that two stages of a device read.
struct Twice
    : Network<Inputs<Questions, Answers>,
              Sequential<Sequential<Input<1>, Embedding<9, 4>, LastRow>, Linear<5>,
                         Concat<Sequential<>, Sequential<Input<1>, Embedding<9, 4>, MeanOverTime>>,
                         Concat<Sequential<Input<0>, Embedding<11, 4>, LastRow>, Linear<3>>,
                         Linear<3>>> {};

TrainerOptions options() {
  return {.batch = 6,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .seed = 3,
          .threads_per_device = 1};
}

struct Pairs {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 24; }
  [[nodiscard]] Shape shape() const { return tokens_shape(7); }
  [[nodiscard]] Shape second_shape() const { return tokens_shape(5); }
  [[nodiscard]] int targets() const { return 1; }
  [[nodiscard]] int length(std::int64_t index) const { return 1 + static_cast<int>(index % 6); }
  [[nodiscard]] int second_length(std::int64_t index) const {
    return 1 + static_cast<int>(index * 3 % 4);
  }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> second,
            std::span<std::int32_t> y) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      x[t] = static_cast<std::int32_t>((index + static_cast<std::int64_t>(t) * 3) % 11);
    }
    for (std::size_t t = 0; t < second.size(); ++t) {
      second[t] = static_cast<std::int32_t>((index * 2 + static_cast<std::int64_t>(t)) % 9);
    }
    y[0] = static_cast<std::int32_t>((x[0] + second[0]) % 3);
  }
};

/// The same, in batches of like lengths.
struct BucketedPairs : Pairs {
  [[nodiscard]] int buckets() const { return 3; }
};
static_assert(BucketedDataset<BucketedPairs> && !BucketedDataset<Pairs>);

template <class S, class N, class D = Pairs>
std::vector<double> losses() {
  test::Watchdog const watchdog{"pairs of sentences"};
  Trainer<N, S, Double> trainer{options()};
  std::vector<double> all;
  for (Epoch const epoch : epochs(3)) {
    all.push_back(trainer.train(D{}, epoch).loss);
    all.push_back(trainer.evaluate(D{}).loss);
  }
  for (NamedParameter<double> const& p : trainer.parameters()) {
    all.insert(all.end(), p.value.begin(), p.value.end());
  }
  return all;
}

template <class S, class N = Net, int Parts = 2, class D = Pairs>
void check_as_one_device() {
  std::vector<double> const one = losses<SingleDevice<Microbatches<Parts>>, N, D>();
  std::vector<double> const many = losses<S, N, D>();
  REQUIRE(one.size() == many.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    worst = std::max(worst, std::fabs(one[i] - many[i]));
  }
  CHECK(worst <= 1e-12);
}

TEST_CASE("pairs train alike on replicas, and on stages that each read an input") {
  check_as_one_device<DataParallel<2>>();
  check_as_one_device<Pipeline<OneFOneB, 2, Split<1>, Split<3>>>();
  check_as_one_device<ModelParallel<Split<1>, Split<3>, Microbatches<2>>>();
}

TEST_CASE("pairs in length buckets train alike on replicas: batches know of no devices") {
  check_as_one_device<DataParallel<2>, Net, 2, BucketedPairs>();
  CHECK(losses<SingleDevice<>, Net, BucketedPairs>() != losses<SingleDevice<>, Net>());
}

TEST_CASE("pairs train alike where each stage reads an input, and a device has two stages") {
  check_as_one_device<Pipeline<OneFOneB, 2, Split<1>, Split<3>>, Later>();
  check_as_one_device<Pipeline<Chimera, 2, Split<1>, Split<3>>, Later>();
  check_as_one_device<CrossModelParallel<AverageGradients, Split<1>, Split<3>>, Later>();
  check_as_one_device<Pipeline<Interleaved<2>, 4, Split<1>, Split<1>, Split<2>, Split<1>>, Twice,
                      4>();
}

TEST_CASE("an asynchronous pipeline hands both inputs to its stages") {
  test::Watchdog const watchdog{"PipeDream on pairs"};
  Trainer<Net, Pipeline<PipeDream, 1, Split<1>, Split<3>>, Double> trainer{options()};
  double const before = trainer.evaluate(Pairs{}).loss;
  for (Epoch const epoch : epochs(8)) {
    trainer.train(Pairs{}, epoch);
  }
  CHECK(trainer.evaluate(Pairs{}).loss < before);
}

// What Let names is of one version of the weights with all else of its microbatch.
template <class S>
void check_learns(Optimizer const& optimizer) {
  test::Watchdog const watchdog{"a Gnmt with late gradients"};
  Trainer<test::FreeGnmt, S, BasicHost<Portable>> trainer{
      {.batch = 9, .optimizer = optimizer, .seed = 3, .threads_per_device = 1}};
  double const first = test::gnmt_step(trainer, 0).loss;
  double last = first;
  for (int s = 0; s < 80; ++s) {
    last = test::gnmt_step(trainer, 0).loss;
  }
  CHECK(last < 0.96 * first);
}

TEST_CASE("double-buffered weights and predicted ones train a Gnmt whose memory is relayed") {
  check_learns<Pipeline<PipeDream2BW, 3, Split<4>, Split<2>, Split<4>>>(
      Adam{.learning_rate = 0.02F});
  check_learns<Pipeline<WeightPrediction, 1, Split<4>, Split<2>, Split<4>>>(
      Sgd{.learning_rate = 0.5F, .momentum = 0.9F});
}

TEST_CASE("a tower sees its own input, time and lengths: that of a network on it alone") {
  // With the second tower's part of the first product at zero only the first tower counts.
  Trainer<Net, SingleDevice<>, Double> both{options()};
  Trainer<Alone, SingleDevice<>, Double> alone{options()};
  auto const from = both.parameters();
  for (NamedParameter<double> const& p : alone.parameters()) {
    bool const tower = p.name.starts_with("0.");
    std::string const name = tower ? "0.0.1." + p.name.substr(2) : p.name;
    for (NamedParameter<double> const& q : from) {
      if (q.name == name && name == "1.weight") {
        std::vector<double> values(q.value.size());
        for (std::size_t row = 0; row < 6; ++row) {
          std::ranges::copy(p.value.subspan(row * 8, 8), &values[row * 16]);
        }
        both.set_parameter(name, values);
      } else if (q.name == name) {
        both.set_parameter(name, p.value);
      }
    }
  }
  std::vector<std::int32_t> const x{1, 2, 3, 4, 10, 0, 5, 6};
  std::vector<std::int32_t> const lengths{4, 2};
  std::vector<std::int32_t> const second{1, 8, 3, 2, 5, 5};
  std::vector<std::int32_t> const second_lengths{1, 3};
  std::vector<std::int32_t> const targets{2, 0};
  double const loss = both.step(x, targets,
                                {.time = 4,
                                 .lengths = lengths,
                                 .second = second,
                                 .second_time = 3,
                                 .second_lengths = second_lengths})
                          .loss;
  CHECK(
      loss ==
      doctest::Approx(alone.step(x, targets, {.time = 4, .lengths = lengths}).loss).epsilon(1e-13));
}

TEST_CASE("what does not fit the second input is said") {
  Trainer<Net, SingleDevice<>, Double> trainer{options()};
  std::vector<std::int32_t> const x(7, 1);
  std::vector<std::int32_t> second(5, 1);
  std::vector<std::int32_t> const target{0};
  CHECK(test::message<ContractError>([&] {
          trainer.step(x, target);
        }).find("x must be whole samples") != std::string::npos);
  second[3] = 9;
  CHECK(test::message<ContractError>([&] { trainer.step(x, target, {.second = second}); }) ==
        "token of the second input 9 of sample 0 of the batch, position 3, is out of range: the "
        "network has 9 of them");
}

TEST_CASE("the graph has two inputs, with a clock each") {
  static_assert(graph<Net>.node[0].kind == NodeKind::input && graph<Net>.node[0].limit == 11);
  static_assert(graph<Net>.node[1].kind == NodeKind::input && graph<Net>.node[1].limit == 9);
  static_assert(graph<Net>.node[1].out.clock == 1);
  static_assert(graph<Net>.tops == 4);
}

}  // namespace two_inputs_test
}  // namespace tandem
