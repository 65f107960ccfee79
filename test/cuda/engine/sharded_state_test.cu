// SPDX-License-Identifier: Apache-2.0

/// @file
/// Replicas on GPUs that each have a part of the optimizer's states: the bits of those that have
/// all, recorded and walked, and the same files.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/comm/nccl/transport.hpp>

#include <rank_of.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#include <emulator/nccl_control.hpp>
#endif

namespace sharded_state_test {

using namespace tandem;
using namespace tandem::test;

using Small = BucketBytes<64, 256>;  // several buckets, some of which cut a convolution's weight

template <class S, class Precision>
using OnGpus = Trainer<TinyNet, S, BasicCuda<Portable, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                       NcclTransport>;

TrainerOptions options_of(Optimizer const& optimizer, double clip_norm, bool record) {
  TrainerOptions options = engine_options();
  options.optimizer = optimizer;
  options.clip_norm = clip_norm;
  options.groups = {{.pattern = "*.bias", .learning_rate_scale = 0.5F}};
  options.average = {.decay = 0.9};
  options.record = record;
  return options;
}

/// Losses, norms, values, gradients, states and averages of every replica.
template <class Trainer>
std::vector<double> all_of(Trainer& trainer, int steps, int replicas) {
  std::vector<double> bits;
  for (int s = 0; s < steps; ++s) {
    StepResult const r = engine_step(trainer, s);
    bits.insert(bits.end(), {r.loss, r.metric, r.gradient_norm});
  }
  for (int replica = 0; replica < replicas; ++replica) {
    for (auto const& p : trainer.parameters(replica)) {
      bits.insert(bits.end(), p.value.begin(), p.value.end());
      bits.insert(bits.end(), p.gradient.begin(), p.gradient.end());
      bits.insert(bits.end(), p.average.begin(), p.average.end());
      for (auto const& state : p.states) {
        bits.insert(bits.end(), state.begin(), state.end());
      }
    }
  }
  return bits;
}

Optimizer const momentum = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F};

bool enough_gpus(int wanted) {
  if (tandem::cuda::device_count() < wanted) {
    MESSAGE("skipped: needs " << wanted << " GPUs");
    return false;
  }
  return true;
}

TEST_CASE("a part of the states each gives the bits of all of them each, ranks of one GPU") {
  Watchdog const watchdog{"parts of states"};
  using Plain = DataParallel<3, Small>;
  using Parts = DataParallel<3, Small, ShardedState>;
  using Gradients = DataParallel<3, Small, ShardedGradients>;
  for (Optimizer const& optimizer : {momentum, Optimizer{AdamW{}}}) {
    for (double const clip : {0.0, 0.5}) {
      OnGpu<Plain> plain{options_of(optimizer, clip, false)};
      OnGpu<Parts> parts{options_of(optimizer, clip, false)};
      OnGpu<Gradients> gradients{options_of(optimizer, clip, false)};
      auto const wanted = all_of(plain, 4, 3);
      CHECK(all_of(parts, 4, 3) == wanted);
      CHECK(all_of(gradients, 4, 3) == wanted);
    }
  }
}

// Two ranks add in one order, whoever adds.
TEST_CASE("likewise on GPUs of their own, in bf16, recorded and walked") {
  if (!enough_gpus(2)) {
    return;
  }
  Watchdog const watchdog{"parts of states by NCCL"};
#if defined(TANDEM_CUDA_EMULATED)
  cuda_emulator::set_races_shown(true);
#endif
  using Plain = OnGpus<DataParallel<2, Small>, Bf16>;
  using Parts = OnGpus<DataParallel<2, Small, ShardedState>, Bf16>;
  using Gradients = OnGpus<DataParallel<2, Small, ShardedGradients>, Bf16>;
  for (double const clip : {0.0, 0.5}) {
    Plain plain{options_of(momentum, clip, true)};
    Parts walked{options_of(momentum, clip, false)};
    Parts recorded{options_of(momentum, clip, true)};
    auto const wanted = all_of(plain, 7, 2);
    CHECK(all_of(walked, 7, 2) == wanted);
    CHECK(all_of(recorded, 7, 2) == wanted);
    Gradients walked_gradients{options_of(momentum, clip, false)};
    Gradients recorded_gradients{options_of(momentum, clip, true)};
    CHECK(all_of(walked_gradients, 7, 2) == wanted);
    CHECK(all_of(recorded_gradients, 7, 2) == wanted);
  }
#if defined(TANDEM_CUDA_EMULATED)
  CHECK(cuda_emulator::last_report() == "");
  CHECK(cuda_emulator::nccl_misuses() == 0);
  cuda_emulator::set_races_shown(false);
#endif
}

TEST_CASE("the bits are those of one GPU where Reproducible asks for them") {
  if (!enough_gpus(4)) {
    return;
  }
  Watchdog const watchdog{"reproducible parts of states"};
  OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>> one{engine_options()};
  OnGpus<DataParallel<4, Reproducible<>, Small, ShardedState>, Fp32> clipped{recorded_options()};
  CHECK(engine_bits(clipped, 4) == engine_bits(one, 4));
  TrainerOptions options = engine_options();
  options.clip_norm = 0.0;
  OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>> free{options};
  options.record = true;
  OnGpus<DataParallel<4, Reproducible<>, Small, ShardedState>, Fp32> parts{options};
  CHECK(engine_bits(parts, 4) == engine_bits(free, 4));
}

TEST_CASE("a file of parts is that of one GPU, and each rank has its part of what it says") {
  Watchdog const watchdog{"a file of parts"};
  TemporaryFolder const folder;
  OnGpu<DataParallel<3, Small>> plain{options_of(AdamW{}, 0.0, false)};
  OnGpu<DataParallel<3, Small, ShardedState>> parts{options_of(AdamW{}, 0.0, false)};
  engine_step(plain, 0);
  plain.save(folder.file("plain"));
  parts.load(folder.file("plain"));
  parts.save(folder.file("parts"));
  CHECK(content(folder.file("parts")) == content(folder.file("plain")));
  CHECK(engine_step(parts, 1).loss == engine_step(plain, 1).loss);
  CHECK(all_of(parts, 2, 3) == all_of(plain, 2, 3));
  auto const data = dataset(TinyNet::input::shape, 5, largest_batch, 3);
  CHECK(parts.evaluate(data).loss == plain.evaluate(data).loss);  // of averages
  using Own = DeviceOf<decltype(parts)>;
  CHECK(parts.memory(1).optimizer_state ==
        3 * std::int64_t{sizeof(float)} * Own::layout.trained / 3);
}

#if defined(TANDEM_CUDA_EMULATED)

TEST_CASE("gradients are scattered and parameters gathered, bucket by bucket") {
  Watchdog const watchdog{"calls of parts"};
  using Two = OnGpus<DataParallel<2, Small, ShardedState>, Fp32>;
  Two trainer{options_of(momentum, 0.0, true)};
  using Own = DeviceOf<Two>;
  for (bool const captured : {false, true}) {
    cuda_emulator::clear_nccl_calls();
    engine_step(trainer, 0);
    std::int64_t scattered = 0;
    std::int64_t gathered = 0;
    for (auto const& call : cuda_emulator::nccl_calls(1)) {
      CHECK(call.captured == captured);
      auto const count = static_cast<std::int64_t>(call.count);  // of a rank
      scattered += call.operation == "ncclReduceScatter" ? count : 0;
      gathered += call.operation == "ncclAllGather" ? count : 0;
    }
    CHECK(scattered == Own::layout.trained / 2);
    CHECK(gathered == Own::layout.trained / 2);
    CHECK(cuda_emulator::nccl_calls(1).size() == 2 * std::size_t{Own::layout.buckets} + 1);
  }
}

#endif

}  // namespace sharded_state_test
