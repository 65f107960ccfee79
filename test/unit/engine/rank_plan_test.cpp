// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

namespace rank_plan_test {

using namespace tandem;

struct TwoLayers : Network<Vector<4>, Sequential<Linear<3>, Linear<2>>> {};
struct Untrained : Network<Vector<4>, Frozen<Linear<3>>> {};

std::string text(std::vector<Action> const& row) {
  std::string all;
  for (Action const& action : row) {
    all += (all.empty() ? "" : " ") + to_string(action);
  }
  return all;
}

template <class S, int D = 0, class Net = TwoLayers>
RankPlan plan() {
  using P = Program<Net, S, 4>;
  return make_rank_plan(device_tables<typename P::template Device<D>>, rows_of(P::table),
                        P::batching);
}

template <class S, int D = 0, class Net = TwoLayers>
std::string training() {
  return text(plan<S, D, Net>().training);
}

template <class S, int D = 0>
std::string forward() {
  return text(plan<S, D>().forward);
}

using Buckets = BucketBytes<1, 1>;  // one a layer
using M2 = Microbatches<2>;
using Cut = ModelParallel<Split<1>, Split<1>, M2, Buckets>;

TEST_CASE("a training step on whole models, as text") {
  CHECK(training<SingleDevice<>>() == "0F0 0B0 0U 0END");
  CHECK(training<SingleDevice<Microbatches<3>>>() == "0F0 0B0 0F1 0B1 0F2 0B2 0U 0END");
  CHECK(training<DataParallel<2, M2>>() ==
        "0F0 0B0 0F1 0BEGIN_LOSS 0B1 0REDUCE_GRAD0 0AWAIT_LOSS 0U 0END");
  CHECK(training<DataParallel<4, Buckets>>() ==
        "0F0 0BEGIN_LOSS 0B0 0REDUCE_GRAD0 0REDUCE_GRAD1 0AWAIT_LOSS 0U 0END");
  CHECK(training<DataParallel<2>, 0, Untrained>() == "0F0 0BEGIN_LOSS 0B0 0AWAIT_LOSS 0U 0END");
  CHECK(training<DataParallel<1>>() == "0F0 0B0 0U 0END");
}

TEST_CASE("a pass without training, as text") {
  CHECK(forward<SingleDevice<>>() == "0F0 0END");
  CHECK(forward<SingleDevice<Microbatches<3>>>() == "0F0 0F1 0F2 0END");
  CHECK(forward<DataParallel<2, M2>>() == "0F0 0F1 0BEGIN_LOSS 0AWAIT_LOSS 0END");
}

TEST_CASE("a model that is cut: messages, and the norm over its devices") {
  CHECK(training<Cut, 0>() ==
        "0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1 0BEGIN_LOSS 0AWAIT_LOSS 0REDUCE_NORM "
        "0U 0END");
  CHECK(training<Cut, 1>() ==
        "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1BEGIN_LOSS 1AWAIT_LOSS 1REDUCE_NORM "
        "1U 1END");
  CHECK(forward<Cut, 0>() == "0F0 0SEND_F0 0F1 0SEND_F1 0BEGIN_LOSS 0AWAIT_LOSS 0END");
  CHECK(forward<Cut, 1>() == "1RECV_F0 1F0 1RECV_F1 1F1 1BEGIN_LOSS 1AWAIT_LOSS 1END");
}

TEST_CASE("replicas of it: each stage reduces its own buckets") {
  using S = Hybrid<DataParallel<2>, ModelParallel<Split<1>, Split<1>, Buckets>>;
  CHECK(training<S, 1>() ==
        "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD0 1BEGIN_LOSS 1AWAIT_LOSS 1REDUCE_NORM 1U 1END");
  using Both = Pipeline<Chimera, 2, Split<1>, Split<1>, Buckets>;  // stages 0 and 3 on device 0
  std::string const row = training<Both, 0>();
  CHECK(row.find("3REDUCE_GRAD0 0REDUCE_GRAD1 0BEGIN_LOSS 0AWAIT_LOSS") != std::string::npos);
}

TEST_CASE("how many microbatches a stage holds") {
  using P = Pipeline<OneFOneB, 3, Split<1>, Split<1>>;
  RankPlan const first = plan<P, 0>();
  REQUIRE(first.stages.size() == 1);
  CHECK(first.stages[0].live == 2);
  CHECK(first.stages[0].deferred == 0);
  CHECK(plan<P, 1>().stages[0].live == 1);

  RankPlan const apart = plan<Pipeline<ZeroBubbleH1, 4, Split<1>, Split<1>>, 1>();
  CHECK(apart.stages[0].live == 2);
  CHECK(apart.stages[0].deferred == 2);

  RankPlan const both = plan<Pipeline<Chimera, 4, Split<1>, Split<1>>, 0>();
  REQUIRE(both.stages.size() == 2);
  CHECK(both.stages[0].first_microbatch == 0);
  CHECK(both.stages[1].first_microbatch == 2);
}

TEST_CASE("more microbatches than a 16-bit index can count") {
  ActionRows rows(1);
  for (int m = 0; m < 40'000; ++m) {
    rows[0].push_back({.kind = ActionKind::forward, .index = m});
    rows[0].push_back({.kind = ActionKind::backward, .index = m});
  }
  using P = Program<TwoLayers, SingleDevice<>, 4>;
  RankPlan const plan = make_rank_plan(device_tables<P::Device<0>>, rows, {.microbatches = 40'000});
  REQUIRE(plan.training.size() == 80'002);
  CHECK(to_string(plan.training[2 * 39'999]) == "0F39999");
  CHECK(to_string(plan.training[2 * 39'999 + 1]) == "0B39999");
}

template <class Rule>
using Cross = CrossModelParallel<Rule, Split<1>, Split<1>, Buckets>;

TEST_CASE("two models: each stage is updated as soon as it ends, and averaged last") {
  CHECK(training<Cross<AverageWeights<>>>() ==
        "0F0 0SEND_F0 3RECV_F1 3F1 0BEGIN_LOSS 3B1 3SEND_B1 0AWAIT_LOSS 3U 0RECV_B0 0B0 0U 3X 0X "
        "0END");
  CHECK(training<Cross<AverageWeights<>>, 1>() ==
        "2F1 2SEND_F1 1RECV_F0 1F0 1BEGIN_LOSS 1B0 1SEND_B0 1AWAIT_LOSS 1U 2RECV_B1 2B1 2U 1X 2X "
        "1END");
  CHECK(training<Cross<Overlapped<AverageWeights<>>>>() ==
        "0F0 0SEND_F0 3RECV_F1 3F1 0BEGIN_LOSS 3B1 3SEND_B1 0AWAIT_LOSS 3X 3U 0RECV_B0 0B0 0X 0U "
        "0END");
  CHECK(training<Cross<AverageGradients>>() ==
        "0F0 0SEND_F0 3RECV_F1 3F1 3B1 3SEND_B1 0RECV_B0 0B0 3REDUCE_GRAD0 0REDUCE_GRAD1 "
        "0BEGIN_LOSS 0AWAIT_LOSS 0REDUCE_NORM 0U 0END");
}

TEST_CASE("two models: with gradients of replicas, or losses to come, updates wait") {
  CHECK(training<Hybrid<DataParallel<2>, Cross<AverageWeights<>>>>() ==
        "0F0 0SEND_F0 3RECV_F1 3F1 3B1 3SEND_B1 0RECV_B0 0B0 3REDUCE_GRAD0 0REDUCE_GRAD1 "
        "0BEGIN_LOSS 0AWAIT_LOSS 3U 0U 3X 0X 0END");
  using Four = CrossPipeline<4, AverageWeights<>, Split<1>, Split<1>>;
  RankPlan const own = plan<Four>();
  std::string const row = text(own.training);
  CHECK(row.ends_with(" 0B1 0BEGIN_LOSS 0AWAIT_LOSS 3U 0U 3X 0X 0END"));
}

struct ThreeLayers : Network<Vector<4>, Sequential<Linear<3>, Linear<3>, Linear<2>>> {};
using Crossed = Program<ThreeLayers, CrossPipeline<4, AverageGradients, Auto<3>>, 4>;

template <int D>
bool reduces_early(ActionRows const& rows) {
  return make_rank_plan(device_tables<typename Crossed::template Device<D>>, rows,
                        Crossed::batching)
      .reduces_early;
}

// Device 2 could reduce the last part on its way, but the part's other copy is on device 0, whose
// row ends with it, and waits for what device 2 computes in between.
TEST_CASE("two copies: gradients are reduced on the way if all devices end from the last part") {
  CHECK(reduces_early<0>(rows_of(Crossed::table)));
  CHECK(reduces_early<2>(rows_of(Crossed::table)));
  auto const in_order = [](std::initializer_list<int> stages) {
    std::vector<Action> row;
    for (int const stage : stages) {
      for (ActionKind const kind : {ActionKind::forward, ActionKind::backward}) {
        row.push_back({.kind = kind, .stage = static_cast<std::int16_t>(stage)});
      }
    }
    return row;
  };
  ActionRows const rows{in_order({0, 5}), in_order({1, 4}), in_order({2, 3})};
  CHECK_FALSE(reduces_early<0>(rows));
  CHECK_FALSE(reduces_early<2>(rows));
}

}  // namespace rank_plan_test
