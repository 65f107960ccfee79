// SPDX-License-Identifier: Apache-2.0
// What stages keep for their backward passes: as many microbatches as the schedule has live, and
// with checkpoints only what enters and leaves a stage. Those of an asynchronous pipeline keep
// versions of their weights, too, and batches of several steps.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <parity.hpp>
#include <rank_of.hpp>

namespace tandem::test {
namespace pipeline_memory_test {

using Portably = BasicHost<Portable>;  // a library keeps what it likes

constexpr int samples = 4;  // of a microbatch

template <class S>
using Deep = Trainer<DeepNet, S, Portably>;

TrainerOptions options(int microbatches) {
  TrainerOptions o = parity_options();
  o.batch = samples * microbatches;
  return o;
}

template <class S>
std::vector<MemoryReport> reports(std::string_view schedule, int microbatches) {
  TrainerOptions o = options(microbatches);
  o.rows = make_schedule(schedule, S::devices, microbatches);
  Deep<S> trainer{o};
  std::vector<MemoryReport> list;
  for (int rank = 0; rank < S::ranks; ++rank) {
    list.push_back(trainer.memory(rank));
  }
  return list;
}

TEST_CASE("1F1B keeps min(m, p - r) microbatches on device r of p, GPipe all m") {
  using Four = InFour<OneFOneB, 4>;
  Watchdog const watchdog{"live microbatches"};
  std::vector<MemoryReport> const one = reports<Four>("sequential", 4);  // one at a time
  for (int const m : {1, 2, 4, 8}) {
    std::vector<MemoryReport> const gpipe = reports<Four>("gpipe", m);
    std::vector<MemoryReport> const one_f_one_b = reports<Four>("one_f_one_b", m);
    for (std::size_t r = 0; r < 4; ++r) {
      INFO(m << " microbatches, device " << r);
      CHECK(one[r].kept > 0);
      CHECK(gpipe[r].kept == m * one[r].kept);
      CHECK(one_f_one_b[r].kept == std::min(m, 4 - static_cast<int>(r)) * one[r].kept);
      CHECK(gpipe[r].recomputed == 0);
      CHECK(gpipe[r].transient == one[r].transient);
      CHECK(gpipe[r].parameters == one[r].parameters);
    }
  }
}

/// The plan once more, with the lives that the rank has.
template <int Device, class T>
MemoryPlan plan_of(T& trainer) {
  using Own = DeviceOf<T, Device>;
  auto& rank = rank_of<Device>(trainer);
  return plan_memory(
      Own::graph, rank.needs(),
      {.batch = samples,
       .microbatches = trainer.workers().batching().microbatches,
       .stages = rank.plan().stages,
       .segment = trainer.memory(Device).recomputed > 0 ? Own::segments.of : nullptr});
}

template <int Device, class T>
void check_plan(T& trainer, bool checkpoints) {
  MemoryPlan const plan = plan_of<Device>(trainer);
  std::vector<StageLife> const& stages = rank_of<Device>(trainer).plan().stages;
  std::int64_t kept = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    kept += stages[s].live * plan.kept_bytes[s];
  }
  MemoryReport const report = trainer.memory(Device);
  CHECK(report.kept == kept);
  CHECK(report.recomputed == plan.recomputed_bytes);
  CHECK(report.logical == plan.logical_bytes);
  CHECK((plan.recomputed_bytes > 0) == checkpoints);
}

TEST_CASE("what is reported is what is planned, for each live microbatch of each stage") {
  Watchdog const watchdog{"plans of stages"};
  Deep<InFour<Interleaved<2>, 4>> interleaved{options(4)};
  check_plan<0>(interleaved, false);
  check_plan<1>(interleaved, false);
  CHECK(rank_of<0>(interleaved).plan().stages.size() == 2);
  Deep<InTwo<OneFOneB, 4, Checkpoint<Every<1>>>> checkpointed{options(4)};
  check_plan<0>(checkpointed, true);
  check_plan<1>(checkpointed, true);
}

TEST_CASE("with checkpoints of whole stages a device keeps what enters and leaves, no more") {
  Watchdog const watchdog{"checkpoints"};
  constexpr std::int64_t cut = 6 * 8 * 8 * samples * 4;  // bytes of the tensor between the two
  constexpr std::int64_t output = (5 * samples * 4 + 63) / 64 * 64;
  using Plain = InTwo<GPipe, 4>;
  using Stages = InTwo<GPipe, 4, Checkpoint<Boundaries>>;
  using Layers = InTwo<GPipe, 4, Checkpoint<Every<1>>>;
  for (int const m : {1, 4}) {
    std::vector<MemoryReport> const plain = reports<Plain>("gpipe", m);
    std::vector<MemoryReport> const stages = reports<Stages>("gpipe", m);
    std::vector<MemoryReport> const layers = reports<Layers>("gpipe", m);
    CHECK(stages[0].kept == m * cut);
    CHECK(stages[1].kept == m * (cut + output));
    CHECK(layers[1].kept < plain[1].kept);  // device 0 has layers that share memory
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(stages[r].kept < layers[r].kept);
      CHECK(stages[r].kept < plain[r].kept);
      CHECK(layers[r].recomputed < stages[r].recomputed);
      CHECK(layers[r].recomputed > 0);
      CHECK(stages[r].recomputed <= plain[r].kept / m);
    }
  }
}

TrainerOptions unclipped_options(int microbatches) {
  TrainerOptions o = options(microbatches);
  o.clip_norm = 0.0;
  return o;
}

/// What a device should have besides the weights and the activations of one microbatch.
struct Expected {
  int versions;  ///< further copies of its weights
  int live;      ///< microbatches
};

template <int Device, class T, class One>
void check_device(T& trainer, One& one, Expected const& expected) {
  INFO("device " << Device);
  MemoryReport const has = trainer.memory(Device);
  MemoryReport const alone = one.memory(Device);
  CHECK(has.versions ==
        expected.versions * DeviceOf<T, Device>::layout.trained * std::int64_t{sizeof(float)});
  CHECK(has.parameters == alone.parameters);
  CHECK(has.gradients == alone.gradients);
  CHECK(has.optimizer_state == alone.optimizer_state);
  CHECK(alone.kept > 0);
  CHECK(has.kept == expected.live * alone.kept);
  CHECK(has.recomputed == alone.recomputed);
  CHECK(has.transient == alone.transient);

  MemoryPlan const plan = plan_of<Device>(trainer);
  CHECK(has.kept == expected.live * plan.kept_bytes[0]);
  CHECK(has.recomputed == plan.recomputed_bytes);
}

/// @param steps  batches that wait or are at work
template <class S, class Cut>
void check(std::vector<Expected> const& expected, int microbatches, int steps) {
  Watchdog const watchdog{"memory of an asynchronous pipeline"};
  Trainer<DeepNet, S, Portably> trainer{unclipped_options(microbatches)};
  Trainer<DeepNet, Cut, Portably> one{unclipped_options(1)};  // with one microbatch at a time
  check_device<0>(trainer, one, expected[0]);
  check_device<1>(trainer, one, expected[1]);
  check_device<2>(trainer, one, expected[2]);
  check_device<3>(trainer, one, expected[3]);
  std::int64_t const batch = samples * microbatches * (3 * 8 * 8 + 1) * std::int64_t{4};
  CHECK(trainer.memory(0).feed == steps * batch);
  CHECK(trainer.memory(1).feed == 0);
}

TEST_CASE("PipeDream: as many versions as microbatches on their way, and the current one") {
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

}  // namespace pipeline_memory_test
}  // namespace tandem::test
