// SPDX-License-Identifier: Apache-2.0

/// @file
/// Sibling 1x1 convolutions are one on a GPU with cuDNN: training, predictions and checkpoints are
/// those of the portable kernels of Host, and as reproducible.

#include <tandem/cuda.cuh>

#include <absorbed_bias.hpp>
#include <one_rank.hpp>

#if defined(TANDEM_CUDNN)

namespace tandem::test {
namespace merged_test {

template <int Out>
using Frozenly = Sequential<Conv2d<Out>, Frozen<BatchNorm2d<>>, ReLU>;
template <int Out>
using Biased = BiasedNorm<Out, BatchNorm2d>;

/// Merged are 3.0.0, 3.1.0 and 3.2.0, whose biases are absorbed, and 3.3.0 and 3.4.0, whose are
/// not.
struct Siblings
    : Network<Image<3, 6, 6>,
              Sequential<Conv2d<8, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU,  // 0 1 2
                         Concat<Biased<8>, Sequential<Biased<4>, Conv2d<8, Kernel<3>, Padding<1>>>,
                                Biased<3>, Frozenly<2>, Frozenly<5>>,  // 3
                         GlobalAvgPool, Linear<5>>> {};                // 4 5

template <class S, class Precision>
using OnGpu = Trainer<Siblings, S, BasicCuda<CuDnn, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                      VirtualTransport>;
using Three = SingleDevice<Microbatches<3>>;

TEST_CASE("siblings: training and checkpoints in fp32, microbatches") {
  static constexpr double bound = 2e-4;
  Names const absorbed = {"0.bias", "3.0.0.bias", "3.1.0.0.bias", "3.2.0.bias"};
  check_trains_alike<Trainer<Siblings, Three, ExactHost>, OnGpu<Three, Fp32>>(bound, absorbed);
  check_checkpoints<Trainer<Siblings, Three, BasicHost<Portable>>, OnGpu<Three, Fp32>>(bound);
}

template <class S>
std::vector<float> bits() {
  OnGpu<S, Bf16> trainer{biased_options()};
  std::vector<float> numbers;
  for (int s = 0; s < 4; ++s) {
    numbers.push_back(static_cast<float>(biased_step(trainer, s).loss));
  }
  for (auto const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
  }
  return numbers;
}

TEST_CASE("siblings: the same bits on 1, 2 and 4 ranks, in bf16") {
  Watchdog const watchdog{"siblings"};
  auto const one = bits<SingleDevice<Microbatches<4>, Reproducible<>>>();
  CHECK(one == bits<DataParallel<2, Microbatches<2>, Reproducible<>>>());
  CHECK(one == bits<DataParallel<4, Reproducible<>>>());
}

}  // namespace merged_test
}  // namespace tandem::test

#endif
