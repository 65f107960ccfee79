// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace pipeline_schedule_test {

using namespace tandem;

static_assert(PipelineSchedule<SequentialStages> && PipelineSchedule<GPipe> &&
              PipelineSchedule<OneFOneB> && PipelineSchedule<Interleaved<2>> &&
              PipelineSchedule<ZeroBubbleH1> && PipelineSchedule<ZeroBubbleH2> &&
              PipelineSchedule<ZeroBubbleV> && PipelineSchedule<VHalf> && PipelineSchedule<VMin> &&
              PipelineSchedule<Chimera>);

struct NoName {
  static constexpr int chunks = 1;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = false;
  static constexpr bool fits(int, int) { return true; }
  template <class Sink>
  static constexpr void generate(int, int, Sink&) {}
};
struct Archetype : NoName {
  static constexpr char const* name = "archetype";
};
struct NameIsANumber : NoName {
  static constexpr int name = 1;
};
struct NoChunks : Archetype {
  static constexpr std::string_view chunks = "one";
};
struct NoCopies : Archetype {
  static constexpr std::string_view copies = "one";
};
struct NoSplit : Archetype {
  static constexpr std::string_view splits_backward = "no";
};
struct FitsAnInt : Archetype {
  static constexpr int fits(int, int) { return 1; }
};
struct NoGenerate : Archetype {
  static constexpr void generate(int) {}
};
struct TurnsBack : Archetype {
  static constexpr int chunks = 2;
  static constexpr bool turns_back = true;
};
struct TurnsNot : TurnsBack {
  static constexpr bool turns_back = false;
};
static_assert(PipelineSchedule<Archetype> && PipelineSchedule<TurnsBack>);
static_assert(schedule_map<TurnsBack, 3>().device[3] == 2 &&
              schedule_map<TurnsNot, 3>().device[3] == 0);
static_assert(!PipelineSchedule<NoName> && !PipelineSchedule<NameIsANumber> &&
              !PipelineSchedule<NoChunks> && !PipelineSchedule<NoCopies> &&
              !PipelineSchedule<NoSplit> && !PipelineSchedule<FitsAnInt> &&
              !PipelineSchedule<NoGenerate> && !PipelineSchedule<int>);

static_assert(GPipe::fits(1, 1) && !GPipe::fits(0, 1) && !GPipe::fits(1, 0));
static_assert(OneFOneB::fits(3, 2) && SequentialStages::fits(1, 1) && ZeroBubbleH1::fits(4, 1));
static_assert(Interleaved<2>::fits(4, 8) && Interleaved<2>::fits(4, 7) &&
              Interleaved<2>::fits(4, 10) && !Interleaved<2>::fits(4, 9));
static_assert(Chimera::fits(2, 2) && Chimera::fits(4, 6) && !Chimera::fits(1, 2) &&
              !Chimera::fits(3, 4) && !Chimera::fits(4, 3) && !Chimera::fits(4, 0));

template <class S, int Devices, int Microbatches>
std::string text() {
  static constexpr auto table = schedule_table<S, Devices, Microbatches>();
  std::string all;
  for (int d = 0; d < Devices; ++d) {
    all += d > 0 ? " |" : "";
    for (Action const& action : row_of(table, d)) {
      all += (all.empty() ? "" : " ") + to_string(action);
    }
  }
  return all;
}

TEST_CASE("the orders, as text") {
  CHECK(text<SequentialStages, 2, 2>() == "0F0 0B0 0F1 0B1 | 1F0 1B0 1F1 1B1");
  CHECK(text<GPipe, 2, 2>() == "0F0 0F1 0B0 0B1 | 1F0 1F1 1B0 1B1");
  CHECK(text<OneFOneB, 3, 3>() ==
        "0F0 0F1 0F2 0B0 0B1 0B2 | 1F0 1F1 1B0 1F2 1B1 1B2 | 2F0 2B0 2F1 2B1 2F2 2B2");
  CHECK(text<Interleaved<2>, 2, 2>() ==
        "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1 | 1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
  CHECK(text<Interleaved<2>, 1, 2>() == "0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1");
  CHECK(text<ZeroBubbleH1, 2, 3>() ==
        "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2 | 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2");
  CHECK(text<DualPipe, 2, 4>() ==
        "0F0 3F2 0F1 3B2 3F3 0B0 3B3 0I1 0W1 | 2F2 1F0 2F3 1B0 1F1 2B2 1B1 2I3 2W3");
  CHECK(text<ZeroBubbleH2, 2, 3>() ==
        "0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2 | 1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2");
  CHECK(text<VMin, 2, 2>() ==
        "0F0 0F1 3F0 3I0 3W0 3F1 0I0 3I1 3W1 0W0 0I1 0W1 | "
        "1F0 2F0 1F1 2F1 2I0 1I0 2W0 1W0 2I1 1I1 2W1 1W1");
  CHECK(text<VHalf, 2, 1>() == "0F0 3F0 3I0 3W0 0I0 0W0 | 1F0 2F0 2I0 1I0 2W0 1W0");
  CHECK(text<ZeroBubbleV, 1, 2>() == "0F0 1F0 1I0 1W0 0F1 0I0 0W0 1F1 1I1 1W1 0I1 0W1");
  CHECK(text<ZeroBubbleV, 2, 2>() ==
        "0F0 0F1 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1 | "
        "1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 2W1 1W0 1W1");
  CHECK(text<Chimera, 4, 4>() ==
        "0F0 0F1 7F2 7B2 7F3 7B3 0B0 0B1 | 1F0 6F2 1F1 6F3 6B2 1B0 6B3 1B1 | "
        "5F2 2F0 5F3 2F1 2B0 5B2 2B1 5B3 | 4F2 4F3 3F0 3B0 3F1 3B1 4B2 4B3");
}

TEST_CASE("a map that turns back at the last device, between whose stages nothing is sent") {
  static constexpr auto map = schedule_map<ZeroBubbleV, 3>();
  CHECK(std::vector<int>(map.device, map.device + map.stages) ==
        std::vector<int>{0, 1, 2, 2, 1, 0});
  StageMapView const view = map;
  CHECK(view.is_chain());
  CHECK(is_sound(view));
  CHECK(view.crosses(1));
  CHECK_FALSE(view.crosses(2));
  REQUIRE(view.links == 4);  // each of an edge that crosses, whose ends an engine looks up
  for (int link = 0; link < view.links; ++link) {
    int const e = link < 2 ? link : link + 1;
    CHECK(view.edge[e].link == link);
    CHECK(view.crosses(e));
  }
}

TEST_CASE("names, and maps of one chain or two") {
  CHECK(std::string_view{Interleaved<3>::name} == "interleaved");
  static constexpr auto chain = schedule_map<Interleaved<3>, 2>();
  static constexpr auto both = schedule_map<Chimera, 4>();
  CHECK(chain.stages == 6);
  CHECK(chain.device[3] == 1);
  CHECK(both.stages == 8);
  CHECK(both.device[4] == 3);
}

/// Steps until all rows are done, every pass taking as many as its kind says; messages take none.
int makespan(ActionRows const& rows, StageMapView const& map, int forward, int input, int weight) {
  std::vector<std::vector<int>> ends[2];  // forward, backward; of each stage and microbatch
  for (auto& end : ends) {
    end.assign(static_cast<std::size_t>(map.stages), std::vector<int>(1000, -1));
  }
  std::vector<std::size_t> at(rows.size());
  std::vector<int> now(rows.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t d = 0; d < rows.size(); ++d) {
      for (; at[d] < rows[d].size(); ++at[d], moved = true) {
        Action const a = rows[d][at[d]];
        bool const down = a.kind == ActionKind::forward;
        auto const s = static_cast<std::size_t>(a.stage);
        auto const m = static_cast<std::size_t>(a.index);
        if (a.kind == ActionKind::weight_gradient) {
          now[d] += weight;
          continue;
        }
        int ready = down ? 0 : ends[0][s][m];
        for (int e = 0; e < map.edges; ++e) {
          StageEdge const edge = map.edge[e];
          if ((down ? edge.to : edge.from) == a.stage) {
            int const end =
                ends[down ? 0 : 1][static_cast<std::size_t>(down ? edge.from : edge.to)][m];
            ready = end < 0 ? -1 : std::max(ready, end);
          }
        }
        if (ready < 0) {
          break;
        }
        int const takes = down                                   ? forward
                          : a.kind == ActionKind::input_gradient ? input
                                                                 : input + weight;
        now[d] = ends[down ? 0 : 1][s][m] = std::max(now[d], ready) + takes;
      }
    }
  }
  for (std::size_t d = 0; d < rows.size(); ++d) {
    REQUIRE(at[d] == rows[d].size());
  }
  return *std::max_element(now.begin(), now.end());
}

int steps(std::string_view name, int p, int m, int chunks, int forward, int input, int weight) {
  return makespan(make_schedule(name, p, m, chunks), make_map(name, p, chunks), forward, input,
                  weight);
}

TEST_CASE("idle times are those of the papers") {
  for (int const p : {1, 2, 4, 8}) {
    for (int const m : {p, 2 * p, 8 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(steps("sequential", p, m, 1, 1, 1, 1) == 3 * p * m);
      CHECK(steps("gpipe", p, m, 1, 1, 1, 1) == 3 * (m + p - 1));
      CHECK(steps("one_f_one_b", p, m, 1, 1, 1, 1) == 3 * (m + p - 1));
      for (int const v : {2, 4}) {
        CHECK(steps("interleaved", p, m, v, 1, 1, 1) == 3 * (m * v + p - 1));
      }
      CHECK(steps("zero_bubble_h1", p, m, 1, 1, 1, 1) == 3 * m + p - 1);
    }
  }
}

// The last device has 3 m passes behind p - 1 forwards of the first microbatch; the first one has
// 2 m of them behind that microbatch's 2 p - 1 first ones. No table takes less.
TEST_CASE("ZeroBubbleH2 takes the least time, as its authors' program does") {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(steps("zero_bubble_h2", p, m, 1, 1, 1, 1) ==
            std::max(3 * m + p - 1, 2 * m + 2 * p - 1));
    }
  }
}

TEST_CASE("ZeroBubbleH2: idle at the ends only, if there are as many microbatches as fill it") {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 2 * p - 1; m <= 4 * p; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(steps("zero_bubble_h2", p, m, 1, 1, 1, 1) == 3 * m + p - 1);
      CHECK(steps("zero_bubble_h2", p, m, 1, 4, 5, 4) == 13 * m + (p - 1) * 4);
      CHECK(steps("zero_bubble_h2", p, m, 1, 2, 3, 1) == 6 * m + (p - 1) * (2 + 3 - 2 * 1));
    }
  }
}

TEST_CASE("VMin and VHalf: idle for about two thirds, and a half, of 1F1B's time") {
  for (int p = 3; p <= 12; ++p) {
    for (int m = p; m <= 4 * p; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(steps("v_min", p, m, 1, 1, 1, 1) == 6 * m + 4 * p - 5 - (p % 3 == 0 ? 2 : 0));
      CHECK(steps("v_half", p, m, 1, 1, 1, 1) == 6 * m + 3 * p - 4 - (p % 2 == 0 ? 3 : 0));
    }
  }
}

struct Reached {
  int devices;
  int microbatches;
  int time;  // of the table that the authors' program makes
};

TEST_CASE("VHalf takes no longer than the tables of its authors' program") {
  for (Reached const& one :
       {Reached{2, 2, 15}, Reached{2, 4, 25}, Reached{4, 4, 34}, Reached{4, 8, 53},
        Reached{4, 12, 77}, Reached{8, 8, 65}, Reached{8, 16, 113}, Reached{8, 24, 161}}) {
    CAPTURE(one.devices);
    CAPTURE(one.microbatches);
    CHECK(steps("v_half", one.devices, one.microbatches, 1, 1, 1, 1) <= one.time);
  }
}

TEST_CASE("squeezed patterns are valid for any devices and microbatches") {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      for (char const* const name : {"v_half", "v_min", "zero_bubble_v"}) {
        CAPTURE(name);
        RuntimeMap const map = make_map(name, p);
        CHECK(verify(lower(make_schedule(name, p, m), map), map, m));
      }
    }
  }
}

TEST_CASE(
    "DualPipe: p / 2 - 1 idle passes, DualPipeV p - 1 of half a stage, with nothing overlapped") {
  for (int p = 1; p <= 10; ++p) {
    for (int m = 2 * p; m <= 5 * p; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(steps("dual_pipe_v", p, m, 1, 1, 1, 1) == 6 * m + p - 1);
      if (p % 2 == 0 && m % 2 == 0) {
        CHECK(steps("dual_pipe", p, m, 1, 1, 1, 1) == 3 * m + p / 2 - 1);
      }
    }
  }
}

// A device has its 2 m forwards, its 2 m forwards and m I behind or before the first microbatch's
// way there or back, which is one pass on each of the stages before. No table takes less.
TEST_CASE("ZeroBubbleV takes the least time, as its authors' program does") {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(steps("zero_bubble_v", p, m, 1, 1, 1, 1) ==
            std::max({6 * m + p - 1, 5 * m + 2 * p - 1, 4 * m + 3 * p - 1, 2 * m + 4 * p - 1}));
    }
  }
}

TEST_CASE("Chimera: p - 2 idle steps if a forward takes as long as a backward") {
  for (int const p : {2, 4, 6, 8, 16}) {
    CAPTURE(p);
    for (int m = p; m <= 4 * p; m += 2) {
      CAPTURE(m);
      CHECK(steps("chimera", p, m, 1, 1, 1, 0) == 2 * m + p - 2);
    }
    for (int m = 2; m < p; m += 2) {  // one direction alone would take 2 (m / 2 + p - 1)
      CAPTURE(m);
      CHECK(steps("chimera", p, m, 1, 1, 1, 0) == m + 2 * (p - 1));
    }
  }
}

}  // namespace pipeline_schedule_test
