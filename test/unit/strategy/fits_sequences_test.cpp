// SPDX-License-Identifier: Apache-2.0
// What device_memory() says of language models of portable kernels.
#include <cstdint>

#include <doctest/doctest.h>

#include <tandem/strategy/fits.hpp>
#include <tandem/tandem.hpp>

#include "fits_sequences.hpp"

namespace fits_sequences_test {

using namespace tandem;
using test::check_device_memory;
using test::rank_tensors;

using Small = models::Gpt<65, 32, 32, 4, 4>;
using Dropped = test::DroppedGpt;

template <class Schedule, class... Options>
using Two = Pipeline<Schedule, 4, Split<4>, Split<4>, Options...>;

TEST_CASE("whole models") {
  check_device_memory<Small, SingleDevice<>>(4);
  check_device_memory<Dropped, SingleDevice<Microbatches<2>, Reproducible<>>>(16);
  check_device_memory<Dropped, SingleDevice<>, Portable, Fp64>(4);
  check_device_memory<Small, DataParallel<2>>(9);
}

TEST_CASE("averages of the weights are an array more") {
  check_device_memory<Small, SingleDevice<>>(4, WeightAverages::kept);
  check_device_memory<Small, Two<OneFOneB>>(16, WeightAverages::kept);
  constexpr std::int64_t bytes = device_memory<Small, SingleDevice<>, AdamW, Fp32>(4, 0).total();
  static_assert(fits<Small, SingleDevice<>, AdamW, Fp32>(4, bytes));
  static_assert(!fits<Small, SingleDevice<>, AdamW, Fp32>(4, bytes, WeightAverages::kept));
}

struct InParts
    : Network<Tokens<48, 1000>, Sequential<Embedding<1000, 32>, RmsNorm<>, Linear<96>, Attention<4>,
                                           Vocabulary<1000, Chunked<16>>>> {};

TEST_CASE("a criterion in chunks keeps no logits") {
  check_device_memory<InParts, SingleDevice<>>(4);
  CHECK(device_memory<InParts, SingleDevice<>, AdamW, Fp32>(4, 0).kept < 4 * 48 * 1000 * 4);
}

struct Drawn : Network<Tokens<48, 1000>,
                       Sequential<Embedding<1000, 32>, RmsNorm<>, Vocabulary<1000, Sampled<50>>>> {
};

TEST_CASE("a sampled criterion keeps the logits of the drawn words and the target") {
  check_device_memory<Drawn, SingleDevice<>>(4);
  constexpr std::int64_t kept = device_memory<Drawn, SingleDevice<>, AdamW, Fp32>(4, 0).kept;
  CHECK(kept > 4 * 48 * 51 * 4);
  CHECK(kept < 4 * 48 * 1000 * 4);
}

struct States
    : Network<Tokens<24, 40>, Sequential<Embedding<40, 16>, Lstm<24, Projection<12>, Bidirectional>,
                                         Gru<16>, Vocabulary<40>>> {};

TEST_CASE("recurrent layers keep their gates and states") {
  check_device_memory<States, SingleDevice<>>(8);
}

using Pairs = models::Gnmt<40, 16, 3, 12>;

TEST_CASE("an encoder and a decoder, whose attention reads what a stage between relays") {
  check_device_memory<Pairs, SingleDevice<>, Portable, Fp32, false>(8);
  check_device_memory<Pairs, Pipeline<OneFOneB, 4, Split<4>, Split<2>, Split<4>>, Portable, Fp32,
                      false>(16);
}

struct First;
struct Second;

/// Attention that keeps seven arrays, none of them of whole lines of the cache.
struct Looks : Network<Tokens<6, 10>,
                       Sequential<Embedding<10, 1>, Let<First>, Linear<1>,
                                  Join<Bahdanau<3>, Sequential<>, Use<First>>, Vocabulary<10>>> {};

TEST_CASE("each array that an attention keeps begins on a line of the cache") {
  for (int const batch : {1, 3, 7}) {
    Trainer<Looks, SingleDevice<>, BasicHost<Portable, Fp64>> const trainer{{.batch = batch}};
    std::int64_t const kept = device_memory<Looks, SingleDevice<>, Sgd, Fp64>(batch, 0).kept;
    CHECK(trainer.memory().kept <= kept);
    CHECK(kept <= trainer.memory().kept + 6 * 64 + 64);
  }
}

/// On device 1 the gradient of a named value waits while a part between goes backward.
struct Between : Network<Tokens<2, 8>,
                         Sequential<Embedding<8, 6>, Sequential<Linear<6>, Let<First>>, Linear<6>,
                                    Sequential<RmsNorm<>, Linear<24>, Attention<2>>, Linear<6>,
                                    Concat<Sequential<>, Use<First>>, Vocabulary<8>>> {};
inline constexpr auto between = place<Between>({{"1", 1}, {"3", 1}, {"5", 1}, {"6", 1}});

TEST_CASE("gradients that wait on a device of several stages are counted") {
  using S = ModelParallel<Placed<between>, Microbatches<4>>;
  Trainer<Between, S, BasicHost<Portable, Fp32>> const trainer{{.batch = 16}};
  for (int device = 0; device < 2; ++device) {
    CAPTURE(device);
    MemoryReport const has = trainer.memory(device);
    DeviceMemory const most = device_memory<Between, S, Sgd, Fp32>(16, device);
    CHECK(has.transient <= most.passing + most.activation_gradients);
    CHECK(rank_tensors(has) <= most.total());
  }
}

struct Lasting : Network<Tokens<24, 40>, Sequential<Embedding<40, 16>, Lstm<24, Stateful>,
                                                    Gru<17, Stateful>, Vocabulary<40>>> {};

TEST_CASE("what lives on from step to step is there twice") {
  check_device_memory<Lasting, Pipeline<OneFOneB, 4, Split<2>, Split<2>>>(16);
  CHECK(device_memory<Lasting, DataParallel<2>, AdamW, Fp32>(16, 0).states ==
        2 * 8 * ((24 + 24) * 4 + 80));
}

struct Waves : Network<Tokens<24, 40>, Sequential<Embedding<40, 16>, Lstm<24, Projection<17>>,
                                                  Gru<17>, Linear<9>, Tanh, Vocabulary<40>>> {};

TEST_CASE("chunks of time are as many parts of what is kept, and hand states on and back") {
  check_device_memory<Lasting, Pipeline<OneFOneB, 2, Chunks<3>, Split<2>, Split<2>>>(16);
  using S = Pipeline<GPipe, 1, Chunks<4>, Split<3>, Split<3>>;
  check_device_memory<Waves, S>(8);
  check_device_memory<Small, Pipeline<GPipe, 1, Chunks<4>, Split<4>, Split<4>>>(4);
  CHECK(device_memory<Waves, S, AdamW, Fp32>(8, 1).states == 0);
  CHECK(device_memory<Waves, S, AdamW, Fp32>(8, 0).states == 8 * (96 + 80 + 96 + 80 + 80 + 80));
}

TEST_CASE("pipelines whose ends share the words") {
  check_device_memory<Small, Two<OneFOneB>>(16);
  check_device_memory<Small, Hybrid<DataParallel<2>, Two<OneFOneB>>>(16);
  check_device_memory<Small, Two<ZeroBubbleH1>>(16);
}

TEST_CASE("what is computed again") {
  check_device_memory<Small, Two<GPipe, Checkpoint<Boundaries>>>(16);
  check_device_memory<Small, Two<OneFOneB, Checkpoint<Every<1>>>>(16);
}

}  // namespace fits_sequences_test
