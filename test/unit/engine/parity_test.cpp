// SPDX-License-Identifier: Apache-2.0
// A strategy changes where numbers are computed, not what they are: DataParallel against
// SingleDevice with the same microbatches. Batches divide by no number of devices.

#include <parity.hpp>

namespace tandem {
namespace parity_test {

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

TEST_CASE("without batch norm and dropout, accumulated gradients are those of the whole batch") {
  Trainer<test::PlainNet, SingleDevice<>, test::Double> whole{test::parity_options()};
  Trainer<test::PlainNet, SingleDevice<Microbatches<4>>, test::Double> parts{
      test::parity_options()};
  CHECK(std::fabs(test::parity_step(whole, 0).loss - test::parity_step(parts, 0).loss) <= 1e-13);
  test::Difference const off =
      test::difference(parts.parameters(), whole.parameters(), test::Part::gradient);
  INFO("gradient of " << off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-12);
}

TEST_CASE("other microbatches are other numbers, since batch norm sees fewer samples") {
  test::Watchdog const watchdog{"other microbatches"};
  Trainer<test::TinyNet, SingleDevice<>, test::Double> one{test::parity_options()};
  Trainer<test::TinyNet, SingleDevice<Microbatches<2>>, test::Double> two{test::parity_options()};
  double const a = test::parity_step(one, 0).loss;
  double const b = test::parity_step(two, 0).loss;
  CHECK(std::fabs(a - b) > 1e-6);
}

}  // namespace parity_test
}  // namespace tandem
