// SPDX-License-Identifier: Apache-2.0

/// @file
/// GoogLeNet: on a GPU what it is on the host, whole and in stages, on one rank and on several.

#include "check_model.hpp"

namespace tandem::test {
namespace {

struct Google : models::GoogLeNet<10> {};

TEST_CASE("GoogLeNet") { check_model<Google, SingleDevice<>, SingleDevice<>>(); }

#if !defined(TANDEM_CUDA_EMULATED)  // each would take minutes there

TEST_CASE("GoogLeNet on 2 and 4 ranks") {
  check_model<Google, DataParallel<2>, SingleDevice<Microbatches<2>>>();
  check_model<Google, DataParallel<4>, SingleDevice<Microbatches<4>>>();
}

TEST_CASE("GoogLeNet in two stages, on 2 and 4 ranks") {
  using One = SingleDevice<Microbatches<4>>;
  check_model<Google, Pipeline<GPipe, 4, Split<5>, Split<9>, Checkpoint<Boundaries>>, One>();
  check_model<Google, Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<5>, Split<9>>>, One>();
}

TEST_CASE("GoogLeNet, reproducible: the same bits on 1, 2 and 4 ranks") {
  auto const one = bits_of<Google, SingleDevice<Microbatches<4>, Reproducible<>>>();
  CHECK(one == bits_of<Google, DataParallel<2, Microbatches<2>, Reproducible<>>>());
  CHECK(one == bits_of<Google, DataParallel<4, Reproducible<>>>());
}

#endif

}  // namespace
}  // namespace tandem::test
