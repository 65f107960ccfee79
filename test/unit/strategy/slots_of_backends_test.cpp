// SPDX-License-Identifier: Apache-2.0
// Slots of gradients and parameters are as large on a GPU, where a batch norm has the bias of the
// convolution before it, as fits<> counts them.

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

namespace tandem::test {
namespace slots_of_backends_test {

struct Net : Network<Image<4, 6, 6>,
                     Sequential<Conv2d<8, Kernel<3>>, BatchNorm2d<>, ReLU, Conv2d<8, Kernel<3>>,
                                BatchNorm2d<>, ReLU, GlobalAvgPool, Linear<3>>> {};

template <class S>
void check() {
  using Counted = typename Program<Net, S, 4>::template Device<0>;
  using OnGpu = typename Program<Net, S, 4, Cuda::rewrites>::template Device<0>;
  CHECK(Counted::layout.buckets == OnGpu::layout.buckets);
  CHECK(Counted::gradient_elements == OnGpu::gradient_elements);
  CHECK(Counted::parameter_elements == OnGpu::parameter_elements);
}

TEST_CASE("slots are as large on a GPU as fits<> counts them") {
  check<DataParallel<2, BucketBytes<64, 32>, ShardedGradients>>();
  check<DataParallel<2, BucketBytes<64, 32>, ShardedParameters>>();
}

}  // namespace slots_of_backends_test
}  // namespace tandem::test
