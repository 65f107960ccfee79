// SPDX-License-Identifier: Apache-2.0
// Streams that share hardware queues: which schedules end with how many of them.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/hardware_queues.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace hardware_queues_test {

using namespace tandem;

struct Step {
  Step(char const* name, int devices, int microbatches, int chunks = 1, StepRules const& r = {})
      : map{make_map(name, devices, chunks)},
        rules{r},
        rows{complete(
            lower(chunked(make_schedule(name, devices, microbatches, chunks), r.chunks), map), map,
            r)} {}

  [[nodiscard]] bool ends(int queues) const {
    return static_cast<bool>(verify_queues(rows, map, rules, queues));
  }
  [[nodiscard]] int streams() const {
    int most = 0;
    for (int d = 0; d < map.devices; ++d) {
      most = std::max(most, streams_of(map, d));
    }
    return most;
  }

  RuntimeMap map;
  StepRules rules;
  ActionRows rows;
};

bool fits(char const* name, int devices, int microbatches, int chunks) {
  try {
    RuntimeMap const map = make_map(name, devices, chunks);
    ActionRows const rows = lower(make_schedule(name, devices, microbatches, chunks), map);
    return static_cast<bool>(verify(rows, map, microbatches));  // with one message in flight
  } catch (ContractError const&) {
    return false;
  }
}

std::vector<std::string> synchronous() {
  std::vector<std::string> names;
  std::istringstream list{schedule_names(false)};
  for (std::string name; std::getline(list >> std::ws, name, ',');) {
    names.push_back(name);
  }
  return names;
}

/// Calls f(step) for every schedule of a training step that ends with its updates.
template <class F>
void each_step(F const& f) {
  for (std::string const& name : synchronous()) {
    for (int const devices : {1, 2, 3, 4, 8, 16}) {
      for (int const microbatches : {1, 2, 4, 8, 16, 32}) {
        for (int const chunks : {1, 2, 4}) {
          bool const chunked = name == "interleaved";
          if ((!chunked && chunks > 1) || !fits(name.c_str(), devices, microbatches, chunks)) {
            continue;
          }
          for (int const replicas : {1, 2}) {
            CAPTURE(name);
            CAPTURE(devices);
            CAPTURE(microbatches);
            CAPTURE(chunks);
            CAPTURE(replicas);
            StepRules rules{.replicas = replicas};
            f(Step{name.c_str(), devices, microbatches, chunks, rules});
            if (name == "cross_model") {
              for (Averaging const& averaging :
                   {AverageWeights<>::averaging, Overlapped<AverageWeights<>>::averaging}) {
                rules.averaging = averaging;
                f(Step{name.c_str(), devices, microbatches, chunks, rules});
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("all schedules are asked") {
  std::vector<std::string> const names = synchronous();
  CHECK(names.size() == 13);
  for (char const* name : {"sequential", "interleaved", "zero_bubble_h1", "cross_model"}) {
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
}

TEST_CASE("every schedule ends with 8 and with 32 hardware queues, and with one a stream") {
  int steps = 0;
  int want_more = 0;
  each_step([&](Step const& step) {
    want_more += step.ends(8) ? 0 : 1;
    CHECK(step.ends(32));
    CHECK(step.ends(step.streams()));
    CHECK(step.streams() <= 19);
    ++steps;
  });
  CHECK(steps > 300);
  CHECK(want_more == 2);  // VMin of 4 microbatches on 8 devices, of 11 streams, in 1 and 2 replicas
}

TEST_CASE("in chunks of time, too, each of which is sent from a place of its own") {
  for (std::string const& name : synchronous()) {
    for (int const devices : {2, 4}) {
      for (int const chunks : {2, 3, 5}) {
        CAPTURE(name);
        CAPTURE(devices);
        CAPTURE(chunks);
        int const rounds = name == "interleaved" ? 2 : 1;
        Step const step{name.c_str(), devices, 8, rounds, {.replicas = 2, .chunks = chunks}};
        if (verify(lower(chunked(make_schedule(name, devices, 8, rounds), chunks), step.map),
                   step.map, 8, 1, chunks)) {
          CHECK(step.ends(step.streams()));
          CHECK(step.ends(32));
        }
      }
    }
  }
  CHECK(Step{"dual_pipe", 4, 8, 1, {.chunks = 3}}.ends(8));
  CHECK_FALSE(Step{"interleaved", 2, 4, 2, {.chunks = 3}}.ends(8));  // of 9 streams
  StepRules const rules{.chunks = 3};
  Step step{"one_f_one_b", 2, 2, 1, rules};
  CHECK(step.ends(5));
  step.rules.chunks = 1;  // one place for all chunks of a microbatch
  CHECK_FALSE(step.ends(5));
}

TEST_CASE("one queue for all is too few where a message is sent before another is taken") {
  Step const step{"one_f_one_b", 2, 4};
  CHECK(step.ends(2));
  CHECK_FALSE(step.ends(1));
  CHECK(to_string(verify_queues(step.rows, step.map, step.rules, 1)) ==
        "rank 1: 1SEND_B0 waits forever, since the streams of its GPU share 1 hardware queue; "
        "raise CUDA_DEVICE_MAX_CONNECTIONS, to 32 at most");
  CHECK(Step{"sequential", 4, 1}.ends(1));
}

TEST_CASE("which streams meet in a queue counts, not how many") {
  Step const chunks{"interleaved", 4, 8, 4};
  CHECK(chunks.streams() == 19);
  CHECK(chunks.ends(8));
  CHECK_FALSE(chunks.ends(7));
  CHECK_FALSE(chunks.ends(13));
  CHECK_FALSE(Step{"chimera", 8, 16}.ends(9));
}

TEST_CASE("the compiler can ask, too") {
  static constexpr auto map = schedule_map<OneFOneB, 3>();
  static constexpr auto passes = lower(schedule_table<OneFOneB, 3, 4>(), map);
  static constexpr StepRules rules{.replicas = 2};
  static constexpr auto rows = complete<completed_length(passes, map, rules)>(passes, map, rules);
  static_assert(verify_queues(rows, map, rules, 7));
  static_assert(!verify_queues(rows, map, rules, 1));
  static_assert(streams_of(map, 0) == 5 && streams_of(map, 1) == 7);
  CHECK(streams_of(map, 2) == 5);
}

}  // namespace hardware_queues_test
