// SPDX-License-Identifier: Apache-2.0
// What the ranks of an asynchronous pipeline do one after another is what its verified table says.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/engine/rank/asynchronous_run.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace stream_order_test {

/// The rounds of one stage on so many steps, as a rank goes through them.
std::vector<Action> unrolled(Asynchrony const& rule, int stage, int steps) {
  std::vector<Action> row;
  std::int64_t const all = std::int64_t{steps} * rule.microbatches;
  for (std::int64_t g = 0; g < all + rule.delay(stage); ++g) {
    each_action(rule, stage, g, all, [&](Action action, std::int64_t) { row.push_back(action); });
  }
  return row;
}

template <class Schedule>
void check_rounds(int devices, int microbatches) {
  Asynchrony const rule = Schedule::asynchrony(devices, microbatches);
  for (int const steps : {1, 2, unrolled_steps(rule), 9}) {
    ActionRows rows = asynchronous_table(rule, steps);
    if (devices == 8) {
      rows = lower(rows, chain_map<8>());
    } else if (devices == 4) {
      rows = lower(rows, chain_map<4>());
    } else if (devices == 2) {
      rows = lower(rows, chain_map<2>());
    }
    for (int k = 0; k < devices; ++k) {
      INFO(Schedule::name << ", " << devices << " devices, stage " << k << ", " << steps);
      std::vector<Action> const row = unrolled(rule, k, steps);
      CHECK(row.size() >= std::size_t(2 * steps * microbatches + steps));
      CHECK(row == rows[static_cast<std::size_t>(k)]);
    }
  }
}

TEST_CASE("rounds are the rows of the unrolled table, messages and versions included") {
  for (int const devices : {1, 2, 4, 8}) {
    check_rounds<PipeDream>(devices, 1);
    check_rounds<PipeDreamVerticalSync>(devices, 1);
    check_rounds<DelayedGradient>(devices, 1);
    check_rounds<WeightPrediction>(devices, 1);
    check_rounds<FeaturesReplay>(devices, 1);
    check_rounds<PipelinedModel>(devices, 1);
    check_rounds<PipeDream2BW>(devices, devices);
    check_rounds<PipeDream2BW>(devices, devices + 3);
  }
}

template <class Schedule>
void check_places(int devices, int microbatches) {
  Asynchrony const rule = Schedule::asynchrony(devices, microbatches);
  for (int k = 0; k < devices; ++k) {
    WeightPlaces const places{.rule = rule, .stage = k};
    INFO(Schedule::name << ", stage " << k << " of " << devices);
    std::vector<std::int64_t> holds(static_cast<std::size_t>(places.count()), 0);  // versions
    std::int64_t version = 0;
    std::int64_t const all = 6 * std::int64_t{devices} * microbatches;
    auto const held = [&](int place) { return holds[static_cast<std::size_t>(place)]; };
    auto const clipped = [](std::int64_t v) { return std::max(v, std::int64_t{0}); };
    for (std::int64_t g = 0; g < all + rule.delay(k); ++g) {
      each_action(rule, k, g, all, [&](Action action, std::int64_t m) {
        std::int64_t const table = m % places.tables();
        if (action.kind == ActionKind::forward && !places.predicts()) {
          CHECK(held(places.forward(table)) == clipped(rule.forward_version(k, m)));
        } else if (action.kind == ActionKind::forward) {
          CHECK(places.forward(table) == places.prediction());
          CHECK(version == clipped(rule.forward_version(k, m)));
        } else if (action.kind == ActionKind::backward) {
          CHECK(held(places.backward(table)) == clipped(rule.backward_version(k, m)));
        } else if (action.kind == ActionKind::update) {
          holds[static_cast<std::size_t>(places.of_version(version + 1))] = version + 1;
          ++version;
        }
      });
    }
    CHECK(version == 6 * devices);
  }
}

TEST_CASE("every pass finds the version that it is to read in the place of its table") {
  for (int const devices : {1, 2, 3, 4, 8}) {
    check_places<PipeDream>(devices, 1);
    check_places<PipeDreamVerticalSync>(devices, 1);
    check_places<WeightPrediction>(devices, 1);
    check_places<FeaturesReplay>(devices, 1);
    check_places<PipelinedModel>(devices, 1);
    check_places<PipeDream2BW>(devices, devices);
    check_places<PipeDream2BW>(devices, 2 * devices + 1);
  }
}

/// The passes of each stage, one letter each; each stage is one rank's.
inline std::string passes[4];

/// Passes its input on, and notes that it did.
template <int Stage>
struct Note {
  static constexpr std::string_view name = "Note";
  static constexpr Shape output(Shape in) { return in; }
  static void forward(auto const& call) {
    passes[Stage] += 'F';
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) {
    passes[Stage] += 'B';
    std::ranges::copy(call.dy, call.dx.begin());
  }
};

struct NoteNet : Network<Vector<4>, Sequential<Linear<4>, Note<0>, Linear<4>, Note<1>, Linear<4>,
                                               Note<2>, Linear<3>, Note<3>>> {};

/// Steps, an emptied pipeline, and more steps: each stage has the passes of two tables.
template <class Schedule, int Microbatches>
void check_passes() {
  Watchdog const watchdog{"order of an asynchronous pipeline"};
  using S = Pipeline<Schedule, Microbatches, Split<2>, Split<2>, Split<2>, Split<2>>;
  using T = Trainer<NoteNet, S, Host>;
  for (std::string& row : passes) {
    row.clear();
  }
  {
    T trainer{
        {.batch = 2 * Microbatches, .optimizer = Sgd{.momentum = 0.9F}, .threads_per_device = 1}};
    Samples<float> const data{T::input, 3, 2 * Microbatches};
    for (int s = 0; s < 5; ++s) {
      trainer.step(data.x, data.y);
    }
    CHECK(trainer.parameters().size() == 8);
    for (int s = 0; s < 2; ++s) {
      trainer.step(data.x, data.y);
    }
  }  // emptied once more
  constexpr Asynchrony rule = S::asynchrony;
  bool const replays = rule.weights == WeightRule::replayed;
  for (int k = 0; k < 4; ++k) {
    std::string expected;
    for (int const steps : {5, 2}) {
      ActionRows const rows = asynchronous_table(rule, steps);
      for (Action const& action : rows[static_cast<std::size_t>(k)]) {
        expected += action.kind == ActionKind::forward ? "F" : "";
        expected += action.kind == ActionKind::backward ? (replays ? "FB" : "B") : "";
      }
    }
    INFO(Schedule::name << ", stage " << k);
    CHECK(passes[k] == expected);
  }
}

TEST_CASE("the ranks' passes come in the order of the table, also after the pipeline was emptied") {
  check_passes<PipeDream, 1>();
  check_passes<PipeDream2BW, 5>();
  check_passes<WeightPrediction, 1>();
  check_passes<PipelinedModel, 1>();
}

}  // namespace stream_order_test
}  // namespace tandem::test
