// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <unit/golden/golden.hpp>
#include <unit/golden/networks.hpp>

namespace tandem {
namespace variety_test {

template <class Precision>
using TestTrainer =
    Trainer<test::VarietyNet, SingleDevice<>, BasicHost<Portable, Precision>, MeanSquaredError>;

TEST_CASE("the first step of a regression is PyTorch's, in double and in float") {
  test::Golden const golden{"variety"};
  test::check_first_step<TestTrainer<Fp64>>(golden);
  test::check_first_step<TestTrainer<Fp32>>(golden);
}

TEST_CASE("five steps of each optimizer are PyTorch's") {
  test::check_five_steps<TestTrainer<Fp64>>(test::Golden{"variety"});
}

template <class Precision>
using GatedTrainer = Trainer<test::GatedNet, SingleDevice<>, BasicHost<Portable, Precision>>;

TEST_CASE("the first step with gates and enlarged images is PyTorch's, in double and in float") {
  test::Golden const golden{"gated"};
  test::check_first_step<GatedTrainer<Fp64>>(golden);
  test::check_first_step<GatedTrainer<Fp32>>(golden);
}

TEST_CASE("five such steps of each optimizer are PyTorch's") {
  test::check_five_steps<GatedTrainer<Fp64>>(test::Golden{"gated"});
}

}  // namespace variety_test
}  // namespace tandem
