// SPDX-License-Identifier: Apache-2.0
#include <tandem/comm/lifeline/inquiry.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>

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

TEST_CASE("where all processes answer, a thread that does not wait is to blame") {
  LifelineInquiry all = inquiry();
  all.take(answered(3));
  CHECK(all.over(std::chrono::steady_clock::now()));
  LifelineVerdict const verdict = all.conclude();
  CHECK(verdict.rank == 0);
  CHECK(verdict.what == "0 is late");
  CHECK(verdict.machine == "node");
}

}  // namespace lifeline_inquiry_test
}  // namespace tandem
