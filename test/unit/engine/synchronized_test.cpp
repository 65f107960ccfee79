// SPDX-License-Identifier: Apache-2.0
// SyncBatchNorm2d: replicas with one microbatch each train as one device with BatchNorm2d does on
// the whole batch.

#include "synchronized.hpp"

namespace tandem::test {
namespace synchronized_test {

TEST_CASE("2 and 3 replicas train as one device on the whole batch") {
  check_five_steps<DataParallel<2>>();
  check_five_steps<DataParallel<3, BucketBytes<64, 256>>>();
}

TEST_CASE("so they do when steps are watched action by action") {
  check_five_steps<DataParallel<2>>({13, 9}, {}, false);
}

TEST_CASE("shards of unequal sizes, one of them empty") {
  check_five_steps<DataParallel<3, Weighted<2, 0, 1>, BucketBytes<64, 256>>>();
}

TEST_CASE("microbatch m of one replica is normalised with microbatch m of the other") {
  std::vector<int> const order{0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11};
  check_five_steps<DataParallel<2, Microbatches<2>>, SingleDevice<Microbatches<2>>>({12}, order);
}

TEST_CASE("an empty microbatch between others waits for its turn") {
  // Shards of 9 and 3 in four microbatches: 3 2 2 2 and 1 1 1 0.
  std::vector<int> const order{0, 1, 2, 9, 3, 4, 10, 5, 6, 11, 7, 8};
  using Many = DataParallel<2, Weighted<3, 1>, Microbatches<4>, BucketBytes<64, 256>>;
  using One = SingleDevice<Microbatches<4>, Weighted<4, 3, 3, 2>>;
  check_five_steps<Many, One>({12}, order);
}

template <class S>
void check_same_bits() {
  Watchdog const watchdog{"statistics of one replica"};
  TrainerOf<OnOne, S, Host> plain{parity_options()};
  TrainerOf<OnAll, S, Host> own{parity_options()};
  for (int s = 0; s < 3; ++s) {
    CHECK(parity_step(plain, s).loss == parity_step(own, s).loss);
  }
  CHECK(first_difference(own.parameters(), plain.parameters()) == "");
}

TEST_CASE("one replica has the bits of BatchNorm2d") {
  check_same_bits<SingleDevice<>>();
  check_same_bits<SingleDevice<Microbatches<3>>>();
  check_same_bits<DataParallel<1>>();
  check_same_bits<Pipeline<Chimera, 4, Split<4>, Split<6>>>();
}

TEST_CASE("evaluation uses running statistics, whatever the number of replicas") {
  Watchdog const watchdog{"evaluation"};
  TrainerOf<OnOne, SingleDevice<>> one{parity_options()};
  TrainerOf<OnAll, DataParallel<3, Weighted<2, 0, 1>>> many{parity_options()};
  parity_step(one, 0);
  parity_step(many, 0);
  auto const data = dataset(decltype(one)::input, 5, 22);
  auto const a = one.evaluate(data);
  auto const b = many.evaluate(data);
  CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
}

struct OnePixel : Network<Image<4, 1, 1>, Sequential<SyncBatchNorm2d<>, Flatten, Linear<3>>> {};

TEST_CASE("one sample on each replica is enough, one on all is not") {
  Watchdog const watchdog{"one value a channel"};
  TrainerOptions options = parity_options();
  options.batch = 4;
  using Apart = TrainerOf<OnePixel, DataParallel<2>>;
  Apart apart{options};
  Samples<double> const two{Apart::input, 3, 2};
  CHECK(apart.step(two.x, two.y).samples == 2);
  Samples<double> const four{Apart::input, 3, 4};
  TrainerOf<OnePixel, DataParallel<2, Microbatches<2>, Weighted<3, 1>>> uneven{options};
  CHECK_THROWS_WITH_AS(uneven.step(four.x, four.y), doctest::Contains("one value a channel"),
                       ContractError);  // microbatches of 2, 1 and 1, 0
}

}  // namespace synchronized_test
}  // namespace tandem::test
