// SPDX-License-Identifier: Apache-2.0
// Networks of words: tied tables, shared and sliced layers, chunks of time, states, two inputs.

#include <tandem/text.hpp>

#include "bits.hpp"

namespace tandem::bits {
namespace {

constexpr int vocabulary = 13;
constexpr int time = 6;
constexpr int longer = 20;  // a BigLstm's

/// Six top-level parts, the table shared by the first and the last.
struct Writer : models::Gpt<vocabulary, time, 8, 2, 2, Percent<20>> {};
struct Listener : Network<Tokens<time, vocabulary>,
                          Sequential<Embedding<vocabulary, 8>, Lstm<6, Projection<8>>,
                                     Residual<Gru<8>>, LayerNorm<>, Vocabulary<vocabulary>>> {};
struct Guesser : models::BigLstm<vocabulary, 8, 6, 2, Sampled<5>> {};
struct Carried : models::BigLstm<vocabulary, 8, 6, 2, Stateful> {};
struct Translator : models::Gnmt<vocabulary, 4, 3, time, Percent<20>> {};

/// Pairs of sentences, each of its own length.
class Sentences {
 public:
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] static std::int64_t size() { return 30; }
  [[nodiscard]] static Shape shape() { return tokens_shape(time); }
  [[nodiscard]] static Shape second_shape() { return tokens_shape(time); }
  [[nodiscard]] static int targets() { return time; }
  [[nodiscard]] static int length(std::int64_t i) { return 1 + static_cast<int>(i % time); }
  [[nodiscard]] static int second_length(std::int64_t i) {
    return 1 + static_cast<int>(i * 5 % time);
  }
  static void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> second,
                   std::span<std::int32_t> y) {
    auto const at = [&](int salt, std::size_t t) {
      return number(static_cast<std::uint64_t>(index * 100 + salt) + t, vocabulary);
    };
    for (std::size_t t = 0; t < x.size(); ++t) {
      x[t] = at(0, t);
    }
    for (std::size_t t = 0; t < second.size(); ++t) {
      second[t] = at(30, t);
      y[t] = at(60, t);
    }
  }
};

using P = BasicHost<Portable>;

void pairs(std::string const& folder) {
  auto const text = words(24 * longer + 1, vocabulary);
  TokenSpan const tokens{text, vocabulary};
  TextStream const windows{tokens.part(0, 30 * time + 1), time};
  TextStream const long_windows{tokens, longer};
  ParallelStreams const streams{tokens, longer, 6};
  Options const adam{.optimizer = AdamW{.learning_rate = 0.01F}, .clip_norm = 0.5};
  using Three = Hybrid<DataParallel<2, ShardedState>, Pipeline<OneFOneB, 2, Split<3>, Split<3>>,
                       TensorParallel<2>>;
  train<Writer, P, SingleDevice<>, TensorParallel<2>>(folder, "gpt", windows, adam);
  train<Writer, P, TensorParallel<2, SequenceRows>>(folder, "gpt_rows", windows, adam);
  train<Writer, P, SingleDevice<Slices<2>, Reproducible<>>,
        TensorParallel<2, Slices<2>, Reproducible<>>>(folder, "gpt_slices", windows, adam);
  train<Writer, P, Three, SingleDevice<Microbatches<4>>>(folder, "gpt_three", windows, adam);
  train<Writer, P, Pipeline<ZeroBubbleH1, 2, Chunks<3>, Split<3>, Split<3>>>(folder, "gpt_chunks",
                                                                             windows, adam);
  train<Writer, P, DataParallel<2, ShardedParameters>>(folder, "gpt_sharded_parameters", windows,
                                                       adam);
  train<Listener, BasicHost<Portable, Fp64>, Pipeline<OneFOneB, 2, Chunks<2>, Split<2>, Split<3>>>(
      folder, "recurrent_chunks", windows, adam);
  train<Guesser, P, DataParallel<2>, SingleDevice<>>(folder, "sampled", long_windows,
                                                     {.optimizer = Adam{}});
  train<Carried, P, Pipeline<OneFOneB, 1, Chunks<4>, Split<3>, Split<2>>>(
      folder, "stateful", streams, {.batch = 6, .shuffle = false});
  train<Translator, P, Hybrid<DataParallel<2>, ModelParallel<Split<4>, Split<6>>>, SingleDevice<>>(
      folder, "gnmt", Sentences{}, adam);
}

}  // namespace
}  // namespace tandem::bits

int main(int argc, char** argv) { return tandem::bits::main_of(argc, argv, tandem::bits::pairs); }
