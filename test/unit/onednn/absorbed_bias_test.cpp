// SPDX-License-Identifier: Apache-2.0
// oneDNN's networks with biases in front of batch norms train as the portable kernels' do.

#if defined(TANDEM_ONEDNN)

#include <absorbed_bias.hpp>

namespace tandem::test {
namespace absorbed_bias_test {

/// Four steps in fp32 on few and small images.
constexpr double bound = 2e-4;

template <class One, class Many, template <class...> class Norm = BatchNorm2d>
void check(Names absorbed = all_absorbed) {
  check_trains_alike<Trainer<BiasedNet<Norm>, One, ExactHost>,
                     Trainer<BiasedNet<Norm>, Many, BasicHost<OneDnn>>>(bound, absorbed);
}

TEST_CASE("one device, some microbatches a step") {
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

TEST_CASE("an asynchronous pipeline, whose backward pass has newer weights than its forward one") {
  using Late = Pipeline<WeightPrediction, 1, Split<3>, Split<9>>;
  check<Late, Late>();
}

TEST_CASE("synchronized statistics") {
  check_trains_alike<Trainer<BiasedNet<BatchNorm2d>, SingleDevice<>, ExactHost>,
                     Trainer<BiasedNet<SyncBatchNorm2d>, DataParallel<2>, BasicHost<OneDnn>>>(
      bound);
}

TEST_CASE("checkpoints mean what those of the portable kernels mean") {
  using Net = BiasedNet<BatchNorm2d>;
  check_checkpoints<Trainer<Net, SingleDevice<>, BasicHost<Portable>>,
                    Trainer<Net, SingleDevice<>, BasicHost<OneDnn>>>(bound);
}

}  // namespace absorbed_bias_test
}  // namespace tandem::test

#endif
