// SPDX-License-Identifier: Apache-2.0

/// @file
/// Images whose size is no multiple of 16 bytes: cuDNN and cuBLASLt have been promised that each
/// microbatch begins at one.

#include <doctest/doctest.h>

#include <cmath>

#include <support/watchdog.hpp>

#include "support.hpp"

namespace odd_images_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

struct OddNet
    : Network<Image<3, 5, 5>,
              Sequential<Conv2d<4, Kernel<3>, Padding<1>>, ReLU, GlobalAvgPool, Linear<5>>> {};
struct OddPoints : Network<Image<3, 5, 5>, Sequential<Conv2d<4>, ReLU, GlobalAvgPool, Linear<5>>> {
};

#if defined(TANDEM_CUDNN)
using Kernels = CuDnn;
#else
using Kernels = Portable;
#endif

template <class Net, class S, class Precision>
void check(double epsilon) {
  Watchdog const watchdog{"odd images"};
  using Gpu = Trainer<Net, S, BasicCuda<Kernels, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                      VirtualTransport>;
  OnHost<SingleDevice<Microbatches<S::ranks * 3>>, Fp32, Net> host{engine_options()};
  Gpu gpu{engine_options()};
  for (int s = 0; s < 4; ++s) {  // walked, recorded and replayed, with batches of several sizes
    StepResult const a = engine_step(host, s);
    StepResult const b = engine_step(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 64 * epsilon * a.loss);
  }
  auto const data = dataset(Gpu::input, 5, largest_batch, 3);
  CHECK(std::fabs(host.evaluate(data).loss - gpu.evaluate(data).loss) <= 64 * epsilon);
}

TEST_CASE("odd images: microbatches of a GPU") {
  check<OddNet, SingleDevice<Microbatches<3>>, Fp32>(std::ldexp(1.0, -20));
  check<OddNet, SingleDevice<Microbatches<3>>, Bf16>(std::ldexp(1.0, -9));
  check<OddPoints, SingleDevice<Microbatches<3>>, Bf16>(std::ldexp(1.0, -9));
}

TEST_CASE("odd images: and of two") {
  check<OddNet, DataParallel<2, Microbatches<3>>, Fp32>(std::ldexp(1.0, -20));
}

TEST_CASE("odd images: both models of a cross") {
  check<OddNet, CrossModelParallel<AverageGradients, Split<2>, Split<2>>, Fp32>(
      std::ldexp(1.0, -20));
}

}  // namespace odd_images_test
