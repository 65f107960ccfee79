// SPDX-License-Identifier: Apache-2.0
// A strategy changes where numbers are computed, not what they are: DataParallel, of unequal
// devices, too, and as the outer part of a Hybrid, against SingleDevice with the same microbatches.
// Batches divide by no number of devices.

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

TEST_CASE("four devices of two microbatches train as one device of eight") {
  test::check_five_steps<SingleDevice<Microbatches<8>>, DataParallel<4, Microbatches<2>>>();
}

TEST_CASE("weighted devices train as one device with the same shards") {
  test::check_five_steps<SingleDevice<Microbatches<3>, Weighted<4, 4, 3>>,
                         DataParallel<3, Weighted<4, 4, 3>>>();
}

TEST_CASE("a device without samples takes part in every reduction") {
  test::check_five_steps<SingleDevice<Microbatches<2>>, DataParallel<3, Weighted<1, 0, 1>>>();
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

// Alone, DataParallel<2> has two microbatches and so two leaves.
TEST_CASE("as many leaves as the replicas of a pipeline have microbatches") {
  using Many = Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<OneFOneB, 2, Split<2>, Split<2>>>;
  test::Watchdog const watchdog{"four leaves"};
  Trainer<test::PlainNet, SingleDevice<Microbatches<4>, Reproducible<4>>, Host> one{
      test::parity_options()};
  Trainer<test::PlainNet, Many, Host> many{test::parity_options()};
  for (int s = 0; s < 3; ++s) {
    CHECK(test::parity_step(one, s).loss == test::parity_step(many, s).loss);
  }
  CHECK(test::first_difference(many.parameters(0), one.parameters()) == "");
  CHECK(test::first_difference(many.parameters(1), one.parameters()) == "");
}

TEST_CASE("a weight for each replica of all parts together") {
  using Many = Hybrid<DataParallel<2, Weighted<1, 2, 3, 4>>, DataParallel<2>,
                      ModelParallel<Split<2>, Split<2>>>;
  static_assert(Many::batching.replicas == 4 && Many::batching.shards == 4);
  test::Watchdog const watchdog{"four weights"};
  Trainer<test::PlainNet, SingleDevice<Microbatches<4>, Weighted<1, 2, 3, 4>>, test::Double> one{
      test::parity_options()};
  Trainer<test::PlainNet, Many, test::Double> many{test::parity_options()};
  for (int s = 0; s < 3; ++s) {
    CHECK(std::fabs(test::parity_step(one, s).loss - test::parity_step(many, s).loss) <= 1e-12);
  }
  test::Difference const off =
      test::difference(many.parameters(), one.parameters(), test::Part::value);
  CHECK(off.error <= 1e-12);
}

}  // namespace parity_test
}  // namespace tandem
