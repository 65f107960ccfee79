// SPDX-License-Identifier: Apache-2.0
// SyncBatchNorm2d in replicas of a model that is itself cut over devices.

#include "synchronized.hpp"

namespace tandem::test {
namespace synchronized_cut_test {

TEST_CASE("replicas of a model that is cut over devices") {
  using Cut = ModelParallel<Split<2>, Split<8>>;
  check_five_steps<Hybrid<DataParallel<3, Weighted<2, 0, 1>>, Cut>>();
}

TEST_CASE("replicas of pipelines, with microbatches, empty ones among them") {
  std::vector<int> const order{0, 1, 2, 9, 3, 4, 10, 5, 6, 11, 7, 8};
  using Plain = SingleDevice<Microbatches<4>, Weighted<4, 3, 3, 2>>;
  using Replicas = DataParallel<2, Weighted<3, 1>, BucketBytes<64, 256>>;
  check_five_steps<Hybrid<Replicas, Pipeline<OneFOneB, 4, Split<4>, Split<6>>>, Plain>({12}, order);
  check_five_steps<Hybrid<Replicas, Pipeline<ZeroBubbleH1, 4, Split<4>, Split<6>>>, Plain>({12},
                                                                                           order);
  using Four = Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<4>>;
  check_five_steps<Hybrid<Replicas, Four>, Plain>({12}, order);
}

TEST_CASE("what is computed again is synchronized again") {
  check_five_steps<
      Hybrid<DataParallel<2>, ModelParallel<Split<3>, Split<7>, Checkpoint<Every<2>>>>>();
  std::vector<int> const order{0, 1, 2, 9, 3, 4, 10, 5, 6, 11, 7, 8};
  using Again = Pipeline<OneFOneB, 4, Split<4>, Split<6>, Checkpoint<Every<2>>>;
  check_five_steps<Hybrid<DataParallel<2, Weighted<3, 1>>, Again>,
                   SingleDevice<Microbatches<4>, Weighted<4, 3, 3, 2>>>({12}, order);
}

}  // namespace synchronized_cut_test
}  // namespace tandem::test
