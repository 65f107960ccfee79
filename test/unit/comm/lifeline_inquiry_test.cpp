// SPDX-License-Identifier: Apache-2.0
#include <tandem/comm/lifeline/inquiry.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/frame.hpp>

namespace tandem {
namespace lifeline_inquiry_test {

using detail::FrameKind;
using detail::LifelineInquiry;

/// That rank @p of waits for rank @p other.
detail::Frame wait(int process, int of, int other, bool blocked) {
  return {.head = {.process = process,
                   .rank = of,
                   .other = other,
                   .kind = FrameKind::waits,
                   .flag = static_cast<std::uint8_t>(blocked ? 1 : 0)},
          .machine = "",
          .what = std::to_string(other) + " is late"};
}

detail::Frame answered(int process) {
  return {.head = {.process = process, .kind = FrameKind::answered}, .machine = "node", .what = ""};
}

/// Rank 1 waits for 0, of which a stream waits for 3.
LifelineInquiry inquiry() {
  LifelineInquiry result{{.process = 1, .rank = 1, .what = "0 is late", .timed_out = true},
                         4,
                         1,
                         std::chrono::steady_clock::now()};
  result.take(wait(1, 1, 0, true));
  result.take(answered(1));
  result.take(wait(0, 0, 3, false));
  result.take(answered(0));
  result.take(answered(2));
  return result;
}

TEST_CASE("a stream that waits for a silent process does not take its blame") {
  LifelineVerdict const verdict = inquiry().conclude();
  CHECK(verdict.process == 3);
  CHECK(verdict.rank == 3);
  CHECK(
      verdict.what ==
      "3 is late; rank 0 waits for it, rank 1 for rank 0; process 3 is silent: stopped, frozen or "
      "cut off");
}

TEST_CASE("a process that has ended in order is not called silent, and no answer is awaited") {
  LifelineInquiry all = inquiry();
  for (int i = 0; i < 2; ++i) {  // its parent says so, as often as it is asked
    all.take({.head = {.process = 3, .kind = FrameKind::board, .flag = 1},
              .machine = "node",
              .what = "in step 5"});
  }
  CHECK(all.over({}));
  LifelineVerdict const verdict = all.conclude();
  CHECK(verdict.process == 3);
  CHECK(verdict.machine == "node");
  CHECK(verdict.what ==
        "3 is late; rank 0 waits for it, rank 1 for rank 0; process 3 has ended in order; it was "
        "last seen in step 5");
}

TEST_CASE("where all processes answer, a thread that does not wait is to blame") {
  LifelineInquiry all = inquiry();
  all.take(answered(3));
  CHECK(all.over(std::chrono::steady_clock::now()));
  LifelineVerdict const verdict = all.conclude();
  CHECK(verdict.rank == 0);
  CHECK(verdict.what == "0 is late; rank 1 waits for it; a stream of it waits for rank 3");
  CHECK(verdict.machine == "node");
}

TEST_CASE("of ranks that wait for each other both are named") {  // as where their network is cut
  LifelineInquiry all{{.process = 3, .rank = 3, .what = "0 is late", .timed_out = true},
                      4,
                      1,
                      std::chrono::steady_clock::now()};
  for (auto const& [rank, other] : {std::pair{3, 0}, {0, 1}, {1, 0}}) {
    all.take(wait(rank, rank, other, true));
    all.take(answered(rank));
  }
  all.take(answered(2));
  CHECK(all.conclude().what ==
        "0 is late; rank 0 waits for rank 1, rank 1 for rank 0; rank 3 waits for it");
}

/// How far rank @p of has come in @p group.
detail::Frame reached(int of, int group, std::uint64_t call, bool waits) {
  return {.head = {.process = of,
                   .rank = of,
                   .other = group,
                   .kind = FrameKind::reached,
                   .flag = static_cast<std::uint8_t>(waits ? 1 : 0),
                   .call = call},
          .machine = "sum #" + std::to_string(call),
          .what = ", at 0F" + std::to_string(of)};
}

/// A rank a process: 0 and 1 are a group, 1 and 2, and all of them; 0 has waited too long.
LifelineInquiry of_groups() {
  return {{.process = 0, .rank = 0, .what = "0 has waited", .timed_out = true},
          3,
          1,
          std::chrono::steady_clock::now(),
          [](int group) {
            return group < 0 ? std::vector<int>{0, 1, 2} : std::vector<int>{group, group + 1};
          }};
}

TEST_CASE(
    "where ranks say how far they have come, it is to blame who is behind and does not wait") {
  LifelineInquiry inquiry = of_groups();
  for (auto const& [rank, group, call] :
       {std::array{0, -1, 1}, {0, 0, 5}, {1, -1, 1}, {1, 0, 4}, {1, 1, 3}, {2, -1, 1}, {2, 1, 2}}) {
    inquiry.take(reached(rank, group, static_cast<std::uint64_t>(call), rank != 2));
  }
  for (int const process : {0, 1, 2}) {
    inquiry.take(answered(process));
  }
  LifelineVerdict const verdict = inquiry.conclude();
  CHECK(verdict.rank == 2);
  CHECK(
      verdict.what ==
      "rank 2 did not reach sum #3; it was last in sum #2, at 0F2; rank 1 waits for it, rank 0 for "
      "rank 1");
}

TEST_CASE("who does not answer is behind all others") {
  LifelineInquiry inquiry = of_groups();
  for (int const rank : {0, 2}) {
    inquiry.take(reached(rank, -1, 7, true));
    inquiry.take(answered(rank));
  }
  LifelineVerdict const verdict = inquiry.conclude();
  CHECK(verdict.process == 1);
  CHECK(verdict.what ==
        "rank 1 did not reach sum #7; rank 0 waits for it; process 1 is silent: stopped, frozen or "
        "cut off");
}

TEST_CASE("where all have come as far, the first report counts") {
  LifelineInquiry inquiry = of_groups();
  for (int const rank : {0, 1, 2}) {
    inquiry.take(reached(rank, -1, 7, true));
    inquiry.take(answered(rank));
  }
  CHECK(inquiry.conclude().what == "0 has waited");
}

}  // namespace lifeline_inquiry_test
}  // namespace tandem
