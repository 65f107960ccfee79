// SPDX-License-Identifier: Apache-2.0

/// @file
/// A network on two inputs trains on a GPU as it does on the host, each input with a time and
/// lengths of its own.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <support/small_gnmt.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

namespace two_inputs_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

constexpr int first_longest = 7;
constexpr int second_longest = 5;
constexpr int first_words = 11;
constexpr int second_words = 9;

template <int V, class Pool>
struct Tower : Sequential<Embedding<V, 8>, Residual<Sequential<Linear<24>, Attention<2>>>, Pool> {};
/// The second input is read behind the first's tower, so that stages may read one each.
struct Net
    : Network<Inputs<Tokens<first_longest, first_words>, Tokens<second_longest, second_words>>,
              Sequential<Tower<first_words, MeanOverTime>,
                         Concat<Linear<4>, Sequential<Input<1>, Tower<second_words, LastRow>>>,
                         Linear<6>, Tanh, Linear<3>>> {};
static_assert(graph<Net>.tops == 5);

struct Rows;
struct Pooled;
/// Rows of the first input and a vector of it, which stages further on read.
struct Named
    : Network<
          Inputs<Tokens<first_longest, first_words>, Tokens<second_longest, second_words>>,
          Sequential<Sequential<Embedding<first_words, 8>, Let<Rows>, MeanOverTime>, Let<Pooled>,
                     Concat<Linear<4>, Sequential<Input<1>, Tower<second_words, LastRow>>>,
                     Linear<8>, Residual<Tanh, Use<Pooled>>,
                     Concat<Sequential<>, Sequential<Use<Rows>, Linear<4>, LastRow>>,
                     Residual<Linear<12>>, Concat<Use<Pooled>, Sequential<>>, Linear<3>>> {};
static_assert(graph<Named>.tops == 8);

TrainerOptions options() {
  return {.batch = 6,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .seed = 3,
          .threads_per_device = 1};
}

template <class S, class N>
using OnDevice =
    Trainer<N, S, BasicCuda<Portable, Fp64>, DefaultLoss<N>, Accuracy, VirtualTransport>;
template <class N>
using AsOnHost = Trainer<N, SingleDevice<Microbatches<2>>, BasicHost<Portable, Fp64>>;

struct Pairs {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] static std::int64_t size() { return 20; }
  [[nodiscard]] static Shape shape() { return tokens_shape(first_longest); }
  [[nodiscard]] static Shape second_shape() { return tokens_shape(second_longest); }
  [[nodiscard]] static int targets() { return 1; }
  [[nodiscard]] static int length(std::int64_t i) { return 1 + static_cast<int>(i % 6); }
  [[nodiscard]] static int second_length(std::int64_t i) { return 1 + static_cast<int>(i * 3 % 4); }
  static void read(std::int64_t i, std::span<std::int32_t> x, std::span<std::int32_t> second,
                   std::span<std::int32_t> y) {
    std::int64_t word = i;
    for (std::int32_t& token : x) {
      token = static_cast<std::int32_t>((word += 3) % first_words);
    }
    for (std::int32_t& token : second) {
      token = static_cast<std::int32_t>(++word * 2 % second_words);
    }
    y[0] = static_cast<std::int32_t>((x[0] + second[0]) % 3);
  }
};

/// Steps of two sizes and times that come again, so that recorded ones are replayed, with lengths
/// of neither input, of one or of both.
template <class T>
StepResult step_of(T& trainer, int step) {
  int const samples = 6 - step / 4 % 2;
  int const time = first_longest - step / 4 % 2;
  int const second_time = second_longest - 2 * (step / 4 % 2);
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> second;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> second_lengths;
  for (int s = 0; s < samples; ++s) {
    for (int t = 0; t < time; ++t) {
      x.push_back((s * 5 + t * 3 + step) % first_words);
    }
    for (int t = 0; t < second_time; ++t) {
      second.push_back((s * 2 + t + step) % second_words);
    }
    targets.push_back((s + step) % 3);
    lengths.push_back(1 + (s + step) % time);
    second_lengths.push_back(1 + (s * 2 + step) % second_time);
  }
  Sequences rows{.time = time, .second = second, .second_time = second_time};
  if (step % 4 == 1 || step % 4 == 3) {
    rows.lengths = lengths;
  }
  if (step % 4 >= 2) {
    rows.second_lengths = second_lengths;
  }
  return trainer.step(x, targets, rows);
}

template <class S, class N = Net>
void check_as_on_host(int steps) {
  Watchdog const watchdog{"steps on two inputs"};
  AsOnHost<N> host{options()};
  OnDevice<S, N> gpu{options()};
  for (int s = 0; s < steps; ++s) {
    CAPTURE(s);
    StepResult const a = step_of(host, s);
    StepResult const b = step_of(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12);
    CHECK(a.metric == b.metric);
  }
  EpochResult const a = host.train(Pairs{}, Epoch{});
  CHECK(std::fabs(a.loss - gpu.train(Pairs{}, Epoch{}).loss) <= 1e-11);
  CHECK(std::fabs(host.evaluate(Pairs{}).loss - gpu.evaluate(Pairs{}).loss) <= 1e-11);
  std::vector<float> const expected = host.predict(Pairs{});
  std::vector<float> const predicted = gpu.predict(Pairs{});
  REQUIRE(predicted.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(std::fabs(predicted[i] - expected[i]) <= 1e-6F);
  }
  Difference const off = difference(gpu.parameters(), host.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-10);
}

TEST_CASE("pairs of sequences train on one GPU as on the host, lengths of one input or of both") {
  check_as_on_host<SingleDevice<Microbatches<2>>>(24);
}

TEST_CASE("likewise on several ranks, on stages that each read an input, and both as copies") {
  check_as_on_host<DataParallel<2>>(4);
  check_as_on_host<Pipeline<OneFOneB, 2, Split<1>, Split<4>>>(4);
  check_as_on_host<Pipeline<Chimera, 2, Split<1>, Split<4>>>(4);
}

TEST_CASE("values that stages further on read go through those between, recorded and replayed") {
  check_as_on_host<Pipeline<OneFOneB, 2, Split<1>, Split<3>, Split<4>>, Named>(12);
  check_as_on_host<Pipeline<Chimera, 2, Split<1>, Split<1>, Split<3>, Split<3>>, Named>(4);
}

TEST_CASE("a Gnmt trains on one GPU as on the host, of sentences of several lengths") {
  TrainedGnmt<SingleDevice<>, BasicHost<Portable, Fp64>> const host;
  TrainedGnmt<SingleDevice<>, BasicCuda<Portable, Fp64>> const gpu;
  for (std::size_t s = 0; s < host.results.size(); ++s) {
    CHECK(std::fabs(gpu.results[s].loss - host.results[s].loss) <= 1e-12 * host.results[s].loss);
  }
  Difference const off =
      difference(gpu.trainer.parameters(), host.trainer.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-10);  // Adam divides by the root of small squares
}

}  // namespace two_inputs_test
