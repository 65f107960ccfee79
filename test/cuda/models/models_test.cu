// SPDX-License-Identifier: Apache-2.0

/// @file
/// The library's small models: on a GPU what they are on the host, on one rank and on several.

#include "check_model.hpp"

namespace tandem::test {
namespace {

struct Small : models::SmallCnn<10> {};
struct Residual20 : models::ResNet20<10> {};

TEST_CASE("SmallCnn, ResNet-20") {
  check_model<Small, DataParallel<4>, SingleDevice<Microbatches<4>>>();
  check_model<Residual20, SingleDevice<>, SingleDevice<>>();
  check_model<Residual20, DataParallel<2>, SingleDevice<Microbatches<2>>>();
}

template <class Net>
void check_bits() {
  auto const one = bits_of<Net, SingleDevice<Microbatches<4>, Reproducible<>>>();
  CHECK(one == bits_of<Net, DataParallel<2, Microbatches<2>, Reproducible<>>>());
  CHECK(one == bits_of<Net, DataParallel<4, Reproducible<>>>());
}

TEST_CASE("SmallCnn and ResNet-20, reproducible: the same bits on 1, 2 and 4 ranks") {
  check_bits<Small>();
  check_bits<Residual20>();
}

}  // namespace
}  // namespace tandem::test
