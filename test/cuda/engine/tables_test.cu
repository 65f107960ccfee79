// SPDX-License-Identifier: Apache-2.0

/// @file
/// GPUs that share tables of words: the numbers of one device on the host, with any number of
/// words, smoothed targets and shared weights, and what they write and predict.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <compare.hpp>
#include <rank_of.hpp>
#include <split_words.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "slices_support.hpp"

namespace cuda_tables_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

using Alone = SingleDevice<Microbatches<2>>;
template <class S, class Net, class Precision = Fp64>
using Many = OnGpus<S, Precision, VirtualTransport, Net>;
template <class Net>
using OnHost = Trainer<Net, Alone, BasicHost<Portable, Fp64>>;

/// @tparam Copies  of the model's parameters, in the order of the ranks
template <class S, class Net, int Copies = S::ranks>
void check_as_one_device() {
  Watchdog const watchdog{"tables in slices"};
  OnHost<Net> one{gpt_options()};
  Many<S, Net> many{gpt_options()};
  CHECK(first_difference(many.parameters(1), one.parameters()) == "");
  auto const a = shared_steps(one, 3);
  auto const b = shared_steps(many, 3);
  for (std::size_t s = 0; s < a.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(a[s].loss - b[s].loss) <= 1e-11);
    CHECK(std::fabs(a[s].gradient_norm - b[s].gradient_norm) <= 1e-11);
    CHECK(a[s].metric == b[s].metric);
    CHECK(a[s].weight == b[s].weight);
  }
  for (int copy = 0; copy < Copies; ++copy) {
    for (Part const part : {Part::value, Part::gradient}) {
      Difference const off = difference(many.parameters(copy), one.parameters(), part);
      INFO("copy " << copy << ": " << off.name << " is off by " << off.error);
      CHECK(off.error <= 1e-11);
    }
  }
}

TEST_CASE("GPUs that share words train as one device on the host, whatever their number") {
  check_as_one_device<SplitWords<2>, FreeWords>();
  check_as_one_device<SplitWords<4>, FreeWords>();
  check_as_one_device<SplitWords<8>, FreeWords>();
}

TEST_CASE("so they do with a table that two layers share, and with logits that are made again") {
  check_as_one_device<SplitTied, TiedWords>();
  check_as_one_device<SplitWords<2, SequenceRows>, TiedWords>();
}

TEST_CASE("so do replicas of stages of them") {
  check_as_one_device<Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<2>, Split<2>>,
                             TensorParallel<2, SplitInputs<0>, SplitOutputs<3>>>,
                      FreeWords, 4>();
}

TEST_CASE("so do stages of them whose rows come in chunks of time") {
  check_as_one_device<Hybrid<Pipeline<OneFOneB, 2, Chunks<2>, Split<2>, Split<2>>,
                             TensorParallel<2, SplitInputs<0>, SplitOutputs<3>>>,
                      FreeWords, 2>();
}

struct LargeWords
    : Network<Tokens<4, 4097>, Sequential<Embedding<4097, 256>, Linear<8>, Vocabulary<4097>>> {};

template <class S>
constexpr Shape table_of(int parameter) {
  return DeviceOf<Many<S, LargeWords>>::graph.parameter[parameter].parameter.shape;
}

TEST_CASE("a large table is dealt out, or kept whole where an option says so") {
  static_assert(table_of<TensorParallel<2>>(0) == Shape{2, {2049, 256}});
  static_assert(table_of<TensorParallel<2>>(3) == Shape{2, {4097, 8}});
  using Other = TensorParallel<2, KeepWhole<0>, SplitOutputs<2>>;
  static_assert(table_of<Other>(0) == Shape{2, {4097, 256}});
  static_assert(table_of<Other>(3) == Shape{2, {2049, 8}});
  Many<TensorParallel<2>, LargeWords> const large{{.batch = 2}};
  Many<Other, LargeWords> const other{{.batch = 2}};
  constexpr DeviceMemory most = device_memory<LargeWords, TensorParallel<2>, Sgd, Fp64>(2, 0);
  CHECK(large.memory(0).parameters == most.parameters);
  CHECK(other.memory(1).parameters > 3 * most.parameters / 2);
}

template <class Net>
void check_text(auto& one, auto& many) {
  std::vector<std::int32_t> const prompt{1, 5, 2};
  for (GenerateOptions const& how : {GenerateOptions{.tokens = 9, .temperature = 0.0F},
                                     GenerateOptions{.tokens = 9, .top_k = 5, .seed = 3}}) {
    CHECK(many.generate(prompt, how) == one.generate(prompt, how));
  }
}

TEST_CASE("files have the words of the network and no others; text is what one device writes") {
  Watchdog const watchdog{"a file of words"};
  TemporaryFolder const folder;
  OnHost<FreeWords> one{gpt_options()};
  shared_steps(one, 3);
  one.save(folder.file("one"));
  Many<SplitWords<8>, FreeWords> eight{gpt_options()};
  eight.load(folder.file("one"));
  eight.save(folder.file("eight"));
  CHECK(content(folder.file("eight")) == content(folder.file("one")));
  check_text<FreeWords>(one, eight);
  Many<SplitTied, TiedWords> tied{gpt_options()};
  OnHost<TiedWords> tied_one{gpt_options()};
  shared_steps(tied, 2);
  shared_steps(tied_one, 2);
  check_text<TiedWords>(tied_one, tied);
  CHECK(std::fabs(gpt_step(eight, 1).loss - gpt_step(one, 1).loss) <= 1e-10);
}

/// Seven sequences, the rows of which have a target each but one.
struct Texts {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] static std::int64_t size() { return 7; }
  [[nodiscard]] static Shape shape() { return tokens_shape(gpt_time); }
  [[nodiscard]] static int targets() { return gpt_time; }
  static void read(std::int64_t sample, std::span<std::int32_t> x, std::span<std::int32_t> y) {
    for (std::size_t t = 0; t < x.size(); ++t) {
      auto const n = static_cast<std::int32_t>(sample) * 5 + static_cast<std::int32_t>(t) * 3;
      x[t] = n % gpt_words;
      y[t] = t == 4 ? -1 : (n + 7) % gpt_words;
    }
  }
};

TEST_CASE("GPUs that share words evaluate as one device on the host does") {
  Watchdog const watchdog{"an evaluation of words"};
  OnHost<FreeWords> one{gpt_options()};
  Many<SplitWords<4>, FreeWords> four{gpt_options()};
  shared_steps(one, 2);
  shared_steps(four, 2);
  auto const a = one.evaluate(Texts{});
  auto const b = four.evaluate(Texts{});
  CHECK(std::fabs(a.loss - b.loss) <= 1e-11);
  CHECK(a.metric == b.metric);
}

// The gathered numbers lie in scratch memory of the pass.
TEST_CASE("fits<> has the memory of a GPU that has a slice of the words") {
  Watchdog const watchdog{"memory of words"};
  using S = SplitWords<8>;
  Many<S, FreeWords> const trainer{gpt_options()};
  MemoryReport const own = trainer.memory(6);
  constexpr DeviceMemory most = device_memory<FreeWords, S, AdamW, Fp64>(9, 0);
  CHECK(own.parameters == most.parameters);
  CHECK(own.gradients == most.gradients);
  CHECK(own.optimizer_state == most.optimizer_state);
  CHECK(own.kept + own.recomputed + own.transient <=
        most.kept + most.recomputed + most.passing + most.activation_gradients);
}

}  // namespace cuda_tables_test
