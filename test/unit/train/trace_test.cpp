// SPDX-License-Identifier: Apache-2.0
// A traced step: every action and every collective of every rank, in order, and the same training.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace trace_test {

using Two = Trainer<test::TinyNet, DataParallel<2, BucketBytes<64, 256>>, Host>;

TrainerOptions options() {
  return {.batch = 8, .optimizer = Sgd{.learning_rate = 0.1F}, .threads_per_device = 1};
}

std::vector<std::string> names(Trace const& trace, int rank, Lane lane) {
  std::vector<std::string> list;
  for (TraceEvent const& event : trace.events) {
    if (event.rank == rank && event.lane == lane) {
      list.push_back(event.name);
    }
  }
  return list;
}

TEST_CASE("a traced step names every action and collective, and trains as any other") {
  test::Watchdog const watchdog{"trace"};
  Two traced{options()};
  Two plain{options()};
  test::Samples<float> const batch{Two::input, 5, 8};
  Trace const trace = traced.trace_step(batch.x, batch.y);
  plain.step(batch.x, batch.y);
  CHECK(traced.position().step == 1);
  CHECK(test::first_difference(traced.parameters(), plain.parameters()) == "");

  std::vector<std::string> const actions{"0F0",
                                         "0BEGIN_LOSS",
                                         "0B0",
                                         "0REDUCE_GRAD0",
                                         "0REDUCE_GRAD1",
                                         "0REDUCE_GRAD2",
                                         "0REDUCE_GRAD3",
                                         "0REDUCE_GRAD4",
                                         "0REDUCE_GRAD5",
                                         "0AWAIT_LOSS",
                                         "0U"};
  std::vector<std::string> const collectives{"losses",   "bucket 0", "bucket 1", "bucket 2",
                                             "bucket 3", "bucket 4", "bucket 5"};
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(names(trace, rank, Lane::compute) == actions);
    CHECK(names(trace, rank, Lane::communication) == collectives);
  }
  for (TraceEvent const& event : trace.events) {
    CHECK(event.begin_us >= 0.0);
    CHECK(event.end_us >= event.begin_us);
  }
}

TEST_CASE("a bucket is on its way while backward goes on") {
  test::Watchdog const watchdog{"trace"};
  Two trainer{options()};
  test::Samples<float> const batch{Two::input, 5, 8};
  Trace const trace = trainer.trace_step(batch.x, batch.y);
  auto const find = [&](std::string const& name) {
    auto const at = std::find_if(trace.events.begin(), trace.events.end(),
                                 [&](TraceEvent const& e) { return e.name == name; });
    REQUIRE(at != trace.events.end());
    return *at;
  };
  CHECK(find("bucket 5").begin_us >= find("bucket 0").begin_us);
  CHECK(find("bucket 0").begin_us >= find("0B0").begin_us);
  CHECK(find("0U").begin_us >= find("bucket 5").end_us);
}

TEST_CASE("a traced step whose loss is no number leaves the trainer as it was") {
  test::Watchdog const watchdog{"trace"};
  Two trainer{options()};
  Two untouched{options()};
  test::Samples<float> bad{Two::input, 5, 8};
  bad.x[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(trainer.trace_step(bad.x, bad.y), NonFiniteLoss);
  test::Samples<float> const good{Two::input, 5, 8};
  trainer.step(good.x, good.y);
  untouched.step(good.x, good.y);
  CHECK(test::first_difference(trainer.parameters(), untouched.parameters()) == "");
  CHECK(names(trainer.trace_step(good.x, good.y), 0, Lane::communication).size() == 7);
}

TEST_CASE("the file is the Trace Event Format") {
  test::TemporaryFolder const folder;
  Trace const trace{{{.name = "0F0", .rank = 1, .begin_us = 1.5, .end_us = 4.0},
                     {.name = "bucket \"0\"", .lane = Lane::communication, .end_us = 2.0}}};
  CHECK(trace.json() ==
        "{\"traceEvents\": [\n"
        "{\"name\": \"0F0\", \"cat\": \"compute\", \"ph\": \"X\", \"pid\": 1, \"tid\": 0, "
        "\"ts\": 1.500000, \"dur\": 2.500000},\n"
        "{\"name\": \"bucket \\\"0\\\"\", \"cat\": \"communication\", \"ph\": \"X\", \"pid\": 0, "
        "\"tid\": 1, \"ts\": 0.000000, \"dur\": 2.000000}\n"
        "]}\n");
  trace.write(folder.file("trace.json"));
  CHECK(test::message<FileError>([&] { trace.write(folder.file("no/such/folder.json")); }) != "");
}

}  // namespace trace_test
}  // namespace tandem
