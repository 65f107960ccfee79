// SPDX-License-Identifier: Apache-2.0
// Five steps of several sizes, clipped and with states, under every kind of schedule, whether
// activations are kept or computed again, and in replicas: reproducible pipelines have the bits of
// one device, others in double its numbers.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace pipeline_reproducible_test {

using R = Reproducible<>;

TEST_CASE("four devices of a chain") {
  TrainerOptions adam = parity_options();
  adam.optimizer = Adam{.learning_rate = 0.01F};
  for (TrainerOptions const& options : {parity_options(), adam}) {
    check_tables<InFour<ZeroBubbleH1, 4, R>>(
        Alike::bits, {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"},
        {1, 4, 8}, options);
  }
}

TEST_CASE("two devices of a chain train as one in double") {
  check_tables<InTwo<ZeroBubbleH1, 4>, Double>(
      Alike::numbers, {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"},
      {1, 4, 7, 8});
}

TEST_CASE("two copies on four devices that compute each stage again") {
  check_tables<InFour<Chimera, 4, R, Checkpoint<Boundaries>>>(Alike::bits, {"chimera"}, {2, 4, 8});
}

TEST_CASE("two copies on two devices train as one in double") {
  check_tables<InTwo<Chimera, 4>, Double>(Alike::numbers, {"chimera"}, {2, 4, 6, 8});
}

TEST_CASE("two devices of two stages train as one in double") {
  check_tables<InFour<Interleaved<2>, 4>, Double>(Alike::numbers, {"interleaved"},
                                                  {1, 2, 3, 4, 6, 8});
}

TEST_CASE("four devices of two stages, and two that compute each layer again") {
  check_tables<InEight<Interleaved<2>, 4, R>>(Alike::bits, {"interleaved"}, {1, 2, 4, 8});
  check_tables<InFour<Interleaved<2>, 4, R, Checkpoint<Every<1>>>>(Alike::bits, {"interleaved"},
                                                                   {2, 4, 8});
}

TEST_CASE("two devices that compute every top-level layer again, and four whole stages") {
  check_tables<InTwo<OneFOneB, 4, R, Checkpoint<Every<1>>>>(
      Alike::bits, {"sequential", "gpipe", "one_f_one_b"}, {1, 4, 8});
  check_tables<InFour<OneFOneB, 4, R, Checkpoint<Boundaries>>>(
      Alike::bits, {"sequential", "gpipe", "one_f_one_b"}, {1, 4, 8});
}

TEST_CASE("runs of two layers of a model in one part, and of its replicas, computed again") {
  using Again = Checkpoint<Every<2>>;
  check_tables<ModelParallel<Auto<1>, Microbatches<4>, R, Again>>(Alike::bits, {"sequential"},
                                                                  {1, 4});
  using Replicas = DataParallel<2, ShardedState>;
  check_alike<DeepNet, Replicas, Hybrid<Replicas, ModelParallel<Auto<1>, Again>>, Host>(
      Alike::bits);
}

TEST_CASE("two replicas of two devices of a chain, and of two copies") {
  using Chain = Hybrid<DataParallel<2, R>, InTwo<ZeroBubbleH1, 2>>;
  check_tables<Chain>(Alike::bits, {"one_f_one_b"}, {1, 2, 4});
  check_tables<Chain>(Alike::bits, {"zero_bubble_h1"}, {2, 4});
  check_tables<Hybrid<DataParallel<2, R>, InTwo<Chimera, 2>>>(Alike::bits, {"chimera"}, {2, 4});
}

TEST_CASE("a replica without samples takes part in every reduction, in double") {
  check_deep<Hybrid<DataParallel<3, Weighted<1, 0, 1>>, InTwo<OneFOneB, 2>>, Double>(
      Alike::numbers);
}

}  // namespace pipeline_reproducible_test
}  // namespace tandem::test
