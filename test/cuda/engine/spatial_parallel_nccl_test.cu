// SPDX-License-Identifier: Apache-2.0

/// @file
/// GPUs that each have a tile of every image and exchange pixels by NCCL: recorded steps have the
/// bits of walked ones, nothing races, and replicas and stages of them train as one device does.

#include <doctest/doctest.h>

#include <tandem/cuda.cuh>

#if defined(TANDEM_CUDNN) && defined(TANDEM_NCCL)

#include <type_traits>

#include <compare.hpp>
#include <support/watchdog.hpp>
#include <tiled_images.hpp>

#include "nccl_support.hpp"
#include "support.hpp"
#include "tiles_support.hpp"

namespace spatial_parallel_nccl_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

template <class S, class Precision, class Net = TiledBlocks, class Kernels = CuDnn>
using OnGpus =
    Trainer<Net, S, BasicCuda<Kernels, Precision>, SoftmaxCrossEntropy<>, Accuracy, NcclTransport>;

/// Sums of tiles are cut otherwise than the host's.
/// @param bound  relative, of losses and norms, and of parameters
template <class S, class Precision, class Kernels>
void check_as_host(double bound) {
  if (!enough_gpus(S::ranks)) {
    return;
  }
  Watchdog const watchdog{"tiles by NCCL"};
  NoRaces const races;
  using One = SingleDevice<Microbatches<S::batching.all_microbatches()>>;
  using Parted = DataParallel<S::batching.replicas, Microbatches<S::batching.microbatches>>;
  using Reference = std::conditional_t<(S::batching.replicas > 1), Parted, One>;
  OnHost<Reference, Precision, TiledBlocks> one{engine_options()};
  OnGpus<S, Precision, TiledBlocks, Kernels> many{recorded_options()};
  check_as_one_device(one, many, S::ranks / S::devices, 7, bound, {Part::value});
}

using Parts = Pipeline<OneFOneB, 2, Split<3>, Split<5>>;

TEST_CASE("GPUs with tiles train as the host does, with cuDNN, of siblings that are one") {
  check_as_host<SpatialParallel<2, 2, Microbatches<2>>, Fp32, CuDnn>(1e-4);
}

TEST_CASE("GPUs with tiles: replicas and stages of them train as replicas and one device do") {
  check_as_host<Hybrid<DataParallel<2>, SpatialParallel<1, 2, Microbatches<2>>>, Fp64, Portable>(
      1e-12);
  check_as_host<Hybrid<Parts, SpatialParallel<2, 1>>, Fp64, Portable>(1e-12);
}

template <class S, class Precision, class Net = TiledBlocks>
void check_recorded(int branches = 1) {
  if (!enough_gpus(S::ranks)) {
    return;
  }
  Watchdog const watchdog{"tiles, walked and recorded"};
  NoRaces const races;
  TrainerOptions options = recorded_options();
  options.cuda.branches = branches;
  OnGpus<S, Precision, Net> recorded{options};
  OnGpus<S, Precision, Net> walked{engine_options()};
  CHECK(engine_bits(recorded, 7) == engine_bits(walked, 7));
  for (int rank = 1; rank < S::ranks / S::devices; ++rank) {
    CHECK(first_difference(recorded.parameters(rank), walked.parameters()) == "");
  }
}

TEST_CASE("GPUs with tiles: recorded steps have the bits of walked ones, on all of them") {
  check_recorded<SpatialParallel<2, 2, Microbatches<2>>, Bf16>();
  check_recorded<SpatialParallel<1, 3, Checkpoint<Every<2>>>, Fp32, Tiles>();
  check_recorded<Hybrid<Parts, SpatialParallel<2, 1>>, Fp32>();
}

TEST_CASE("GPUs with tiles: branches at the same time, whose halos come in one order") {
  check_recorded<SpatialParallel<2, 1>, Fp32>(3);
}

TEST_CASE("GPUs with tiles: two passes of a pair at the same time, each with its messages") {
  using Pairs = Pipeline<DualPipeV, 4, Split<1>, Split<2>, Split<2>, Split<3>>;
  check_as_host<Hybrid<Pairs, SpatialParallel<2, 1>>, Fp64, Portable>(1e-12);
}

}  // namespace spatial_parallel_nccl_test

#endif
