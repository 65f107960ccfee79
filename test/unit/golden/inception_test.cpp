// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <unit/golden/golden.hpp>
#include <unit/golden/networks.hpp>

namespace tandem {
namespace inception_test {

using Net = test::TwoInceptionsNet;
using TestLoss = SoftmaxCrossEntropy<Percent<10>>;
template <class S, class Precision>
using TestTrainer = Trainer<Net, S, BasicHost<Portable, Precision>, TestLoss>;

TEST_CASE("the first step is PyTorch's, in double and in float") {
  test::Golden const golden{"inception"};
  test::check_first_step<TestTrainer<SingleDevice<>, Fp64>>(golden);
  test::check_first_step<TestTrainer<SingleDevice<>, Fp32>>(golden);
}

TEST_CASE("five steps of each optimizer are PyTorch's") {
  test::check_five_steps<TestTrainer<SingleDevice<>, Fp64>>(test::Golden{"inception"});
}

TEST_CASE("two uneven microbatches are what PyTorch makes of them") {
  using Two = TestTrainer<SingleDevice<Microbatches<2>>, Fp64>;
  test::Golden const golden{"inception_2"};
  test::check_first_step<Two>(golden);
  test::check_five_steps<Two>(golden);
}

}  // namespace inception_test
}  // namespace tandem
