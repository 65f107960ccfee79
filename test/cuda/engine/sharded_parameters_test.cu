// SPDX-License-Identifier: Apache-2.0

/// @file
/// Replicas on GPUs that each keep a part of the parameters, gathered as passes read them: the bits
/// of those that have all, recorded and walked, the same files, and the memory of a part and of two
/// buckets.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <compare.hpp>
#include <rank_of.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "sharded_support.hpp"

namespace sharded_parameters_test {

using namespace tandem;
using namespace tandem::test;

template <int N, class... Options>
using Plain = DataParallel<N, SmallBuckets, Options...>;
template <int N, class... Options>
using Parts = DataParallel<N, SmallBuckets, ShardedParameters, Options...>;

/// Some parameters are frozen, so that each rank has them, and all others are averaged.
TrainerOptions options_of(double clip_norm, bool record) {
  TrainerOptions options = sharded_options(momentum, clip_norm, record);
  options.groups = {{.pattern = "0.*", .frozen = true}};
  return options;
}

TEST_CASE("a part of the parameters each gives the bits of all of them each, files and averages") {
  Watchdog const watchdog{"parts of parameters"};
  TemporaryFolder const folder;
  OnGpu<Plain<3>> plain{options_of(0.5, false)};
  OnGpu<Parts<3>> parts{options_of(0.5, false)};
  CHECK(sharded_bits(parts, 4, 3) == sharded_bits(plain, 4, 3));
  auto const data = dataset(TinyNet::input::shape, 5, largest_batch, 3);
  CHECK(parts.evaluate(data).loss == plain.evaluate(data).loss);  // of averages
  parts.save(folder.file("parts"));
  plain.save(folder.file("plain"));
  CHECK(content(folder.file("parts")) == content(folder.file("plain")));
  OnGpu<Parts<3>> other{options_of(0.5, false)};
  other.load(folder.file("plain"));
  CHECK(sharded_bits(other, 1, 3) == sharded_bits(plain, 1, 3));
}

/// Steps of two sizes around an evaluation, which leaves other buckets in the slots than a step:
/// one is recorded right behind it, and replayed behind another.
template <class Trainer>
std::vector<double> bits_around_evaluation(Trainer& trainer) {
  auto const data = dataset(TinyNet::input::shape, 5, 3 * largest_batch, 3);
  engine_step(trainer, 1);
  std::vector<double> bits{trainer.evaluate(data).loss};
  for (int const step : {4, 1, 0, 4, 2}) {
    bits.push_back(engine_step(trainer, step).loss);
  }
  bits.push_back(trainer.evaluate(data).loss);
  auto const behind = sharded_bits(trainer, 7, 2);
  bits.insert(bits.end(), behind.begin(), behind.end());
  return bits;
}

template <class Precision, class Buckets>
void check_recorded() {
  if (!enough_gpus(2)) {
    return;
  }
  Watchdog const watchdog{"parts of parameters by NCCL"};
  NoRaces const races;
  using Shards = DataParallel<2, Buckets, ShardedParameters>;
  auto const options = [](bool record) {
    TrainerOptions all = options_of(0.5, record);
    all.average = {};  // in whose place weights would be brought back behind an evaluation
    return all;
  };
  TinyOnGpus<DataParallel<2, Buckets>, Precision> plain{options(true)};
  TinyOnGpus<Shards, Precision> walked{options(false)};
  TinyOnGpus<Shards, Precision> recorded{options(true)};
  auto const wanted = bits_around_evaluation(plain);
  CHECK(bits_around_evaluation(walked) == wanted);
  CHECK(bits_around_evaluation(recorded) == wanted);
}

// Two ranks add in one order, whoever adds.
TEST_CASE("parts of parameters on GPUs of their own, recorded and walked") {
  check_recorded<Fp32, BucketBytes<64, 1 << 20>>();  // two buckets: all that an evaluation leaves
}
TEST_CASE("parts of parameters in bf16, which products read rounded") {
  check_recorded<Bf16, SmallBuckets>();
}

TEST_CASE("parts of parameters have the bits of one GPU where Reproducible asks for them") {
  if (!enough_gpus(4)) {
    return;
  }
  Watchdog const watchdog{"reproducible parts of parameters"};
  OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>> one{engine_options()};
  TinyOnGpus<Parts<4, Reproducible<>>, Fp32> parts{recorded_options()};
  CHECK(engine_bits(parts, 4) == engine_bits(one, 4));
}

/// What is frozen in the type stands behind the slots.
struct Beginning
    : Network<Image<3, 8, 8>,
              Sequential<Frozen<Conv2d<6, Kernel<3>, Padding<1>>>, ReLU, Conv2d<8, Kernel<3>>, ReLU,
                         MaxPool2d<Kernel<2>>, Flatten, Linear<16>, ReLU, Linear<5>>> {};

TEST_CASE("parts of parameters behind those that are frozen, in bf16") {
  Watchdog const watchdog{"parts behind frozen parameters"};
  OnGpu<Plain<3>, Bf16, Beginning> plain{sharded_options(momentum, 0.5, true)};
  OnGpu<Parts<3>, Bf16, Beginning> parts{sharded_options(momentum, 0.5, true)};
  CHECK(sharded_bits(parts, 4, 3) == sharded_bits(plain, 4, 3));
}

struct Momentum {
  static constexpr int states() { return 1; }
};

template <class Precision>
void check_memory() {
  OnGpu<Parts<3>, Precision, Beginning> trainer{sharded_options(momentum, 0.0, false)};
  using Own = DeviceOf<decltype(trainer)>;
  constexpr DeviceMemory counted = device_memory<Beginning, Parts<3>, Momentum, Precision>(
      largest_batch, 0, WeightAverages::kept);
  static_assert(Own::layout.buckets > 2);
  constexpr auto const& layout = Own::layout;
  constexpr std::int64_t part = layout.trained / 3;
  constexpr std::int64_t read = 2 * largest_bucket(layout) + layout.elements - layout.trained;
  static_assert(layout.buckets > 2 && layout.trained < layout.elements);
  static_assert(counted.parameters == 4 * (part + read));
  static_assert(counted.weights == (sizeof(typename Precision::Scalar) == 4 ? 0 : 2 * read));
  for (int rank = 0; rank < 3; ++rank) {
    MemoryReport const report = trainer.memory(rank);
    CHECK(report.parameters == counted.parameters);
    CHECK(report.weights == counted.weights);
    CHECK(report.gradients == counted.gradients);
    CHECK(report.optimizer_state == counted.optimizer_state);
  }
}

TEST_CASE("a GPU allocates its part and two buckets, and fits<> counts as many") {
  Watchdog const watchdog{"memory of parts"};
  check_memory<Fp32>();
  check_memory<Bf16>();
}

#if defined(TANDEM_CUDA_EMULATED)

// Forward ends where backward begins: two buckets are there.
TEST_CASE("each pass gathers each bucket but the two at the turn, also when it is replayed") {
  Watchdog const watchdog{"calls of parts"};
  using Two = TinyOnGpus<Parts<2>, Fp32>;
  Two trainer{options_of(0.0, true)};
  constexpr auto const& layout = DeviceOf<Two>::layout;
  static_assert(layout.buckets > 2);
  for (bool const captured : {false, true}) {
    cuda_emulator::clear_nccl_calls();
    engine_step(trainer, 0);
    std::int64_t calls = 0;
    std::int64_t gathered = 0;
    for (auto const& call : cuda_emulator::nccl_calls(1)) {
      CHECK(call.captured == captured);
      bool const gathers = call.operation == "ncclAllGather";
      calls += gathers ? 1 : 0;
      gathered += gathers ? static_cast<std::int64_t>(call.count) : 0;  // of a rank
    }
    CHECK(calls == 2 * layout.buckets - 2);
    CHECK(gathered == (2 * layout.trained - layout.bucket_begin[2]) / 2);
  }
}

#endif

}  // namespace sharded_parameters_test
