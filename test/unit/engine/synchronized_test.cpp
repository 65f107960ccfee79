// SPDX-License-Identifier: Apache-2.0
// SyncBatchNorm2d: replicas with one microbatch each, whole or cut over devices, train as one
// device with BatchNorm2d does on the whole batch.

#include "synchronized.hpp"

namespace tandem::test {
namespace synchronized_test {

TEST_CASE("replicas train as one device on the whole batch, also watched action by action") {
  check_five_steps<DataParallel<2>>();
  check_five_steps<DataParallel<2>>({13, 9}, {}, false);
}

using Uneven = DataParallel<3, Weighted<2, 0, 1>, BucketBytes<64, 256>>;

TEST_CASE("shards of unequal sizes, one of them empty") { check_five_steps<Uneven>(); }

TEST_CASE("microbatch m of one replica is normalised with microbatch m of the other") {
  std::vector<int> const order{0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11};
  check_five_steps<DataParallel<2, Microbatches<2>>, SingleDevice<Microbatches<2>>>({12}, order);
}

/// Shards of 9 and 3 in four microbatches: 3 2 2 2 and 1 1 1 0.
template <class Many>
void check_uneven_microbatches() {
  std::vector<int> const order{0, 1, 2, 9, 3, 4, 10, 5, 6, 11, 7, 8};
  check_five_steps<Many, SingleDevice<Microbatches<4>, Weighted<4, 3, 3, 2>>>({12}, order);
}
template <class... Options>
using Replicas = DataParallel<2, Weighted<3, 1>, BucketBytes<64, 256>, Options...>;

TEST_CASE("an empty microbatch between others waits for its turn") {
  check_uneven_microbatches<Replicas<Microbatches<4>>>();
}

TEST_CASE("replicas of a model that is cut over devices") {
  check_five_steps<Hybrid<DataParallel<3, Weighted<2, 0, 1>>, ModelParallel<Split<2>, Split<8>>>>();
}

TEST_CASE(
    "replicas of pipelines, with empty microbatches; what is computed again is joined again") {
  check_uneven_microbatches<
      Hybrid<Replicas<>, Pipeline<OneFOneB, 4, Split<4>, Split<6>, Checkpoint<Every<2>>>>>();
  check_uneven_microbatches<Hybrid<Replicas<>, Pipeline<ZeroBubbleH1, 4, Split<4>, Split<6>>>>();
  using Four = Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<4>>;
  check_uneven_microbatches<Hybrid<Replicas<>, Four>>();
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
  check_same_bits<SingleDevice<Microbatches<3>>>();
  check_same_bits<DataParallel<1>>();
  check_same_bits<Pipeline<Chimera, 4, Split<4>, Split<6>>>();
}

TEST_CASE("evaluation uses running statistics, whatever the number of replicas") {
  Watchdog const watchdog{"evaluation"};
  TrainerOf<OnOne, SingleDevice<>> one{parity_options()};
  TrainerOf<OnAll, Uneven> many{parity_options()};
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
