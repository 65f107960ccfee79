// SPDX-License-Identifier: Apache-2.0
// Rows that a program brings, drawn: passes in any order that can run, and messages that arrive as
// early as they can. Every rank's memory is right for them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <unit/engine/planned_memory.hpp>

namespace tandem::test {
namespace memory_rows_test {

class Rows {
 public:
  Rows(StageMapView map, int microbatches, unsigned seed)
      : map_{map}, microbatches_{microbatches}, random_{seed}, splits_{draw(2) == 1} {}

  /// Passes one after another, each drawn from those that can come next.
  ActionRows passes() {
    ActionRows rows(static_cast<std::size_t>(map_.devices));
    std::vector<int> forward;
    for (int s = 0; s < map_.stages; ++s) {
      forward.push_back(map_.first_microbatch(s, microbatches_));
    }
    std::vector<int> const first = forward;
    std::vector<int> back = forward;
    std::vector<int> retired = forward;
    for (;;) {
      std::vector<Action> ready;
      for (int s = 0; s < map_.stages; ++s) {
        auto const add = [&](ActionKind kind, std::vector<int> const& next) {
          ready.push_back(
              {.kind = kind, .stage = static_cast<std::int16_t>(s), .index = next[at(s)]});
        };
        bool goes_on = forward[at(s)] < first[at(s)] + microbatches_ / map_.copies;
        bool goes_back = back[at(s)] < forward[at(s)];
        for (int e = 0; e < map_.edges; ++e) {
          auto const [from, to, link] = map_.edge[e];
          goes_on = goes_on && (to != s || forward[at(from)] > forward[at(s)]);
          goes_back = goes_back && (from != s || back[at(to)] > back[at(s)]);
        }
        if (goes_on) {
          add(ActionKind::forward, forward);
        }
        if (goes_back) {
          add(splits_ ? ActionKind::input_gradient : ActionKind::backward, back);
        }
        if (splits_ && retired[at(s)] < back[at(s)]) {
          add(ActionKind::weight_gradient, retired);
        }
      }
      if (ready.empty()) {
        return rows;
      }
      Action const next = ready[at(draw(static_cast<int>(ready.size())))];
      rows[at(map_.device[next.stage])].push_back(next);
      std::vector<int>& count = next.kind == ActionKind::forward           ? forward
                                : next.kind == ActionKind::weight_gradient ? retired
                                                                           : back;
      ++count[at(next.stage)];
    }
  }

  /// Moves receives forward, as long as the rows can run.
  void hurry(ActionRows& rows) {
    for (int tries = 0; tries < 30; ++tries) {
      std::vector<Action>& row = rows[at(draw(map_.devices))];
      int const from = draw(static_cast<int>(row.size()));
      int const to = draw(from + 1);
      if (row[at(from)].kind == ActionKind::receive_forward ||
          row[at(from)].kind == ActionKind::receive_backward) {
        std::vector<Action> const before = row;
        std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
        row = verify(rows, map_, microbatches_) ? row : before;
      }
    }
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int draw(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  StageMapView map_;
  int microbatches_;
  std::mt19937 random_;
  bool splits_;
};

template <class P, int D = 0>
void check_devices(ActionRows const& rows, int microbatches) {
  INFO("device " << D);
  CHECK(PlannedDevice<typename P::template Device<D>>{rows, microbatches}.play() == "");
  if constexpr (D + 1 < P::devices) {
    check_devices<P, D + 1>(rows, microbatches);
  }
}

template <class S>
void check() {
  using P = Program<DeepNet, S, 4>;
  int can_run = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    int const microbatches = P::map.copies * (1 + static_cast<int>(seed % 5));
    Rows drawn{P::map, microbatches, seed};
    ActionRows rows = lower(drawn.passes(), P::map);
    if (verify(rows, P::map, microbatches)) {
      ++can_run;
      drawn.hurry(rows);
      check_devices<P>(rows, microbatches);
    }
  }
  CHECK(can_run > 10);
}

inline constexpr auto places =
    place<DeepNet>({{"3", 1}, {"5.0", 1}, {"5.1", 2}, {"6", 1}, {"8.body", 2}, {"9", 0}});

TEST_CASE("rows of pipelines, several stages a device, two models, placed branches") {
  check<InFour<ZeroBubbleH1, 4>>();
  check<Pipeline<Interleaved<2>, 4, Split<2>, Split<3>, Split<3>, Split<4>>>();
  check<InTwo<Chimera, 4, Reproducible<>>>();
  check<ModelParallel<Placed<places>, Microbatches<4>>>();
}

}  // namespace memory_rows_test
}  // namespace tandem::test
