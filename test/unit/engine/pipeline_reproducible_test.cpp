// SPDX-License-Identifier: Apache-2.0
// Reproducible pipelines: the bits of one device after five steps of several sizes, clipped and
// with states, under every kind of schedule, whether activations are kept or computed again.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_reproducible_test {

using One = OneDevice<Reproducible<>>;

template <class Many>
void check(std::initializer_list<std::string_view> schedules, std::initializer_list<int> counts,
           TrainerOptions const& options = parity_options()) {
  for_tables<One, Many, Host>(schedules, counts, options,
                              [](auto& one, auto& many) { compare_bits(one, many); });
}

template <class Many>
void check_chain() {
  TrainerOptions adam = parity_options();
  adam.optimizer = Adam{.learning_rate = 0.01F};
  for (TrainerOptions const& options : {parity_options(), adam}) {
    check<Many>({"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"},
                {1, 4, 8}, options);
  }
}

TEST_CASE("two devices of a chain") { check_chain<InTwo<ZeroBubbleH1, 4, Reproducible<>>>(); }

TEST_CASE("four devices of a chain") { check_chain<InFour<ZeroBubbleH1, 4, Reproducible<>>>(); }

TEST_CASE("two copies of the model in opposite directions, on two devices") {
  check<InTwo<Chimera, 4, Reproducible<>>>({"chimera"}, {2, 4, 8});
}

TEST_CASE("two copies on four devices that compute each stage again") {
  check<InFour<Chimera, 4, Reproducible<>, Checkpoint<Boundaries>>>({"chimera"}, {2, 4, 8});
}

TEST_CASE("two copies on two devices train as one in double") {
  for_tables<OneDevice<>, InTwo<Chimera, 4>, Double>(
      {"chimera"}, {2, 4, 6, 8}, parity_options(),
      [](auto& one, auto& many) { compare_five_steps(one, many); });
}

TEST_CASE("two devices of two stages train as one in double") {
  for_tables<OneDevice<>, InFour<Interleaved<2>, 4>, Double>(
      {"interleaved"}, {2, 4, 6, 8}, parity_options(),
      [](auto& one, auto& many) { compare_five_steps(one, many); });
}

TEST_CASE("four devices of two stages, and two that compute each layer again") {
  check<InEight<Interleaved<2>, 4, Reproducible<>>>({"interleaved"}, {4, 8});
  check<InFour<Interleaved<2>, 4, Reproducible<>, Checkpoint<Every<1>>>>({"interleaved"},
                                                                         {2, 4, 8});
}

TEST_CASE("two devices that compute every top-level layer again, or runs of two") {
  check<InTwo<OneFOneB, 4, Reproducible<>, Checkpoint<Every<1>>>>(
      {"sequential", "gpipe", "one_f_one_b"}, {1, 4, 8});
  check<InTwo<OneFOneB, 4, Checkpoint<Every<2>>, Reproducible<>>>(
      {"sequential", "gpipe", "one_f_one_b"}, {1, 4, 8});
}

TEST_CASE("four devices that compute whole stages again") {
  check<InFour<OneFOneB, 4, Reproducible<>, Checkpoint<Boundaries>>>(
      {"sequential", "gpipe", "one_f_one_b"}, {1, 4, 8});
}

template <class... Options>
using InOne = ModelParallel<Auto<1>, Options..., Checkpoint<Every<2>>>;

TEST_CASE("runs of a model in one part, and of its replicas, that are computed again") {
  check<InOne<Microbatches<4>, Reproducible<>>>({"sequential"}, {1, 4});
  Watchdog const watchdog{"replicas that compute again"};
  Trainer<DeepNet, DataParallel<2, ShardedState>, Host> kept{parity_options()};
  Trainer<DeepNet, Hybrid<DataParallel<2, ShardedState>, InOne<>>, Host> again{parity_options()};
  compare_bits(kept, again);
}

}  // namespace pipeline_reproducible_test
}  // namespace tandem::test
