// SPDX-License-Identifier: Apache-2.0

/// @file
/// The Trainer on a GPU: epochs with steps queued ahead, evaluation, checkpoints, memory, traces.

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <rank_of.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#endif

namespace train_test {

using namespace tandem;
using namespace tandem::test;

template <class B>
inline constexpr bool is_backend = ComputeBackend<B>&& HasVerbs<B>;
static_assert(is_backend<Cuda> && is_backend<BasicCuda<Portable, Bf16>>);
static_assert(std::is_same_v<BasicCuda<>, BasicCuda<Portable, Tf32>>);
static_assert(ParameterOp<Op<Linear<3>, Cuda>, Cuda> && BackwardOp<Op<ReLU, Cuda>, Cuda>);
static_assert(PhasedOp<Op<SyncBatchNorm2d<>, Cuda>, Cuda>);

using Gpu = OnGpu<SingleDevice<>>;
using Host32 = OnHost<SingleDevice<>>;

TensorDataset<std::int32_t> const data = dataset(Gpu::input, 5, 70, 3);

TEST_CASE("epochs with steps queued ahead are epochs of single steps") {
  Watchdog const watchdog{"epochs"};
  TrainerOptions options = engine_options();
  options.shuffle = false;
  Gpu ahead{options};
  Gpu single{options};
  Samples<float> const all{Gpu::input, 5, 70, 3};
  auto const inputs = static_cast<std::size_t>(Gpu::input.elements());
  for (int epoch = 0; epoch < 3; ++epoch) {
    EpochResult const result = ahead.train(data, epoch);
    double loss = 0.0;
    for (std::size_t first = 0; first < 70; first += largest_batch) {
      std::size_t const count = std::min<std::size_t>(largest_batch, 70 - first);
      loss += single
                  .step(std::span{all.x}.subspan(first * inputs, count * inputs),
                        std::span{all.y}.subspan(first, count))
                  .loss *
              static_cast<double>(count);
    }
    CHECK(result.samples == 70);
    CHECK(result.steps == 6);
    CHECK(result.loss == loss / 70);
  }
  CHECK(ahead.position().step == 18);
  CHECK(ahead.position().epoch == 3);
  CHECK(first_difference(ahead.parameters(), single.parameters()) == "");
}

TEST_CASE("a loss that is no number: the steps queued behind it have not happened either") {
  Watchdog const watchdog{"non-finite loss"};
  TrainerOptions options = engine_options();
  options.shuffle = false;
  Samples<float> samples{Gpu::input, 5, 70, 3};
  auto const inputs = static_cast<std::size_t>(Gpu::input.elements());
  samples.x[30 * inputs] = std::numeric_limits<float>::quiet_NaN();  // in the third batch of 13
  auto const poisoned = dataset(Gpu::input, samples);
  Gpu trainer{options};
  Gpu untouched{options};
  std::string const text = message<NonFiniteLoss>([&] { trainer.train(poisoned, 0); });
  CHECK(contains(text, "step 2: the loss of microbatch 0 on rank 0 is not finite"));
  CHECK(trainer.position().step == 2);
  CHECK(trainer.position().position == 26);
  for (std::size_t b = 0; b < 2; ++b) {
    untouched.step(std::span{samples.x}.subspan(b * 13 * inputs, 13 * inputs),
                   std::span{samples.y}.subspan(b * 13, 13));
  }
  CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
  engine_step(trainer, 0);  // and steps update again
  engine_step(untouched, 0);
  CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
}

TEST_CASE("a bad batch in an epoch leaves no step queued") {
  Gpu trainer{engine_options()};
  Samples<float> samples{Gpu::input, 5, 40, 3};
  samples.y[30] = 5;  // no class of five
  CHECK_THROWS_AS(trainer.train(dataset(Gpu::input, samples), 0), ContractError);
  CHECK(trainer.position().step >= 0);
  Samples<float> const good{Gpu::input, 5, 13, 3};
  CHECK(std::isfinite(trainer.step(good.x, good.y).loss));
}

TEST_CASE("evaluation and prediction are the host's") {
  Host32 host{engine_options()};
  Gpu gpu{engine_options()};
  host.train(data, 0);
  gpu.train(data, 0);
  Evaluation const a = host.evaluate(data);
  Evaluation const b = gpu.evaluate(data);
  CHECK(b.samples == a.samples);
  CHECK(std::fabs(a.loss - b.loss) <= 1e-3 * a.loss);
  CHECK(std::fabs(a.accuracy - b.accuracy) <= 2.0 / 70);
  std::vector<float> const wanted = host.predict(data);
  std::vector<float> const outputs = gpu.predict(data);
  REQUIRE(outputs.size() == wanted.size());
  CHECK(relative_error(std::span{outputs}, std::span{wanted}) <= 1e-3);
}

/// A network whose output is an image, so that its layout shows.
struct ImageNet
    : Network<Image<3, 5, 4>, Sequential<Conv2d<6, Kernel<3>, Padding<1>>, ReLU, Conv2d<2>>> {};

TEST_CASE("an image comes out as (C, H, W)") {
  using OnCpu = Trainer<ImageNet, SingleDevice<>, Host, MeanSquaredError>;
  using OnCuda = Trainer<ImageNet, DataParallel<2>, BasicCuda<Portable, Fp32>, MeanSquaredError,
                         NoMetric, VirtualTransport>;
  OnCpu host{{.batch = 4, .threads_per_device = 1}};
  OnCuda gpu{{.batch = 4}};
  Samples<float> const samples{OnCpu::input, 5, 7};
  TensorDataset<float> const images{OnCpu::input, samples.x, std::vector<float>(7 * 40, 0.5F), 40};
  CHECK(relative_error(std::span<float const>{gpu.predict(images)},
                       std::span<float const>{host.predict(images)}) <= 1e-5);
  EpochResult const a = host.train(images, 0);
  EpochResult const b = gpu.train(images, 0);
  CHECK(std::fabs(a.loss - b.loss) <= 1e-5 * a.loss);
}

/// Each third sample is ignored.
struct Weights {
  static constexpr float class_weights[] = {1.0F, 2.0F, 0.5F};
};
struct ThreeNet : Network<Vector<6>, Sequential<Linear<8>, ReLU, Linear<3>>> {};

TEST_CASE("weights, ignored labels and several metrics: the host's, step by step as recorded") {
  using L = SoftmaxCrossEntropy<Weights, IgnoreIndex<>>;
  using M = Metrics<Accuracy, TopK<2>>;
  Trainer<ThreeNet, SingleDevice<Microbatches<2>>, BasicHost<Portable, Fp64>, L, M> host{
      {.batch = 8, .threads_per_device = 1}};
  Trainer<ThreeNet, DataParallel<2>, BasicCuda<Portable, Fp64>, L, M, VirtualTransport> gpu{
      {.batch = 8}};
  for (int s = 0; s < 4; ++s) {  // each with other weights of its own
    Samples<double> samples{vector_shape(6), 3, 8, static_cast<std::uint64_t>(s)};
    for (std::size_t i = 0; i < samples.y.size(); i += static_cast<std::size_t>(2 + s % 2)) {
      samples.y[i] = -1;
    }
    StepResult const a = host.step(samples.x, samples.y);
    StepResult const b = gpu.step(samples.x, samples.y);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12);
    CHECK(a.weight == b.weight);
    CHECK(a.counted == b.counted);
    CHECK(a.metrics["accuracy"] == b.metrics["accuracy"]);
    CHECK(a.metrics["top-2 accuracy"] == b.metrics["top-2 accuracy"]);
    CHECK(b.metric == b.metrics["accuracy"]);
  }
  CHECK(difference(gpu.parameters(), host.parameters(), Part::value).error <= 1e-12);
}

TEST_CASE("checkpoints cross between host and GPU without a change") {
  TemporaryFolder const folder;
  Gpu gpu{engine_options()};
  gpu.train(data, 0);
  gpu.save(folder.file("gpu.safetensors"));
  Host32 host{engine_options()};
  host.load(folder.file("gpu.safetensors"));
  CHECK(first_difference(host.parameters(), gpu.parameters()) == "");
  CHECK(host.position().step == gpu.position().step);
  host.train(data, 1);
  host.save(folder.file("host.safetensors"));
  OnGpu<DataParallel<2>> two{engine_options()};
  two.load(folder.file("host.safetensors"));
  CHECK(first_difference(two.parameters(), host.parameters()) == "");
  CHECK(first_difference(two.parameters(1), host.parameters()) == "");
  Evaluation const a = host.evaluate(data);
  CHECK(std::fabs(two.evaluate(data).loss - a.loss) <= 1e-5 * a.loss);
}

TEST_CASE("a rounded copy of the weights follows load()") {
  TemporaryFolder const folder;
  OnGpu<SingleDevice<>, Bf16> first{engine_options()};
  first.train(data, 0);
  first.save(folder.file("bf16.safetensors"));
  TrainerOptions other = engine_options();
  other.seed = 99;
  OnGpu<SingleDevice<>, Bf16> second{other};
  second.load(folder.file("bf16.safetensors"));
  CHECK(second.evaluate(data).loss == first.evaluate(data).loss);
}

TEST_CASE("bf16 learns as fp32 does") {
  TrainerOptions const options{
      .batch = 14, .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F}, .seed = 1};
  OnGpu<SingleDevice<>, Fp32> full{options};
  OnGpu<SingleDevice<>, Bf16> half{options};
  double exact = 0.0;
  double rounded = 0.0;
  double const begin = half.evaluate(data).loss;
  for (auto epoch : epochs(4)) {
    exact = full.train(data, epoch).loss;
    rounded = half.train(data, epoch).loss;
  }
  CHECK(rounded < begin);
  CHECK(std::fabs(exact - rounded) < 0.1 * exact);
}

template <class Trainer>
void check_memory() {
  Trainer trainer{engine_options()};
  for (int s = 0; s < 3; ++s) {
    engine_step(trainer, s);
  }
  for (int rank = 0; rank < trainer.workers().size(); ++rank) {
    std::uint64_t used = 0;
    REQUIRE(cudaMemPoolGetAttribute(rank_of(trainer, rank).device().pool.get(),
                                    cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
    auto const planned = static_cast<std::uint64_t>(trainer.memory(rank).total());
    CHECK(used >= planned);
    CHECK(used <=
          planned + 40 * 512);  // a pool rounds each of its 20 to 40 buffers up to 512 bytes
  }
}

TEST_CASE("memory is what was planned, and no step allocates") {
  check_memory<Gpu>();
  check_memory<OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>, Bf16>>();
  check_memory<OnGpu<DataParallel<2, Wire<BFloat16>>>>();
}

TEST_CASE("a trace shows buckets on their way while backward goes on") {
  Watchdog const watchdog{"trace"};
#if defined(TANDEM_CUDA_EMULATED)
  cuda_emulator::set_schedule(cuda_emulator::Schedule::eager);  // as a GPU does
#endif
  using Two = OnGpu<DataParallel<2, BucketBytes<64, 256>>>;
  Two trainer{engine_options()};
  engine_step(trainer, 0);
  Samples<float> const batch{Gpu::input, 5, largest_batch};
  Trace const trace = trainer.trace_step(batch.x, batch.y);
  CHECK(trainer.position().step == 2);
  for (int rank = 0; rank < 2; ++rank) {
    auto const find = [&](std::string const& name) {
      auto const at = std::find_if(trace.events.begin(), trace.events.end(),
                                   [&](auto const& e) { return e.rank == rank && e.name == name; });
      REQUIRE(at != trace.events.end());
      return *at;
    };
    TraceEvent const backward = find("0B0");
    TraceEvent const first = find("bucket 0");
    CHECK(first.lane == Lane::communication);
    CHECK(backward.lane == Lane::compute);
    CHECK(first.begin_us < backward.end_us);
    CHECK(find("0U").begin_us >= find("losses").end_us);
    CHECK(find("0F0").end_us >= find("0F0").begin_us);
  }
}

TEST_CASE("debugging: what CUDA complains of names the action") {
  tandem::cuda::RankDevice device{tandem::cuda::Device{0}};
  auto const wait = [](auto& own, auto const& event) {
    own.wait(
        event, [] {}, std::chrono::milliseconds{1000});
  };
  bool done = false;
  device.debug("0F1", wait, [&] { done = true; });
  CHECK(done);
  std::string const text = message<Error>(
      [&] { device.debug("0B3", wait, [] { tandem::cuda::check(cudaErrorInvalidValue); }); });
  CHECK(contains(text, "action 0B3: "));
}

TEST_CASE("debugging: a walk that waits after each action trains alike") {
  TrainerOptions options = engine_options();
  options.record = false;
  Gpu walked{options};
  Gpu replayed{engine_options()};
  CHECK(engine_step(walked, 0).loss == engine_step(replayed, 0).loss);
}

}  // namespace train_test
