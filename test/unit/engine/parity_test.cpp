// SPDX-License-Identifier: Apache-2.0
// A strategy changes where numbers are computed, not what they are: DataParallel, of unequal
// devices, too, and as the outer part of a Hybrid, against SingleDevice with the same microbatches.
// Batches divide by no number of devices.

#include <parity.hpp>

namespace tandem {
namespace parity_test {

using test::Alike;

template <class One, class Many>
void check_five_steps() {
  test::check_alike<test::TinyNet, One, Many, test::Double>(Alike::numbers);
}

TEST_CASE("DataParallel<2> has the gradients of SingleDevice<Microbatches<2>>") {
  test::check_alike<test::TinyNet, SingleDevice<Microbatches<2>>, DataParallel<2>, Host>(
      Alike::gradients);
}

TEST_CASE("DataParallel<1> trains as SingleDevice") {
  check_five_steps<SingleDevice<>, DataParallel<1>>();
}

TEST_CASE("DataParallel<2> trains as SingleDevice<Microbatches<2>>") {
  check_five_steps<SingleDevice<Microbatches<2>>, DataParallel<2>>();
}

TEST_CASE("four devices of two microbatches train as one device of eight") {
  check_five_steps<SingleDevice<Microbatches<8>>, DataParallel<4, Microbatches<2>>>();
}

TEST_CASE("weighted devices train as one device with the same shards") {
  check_five_steps<SingleDevice<Microbatches<3>, Weighted<4, 4, 3>>,
                   DataParallel<3, Weighted<4, 4, 3>>>();
}

TEST_CASE("a device without samples takes part in every reduction") {
  check_five_steps<SingleDevice<Microbatches<2>>, DataParallel<3, Weighted<1, 0, 1>>>();
}

TEST_CASE("without batch norm and dropout, accumulated gradients are those of the whole batch") {
  test::check_alike<test::PlainNet, SingleDevice<>, SingleDevice<Microbatches<4>>, test::Double>(
      Alike::numbers);
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
  test::check_alike<
      test::PlainNet, SingleDevice<Microbatches<4>, Reproducible<4>>,
      Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<OneFOneB, 2, Split<2>, Split<2>>>, Host>(
      Alike::bits);
}

TEST_CASE("a weight for each replica of all parts together") {
  using Many = Hybrid<DataParallel<2, Weighted<1, 2, 3, 4>>, DataParallel<2>,
                      ModelParallel<Split<2>, Split<2>>>;
  static_assert(Many::batching.replicas == 4 && Many::batching.shards == 4);
  test::check_alike<test::PlainNet, SingleDevice<Microbatches<4>, Weighted<1, 2, 3, 4>>, Many,
                    test::Double>(Alike::numbers);
}

}  // namespace parity_test
}  // namespace tandem
