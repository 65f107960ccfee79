// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/summary.hpp>

namespace live_microbatches_test {

using namespace tandem;

struct Lowered {
  RuntimeMap map;
  ActionRows rows;

  Lowered(std::string_view name, int devices, int microbatches, int chunks = 1)
      : map{make_map(name, devices, chunks)},
        rows{lower(make_schedule(name, devices, microbatches, chunks), map)} {}

  int live(int stage) const { return live_microbatches(rows, map, stage); }
  int deferred(int stage) const { return deferred_microbatches(rows, map, stage); }

  /// Most that a device's stages hold together.
  int live_on(int device) const {
    int now = 0;
    int most = 0;
    for (Action const& a : rows[static_cast<std::size_t>(device)]) {
      now += a.kind == ActionKind::forward ? 1 : 0;
      most = std::max(most, now);
      now -= a.kind == ActionKind::backward || a.kind == ActionKind::weight_gradient ? 1 : 0;
    }
    return most;
  }
};

template <class Check>
void for_each_size(Check check) {
  for (int const p : {1, 2, 3, 4, 8, 16}) {
    for (int const m : {1, 2, 4, 7, 8, 16, 64}) {
      CAPTURE(p);
      CAPTURE(m);
      check(p, m);
    }
  }
}

TEST_CASE("Sequential has one live microbatch, GPipe all, 1F1B stage r min(m, p - r)") {
  for_each_size([](int p, int m) {
    Lowered const sequential{"sequential", p, m};
    Lowered const gpipe{"gpipe", p, m};
    Lowered const one_f_one_b{"one_f_one_b", p, m};
    for (int r = 0; r < p; ++r) {
      CHECK(sequential.live(r) == 1);
      CHECK(gpipe.live(r) == m);
      CHECK(one_f_one_b.live(r) == std::min(m, p - r));
      CHECK(one_f_one_b.deferred(r) == 0);
    }
  });
}

TEST_CASE("ZeroBubbleH1 has min(m, p), and defers r + 1 of them, fewer where no forward is left") {
  for_each_size([](int p, int m) {
    Lowered const table{"zero_bubble_h1", p, m};
    for (int r = 0; r < p; ++r) {
      CHECK(table.live(r) == std::min(m, p));
      CHECK(table.deferred(r) == std::clamp(m - p + r + 1, 1, r + 1));
    }
  });
}

TEST_CASE("ZeroBubbleV has 2 p - k of stage k, and 2 p on a device, as the first of 1F1B") {
  for_each_size([](int p, int m) {
    Lowered const table{"zero_bubble_v", p, m};
    for (int k = 0; k < 2 * p; ++k) {
      CHECK((m < 2 * p - 1 || table.live(k) == std::min(m, 2 * p - k)));
      CHECK(table.live(k) + table.live(2 * p - 1 - k) <= std::min(2 * m, 2 * p + 1));
    }
    for (int r = 0; r < p; ++r) {
      CHECK(table.live_on(r) <= 2 * p);
    }
    CHECK((m < 2 * p || table.live_on(0) == 2 * p));
  });
}

TEST_CASE("ZeroBubbleH2 has min(m, 2 p - 1), and defers 2 r + 1 of them, fewer likewise") {
  for_each_size([](int p, int m) {
    Lowered const table{"zero_bubble_h2", p, m};
    for (int r = 0; r < p; ++r) {
      CHECK(table.live(r) == std::min(m, 2 * p - 1));
      CHECK(table.deferred(r) == std::clamp(m - 2 * (p - r) + 2, 1, 2 * r + 1));
    }
  });
}

TEST_CASE("DualPipe has p + 1 microbatches on each device, DualPipeV 2 p + 1 of half a stage") {
  for (int const p : {1, 2, 3, 4, 8, 16}) {
    for (int const m : {2 * p, 2 * p + 2, 5 * p, 8 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      for (int r = 0; r < p; ++r) {
        CHECK(Lowered{"dual_pipe_v", p, m}.live_on(r) == 2 * p + 1);
        if (p % 2 == 0 && m % 2 == 0) {
          CHECK(Lowered{"dual_pipe", p, m}.live_on(r) == p + 1);
        }
      }
    }
  }
}

TEST_CASE("VHalf and VMin have half and a third of what the first device of 1F1B has") {
  for_each_size([](int p, int m) {
    Lowered const half{"v_half", p, m};
    Lowered const third{"v_min", p, m};
    int most_of_half = 0;
    int most_of_third = 0;
    for (int r = 0; r < p; ++r) {
      most_of_half = std::max(most_of_half, half.live_on(r));
      most_of_third = std::max(most_of_third, third.live_on(r));
      CHECK(half.live(r) + half.live(2 * p - 1 - r) <= 2 * (p / 2) + 3);
      CHECK(third.live(r) + third.live(2 * p - 1 - r) <= 2 * ((p + 4) / 3) + 1);
    }
    CHECK(most_of_half <= 2 * (p / 2) + 2);  // in stages of half a device
    CHECK(most_of_third <= 2 * ((p + 4) / 3));
    CHECK((m < 2 * p || p == 1 || most_of_half == 2 * (p / 2) + 2));
    CHECK((m < 2 * p || p == 1 || most_of_third == 2 * ((p + 4) / 3)));
  });
}

TEST_CASE("Interleaved: the formula of Narayanan et al., over the stages of a device") {
  for_each_size([](int p, int m) {
    for (int v = 1; v <= 4 && Interleaved<1>::fits(p, m); ++v) {
      int const round = m / std::max(1, m / p);
      Lowered const table{"interleaved", p, m, v};
      for (int r = 0; r < p; ++r) {
        CHECK(table.live_on(r) == std::min(m * v, 2 * (p - 1 - r) + (v - 1) * round + 1));
      }
    }
  });
}

TEST_CASE("Chimera: p / 2 + 1 to p on a device for p microbatches, p + 1 for more") {
  for (int const p : {2, 4, 6, 8, 16}) {
    for (int const m : {p, 2 * p, 4 * p}) {
      Lowered const table{"chimera", p, m};
      for (int r = 0; r < p; ++r) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(r);
        CHECK(table.live_on(r) >= std::min(p, p / 2 + 1));
        CHECK(table.live_on(r) <= (m == p ? p : p + 1));
      }
    }
  }
}

TEST_CASE("a microbatch is live from its RECV on, and alive until W") {
  RuntimeMap const map = make_map("gpipe", 2);
  using enum ActionKind;
  ActionRows const early = {{},
                            {{receive_forward, 0, 1, 0},
                             {receive_forward, 0, 1, 1},
                             {forward, 0, 1, 0},
                             {backward, 0, 1, 0},
                             {forward, 0, 1, 1},
                             {backward, 0, 1, 1}}};
  CHECK(live_microbatches(early, map, 1) == 2);
  CHECK(live_microbatches(early, map, 0) == 0);
  ActionRows const late = {{{forward, 0, 0, 0},
                            {input_gradient, 0, 0, 0},
                            {forward, 0, 0, 1},
                            {weight_gradient, 0, 0, 0},
                            {input_gradient, 0, 0, 1},
                            {weight_gradient, 0, 0, 1}},
                           {}};
  CHECK(live_microbatches(late, map, 0) == 2);
  CHECK(deferred_microbatches(late, map, 0) == 1);
}

TEST_CASE("what a stage has made is live until the W of a stage of its device that reads it") {
  RuntimeMap const map = make_map("zero_bubble_v", 1);
  using enum ActionKind;
  auto const rows = [](Action first, Action second) {
    return ActionRows{{{forward, 0, 0, 0},
                       {forward, 0, 1, 0},
                       {input_gradient, 0, 1, 0},
                       {input_gradient, 0, 0, 0},
                       first,
                       {forward, 0, 0, 1},
                       second}};
  };
  Action const writer{weight_gradient, 0, 0, 0};
  Action const reader{weight_gradient, 0, 1, 0};
  CHECK(live_microbatches(rows(writer, reader), map, 0) == 2);
  CHECK(live_microbatches(rows(reader, writer), map, 0) == 2);
  ActionRows both = rows(reader, writer);
  both[0].insert(both[0].begin() + 5, writer);
  both[0].pop_back();
  CHECK(live_microbatches(both, map, 0) == 1);
  CHECK(live_microbatches(both, map, 1) == 1);
  for (ActionRows const& one : {rows(writer, reader), rows(reader, writer), both}) {
    CHECK(detail::live_of_stages(one, map) == std::vector<int>{live_microbatches(one, map, 0), 1});
  }
}

}  // namespace live_microbatches_test
