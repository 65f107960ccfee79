// SPDX-License-Identifier: Apache-2.0
// Activations that are computed again are the same: the bits of one device that keeps all of them.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_checkpoint_test {

template <class Many>
void check() {
  for_tables<OneDevice<Reproducible<>>, Many, Host>(
      {"sequential", "gpipe", "one_f_one_b"}, {1, 4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
}

TEST_CASE("every top-level layer apart, on two devices") {
  check<InTwo<OneFOneB, 4, Reproducible<>, Checkpoint<Every<1>>>>();
}

TEST_CASE("runs of two top-level layers, on two devices") {
  check<InTwo<OneFOneB, 4, Checkpoint<Every<2>>, Reproducible<>>>();
}

TEST_CASE("whole stages, on four devices") {
  check<InFour<OneFOneB, 4, Reproducible<>, Checkpoint<Boundaries>>>();
}

template <class... Options>
using InOne = ModelParallel<Auto<1>, Options..., Checkpoint<Every<2>>>;

TEST_CASE("runs of a model in one part, and of its replicas") {
  using One = OneDevice<Reproducible<>>;
  for_tables<One, InOne<Microbatches<4>, Reproducible<>>, Host>(
      {"sequential"}, {1, 4}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
  Watchdog const watchdog{"replicas that compute again"};
  Trainer<DeepNet, DataParallel<2, ShardedState>, Host> kept{parity_options()};
  Trainer<DeepNet, Hybrid<DataParallel<2, ShardedState>, InOne<>>, Host> again{parity_options()};
  compare_bits(kept, again);
}

}  // namespace pipeline_checkpoint_test
}  // namespace tandem::test
