// SPDX-License-Identifier: Apache-2.0
// translate() finds what a beam search finds that carries nothing from token to token; so does a
// language model's search.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/text.hpp>

#include <support/temporary_folder.hpp>
#include <translated_text.hpp>

namespace tandem {
namespace translate_test {

using test::translated::check;
using test::translated::Data;
using test::translated::Double;
using test::translated::longest;
using test::translated::Net;
using test::translated::vocabulary;

TEST_CASE("several sentences at a time, of any width, short and long: as the slow search") {
  check<SingleDevice<>>(12, {{.width = 1},
                             {.width = 3, .length = 0.0},
                             {.width = 4, .length = 1.3, .tokens = 4},
                             {.width = 11},
                             {.width = 2, .tokens = 1}});
}

TEST_CASE("under strategies of several devices") {
  check<DataParallel<2>>(13, {{.width = 3}});
  check<Pipeline<OneFOneB, 2, Split<4>, Split<6>>>(9, {{.width = 3}});
}

// Of each word the devices bring their logits together; what is written is looked up on both.
TEST_CASE("where devices share the words of both, and those that are written") {
  using Written = SplitOutputs<graph<Net>.output().path.part[0]>;
  check<TensorParallel<2, SplitInputs<0>, Written>>(9, {{.width = 3}});
}

TEST_CASE("in a Chimera, and under two models") {
  check<Pipeline<Chimera, 2, Split<4>, Split<6>>>(8, {{.width = 3}});
  check<CrossModelParallel<AverageGradients, Split<4>, Split<6>>>(8, {{.width = 3}});
}

/// With words of its own on each device.
struct Apart : models::Gnmt<vocabulary, 5, 3, longest, models::OwnWords> {};

TEST_CASE("in an asynchronous pipeline") {
  check<Pipeline<PipeDream, 1, Split<4>, Split<6>>, Double, Apart>(6, {{.width = 3}});
}

/// A language model of all that carries rows.
struct Writes
    : Network<Tokens<longest + 4, vocabulary>,
              Sequential<Embedding<vocabulary, 8>, Positions<>,
                         Residual<Sequential<LayerNorm<>, Linear<24>, Attention<2, Causal>>>,
                         Lstm<9, Projection<5>>, Gru<7>, Vocabulary<vocabulary, Chunked<5>>>> {};

TEST_CASE("prompts are written on, of any length and several at a time") {
  check<SingleDevice<>, Double, Writes>(9, {{.width = 3, .tokens = 4}, {.width = 1, .tokens = 5}});
  check<Pipeline<OneFOneB, 2, Split<3>, Split<3>>, Double, Writes>(8, {{.width = 2, .tokens = 4}});
}

/// Five letters.
struct Letters {
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    for (char const letter : text) {
      tokens.push_back(letter - 'a');
    }
    return tokens;
  }
  [[nodiscard]] std::string decode(std::span<std::int32_t const> tokens) const {
    std::string text;
    for (std::int32_t const token : tokens) {
      text += static_cast<char>('a' + token);
    }
    return text;
  }
  [[nodiscard]] int size() const { return 5; }
};

/// Lines of two files, which are not read again.
Pairs pairs_of(char const* source, char const* target) {
  test::TemporaryFolder const folder;
  test::put(folder.file("source"), source);
  test::put(folder.file("target"), target);
  return {
      folder.file("source"), folder.file("target"), Letters{}, {.longest = longest, .buckets = 1}};
}

/// Knows its few pairs by heart in half of these steps.
struct Trained {
  explicit Trained(Pairs const& pairs) {
    for (Epoch const epoch : epochs(160)) {
      trainer.train(pairs, epoch);
    }
  }
  Trainer<Net, SingleDevice<>, Double> trainer{
      {.batch = 9, .optimizer = Adam{.learning_rate = 0.1F}, .seed = 3, .threads_per_device = 1}};
};

TEST_CASE("of a dataset of pairs there is text, too, and its score") {
  test::Watchdog const watchdog{"translate()"};
  Pairs const pairs = pairs_of("abcd\nb\ncab\nda\n", "abcd\nb\ncab\nda\n");
  Trained trained{pairs};
  auto& trainer = trained.trainer;
  auto const found = translate(trainer, pairs, {.width = 3, .length = 0.6, .coverage = 0.1});
  REQUIRE(found.size() == 4);
  for (std::size_t i = 0; i < found.size(); ++i) {  // it has learnt to say the same
    auto const index = static_cast<std::int64_t>(i);
    CHECK(found.text[i] == pairs.target(index));
    CHECK(found.tokens[i] == Letters{}.encode(pairs.target(index)));
    CHECK(found.score[i] < 0.0);
  }
  CHECK(std::fabs(bleu(found, pairs).precision[0] - 100.0) < 1e-9);

  Predictor<Net, Double> predictor{{.batch = 9, .threads = 1}};
  predictor.take(trainer);
  CHECK(translate(predictor, pairs, {.width = 3}).text == found.text);
  CHECK(translate(predictor, Data{}).text.empty());

  // What is passed over costs: the score with coverage is that without, and the penalty.
  auto const plain = trainer.search(test::translated::task(), {.width = 1});
  auto const covered = trainer.search(test::translated::task(), {.width = 1, .coverage = 2.0});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(covered[i][0].tokens == plain[i][0].tokens);
    CHECK(covered[i][0].score < plain[i][0].score);
    CHECK(std::isfinite(covered[i][0].score));
  }
}

TEST_CASE("each hypothesis goes on from its own parent") {
  // What comes last depends on what came first, two tokens before, which only the state knows.
  test::Watchdog const watchdog{"translate()"};
  Pairs const pairs = pairs_of("ad\nad\n", "acd\nbce\n");
  Trained trained{pairs};
  DecodeTask const task{{{pairs.begin(), 0, 3, pairs.end()}}, pairs.begin(), pairs.end()};
  auto const found = trained.trainer.search(task, {.width = 2, .length = 0.0, .coverage = 0.0});
  REQUIRE(found[0].size() == 2);
  std::vector<std::vector<std::int32_t>> both{found[0][0].tokens, found[0][1].tokens};
  std::sort(both.begin(), both.end());
  CHECK(both == std::vector<std::vector<std::int32_t>>{{0, 2, 3}, {1, 2, 4}});
  for (Hypothesis const& one : found[0]) {  // as likely as the other; labels are smoothed
    CHECK(std::fabs(one.score - std::log(0.5)) < 0.5);
  }
}

TEST_CASE("in the order of lengths an evaluation is the same, with less padding") {
  test::Watchdog const watchdog{"evaluate()"};
  InBuckets<Data> const sorted = in_buckets(Data{});
  std::vector<bool> seen(7);
  for (std::int64_t i = 0; i < sorted.size(); ++i) {
    seen[static_cast<std::size_t>(sorted.original(i))] = true;
    CHECK(sorted.length(i) == Data{}.length(sorted.original(i)));
    CHECK((i == 0 || std::max(sorted.length(i), sorted.second_length(i)) >=
                         std::max(sorted.length(i - 1), sorted.second_length(i - 1))));
  }
  CHECK(seen == std::vector<bool>(7, true));
  LoaderOptions const order{.batch = 2, .shuffle = false};
  CHECK(padding_share(sorted, order) < padding_share(Data{}, order));
  Trainer<Net, SingleDevice<>, Double> trainer{test::translated::options(2)};
  Evaluation const one = trainer.evaluate(Data{});
  Evaluation const two = trainer.evaluate(sorted);
  CHECK(std::fabs(one.perplexity() - two.perplexity()) <= 1e-12 * one.perplexity());
  CHECK(one.weight == two.weight);
}

}  // namespace translate_test
}  // namespace tandem
