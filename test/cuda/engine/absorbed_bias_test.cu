// SPDX-License-Identifier: Apache-2.0

/// @file
/// Networks with biases in front of batch norms train on a GPU as the portable kernels of Host do.

#include <tandem/cuda.cuh>

#include <absorbed_bias.hpp>
#include <one_rank.hpp>

namespace tandem::test {
namespace absorbed_bias_test {

using Net = BiasedNet<BatchNorm2d>;

template <class S, class Kernels, class Precision, class Of = Net>
using OnGpu = Trainer<Of, S, BasicCuda<Kernels, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                      VirtualTransport>;

template <class One, class Many>
void check(Names absorbed = all_absorbed) {
  check_trains_alike<Trainer<Net, One, ExactHost>, OnGpu<Many, Portable, Fp64>>(1e-11, absorbed);
}

TEST_CASE("one GPU, whole batches and microbatches") {
  check<SingleDevice<>, SingleDevice<>>();
  check<SingleDevice<Microbatches<3>>, SingleDevice<Microbatches<3>>>();
}

TEST_CASE("replicas, one of them without samples") {
  check<SingleDevice<Microbatches<3>, Weighted<4, 0, 3>>, DataParallel<3, Weighted<4, 0, 3>>>();
}

TEST_CASE("a pipeline whose cut lies between a convolution and its norm, and one recomputed") {
  using Four = SingleDevice<Microbatches<4>>;
  check<Four, Pipeline<OneFOneB, 4, Split<5>, Split<7>>>(
      {"0.bias", "3.0.0.bias", "3.1.0.bias", "7.body.0.bias"});
  check<Four, Pipeline<Chimera, 4, Split<3>, Split<9>, Checkpoint<Every<2>>>>();
}

TEST_CASE("synchronized statistics") {
  check_trains_alike<Trainer<Net, SingleDevice<>, ExactHost>,
                     OnGpu<DataParallel<2>, Portable, Fp64, BiasedNet<SyncBatchNorm2d>>>(1e-11);
}

TEST_CASE("fp32: training and checkpoints, the convolutions of both libraries") {
  constexpr double bound = 2e-4;  // four steps on few and small images
  using Exact = Trainer<Net, SingleDevice<>, BasicHost<Portable>>;
  check_trains_alike<Trainer<Net, SingleDevice<>, ExactHost>,
                     OnGpu<SingleDevice<>, Portable, Fp32>>(bound);
  check_checkpoints<Exact, OnGpu<SingleDevice<>, Portable, Fp32>>(bound);
#if defined(TANDEM_CUDNN)
  check_trains_alike<Trainer<Net, SingleDevice<>, ExactHost>, OnGpu<SingleDevice<>, CuDnn, Fp32>>(
      bound);
#endif
}

}  // namespace absorbed_bias_test
}  // namespace tandem::test
