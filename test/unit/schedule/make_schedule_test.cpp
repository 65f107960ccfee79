// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>

namespace make_schedule_test {

using namespace tandem;

template <class S, int Devices, int Microbatches>
void check_alike() {
  CAPTURE(S::name);
  static constexpr auto table = schedule_table<S, Devices, Microbatches>();
  static constexpr auto map = schedule_map<S, Devices>();
  ActionRows const rows = make_schedule(S::name, Devices, Microbatches, S::chunks);
  RuntimeMap const made = make_map(S::name, Devices, S::chunks);
  REQUIRE(devices_of(rows) == Devices);
  for (int d = 0; d < Devices; ++d) {
    ActionSpan const at_compile_time = row_of(table, d);
    ActionSpan const at_run_time = row_of(rows, d);
    REQUIRE(at_run_time.size == at_compile_time.size);
    for (int i = 0; i < at_run_time.size; ++i) {
      CHECK(at_run_time[i] == at_compile_time[i]);
    }
  }
  RuntimeMap const expected{map};
  CHECK(made.devices == Devices);
  CHECK(made.copies == S::copies);
  CHECK(made.links == map.links);
  CHECK(made.device == expected.device);
  REQUIRE(made.edge.size() == expected.edge.size());
  for (std::size_t e = 0; e < made.edge.size(); ++e) {
    CHECK(made.edge[e].from == expected.edge[e].from);
    CHECK(made.edge[e].to == expected.edge[e].to);
    CHECK(made.edge[e].link == expected.edge[e].link);
  }
  CHECK(is_sound(made));
}

TEST_CASE("a schedule made at run time is the one made at compile time") {
  check_alike<SequentialStages, 3, 4>();
  check_alike<GPipe, 1, 3>();
  check_alike<OneFOneB, 4, 7>();
  check_alike<Interleaved<1>, 3, 6>();
  check_alike<Interleaved<3>, 2, 4>();
  check_alike<ZeroBubbleH1, 4, 6>();
  check_alike<ZeroBubbleH2, 4, 6>();
  check_alike<ZeroBubbleV, 3, 7>();
  check_alike<VHalf, 4, 3>();
  check_alike<VMin, 3, 7>();
  check_alike<Chimera, 4, 10>();
  check_alike<DualPipe, 4, 10>();
  check_alike<DualPipeV, 3, 7>();
  check_alike<CrossModel, 5, 6>();
}

std::string error_of(std::string_view name, int devices, int microbatches, int chunks = 1) {
  try {
    make_schedule(name, devices, microbatches, chunks);
  } catch (ContractError const& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what cannot be made is refused with a sentence") {
  CHECK(error_of("1f1b", 2, 2) ==
        "there is no schedule '1f1b'; take one of sequential, gpipe, one_f_one_b, interleaved, "
        "zero_bubble_h1, zero_bubble_h2, zero_bubble_v, v_half, v_min, dual_pipe_v, chimera, "
        "dual_pipe, "
        "cross_model, pipedream, pipedream_vertical_sync, pipedream_2bw, delayed_gradient, "
        "weight_prediction, "
        "features_replay, pmp");
  CHECK(error_of("gpipe", 2, 2, 2) ==
        "schedule 'gpipe' cannot have 2 chunks a device; give 1, or take 'interleaved'");
  CHECK(error_of("zero_bubble_v", 2, 2, 3) ==
        "schedule 'zero_bubble_v' cannot have 3 chunks a device; give 1 or 2, or take "
        "'interleaved'");
  CHECK(error_of("zero_bubble_v", 2, 2, 2).empty());
  CHECK(error_of("zero_bubble_v", 2, 2, 1).empty());  // its own two
  CHECK(error_of("zero_bubble_v", 20'000, 2) ==
        "schedule 'zero_bubble_v' would have 40000 stages; give numbers with 32767 at most");
  CHECK(error_of("interleaved", 2, 2, 0) ==
        "schedule 'interleaved' cannot have 0 chunks a device; give 1 or more");
  CHECK(error_of("gpipe", 0, 2) == "schedule 'gpipe' cannot run on 0 devices; give 1 or more");
  CHECK(error_of("chimera", 3, 2) ==
        "schedule 'chimera' cannot run on 3 devices; give an even number");
  CHECK(error_of("gpipe", 2, 0) ==
        "schedule 'gpipe' cannot run 0 microbatches on 2 devices; give 1 microbatch or more");
  CHECK(error_of("interleaved", 4, 9, 2) ==
        "schedule 'interleaved' cannot run 9 microbatches on 4 devices; give a multiple of the "
        "devices, fewer than twice as many, or rounds of one size");
  CHECK(error_of("chimera", 4, 3) ==
        "schedule 'chimera' cannot run 3 microbatches on 4 devices; give an even number of "
        "microbatches, 2 or more");
  CHECK(error_of("cross_model", 1, 2) ==
        "schedule 'cross_model' cannot run on 1 devices; give 2 or more");
  CHECK(error_of("cross_model", 3, 3) ==
        "schedule 'cross_model' cannot run 3 microbatches on 3 devices; give an even number of "
        "microbatches, 2 or more");
  CHECK(error_of("interleaved", 40'000, 40'000) ==
        "schedule 'interleaved' would have 40000 stages; give numbers with 32767 at most");
  CHECK_THROWS_AS(static_cast<void>(make_map("gpipe", -1)), ContractError);
}

TEST_CASE("a schedule of the list is made where its words say, and elsewhere refused with them") {
  for (detail::NamedSchedule const& one : detail::all_schedules) {
    CAPTURE(one.name);
    CHECK(detail::find_schedule(one.name) == &one);
    bool made = false;
    for (int devices = 0; devices <= 5; ++devices) {
      for (int microbatches = 0; microbatches <= 10; ++microbatches) {
        std::string const error = error_of(one.name, devices, microbatches);
        bool const runs = one.words.runs_on(devices);
        made = made || error.empty();
        CHECK(error.empty() == (runs && one.fits(devices, microbatches)));
        CHECK(
            (error.empty() || error.ends_with(runs ? std::string{"; give "} + one.words.microbatches
                                                   : std::string{"; give "} + one.words.devices)));
      }
    }
    CHECK(made);
  }
  CHECK(detail::find_schedule("1f1b") == nullptr);
}

}  // namespace make_schedule_test
