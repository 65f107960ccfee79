// SPDX-License-Identifier: Apache-2.0
// Replicas of pipelines: the bits of one device with the same leaves, unequal and empty shards.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_hybrid_test {

// The replicas have half of the microbatches each.
template <class Many>
void check(std::string_view schedule, std::initializer_list<int> counts) {
  for (int const count : counts) {
    INFO(schedule << ", " << count);
    Watchdog const watchdog{"replicas of a pipeline"};
    TrainerOptions one = parity_options();
    one.rows = make_schedule("sequential", 1, 2 * count);
    TrainerOptions several = parity_options();
    several.rows = make_schedule(schedule, Many::devices, count);
    Trainer<DeepNet, OneDevice<Reproducible<>>, Host> single{one};
    Trainer<DeepNet, Many, Host> many{several};
    compare_bits(single, many);
  }
}

TEST_CASE("two replicas of two devices have the bits of one") {
  using Many = Hybrid<DataParallel<2, Reproducible<>>, InTwo<ZeroBubbleH1, 2>>;
  check<Many>("one_f_one_b", {1, 2, 4});
  check<Many>("zero_bubble_h1", {2, 4});
}

TEST_CASE("two replicas of two copies have the bits of one") {
  check<Hybrid<DataParallel<2, Reproducible<>>, InTwo<Chimera, 2>>>("chimera", {2, 4});
}

TEST_CASE("a replica without samples takes part in every reduction") {
  Watchdog const watchdog{"an empty shard"};
  Trainer<DeepNet, SingleDevice<Microbatches<4>>, Double> one{parity_options()};
  Trainer<DeepNet, Hybrid<DataParallel<3, Weighted<1, 0, 1>>, InTwo<OneFOneB, 2>>, Double> many{
      parity_options()};
  compare_five_steps(one, many);
}

}  // namespace pipeline_hybrid_test
}  // namespace tandem::test
