// SPDX-License-Identifier: Apache-2.0

/// @file
/// Replicas on GPUs with SyncBatchNorm2d train as the host does with BatchNorm2d on the whole
/// batch.

#include <doctest/doctest.h>

#include <cmath>

#include <support/watchdog.hpp>

#include "support.hpp"

namespace synchronized_test {

using namespace tandem;
using namespace tandem::test;

/// A norm with a ReLU and one without.
template <template <class...> class Norm>
struct NormNet
    : Network<Image<3, 6, 6>, Sequential<Conv2d<4, Kernel<3>, NoBias>, Norm<>, ReLU,
                                         Conv2d<4, NoBias>, Norm<>, GlobalAvgPool, Linear<5>>> {};

// Sizes come again, so that recorded steps are replayed.
template <class S>
void check_synchronized() {
  Watchdog const watchdog{"synchronized statistics on GPUs"};
  OnHost<SingleDevice<>, Fp64, NormNet<BatchNorm2d>> host{engine_options()};
  OnGpu<S, Fp64, NormNet<SyncBatchNorm2d>> gpu{engine_options()};
  for (int s = 0; s < 6; ++s) {
    StepResult const a = engine_step(host, s);
    StepResult const b = engine_step(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-11 * a.gradient_norm);
  }
  for (int replica = 0; replica < S::mesh.extent(Axis::data); ++replica) {
    auto const own = gpu.parameters(replica);
    Difference const off = difference(own, host.parameters(), test::Part::value);
    INFO("replica " << replica << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-11);
    CHECK(first_difference(own, gpu.parameters(0)) == "");
  }
}

TEST_CASE("replicas with the statistics of all of them train as one device, in double") {
  check_synchronized<DataParallel<2>>();
  check_synchronized<DataParallel<3, Weighted<2, 0, 1>, BucketBytes<64, 256>>>();
}

}  // namespace synchronized_test
