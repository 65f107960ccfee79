// SPDX-License-Identifier: Apache-2.0
// Attention over chunks of time: a row looks at those of all chunks before it, and their keys' and
// values' gradients come back to them.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/models/gpt.hpp>
#include <tandem/tandem.hpp>

#include <support/chunk_runs.hpp>

namespace chunks_test {

using namespace tandem;

using Gpt = models::Gpt<words, rows, 8, 2, 2, Percent<20>>;

TEST_CASE("a GPT in chunks of time is the GPT") {
  Run<SingleDevice<Microbatches<2>>, Gpt> const one;
  Run<Pipeline<OneFOneB, 2, Chunks<3>, Split<3>, Split<3>>, Gpt> const two;
  CHECK(distance(one.numbers, two.numbers) <= 1e-12);
  CHECK(two.trainer.memory(0).states > 0);
}

TEST_CASE("replicas that deal states, of devices that share heads and words") {
  using S = Hybrid<DataParallel<2, ShardedState>, Pipeline<GPipe, 1, Chunks<2>, Split<3>, Split<3>>,
                   TensorParallel<2>>;
  Run<SingleDevice<Microbatches<2>>, Gpt> const one;
  CHECK(distance(one.numbers, Run<S, Gpt>{}.numbers) <= 1e-12);
}

TEST_CASE("masks between products that devices share") {
  using S = Hybrid<Pipeline<GPipe, 1, Chunks<2>, Split<3>, Split<3>>, TensorParallel<2>>;
  CHECK(distance(Run<SingleDevice<>, Llama>{}.numbers, Run<S, Llama>{}.numbers) <= 1e-12);
}

TEST_CASE("keys of heads, angles of rows and lengths, both gradients apart") {
  std::vector<std::int32_t> const lengths{6, 1, 2, 3, 4, 5, 6};
  using One = SingleDevice<>;
  using Three = Pipeline<ZeroBubbleH1, 1, Chunks<3>, Split<3>, Split<1>, Split<2>>;
  CHECK(distance(Run<One, Llama>{lengths}.numbers, Run<Three, Llama>{lengths}.numbers) <= 1e-12);
  for (int const time : {6, 5, 1}) {
    CHECK(distance(Run<One, Llama>{{}, time}.numbers, Run<Three, Llama>{{}, time}.numbers) <=
          1e-12);
  }
}

}  // namespace chunks_test
