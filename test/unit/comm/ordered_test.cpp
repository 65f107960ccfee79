// SPDX-License-Identifier: Apache-2.0
// What an all-reduce in a fixed order needs, asked for without a GPU.

#include <tandem/comm/ordered.hpp>

#include <doctest/doctest.h>

#include <cstddef>

#include <tandem/comm/recording.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/comm/threads/communicator.hpp>

namespace tandem {
namespace ordered_test {

struct AnyOrder {
  static constexpr bool ordered = false;
};
struct SaysNothing {};

static_assert(sums_in_order<SelfCommunicator> && sums_in_order<ThreadsCommunicator>);
static_assert(!sums_in_order<SaysNothing> && !sums_in_order<AnyOrder>);
static_assert(sums_in_order<Recording<ThreadsCommunicator>>);

/// As NCCL's: the all-reduce has no order, and what records it claims none.
struct WithoutOrder : SelfCommunicator {
  static constexpr bool ordered = false;
};
static_assert(!sums_in_order<Recording<WithoutOrder>>);

TEST_CASE("others' shares need room, in whole cache lines; nothing where sums have an order") {
  CHECK(ordered_scratch_bytes<ThreadsCommunicator, float>(1 << 20, 4) == 0);
  CHECK(ordered_scratch_bytes<SaysNothing, double>(1 << 20, 4) == 6U << 20);
  CHECK(ordered_scratch_bytes<AnyOrder, float>(1 << 20, 4) == 3U << 20);
  CHECK(ordered_scratch_bytes<AnyOrder, double>(1 << 20, 4) == 6U << 20);
  CHECK(ordered_scratch_bytes<AnyOrder, float>(1, 4) == std::size_t{3} * 64);
  CHECK(ordered_scratch_bytes<AnyOrder, float>(65, 2) == std::size_t{3} * 64);
  CHECK(ordered_scratch_bytes<AnyOrder, float>(100, 1) == 0);
  CHECK(ordered_scratch_bytes<AnyOrder, float>(0, 4) == 0);
}

}  // namespace ordered_test
}  // namespace tandem
