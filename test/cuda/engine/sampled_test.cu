// SPDX-License-Identifier: Apache-2.0
// A sampled softmax on a GPU: Host's draws, losses and weights, one device's bits, recorded and
// walked.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <support/watchdog.hpp>
#include <tandem/core/log_uniform_sample.hpp>
#include <tandem/models/big_lstm.hpp>

#include "cuda/engine/support.hpp"
#include "cuda/normalize/support.hpp"

namespace tandem {
namespace sampled_test {

// nvcc wants it outside of a function.
struct Look {
  cuda::SampleView view;
  std::int32_t* word;
  std::int32_t* place;  // of each class
  std::int32_t* tries;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    place[i] = view.place(static_cast<std::int32_t>(i));
    if (i < view.count) {
      word[i] = view.word[i];
    }
    if (i == 0) {
      *tries = view.draw[view.count - 1] + 1;
    }
  }
};

/// The sample of a step as the device draws it is the sampler's, and the rest of it as well.
void check_draw(int classes, int count, std::uint64_t seed, std::int64_t step) {
  INFO(count << " of " << classes << " classes in step " << step);
  constexpr std::uint32_t layer = 7;
  LogUniformSample expected{classes, count};
  expected.draw(seed, static_cast<std::uint32_t>(step), layer);
  cuda::LogUniformDraws const draws{test::gpu().compute, {classes}, count};
  CHECK(draws.draws() >= expected.tries());
  test::DeviceArray<std::byte> const scratch{test::gpu(), draws.bytes()};
  test::DeviceArray<std::uint64_t> const seeds{test::gpu(), std::vector{seed}};
  test::DeviceArray<std::int64_t> const steps{test::gpu(), std::vector{step}};
  cuda::SampleView const view =
      draws.draw(test::gpu().compute, seeds.data(), steps.data(), layer, scratch.data());
  test::DeviceArray<std::int32_t> const word{test::gpu(), count};
  test::DeviceArray<std::int32_t> const place{test::gpu(), classes};
  test::DeviceArray<std::int32_t> const tries{test::gpu(), 1};
  cuda::each(test::gpu().compute, classes, Look{view, word.data(), place.data(), tries.data()});
  auto const words = word.host();
  CHECK(std::vector<std::int32_t>(words.begin(), words.end()) ==
        std::vector<std::int32_t>(expected.classes().begin(), expected.classes().end()));
  CHECK(tries.host()[0] == expected.tries());
  auto const places = place.host();
  for (int c = 0; c < classes; ++c) {
    if (places[static_cast<std::size_t>(c)] != expected.place(c)) {
      FAIL_CHECK("class ", c);
    }
  }
}

TEST_CASE("Sampled on Cuda: a step's draws are those of LogUniformSampler") {
  for (std::int64_t const step : {0, 1, 40}) {
    check_draw(500, 30, 3, step);
    check_draw(9, 9, 1U << 31, step);
    check_draw(40, 37, 5, step);
    check_draw(1, 1, 5, step);
  }
  CHECK_THROWS_WITH_AS(cuda::draws_for({1 << 20}, 1 << 20), doctest::Contains("sample fewer"),
                       ContractError);
}

constexpr int words = 40;
constexpr int longest = 5;
template <class... Options>
struct Net : Network<Tokens<longest, words>,
                     Sequential<Embedding<words, 6>, Gru<6>, Vocabulary<words, Options...>>> {};
struct Big : models::BigLstm<words, 8, 6, 1, Sampled<12>, Stateful, RowGradient> {};

TrainerOptions options() {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.1F},
          .clip_norm = 0.5,
          .seed = 3,
          .threads_per_device = 1};
}

struct Tokens2 {
  std::vector<std::int32_t> x, y;
};
/// Some rows have no target.
Tokens2 tokens_of(int step, int time, bool holes) {
  Tokens2 all;
  for (int i = 0; i < 8 * time; ++i) {
    int const mixed = (i * i + 13 * step + i / 3) % words;
    all.x.push_back(mixed);
    all.y.push_back(holes && i % 7 == 3 ? -1 : mixed * mixed % words);
  }
  return all;
}

template <class S, class N, class Precision>
using OnDevice =
    Trainer<N, S, BasicCuda<Portable, Precision>, DefaultLoss<N>, Accuracy, VirtualTransport>;

/// Losses, norms, weights, and the loss of an evaluation.
template <class T>
std::vector<double> numbers_of(T& trainer, int steps = 5) {
  test::Watchdog const watchdog{"steps of a sampled softmax"};
  int const time = T::input[0];
  std::vector<double> numbers;
  for (int step = 0; step < steps; ++step) {
    Tokens2 const batch = tokens_of(step, time, time == longest);
    StepResult const r = trainer.step(batch.x, batch.y);
    numbers.insert(numbers.end(), {r.loss, r.metric, r.gradient_norm});
  }
  for (auto const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
  }
  return numbers;
}

void check_near(std::vector<double> const& a, std::vector<double> const& b, double bound) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= bound * (1 + std::abs(b[i])))) {
      FAIL_CHECK("number ", i, ": ", a[i], " against ", b[i]);
      return;
    }
  }
}

template <class S, class N>
void check_host() {
  TrainerOptions walking = options();
  walking.record = false;
  Trainer<N, S, BasicHost<Portable, Fp64>> host{options()};
  OnDevice<S, N, Fp64> recorded{options()};
  OnDevice<S, N, Fp64> walked{walking};
  auto const found = numbers_of(recorded);
  check_near(found, numbers_of(host), 1e-11);
  CHECK(numbers_of(walked) == found);
  std::vector<std::int32_t> const prompt{1, 4, 0};  // all words, as in an evaluation
  CHECK(recorded.generate(prompt, {.tokens = 4, .temperature = 0.0}) ==
        host.generate(prompt, {.tokens = 4, .temperature = 0.0}));
}

TEST_CASE("Sampled on Cuda: Host's losses and weights in double, walked as well as recorded") {
  check_host<SingleDevice<Microbatches<2>>, Net<Sampled<12>, Chunked<8>>>();
}

TEST_CASE("Sampled on Cuda: a small BigLstm trains as on Host") {
  check_host<SingleDevice<>, Big>();
}

TEST_CASE("Sampled on Cuda: the bits of one GPU on 2 and 4, in bf16") {
  using R = Reproducible<4>;
  using N = Net<Sampled<12>, NoBias>;
  OnDevice<SingleDevice<Microbatches<4>, R>, N, Bf16> one{options()};
  OnDevice<DataParallel<2, Microbatches<2>, R>, N, Bf16> two{options()};
  OnDevice<DataParallel<4, R>, N, Bf16> four{options()};
  auto const numbers = numbers_of(one, 3);
  CHECK(numbers_of(two, 3) == numbers);
  CHECK(numbers_of(four, 3) == numbers);
}

TEST_CASE("Sampled on Cuda: gradients of rows have the bits of dense ones") {
  using S = DataParallel<2, Microbatches<2>>;
  OnDevice<S, Net<Sampled<12>>, Fp32> dense{options()};
  OnDevice<S, Net<Sampled<12>, RowGradient>, Fp32> rows{options()};
  CHECK(numbers_of(rows, 3) == numbers_of(dense, 3));
}

}  // namespace sampled_test
}  // namespace tandem
