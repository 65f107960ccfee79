// SPDX-License-Identifier: Apache-2.0
// A network of tokens under every synchronous strategy: indices, time, lengths and targets reach
// the layers that read them, and a parameter that two layers share is one parameter, wherever they
// are.

#include <token_network.hpp>

#include <compare.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace sequences_test {

using Double = BasicHost<Portable, Fp64>;
using test::longest;
using test::TiedNet;
using test::TokenBatch;

TrainerOptions options() {
  return {.batch = 10,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .clip_norm = 0.2,
          .threads_per_device = 1};
}

/// Four steps of several lengths of time, in double.
template <class S, class Net = TiedNet>
struct Trained {
  Trainer<Net, S, Double> trainer{options()};
  std::vector<StepResult> results{};

  Trained() {
    for (int s = 0; s < 4; ++s) {
      TokenBatch const batch = test::token_batch(10 - s, longest - s % 3, s);
      results.push_back(
          trainer.step(batch.x, batch.targets, {.time = batch.time, .lengths = batch.lengths}));
    }
  }
};

template <class S, class Net = TiedNet>
void check_as_one_device() {
  test::Watchdog const watchdog{"four steps of sequences"};
  Trained<SingleDevice<Microbatches<4>>, Net> const one;
  Trained<S, Net> const many;
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    CHECK(std::fabs(one.results[s].loss - many.results[s].loss) <= 1e-12);
    CHECK(std::fabs(one.results[s].gradient_norm - many.results[s].gradient_norm) <= 1e-12);
    CHECK(one.results[s].metric == many.results[s].metric);
    CHECK(one.results[s].weight == many.results[s].weight);
  }
  for (int replica = 0; replica < S::ranks / S::devices; ++replica) {
    test::Difference const off = test::difference(many.trainer.parameters(replica),
                                                  one.trainer.parameters(), test::Part::value);
    INFO("replica " << replica << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-12);
  }
}

TEST_CASE("tokens train alike on replicas with unequal numbers of targets") {
  check_as_one_device<DataParallel<2, Microbatches<2>>>();
  check_as_one_device<DataParallel<4>>();
  check_as_one_device<DataParallel<2, Weighted<3, 1>, Microbatches<2>>,
                      test::TokenNet<test::Table, 3>>();
}

TEST_CASE("a shared parameter lies on both ends of a pipeline") {
  check_as_one_device<ModelParallel<Split<2>, Split<4>>>();
  check_as_one_device<Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<2>>>();
  check_as_one_device<Pipeline<GPipe, 4, Split<3>, Split<3>>>();
  check_as_one_device<Pipeline<ZeroBubbleH1, 4, Split<3>, Split<3>>>();
  check_as_one_device<Pipeline<Interleaved<2>, 4, Split<1>, Split<2>, Split<2>, Split<1>>>();
}

TEST_CASE("a shared parameter lies on devices that have both copies of the model") {
  check_as_one_device<Pipeline<Chimera, 4, Split<3>, Split<3>>>();
  check_as_one_device<Pipeline<Chimera, 4, Split<1>, Split<2>, Split<2>, Split<1>>>();
  check_as_one_device<CrossModelParallel<AverageGradients, Split<3>, Split<3>>>();
}

TEST_CASE("a shared parameter in replicas of a pipeline") {
  check_as_one_device<Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<3>, Split<3>>>>();
}

TEST_CASE("in reproducible mode the bits are those of one device") {
  test::Watchdog const watchdog{"reproducible sequences"};
  Trained<SingleDevice<Microbatches<4>, Reproducible<4>>> const one;
  auto const same = [&](auto const& many) {
    for (std::size_t s = 0; s < one.results.size(); ++s) {
      CHECK(one.results[s].loss == many.results[s].loss);
      CHECK(one.results[s].gradient_norm == many.results[s].gradient_norm);
    }
    CHECK(test::first_difference(many.trainer.parameters(), one.trainer.parameters()) == "");
  };
  same(Trained<DataParallel<2, Microbatches<2>, Reproducible<4>>>{});
  same(Trained<Pipeline<OneFOneB, 4, Split<2>, Split<4>, Reproducible<4>>>{});
}

/// The same with a softmax over four words that each step draws.
struct DrawingNet
    : Network<Tokens<longest, test::words>,
              Sequential<test::Table, Repeat<4, test::Shift>,
                         Vocabulary<test::words, Shares<test::Table>, NoBias, Sampled<4>>>> {};

TEST_CASE("every device draws the same words, also where a checkpoint goes on") {
  test::Watchdog const watchdog{"reproducible samples"};
  using OneDevice = SingleDevice<Microbatches<4>, Reproducible<4>>;
  Trained<OneDevice, DrawingNet> one;
  auto const same = [&](auto const& many) {
    for (std::size_t s = 0; s < one.results.size(); ++s) {
      CHECK(one.results[s].loss == many.results[s].loss);
      CHECK(one.results[s].metric == many.results[s].metric);
    }
    CHECK(test::first_difference(many.trainer.parameters(), one.trainer.parameters()) == "");
  };
  Trained<DataParallel<2, Microbatches<2>, Reproducible<4>>, DrawingNet> const two;
  same(two);
  same(Trained<Pipeline<OneFOneB, 4, Split<2>, Split<4>, Reproducible<4>>, DrawingNet>{});
  test::TemporaryFolder const folder;
  one.trainer.save(folder.file("saved"));
  Trainer<DrawingNet, OneDevice, Double> other{options()};
  other.load(folder.file("saved"));
  TokenBatch const batch = test::token_batch(10, longest, 7);
  double const next = one.trainer.step(batch.x, batch.targets, {.lengths = batch.lengths}).loss;
  CHECK(other.step(batch.x, batch.targets, {.lengths = batch.lengths}).loss == next);
  Trainer<DrawingNet, OneDevice, Double> anew{options()};  // with the draws of the first step
  for (auto const& from : two.trainer.parameters()) {
    anew.set_parameter(from.name, from.value);
  }
  CHECK(anew.step(batch.x, batch.targets, {.lengths = batch.lengths}).loss != next);
}

TEST_CASE("the gradient of a shared parameter is the sum of its layers'") {
  TokenBatch const batch = test::token_batch(4, longest, 1);
  Trainer<TiedNet, SingleDevice<>, Double> tied{options()};
  Trainer<test::FreeNet, SingleDevice<>, Double> free{options()};
  auto const from = tied.parameters();
  auto const to = free.parameters();
  for (std::size_t p = 0; p < from.size(); ++p) {
    free.set_parameter(to[p].name, from[p].value);
  }
  tied.step(batch.x, batch.targets);
  free.step(batch.x, batch.targets);
  for (std::size_t i = 0; i < from.front().gradient.size(); ++i) {
    double const sum = to.front().gradient[i] + to.back().gradient[i];
    CHECK(from.front().gradient[i] == doctest::Approx(sum).epsilon(1e-12));
    CHECK(from.back().gradient[i] == from.front().gradient[i]);
  }
}

TEST_CASE("a shared parameter has one name and counts once") {
  static_assert(graph<TiedNet>.parameter_elements() == test::words * test::channels + 4 * 6);
  static_assert(graph<test::FreeNet>.parameter_elements() == 2 * test::words * test::channels + 24);
  static_assert(graph<TiedNet>.tops == 6);
  CHECK(parameter_name(graph<TiedNet>, 0) == "0.weight");
  CHECK(parameter_name(graph<TiedNet>, 2) == "1.1.bias");
  CHECK(parameter_name(graph<TiedNet>, 5) == "0.weight");
}

TEST_CASE("a step of fewer rows is that of the same sequences with padding") {
  for (bool whole : {false, true}) {
    TokenBatch const small = test::token_batch(5, 4, 1, whole);
    TokenBatch padded{.lengths = small.lengths};
    for (int s = 0; s < 5; ++s) {
      for (int t = 0; t < longest; ++t) {
        auto const at = static_cast<std::size_t>(s * 4 + t);
        padded.x.push_back(t < 4 ? small.x[at] : 3);
        padded.targets.push_back(t < 4 ? small.targets[at] : -1);
      }
    }
    Trainer<TiedNet, SingleDevice<>, Double> one{options()};
    Trainer<TiedNet, SingleDevice<>, Double> two{options()};
    double const loss =
        one.step(small.x, small.targets, {.time = 4, .lengths = small.lengths}).loss;
    CHECK(loss ==
          doctest::Approx(two.step(padded.x, padded.targets, {.lengths = padded.lengths}).loss)
              .epsilon(1e-13));
    CHECK(test::difference(one.parameters(), two.parameters(), test::Part::value).error <= 1e-13);
  }
}

struct Words : Embedding<test::gpt_words, 8> {};
/// Rows look at all of their sample.
struct Encoder
    : Network<Tokens<test::gpt_time, test::gpt_words>,
              Sequential<Words, Positions<>,
                         Residual<Sequential<LayerNorm<>, Linear<24>, Attention<2, Percent<20>>,
                                             Linear<8>, Dropout<Percent<20>>>>,
                         Vocabulary<test::gpt_words, Shares<Words>, Chunked<7>>>> {};

TEST_CASE("rows of padding are no keys, and change neither a mask nor a sum") {
  Trainer<Encoder, SingleDevice<Microbatches<4>>, Double> small{test::gpt_options()};
  Trainer<Encoder, SingleDevice<Microbatches<4>>, Double> padded{test::gpt_options()};
  for (int s = 1; s < 3; ++s) {
    StepResult const one = test::gpt_step(small, s);
    StepResult const other = test::gpt_step(padded, s, 7, 1);
    CHECK(std::fabs(one.loss - other.loss) <= 1e-13);
    CHECK(one.weight == other.weight);
  }
  CHECK(test::difference(small.parameters(), padded.parameters(), test::Part::value).error <=
        1e-12);
}

TEST_CASE("the loss is a mean over the targets of the global batch, not of means") {
  TokenBatch batch = test::token_batch(2, longest, 0, true);
  for (int t = 1; t < longest; ++t) {
    batch.targets[static_cast<std::size_t>(t)] = -1;  // one of the first sample, seven of the other
  }
  Trainer<TiedNet, DataParallel<2>, Double> both{options()};
  StepResult const result = both.step(batch.x, batch.targets);
  CHECK(result.weight == 8.0);
  double sum = 0.0;
  for (std::size_t s = 0; s < 2; ++s) {
    Trainer<TiedNet, SingleDevice<>, Double> alone{options()};
    StepResult const own = alone.step(std::span{batch.x}.subspan(s * 7, 7),
                                      std::span{batch.targets}.subspan(s * 7, 7));
    sum += own.loss * own.weight;
  }
  CHECK(result.loss == doctest::Approx(sum / 8.0).epsilon(1e-13));
}

/// So many sentences, of which the first alone has targets.
struct Silence {
  using Input = std::int32_t;
  using Target = std::int32_t;
  std::int64_t count;
  [[nodiscard]] std::int64_t size() const { return count; }
  [[nodiscard]] Shape shape() const { return tokens_shape(longest); }
  [[nodiscard]] int targets() const { return longest; }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    std::fill(x.begin(), x.end(), 1);
    std::fill(y.begin(), y.end(), index == 0 ? 2 : -1);
  }
};

TEST_CASE("a batch without targets has no weight in a mean") {
  TokenBatch batch = test::token_batch(3, longest, 0);
  std::fill(batch.targets.begin(), batch.targets.end(), -1);
  Trainer<TiedNet, SingleDevice<>, Double> trainer{{.batch = 3}};
  StepResult const result = trainer.step(batch.x, batch.targets);
  CHECK(result.loss == 0.0);
  CHECK(result.weight == 0.0);
  CHECK(result.samples == 3);
  Evaluation const one = trainer.evaluate(Silence{1});
  Evaluation const many = trainer.evaluate(Silence{7});  // three batches
  CHECK(one.weight == longest);
  CHECK(many.weight == longest);
  CHECK(many.loss == doctest::Approx(one.loss).epsilon(1e-14));
}

TEST_CASE("a token or a target out of range is named, and nothing is trained") {
  Trainer<TiedNet, SingleDevice<>, Double> trainer{options()};
  TokenBatch batch = test::token_batch(3, longest, 0, true);
  batch.x[9] = test::words;
  CHECK(test::message<ContractError>(
            [&] { trainer.step(batch.x, batch.targets, {.time = longest}); }) ==
        "token 11 of sample 1 of the batch, position 2, is out of range: the network has 11 of "
        "them");
  batch.x[9] = 0;
  batch.targets[0] = -2;
  CHECK(test::message<ContractError>([&] {
          trainer.step(batch.x, batch.targets, {.time = longest});
        }).find("target -2 of sample 0") == 0);
  batch.targets[0] = 0;
  CHECK(test::message<ContractError>(
            [&] { trainer.step(batch.x, batch.targets, {.time = longest + 1}); }) != "");
  std::vector<std::int32_t> const lengths{1, 2};
  CHECK(test::message<ContractError>(
            [&] { trainer.step(batch.x, batch.targets, {.lengths = lengths}); }) != "");
  CHECK(trainer.position().step == 0);
}

/// Sentences of 1 to 7 words.
struct Sentences {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 23; }
  [[nodiscard]] Shape shape() const { return tokens_shape(longest); }
  [[nodiscard]] int targets() const { return longest; }
  [[nodiscard]] int length(std::int64_t index) const { return 1 + static_cast<int>(index % 6); }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      x[t] = static_cast<std::int32_t>((index + static_cast<std::int64_t>(t)) % test::words);
      y[t] = (x[t] + 1) % test::words;
    }
  }
};

TEST_CASE("an epoch over sentences of several lengths learns the next word") {
  static_assert(SequenceDataset<Sentences>);
  Trainer<TiedNet, Pipeline<OneFOneB, 2, Split<3>, Split<3>>, Double> trainer{
      {.batch = 6, .optimizer = Sgd{.learning_rate = 0.5F}, .threads_per_device = 1}};
  double const before = trainer.evaluate(Sentences{}).loss;
  for (Epoch const epoch : epochs(6)) {
    trainer.train(Sentences{}, epoch);
  }
  Evaluation const after = trainer.evaluate(Sentences{});
  CHECK(after.loss < before);
  CHECK(after.weight == 4 * (1 + 2 + 3 + 4 + 5) + 3 * 6);
  CHECK(after.perplexity() == doctest::Approx(std::exp(after.loss)));
  CHECK(after.bits() == doctest::Approx(std::log2(after.perplexity())));
}

/// Sentences of which nothing is asked.
struct Unanswered : Sentences {
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    Sentences::read(index, x, y);
    std::fill(y.begin(), y.end(), -1);
  }
};

TEST_CASE("an evaluation without any target has no mean, and says so") {
  Trainer<TiedNet, SingleDevice<>, Double> trainer{options()};
  CHECK(test::message<ContractError>([&] { trainer.evaluate(Unanswered{}); }) ==
        "evaluate(data): no sample has a target that counts, so there is no mean over them");
}

}  // namespace sequences_test
}  // namespace tandem
