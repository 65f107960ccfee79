// SPDX-License-Identifier: Apache-2.0

/// @file
/// Replicas on GPUs that each have a part of the optimizer's states: the bits of those that have
/// all, recorded and walked, and the same files.

#include <doctest/doctest.h>

#include <cstdint>
#include <rank_of.hpp>
#include <string>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "sharded_support.hpp"

namespace sharded_state_test {

using namespace tandem;
using namespace tandem::test;

TEST_CASE("a part of the states each gives the bits of all of them each, ranks of one GPU") {
  Watchdog const watchdog{"parts of states"};
  using Plain = DataParallel<3, SmallBuckets>;
  using Parts = DataParallel<3, SmallBuckets, ShardedState>;
  using Gradients = DataParallel<3, SmallBuckets, ShardedGradients>;
  for (Optimizer const& optimizer : {momentum, Optimizer{AdamW{}}}) {
    for (double const clip : {0.0, 0.5}) {
      OnGpu<Plain> plain{sharded_options(optimizer, clip, false)};
      OnGpu<Parts> parts{sharded_options(optimizer, clip, false)};
      OnGpu<Gradients> gradients{sharded_options(optimizer, clip, false)};
      auto const wanted = sharded_bits(plain, 4, 3);
      CHECK(sharded_bits(parts, 4, 3) == wanted);
      CHECK(sharded_bits(gradients, 4, 3) == wanted);
    }
  }
}

// Two ranks add in one order, whoever adds.
TEST_CASE("likewise on GPUs of their own, in bf16, recorded and walked") {
  if (!enough_gpus(2)) {
    return;
  }
  Watchdog const watchdog{"parts of states by NCCL"};
  NoRaces const races;
  using Plain = TinyOnGpus<DataParallel<2, SmallBuckets>, Bf16>;
  using Parts = TinyOnGpus<DataParallel<2, SmallBuckets, ShardedState>, Bf16>;
  using Gradients = TinyOnGpus<DataParallel<2, SmallBuckets, ShardedGradients>, Bf16>;
  for (double const clip : {0.0, 0.5}) {
    Plain plain{sharded_options(momentum, clip, true)};
    Parts walked{sharded_options(momentum, clip, false)};
    Parts recorded{sharded_options(momentum, clip, true)};
    auto const wanted = sharded_bits(plain, 7, 2);
    CHECK(sharded_bits(walked, 7, 2) == wanted);
    CHECK(sharded_bits(recorded, 7, 2) == wanted);
    Gradients walked_gradients{sharded_options(momentum, clip, false)};
    Gradients recorded_gradients{sharded_options(momentum, clip, true)};
    CHECK(sharded_bits(walked_gradients, 7, 2) == wanted);
    CHECK(sharded_bits(recorded_gradients, 7, 2) == wanted);
  }
}

TEST_CASE("the bits are those of one GPU where Reproducible asks for them") {
  if (!enough_gpus(4)) {
    return;
  }
  Watchdog const watchdog{"reproducible parts of states"};
  OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>> one{engine_options()};
  TinyOnGpus<DataParallel<4, Reproducible<>, SmallBuckets, ShardedState>, Fp32> clipped{
      recorded_options()};
  CHECK(engine_bits(clipped, 4) == engine_bits(one, 4));
  TrainerOptions options = engine_options();
  options.clip_norm = 0.0;
  OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>> free{options};
  options.record = true;
  TinyOnGpus<DataParallel<4, Reproducible<>, SmallBuckets, ShardedState>, Fp32> parts{options};
  CHECK(engine_bits(parts, 4) == engine_bits(free, 4));
}

TEST_CASE("a file of parts is that of one GPU, and each rank has its part of what it says") {
  Watchdog const watchdog{"a file of parts"};
  TemporaryFolder const folder;
  OnGpu<DataParallel<3, SmallBuckets>> plain{sharded_options(AdamW{}, 0.0, false)};
  OnGpu<DataParallel<3, SmallBuckets, ShardedState>> parts{sharded_options(AdamW{}, 0.0, false)};
  engine_step(plain, 0);
  plain.save(folder.file("plain"));
  parts.load(folder.file("plain"));
  parts.save(folder.file("parts"));
  CHECK(content(folder.file("parts")) == content(folder.file("plain")));
  CHECK(engine_step(parts, 1).loss == engine_step(plain, 1).loss);
  CHECK(sharded_bits(parts, 2, 3) == sharded_bits(plain, 2, 3));
  auto const data = dataset(TinyNet::input::shape, 5, largest_batch, 3);
  CHECK(parts.evaluate(data).loss == plain.evaluate(data).loss);  // of averages
  using Own = DeviceOf<decltype(parts)>;
  CHECK(parts.memory(1).optimizer_state ==
        3 * std::int64_t{sizeof(float)} * Own::layout.trained / 3);
}

#if defined(TANDEM_CUDA_EMULATED)

TEST_CASE("gradients are scattered and parameters gathered, bucket by bucket") {
  Watchdog const watchdog{"calls of parts"};
  using Two = TinyOnGpus<DataParallel<2, SmallBuckets, ShardedState>, Fp32>;
  Two trainer{sharded_options(momentum, 0.0, true)};
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
