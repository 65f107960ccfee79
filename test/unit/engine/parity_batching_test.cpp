// SPDX-License-Identifier: Apache-2.0
// Unequal devices, empty shards and accumulated gradients: the numbers of one device with the same
// microbatches.

#include <parity.hpp>

namespace tandem {
namespace parity_batching_test {

TEST_CASE("four devices of two microbatches have the gradients of one device of eight") {
  test::check_first_gradients<SingleDevice<Microbatches<8>>, DataParallel<4, Microbatches<2>>>();
}

TEST_CASE("four devices of two microbatches train as one device of eight") {
  test::check_five_steps<SingleDevice<Microbatches<8>>, DataParallel<4, Microbatches<2>>>();
}

TEST_CASE("weighted devices train as one device with the same shards") {
  test::check_five_steps<SingleDevice<Microbatches<3>, Weighted<4, 4, 3>>,
                         DataParallel<3, Weighted<4, 4, 3>>>();
}

TEST_CASE("a device without samples takes part in every reduction") {
  test::check_five_steps<SingleDevice<Microbatches<2>>, DataParallel<3, Weighted<1, 0, 1>>>();
}

}  // namespace parity_batching_test
}  // namespace tandem
