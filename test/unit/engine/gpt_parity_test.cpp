// SPDX-License-Identifier: Apache-2.0
// A GPT under every synchronous schedule, with replicas and without, in double: the losses, the
// norms of gradients and the parameters of one device.

#include <small_gpt.hpp>

namespace tandem {
namespace gpt_parity_test {

using Double = BasicHost<Portable, Fp64>;

template <class S, class Net = test::SmallGpt>
void check_as_one_device() {
  static test::TrainedGpt<SingleDevice<Microbatches<4>>, Double, Net> const one;
  test::TrainedGpt<S, Double, Net> const many{5};
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(one.results[s].loss - many.results[s].loss) <= 1e-12);
    CHECK(std::fabs(one.results[s].gradient_norm - many.results[s].gradient_norm) <= 1e-12);
    CHECK(one.results[s].metric == many.results[s].metric);
    CHECK(one.results[s].weight == many.results[s].weight);
  }
  for (int replica = 0; replica < S::ranks / S::devices; ++replica) {
    test::Difference const off = test::difference(many.trainer.parameters(replica),
                                                  one.trainer.parameters(), test::Part::value);
    INFO("replica " << replica << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-12);
  }
}

template <class Schedule, class... Options>
using InTwo = Hybrid<DataParallel<2>, Pipeline<Schedule, 2, Split<3>, Split<3>, Options...>>;

TEST_CASE("replicas of GPipe, 1F1B and ZB-H1 pipelines whose ends share the words") {
  check_as_one_device<InTwo<GPipe, Checkpoint<Every<2>>>>();
  check_as_one_device<InTwo<OneFOneB>>();
  check_as_one_device<InTwo<ZeroBubbleH1>>();
}

TEST_CASE("replicas of devices that hold several stages") {
  check_as_one_device<Hybrid<
      DataParallel<2>, Pipeline<Interleaved<2>, 2, Split<1>, Split<2>, Split<1>, Split<2>>>>();
  check_as_one_device<InTwo<Chimera>>();
  check_as_one_device<
      Hybrid<DataParallel<2>, CrossModelParallel<AverageGradients, Split<3>, Split<3>>>>();
}

TEST_CASE("replicas of pipelines of recurrent layers, whose ends share the words") {
  check_as_one_device<InTwo<ZeroBubbleH1>, test::SmallLstm>();
  check_as_one_device<Hybrid<DataParallel<2>, ModelParallel<Split<3>, Split<3>>>,
                      test::SmallLstm>();
}

}  // namespace gpt_parity_test
}  // namespace tandem
