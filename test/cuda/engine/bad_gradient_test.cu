// SPDX-License-Identifier: Apache-2.0

/// @file
/// A gradient that is not finite ends the step on GPUs, too, before a weight has changed: of
/// replicas, stages, slices, shares, and rows; walked, recorded and replayed.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include <tandem/comm/nccl/transport.hpp>

#include <bad_gradient.hpp>

#include "sharded_support.hpp"

namespace tandem::test {
namespace bad_gradient_of_gpus {

template <class S, template <int> class Transport = VirtualTransport>
using OnDevice =
    Trainer<CliffNet, S, BasicCuda<Portable, Fp32>, SoftmaxCrossEntropy<>, Accuracy, Transport>;

TEST_CASE("a gradient that is not finite, of a loss that is, changes nothing on GPUs either") {
  check_bad_gradient<OnDevice<SingleDevice<Microbatches<2>>>>();
  check_bad_gradient<
      OnDevice<Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>>>();
}

TEST_CASE("where one of several GPUs alone knows that its gradient is not finite") {
  if (enough_gpus(2)) {
    NoRaces const guard;
    check_bad_gradient<OnDevice<DataParallel<2, ShardedGradients>, NcclTransport>>();
    check_bad_gradient<OnDevice<TensorParallel<2>, NcclTransport>>();
  }
}

}  // namespace bad_gradient_of_gpus
}  // namespace tandem::test
