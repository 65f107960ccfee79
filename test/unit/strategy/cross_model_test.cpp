// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/layers/linear.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/verify/verify.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>

namespace cross_model_test {

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<4>, Linear<3>, Linear<2>>> {};

TEST_CASE("the strategy: two microbatches, two copies, and a rule that Hybrid hands on") {
  using S = CrossModelParallel<AverageWeights<3>, Split<1>, Split<1>, Split<1>>;
  CHECK(S::ranks == 3);
  CHECK(S::copies == 2);
  CHECK(S::batching.microbatches == 2);
  CHECK(S::averaging == Averaging{.what = Averaged::weights, .period = 3});
  CHECK(S::Cut<Net>::map.stages == 6);
  CHECK(S::Cut<Net>::verdict);
  using H = Hybrid<DataParallel<2>, CrossPipeline<4, Overlapped<AverageWeightsAndState<>>, Auto<2>,
                                                  Checkpoint<Boundaries>>>;
  CHECK(H::ranks == 4);
  CHECK(H::batching.microbatches == 4);
  CHECK(H::averaging.overlapped);
  CHECK(H::averaging.what == Averaged::weights_and_state);
  CHECK(H::checkpoint.every == CheckpointRule::boundaries);
  CHECK(H::Cut<Net>::verdict);
  using R = CrossPipeline<4, AverageGradients, Auto<3>, Reproducible<>, BucketBytes<5, 6>>;
  CHECK(R::batching.reproducible);
  CHECK(R::batching.bucket_bytes == 6);
  static_assert(Strategy<S> && Strategy<H> && Strategy<R>);
}

TEST_CASE("on an even number of devices the table is Chimera's") {
  for (int devices = 2; devices <= 8; devices += 2) {
    for (int microbatches : {2, 4, devices, 3 * devices, 4 * devices + 2}) {
      CAPTURE(devices);
      CAPTURE(microbatches);
      CHECK(make_schedule("cross_model", devices, microbatches) ==
            make_schedule("chimera", devices, microbatches));
    }
  }
  CHECK(make_map("cross_model", 4).device == make_map("chimera", 4).device);
}

TEST_CASE("an odd number of devices never waits forever; the middle one serves as they come") {
  for (int devices = 3; devices <= 17; devices += 2) {
    RuntimeMap const map = make_map("cross_model", devices);
    for (int microbatches = 2; microbatches <= 4 * devices; microbatches += 2) {
      ActionRows const rows = lower(make_schedule("cross_model", devices, microbatches), map);
      for (int const depth : {1, 2}) {
        CAPTURE(devices);
        CAPTURE(microbatches);
        REQUIRE(verify(rows, map, microbatches, depth));
      }
    }
  }
  ActionRows const rows = make_schedule("cross_model", 3, 2);
  CHECK(rows[1] == std::vector<Action>{{ActionKind::forward, 0, 1, 0},
                                       {ActionKind::forward, 0, 4, 1},
                                       {ActionKind::backward, 0, 1, 0},
                                       {ActionKind::backward, 0, 4, 1}});
}

Ticks makespan(int devices, ActionCosts const& costs) {
  RuntimeMap const map = make_map("cross_model", devices);
  TimelineRows const time =
      simulate(lower(make_schedule("cross_model", devices, 2), map), map, costs);
  REQUIRE(time.finished);
  return time.makespan;
}

/// Parts that take what they take in both copies.
std::vector<ActionCosts> of_stages(std::vector<ActionCosts> const& parts) {
  std::vector<ActionCosts> stages{parts};
  stages.insert(stages.end(), parts.begin(), parts.end());
  return stages;
}

Ticks of_both(ActionCosts const& costs) { return costs.forward + costs.backward; }

TEST_CASE("equal stages: K (F + B), and on an odd number max(F, B) more") {
  struct Speedup {
    int devices;
    double slow;  ///< B = 2 F
    double even;  ///< B = F
  };
  for (int devices = 2; devices <= 8; ++devices) {
    for (int const backward : {1, 2, 3}) {
      CAPTURE(devices);
      CAPTURE(backward);
      Ticks const middle = devices % 2 == 0 ? 0 : std::max(1, backward);
      CHECK(makespan(devices, {.backward = backward}) == devices * (1 + backward) + middle);
    }
  }
  // Against model parallelism, for twice its batch.
  for (Speedup const& s : {Speedup{2, 2.0, 2.0}, Speedup{3, 1.636, 1.714}, Speedup{4, 2.0, 2.0},
                           Speedup{5, 1.765, 1.818}, Speedup{7, 1.826, 1.867}}) {
    CAPTURE(s.devices);
    auto const speedup = [&](int backward) {
      return 2.0 * s.devices * (1 + backward) /
             static_cast<double>(makespan(s.devices, {.backward = backward}));
    };
    CHECK(speedup(2) == doctest::Approx(s.slow).epsilon(0.0005));
    CHECK(speedup(1) == doctest::Approx(s.even).epsilon(0.0005));
  }
}

TEST_CASE("unequal stages: no time is lost on an even number, whatever the partition") {
  std::mt19937 random{1};
  for (int i = 0; i < 500; ++i) {
    int const devices = 2 + i % 7;
    std::vector<ActionCosts> parts(static_cast<std::size_t>(devices));
    Ticks whole = 0;
    for (ActionCosts& part : parts) {
      part.forward = static_cast<Ticks>(1 + random() % 20);
      part.backward = part.forward + static_cast<Ticks>(random() % 20);
      whole += of_both(part);
    }
    std::vector<ActionCosts> const stages = of_stages(parts);
    Ticks const taken = makespan(devices, {.of_stage = stages.data()});
    CAPTURE(devices);
    if (devices % 2 == 0) {
      CHECK(taken == whole);
      continue;
    }
    // With B >= F everywhere: the second wave waits for the first in the middle, forward and
    // backward, and the first once for the second if it is back before that has gone forward.
    auto const middle = parts.begin() + devices / 2;
    Ticks behind = 0;
    for (auto part = middle + 1; part != parts.end(); ++part) {
      behind += of_both(*part);
    }
    CHECK(taken == whole + middle->backward + std::max<Ticks>(0, middle->forward - behind));
  }
}

}  // namespace cross_model_test
