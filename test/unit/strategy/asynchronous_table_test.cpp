// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/layers/linear.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace asynchronous_table_test {

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<4>, Linear<3>, Linear<2>>> {};

static_assert(Strategy<Pipeline<PipeDream, 1, Auto<3>>>);

TEST_CASE("the strategy: how it trains, and a table of all phases") {
  using P = Pipeline<PipeDream, 1, Split<1>, Split<1>, Split<1>, Checkpoint<Boundaries>>;
  CHECK(P::ranks == 3);
  CHECK(P::copies == 1);
  CHECK(P::batching.microbatches == 1);
  CHECK(P::asynchrony == Asynchrony{3, 1, WeightRule::stashed, 1});
  CHECK(P::checkpoint.every == CheckpointRule::boundaries);
  CHECK(P::Cut<Net>::verdict);
  CHECK(P::Cut<Net>::steps == 4);
  CHECK(to_csv(P::Cut<Net>::table).find("2RECV_F1,2F1@1,2B1@1,2SEND_B1,2U") != std::string::npos);
  using Two = Pipeline<PipeDream2BW, 4, Auto<3>, BucketBytes<5, 6>>;
  CHECK(Two::batching.microbatches == 4);
  CHECK(Two::batching.bucket_bytes == 6);
  CHECK(Two::Cut<Net>::verdict);
  CHECK(Pipeline<FeaturesReplay, 1, Auto<2>>::checkpoint.every == CheckpointRule::boundaries);
  CHECK(Pipeline<PipelinedModel, 1, Auto<2>>::checkpoint.every == CheckpointRule::boundaries);
  CHECK(Pipeline<PipeDream, 1, Auto<2>>::checkpoint.every == CheckpointRule::none);
  CHECK(Pipeline<PipelinedModel, 1, Auto<3>>::Cut<Net>::verdict);
  CHECK(Pipeline<PipeDream, 1, Auto<1>>::Cut<Net>::verdict);
}

TEST_CASE("the rows, written out") {
  CHECK(to_csv(make_schedule("pipedream", 3, 1)) ==
        "0F0,0F1,0F2,0B0,0U,0F3@1,0B1,0U,0B2,0U,0B3@1,0U\n"
        "1F0,1F1,1B0,1U,1F2@1,1B1,1U,1F3@2,1B2@1,1U,1B3@2,1U\n"
        "2F0,2B0,2U,2F1@1,2B1@1,2U,2F2@2,2B2@2,2U,2F3@3,2B3@3,2U\n");
  CHECK(to_csv(make_schedule("pipedream_vertical_sync", 2, 1, 1, 3)) ==
        "0F0,0F1,0B0,0U,0F2@1,0B1,0U,0B2@1,0U\n"
        "1F0,1B0,1U,1F1,1B1,1U,1F2@1,1B2@1,1U\n");
  CHECK(to_csv(make_schedule("pipedream_2bw", 2, 2, 1, 3)) ==
        "0F0,0F1,0B0,0F2,0B1,0U,0F3,0B2,0F4@1,0B3,0U,0F5@1,0B4@1,0B5@1,0U\n"
        "1F0,1B0,1F1,1B1,1U,1F2,1B2,1F3,1B3,1U,1F4@1,1B4@1,1F5@1,1B5@1,1U\n");
  CHECK(to_csv(make_schedule("features_replay", 2, 1, 1, 2)) ==
        "0F0,0F1,0B0,0U,0B1@1,0U\n"
        "1F0,1B0,1U,1F1@1,1B1@1,1U\n");
  CHECK(to_csv(make_schedule("pmp", 2, 1, 1, 3)) ==
        "0F0,0F1,0F2,0B0,0U,0B1@1,0U,0B2@2,0U\n"
        "1F0,1B0,1U,1F1@1,1B1@1,1U,1F2@2,1B2@2,1U\n");
}

TEST_CASE(
    "delayed gradients are PipeDream's table; two that differ in weights only have one order") {
  for (int devices = 1; devices <= 6; ++devices) {
    CAPTURE(devices);
    ActionRows const rows = make_schedule("pipedream", devices, 1);
    CHECK(make_schedule("delayed_gradient", devices, 1) == rows);
    CHECK(make_schedule("weight_prediction", devices, 1) ==
          make_schedule("features_replay", devices, 1));
    ActionRows const vertical = make_schedule("pipedream_vertical_sync", devices, 1);
    CHECK((vertical == rows) == (devices == 1));
  }
}

template <class S, int Devices, int Microbatches, int Steps>
void check_alike() {
  static constexpr auto table = asynchronous_table<S, Devices, Microbatches, Steps>();
  ActionRows const rows = make_schedule(S::name, Devices, Microbatches, 1, Steps);
  for (int d = 0; d < Devices; ++d) {
    ActionSpan const row = row_of(table, d);
    CHECK(std::vector<Action>(row.begin(), row.end()) == rows[static_cast<std::size_t>(d)]);
  }
}

TEST_CASE("a table made at run time is the one made at compile time") {
  check_alike<PipeDream, 3, 1, 5>();
  check_alike<PipeDreamVerticalSync, 4, 1, 4>();
  check_alike<PipeDream2BW, 3, 4, 3>();
  check_alike<WeightPrediction, 2, 1, 3>();
  check_alike<DelayedGradient, 1, 1, 1>();
  check_alike<FeaturesReplay, 3, 1, 2>();
  check_alike<PipelinedModel, 3, 1, 7>();
}

struct Case {
  char const* name;
  int microbatches;  ///< of a step, for every device more than one
  int delays;        ///< by which a stage is later than the next
};
constexpr Case cases[] = {{"pipedream", 0, 1},
                          {"pipedream_vertical_sync", 0, 1},
                          {"pipedream_2bw", 1, 1},
                          {"delayed_gradient", 0, 1},
                          {"weight_prediction", 0, 1},
                          {"features_replay", 0, 1},
                          {"pmp", 0, 2}};

int of_step(Case const& c, int devices) { return c.microbatches > 0 ? devices + 1 : 1; }

/// Updates of a stage before the i-th action of its row.
int updates_before(std::vector<Action> const& row, std::size_t i) {
  return static_cast<int>(
      std::count_if(row.begin(), row.begin() + static_cast<long>(i),
                    [](Action const& a) { return a.kind == ActionKind::update; }));
}

TEST_CASE("delays and versions are those of the equations") {
  for (Case const& c : cases) {
    for (int p = 1; p <= 6; ++p) {
      CAPTURE(c.name);
      CAPTURE(p);
      std::string const name = c.name;
      int const m = of_step(c, p);
      ActionRows const rows = make_schedule(c.name, p, m);
      for (int k = 0; k < p; ++k) {
        auto const& row = rows[static_cast<std::size_t>(k)];
        int const delay = c.delays * (p - 1 - k);
        int const all = m * updates_before(row, row.size());
        std::vector<int> forward_read;
        int forwards = 0;
        for (std::size_t i = 0; i < row.size(); ++i) {
          int const now = updates_before(row, i);
          int const g = row[i].index;
          int const version = row[i].version;
          if (row[i].kind == ActionKind::forward) {
            forward_read.push_back(version);
            ++forwards;
            int const expected = name == "pipedream_vertical_sync" ? std::max(0, g - (p - 1))
                                 : name == "pipedream_2bw"         ? std::max(g / m - 1, 0)
                                                                   : now;
            REQUIRE(version == expected);
          } else if (row[i].kind == ActionKind::backward) {
            REQUIRE(forwards == std::min(g + delay + 1, all));
            REQUIRE(now == g / m);
            bool const current =
                name == "weight_prediction" || name == "features_replay" || name == "pmp";
            REQUIRE(version == (current ? g : forward_read[static_cast<std::size_t>(g)]));
          }
        }
        REQUIRE(forwards == all);
      }
    }
  }
}

TEST_CASE("all are verified, at any depth, and keep as many microbatches as they say") {
  for (Case const& c : cases) {
    for (int p = 1; p <= 9; ++p) {
      int const m = of_step(c, p);
      Asynchrony const asynchrony = make_asynchrony(c.name, p, m);
      RuntimeMap const map = make_map(c.name, p);
      for (int steps : {1, 2, unrolled_steps(asynchrony), 3 * p + 5}) {
        ActionRows const rows = lower(make_schedule(c.name, p, m, 1, steps), map);
        for (int const depth : {1, 2, 5}) {
          CAPTURE(c.name);
          CAPTURE(p);
          CAPTURE(steps);
          REQUIRE(verify(rows, map, steps * m, asynchrony, depth));
        }
        for (int k = 0; k < p && steps >= unrolled_steps(asynchrony); ++k) {
          CHECK(live_microbatches(rows, map, k) == c.delays * (p - 1 - k) + 1);
          CHECK(asynchrony.delay(k) == c.delays * (p - 1 - k));
        }
      }
    }
  }
}

TEST_CASE("versions that stages keep") {
  Asynchrony const stashed = make_asynchrony("pipedream", 4, 1);
  Asynchrony const vertical = make_asynchrony("pipedream_vertical_sync", 4, 1);
  for (int k = 0; k < 4; ++k) {
    CHECK(stashed.versions(k) == 4 - k);
    CHECK(vertical.versions(k) == 4);
    CHECK(make_asynchrony("pipedream_2bw", 4, 8).versions(k) == 2);
    CHECK(make_asynchrony("pmp", 4, 1).versions(k) == 1);
  }
  CHECK(!make_asynchrony("one_f_one_b", 4, 8).on());
}

/// A rank's idle time between the end of its k-th backward and the end of its l-th.
Ticks idle_between(std::vector<Action> const& row, std::vector<Interval> const& time, int k,
                   int l) {
  Ticks busy = 0;
  Ticks begin = 0;
  Ticks end = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i].kind == ActionKind::backward && row[i].index == k) {
      begin = time[i].end;
      busy = 0;
      continue;
    }
    busy += time[i].end - time[i].begin;
    if (row[i].kind == ActionKind::backward && row[i].index == l) {
      end = time[i].end;
      break;
    }
  }
  return end - begin - busy;
}

TEST_CASE("no device is idle in the steady state") {
  for (Case const& c : cases) {
    for (int p = 2; p <= 6; ++p) {
      int const m = of_step(c, p);
      RuntimeMap const map = make_map(c.name, p);
      int const steps = 6 * p;
      ActionRows const rows = lower(make_schedule(c.name, p, m, 1, steps), map);
      for (int const backward : {1, 2}) {
        TimelineRows const timeline = simulate(rows, map, {.backward = backward});
        REQUIRE(timeline.finished);
        int const all = steps * m;
        for (std::size_t d = 0; d < rows.size(); ++d) {
          CAPTURE(c.name);
          CAPTURE(p);
          CAPTURE(d);
          CAPTURE(backward);
          CHECK(idle_between(rows[d], timeline.action[d], 2 * p, all - 2 * p) == 0);
        }
        CHECK(timeline.makespan == (all + p - 1) * (1 + backward));
      }
    }
  }
}

std::string error_of(char const* name, int devices, int microbatches, int steps = 0) {
  try {
    make_schedule(name, devices, microbatches, 1, steps);
  } catch (ContractError const& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what cannot be made is refused with a sentence") {
  CHECK(error_of("pipedream", 2, 2) ==
        "schedule 'pipedream' cannot run 2 microbatches a step on 2 devices; give 1 microbatch");
  CHECK(error_of("pipedream_2bw", 4, 3) ==
        "schedule 'pipedream_2bw' cannot run 3 microbatches a step on 4 devices; give as many "
        "microbatches as devices, or more");
  CHECK(error_of("pmp", 0, 1) == "schedule 'pmp' cannot run on 0 devices; give 1 or more");
  CHECK(error_of("pmp", 2, 1, 256) ==
        "schedule 'pmp' cannot be unrolled for 256 steps; give 1 to 255, and no more devices than "
        "can fill in so many");
  CHECK(error_of("pmp", 128, 1).find("for 256 steps") != std::string::npos);
  CHECK(error_of("pmp", 127, 1).empty());
  CHECK(error_of("pmp", 2, 1, -1).find("for -1 steps") != std::string::npos);
  CHECK_THROWS_AS(static_cast<void>(asynchronous_table(Asynchrony{}, 1)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(asynchronous_table(Asynchrony{.devices = 1}, 0)),
                  ContractError);
}

}  // namespace asynchronous_table_test
