// SPDX-License-Identifier: Apache-2.0
// A strategy changes where numbers are computed, not what they are: DataParallel against
// SingleDevice with the same microbatches. Batches divide by no number of devices.

#include <parity.hpp>

namespace tandem {
namespace {

TEST_CASE("DataParallel<2> has the gradients of SingleDevice<Microbatches<2>>") {
  test::check_first_gradients<SingleDevice<Microbatches<2>>, DataParallel<2>>();
}

TEST_CASE("DataParallel<1> trains as SingleDevice") {
  test::check_five_steps<SingleDevice<>, DataParallel<1>>();
}

TEST_CASE("DataParallel<2> trains as SingleDevice<Microbatches<2>>") {
  test::check_five_steps<SingleDevice<Microbatches<2>>, DataParallel<2>>();
}

TEST_CASE("DataParallel<3> trains as SingleDevice<Microbatches<3>>") {
  test::check_five_steps<SingleDevice<Microbatches<3>>, DataParallel<3>>();
}

TEST_CASE("other microbatches are other numbers, since batch norm sees fewer samples") {
  test::Watchdog const watchdog{"other microbatches"};
  Trainer<test::TinyNet, SingleDevice<>, test::Double> one{test::parity_options()};
  Trainer<test::TinyNet, SingleDevice<Microbatches<2>>, test::Double> two{test::parity_options()};
  double const a = test::parity_step(one, 0).loss;
  double const b = test::parity_step(two, 0).loss;
  CHECK(std::fabs(a - b) > 1e-6);
}

}  // namespace
}  // namespace tandem
