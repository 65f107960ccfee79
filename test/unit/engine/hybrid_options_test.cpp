// SPDX-License-Identifier: Apache-2.0
// Options that a DataParallel could not have on its own, but has as the outer part of a Hybrid.

#include <doctest/doctest.h>

#include <cmath>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace hybrid_options_test {

// Alone, DataParallel<2> has two microbatches and so two leaves.
TEST_CASE("as many leaves as the replicas of a pipeline have microbatches") {
  using Many = Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<OneFOneB, 2, Split<2>, Split<2>>>;
  Watchdog const watchdog{"four leaves"};
  Trainer<PlainNet, SingleDevice<Microbatches<4>, Reproducible<4>>, Host> one{parity_options()};
  Trainer<PlainNet, Many, Host> many{parity_options()};
  for (int s = 0; s < 3; ++s) {
    CHECK(parity_step(one, s).loss == parity_step(many, s).loss);
  }
  CHECK(first_difference(many.parameters(0), one.parameters()) == "");
  CHECK(first_difference(many.parameters(1), one.parameters()) == "");
}

TEST_CASE("a weight for each replica of all parts together") {
  using Many = Hybrid<DataParallel<2, Weighted<1, 2, 3, 4>>, DataParallel<2>,
                      ModelParallel<Split<2>, Split<2>>>;
  static_assert(Many::batching.replicas == 4 && Many::batching.shards == 4);
  Watchdog const watchdog{"four weights"};
  Trainer<PlainNet, SingleDevice<Microbatches<4>, Weighted<1, 2, 3, 4>>, Double> one{
      parity_options()};
  Trainer<PlainNet, Many, Double> many{parity_options()};
  for (int s = 0; s < 3; ++s) {
    CHECK(std::fabs(parity_step(one, s).loss - parity_step(many, s).loss) <= 1e-12);
  }
  Difference const off = difference(many.parameters(), one.parameters(), Part::value);
  CHECK(off.error <= 1e-12);
}

}  // namespace hybrid_options_test
}  // namespace tandem::test
