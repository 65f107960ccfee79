// SPDX-License-Identifier: Apache-2.0
// Chunks of time on GPUs: the numbers of one that has whole sequences, and Host's.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/cuda.cuh>
#include <tandem/models/gpt.hpp>

#include <one_rank.hpp>
#include <support/chunk_runs.hpp>

#if defined(TANDEM_NCCL)
#include "nccl_support.hpp"
#endif

namespace chunks_test {

template <class S, class Net = Layers<>, class Precision = Fp64, class Kernels = Portable>
using OnGpu = Run<S, Net, BasicCuda<Kernels, Precision>, VirtualTransport>;

constexpr double bound = 1e-12;  // about 50 roundings of numbers of size 1 each way, a thousandfold

/// Dropout of all kinds: of a sum that a norm computes, too.
using Gpt = models::Gpt<words, rows, 8, 2, 2, Percent<20>>;

template <int Count>
using Wave = Pipeline<OneFOneB, 2, Chunks<Count>, Split<3>, Split<5>>;

TEST_CASE("states from chunk to chunk on GPUs: whole sequences' numbers, and Host's") {
  OnGpu<SingleDevice<Microbatches<2>>> const one;
  OnGpu<Wave<3>> const three;
  CHECK(distance(one.numbers, three.numbers) <= bound);
  CHECK(distance(Run<Wave<3>>{}.numbers, three.numbers) <= bound);
  CHECK(distance(one.numbers, OnGpu<Wave<2>>{}.numbers) <= bound);
  CHECK(distance(one.numbers, OnGpu<Wave<6>>{}.numbers) <= bound);  // of one row
  CHECK(three.trainer.memory(0).states == Run<Wave<3>>{}.trainer.memory(0).states);
}

TEST_CASE("Stateful layers in chunks on GPUs, some samples short, steps that no chunks divide") {
  std::vector<std::int32_t> const lengths{6, 1, 2, 3, 4, 5, 6};
  using One = SingleDevice<>;
  using Two = Pipeline<GPipe, 1, Chunks<3>, Split<4>, Split<4>>;
  using Net = Layers<Stateful>;
  CHECK(distance(OnGpu<One, Net>{lengths}.numbers, OnGpu<Two, Net>{lengths}.numbers) <= bound);
  CHECK(distance(Run<Two, Net>{lengths}.numbers, OnGpu<Two, Net>{lengths}.numbers) <= bound);
  for (int const time : {6, 5, 4, 1}) {
    CAPTURE(time);
    OnGpu<Two, Net> const two{{}, time};
    CHECK(distance(OnGpu<One, Net>{{}, time}.numbers, two.numbers) <= bound);
  }
}

struct Rows : Network<Tokens<rows, words>,
                      Sequential<Embedding<words, 5, RowGradient>, Lstm<6>, Vocabulary<words>>> {};

TEST_CASE("gradients of rows in chunks on GPUs, each chunk's added to those of later ones") {
  using Two = Pipeline<OneFOneB, 2, Chunks<3>, Split<1>, Split<2>>;
  OnGpu<Two, Rows> const two;
  CHECK(distance(OnGpu<SingleDevice<Microbatches<2>>, Rows>{}.numbers, two.numbers) <= bound);
  constexpr DeviceMemory most = device_memory<Rows, Two, Sgd, Fp64>(batch, 0);
  CHECK(two.trainer.memory(0).gradients <= most.gradients);
}

TEST_CASE("keys of earlier chunks on GPUs: whole sequences' numbers, and Host's") {
  OnGpu<SingleDevice<Microbatches<2>>, Gpt> const one;
  using Two = Pipeline<OneFOneB, 2, Chunks<3>, Split<3>, Split<3>>;
  OnGpu<Two, Gpt> const two;
  CHECK(distance(one.numbers, two.numbers) <= bound);
  CHECK(distance(Run<Two, Gpt>{}.numbers, two.numbers) <= bound);
  CHECK(two.trainer.memory(0).states == Run<Two, Gpt>{}.trainer.memory(0).states);
}

TEST_CASE("keys of heads, angles of rows and lengths in chunks on GPUs, both gradients apart") {
  std::vector<std::int32_t> const lengths{6, 1, 2, 3, 4, 5, 6};
  using One = SingleDevice<>;
  using Two = Pipeline<ZeroBubbleH1, 1, Chunks<2>, Split<3>, Split<3>>;
  OnGpu<Two, Llama> const two{lengths};
  CHECK(distance(OnGpu<One, Llama>{lengths}.numbers, two.numbers) <= bound);
  CHECK(distance(Run<Two, Llama>{lengths}.numbers, two.numbers) <= bound);
  for (int const time : {6, 5, 1}) {
    CAPTURE(time);
    CHECK(distance(OnGpu<One, Llama>{{}, time}.numbers, OnGpu<Two, Llama>{{}, time}.numbers) <=
          bound);
  }
}

TEST_CASE("chunks on GPUs from both ends of a pipeline, in rounds, and in more dimensions") {
  OnGpu<SingleDevice<Microbatches<4>>> const one;
  using Both = Pipeline<DualPipe, 4, Chunks<2>, Split<4>, Split<4>>;
  CHECK(distance(one.numbers, OnGpu<Both>{}.numbers) <= bound);
  using Rounds = Pipeline<Interleaved<2>, 4, Chunks<3>, Split<2>, Split<2>, Split<2>, Split<2>>;
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  CHECK_THROWS_WITH_AS(OnGpu<Rounds>{}, doctest::Contains("the step would not end"), Error);
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);  // as NCCL's ranks begin
  CHECK(distance(one.numbers, OnGpu<Rounds>{}.numbers) <= bound);
  using S = Hybrid<DataParallel<2, ShardedState>, Pipeline<GPipe, 1, Chunks<2>, Split<3>, Split<3>>,
                   TensorParallel<2>>;
  OnGpu<SingleDevice<Microbatches<2>>, Gpt> const whole;
  CHECK(distance(whole.numbers, OnGpu<S, Gpt>{}.numbers) <= bound);
  using Shared = Hybrid<Pipeline<GPipe, 1, Chunks<2>, Split<3>, Split<3>>, TensorParallel<2>>;
  CHECK(distance(OnGpu<SingleDevice<>, Llama>{}.numbers, OnGpu<Shared, Llama>{}.numbers) <= bound);
}

TEST_CASE("chunks on GPUs in fp32 and in bf16 by cuDNN, whose attention has none") {
  using One = SingleDevice<Microbatches<2>>;
  using Two = Pipeline<OneFOneB, 2, Chunks<2>, Split<3>, Split<3>>;
  CHECK(distance(OnGpu<One, Llama, Fp32>{}.numbers, OnGpu<Two, Llama, Fp32>{}.numbers) <= 1e-4);
  CHECK(distance(OnGpu<One, Gpt, Bf16, CuDnn>{}.numbers, OnGpu<Two, Gpt, Bf16, CuDnn>{}.numbers) <=
        0.05);
  CHECK(
      distance(
          OnGpu<One, Layers<>, Bf16>{}.numbers,
          OnGpu<Pipeline<OneFOneB, 2, Chunks<3>, Split<3>, Split<5>>, Layers<>, Bf16>{}.numbers) <=
      0.05);
}

/// What each device has allocated, against what is said without one.
template <class Net, class S>
void check_memory() {
  OnGpu<S, Net, Fp32> const run;
  auto const check = [&]<int D>() {
    CAPTURE(D);
    MemoryReport const own = run.trainer.memory(D);
    DeviceMemory const most = device_memory<Net, S, Sgd, Fp32>(batch, D);
    CHECK(own.kept <= most.kept);
    CHECK(own.kept > most.kept / 2);
    CHECK(own.transient <= most.passing + most.activation_gradients);
    CHECK(own.states == most.states);
  };
  check.template operator()<0>();
  check.template operator()<1>();
}

TEST_CASE("fits<> has the memory of GPUs whose rows come in chunks") {
  check_memory<Layers<Stateful>, Wave<3>>();
  check_memory<Gpt, Pipeline<ZeroBubbleH1, 2, Chunks<2>, Split<3>, Split<3>>>();
  check_memory<Llama, Pipeline<GPipe, 2, Chunks<2>, Split<3>, Split<3>>>();
}

#if defined(TANDEM_NCCL)
/// Walked, recorded and replayed, one GPU a rank.
template <class S, class Net, class One>
void check_recorded() {
  if (!test::enough_gpus(S::ranks)) {
    return;
  }
  test::NoRaces const races;
  using Many = Run<S, Net, BasicCuda<Portable, Fp64>, NcclTransport>;
  std::vector<double> const recorded = Many{{}, rows, {}, true}.numbers;
  CHECK(recorded == Many{{}, rows, {}, false}.numbers);
  CHECK(distance(recorded, OnGpu<One, Net>{}.numbers) <= bound);
}

TEST_CASE("chunks by NCCL: recorded steps have the bits of walked ones, and nothing races") {
  using Two = SingleDevice<Microbatches<2>>;
  check_recorded<Wave<3>, Layers<Stateful>, Two>();
  check_recorded<Pipeline<ZeroBubbleH1, 2, Chunks<2>, Split<3>, Split<3>>, Gpt, Two>();
  check_recorded<Hybrid<DataParallel<2>, Pipeline<GPipe, 2, Chunks<2>, Split<3>, Split<3>>>, Llama,
                 SingleDevice<Microbatches<4>>>();
}
#endif

}  // namespace chunks_test
