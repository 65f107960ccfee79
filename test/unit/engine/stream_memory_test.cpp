// SPDX-License-Identifier: Apache-2.0
// What the ranks of an asynchronous pipeline keep: versions of their weights, activations of the
// microbatches between a forward pass and its backward pass, batches of several steps.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <rank_of.hpp>
#include <support/watchdog.hpp>

namespace tandem::test {
namespace stream_memory_test {

using Portably = BasicHost<Portable>;  // a library keeps what it likes

constexpr int samples = 4;  // of a microbatch

TrainerOptions options(int microbatches) {
  return {.batch = samples * microbatches,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .threads_per_device = 1};
}

/// What a device should have besides the weights and the activations of one microbatch.
struct Expected {
  int versions;  ///< further copies of its weights
  int live;      ///< microbatches
};

template <int Device, class T, class One>
void check_device(T& trainer, One& one, Expected const& expected) {
  INFO("device " << Device);
  using Own = DeviceOf<T, Device>;
  MemoryReport const has = trainer.memory(Device);
  MemoryReport const alone = one.memory(Device);
  CHECK(has.versions == expected.versions * Own::layout.trained * std::int64_t{sizeof(float)});
  CHECK(has.parameters == alone.parameters);
  CHECK(has.gradients == alone.gradients);
  CHECK(has.optimizer_state == alone.optimizer_state);
  CHECK(alone.kept > 0);
  CHECK(has.kept == expected.live * alone.kept);
  CHECK(has.recomputed == alone.recomputed);
  CHECK(has.transient == alone.transient);

  auto& rank = rank_of<Device>(trainer);
  PlanTask const task{.batch = samples,
                      .microbatches = trainer.workers().batching().microbatches,
                      .stages = rank.plan().stages,
                      .segment = has.recomputed > 0 ? Own::segments.of : nullptr};
  MemoryPlan const plan = plan_memory(Own::graph, rank.needs(), task);
  CHECK(has.kept == expected.live * plan.kept_bytes[0]);
  CHECK(has.recomputed == plan.recomputed_bytes);
}

/// @param steps  batches that wait or are at work
template <class S, class Cut>
void check(std::vector<Expected> const& expected, int microbatches, int steps) {
  Watchdog const watchdog{"memory of an asynchronous pipeline"};
  Trainer<DeepNet, S, Portably> trainer{options(microbatches)};
  Trainer<DeepNet, Cut, Portably> one{options(1)};  // with one microbatch at a time
  check_device<0>(trainer, one, expected[0]);
  check_device<1>(trainer, one, expected[1]);
  if constexpr (S::devices == 4) {
    check_device<2>(trainer, one, expected[2]);
    check_device<3>(trainer, one, expected[3]);
  }
  std::int64_t const batch = samples * microbatches * (3 * 8 * 8 + 1) * std::int64_t{4};
  CHECK(trainer.memory(0).feed == steps * batch);
  CHECK(trainer.memory(1).feed == 0);
}

TEST_CASE("PipeDream: as many versions as microbatches on their way, and the current one") {
  check<InTwo<PipeDream, 1>, InTwo<GPipe, 1>>({{1, 2}, {0, 1}}, 1, 3);
  check<InFour<PipeDream, 1>, InFour<GPipe, 1>>({{3, 4}, {2, 3}, {1, 2}, {0, 1}}, 1, 5);
  check<InFour<DelayedGradient, 1>, InFour<GPipe, 1>>({{3, 4}, {2, 3}, {1, 2}, {0, 1}}, 1, 5);
}

TEST_CASE("with vertical sync: as many versions as devices, on each of them") {
  using S = InFour<PipeDreamVerticalSync, 1>;
  check<S, InFour<GPipe, 1>>({{3, 4}, {3, 3}, {3, 2}, {3, 1}}, 1, 5);
}

TEST_CASE("PipeDream-2BW: two versions, however many microbatches") {
  check<InFour<PipeDream2BW, 4>, InFour<GPipe, 1>>({{1, 4}, {1, 3}, {1, 2}, {1, 1}}, 4, 3);
  check<InFour<PipeDream2BW, 8>, InFour<GPipe, 1>>({{1, 4}, {1, 3}, {1, 2}, {1, 1}}, 8, 3);
}

TEST_CASE("weight prediction: one version, and a prediction but on the last device") {
  check<InFour<WeightPrediction, 1>, InFour<GPipe, 1>>({{1, 4}, {1, 3}, {1, 2}, {0, 1}}, 1, 5);
}

TEST_CASE("replayed passes: one version, and of a microbatch only what enters and leaves") {
  using Cut = InFour<GPipe, 1, Checkpoint<Boundaries>>;
  check<InFour<FeaturesReplay, 1>, Cut>({{0, 4}, {0, 3}, {0, 2}, {0, 1}}, 1, 5);
  check<InFour<PipelinedModel, 1>, Cut>({{0, 7}, {0, 5}, {0, 3}, {0, 1}}, 1, 8);
}

}  // namespace stream_memory_test
}  // namespace tandem::test
