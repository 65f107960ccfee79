// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace chimera_test {

using namespace tandem;

TEST_CASE("Chimera's devices never wait for each other forever, however many microbatches") {
  for (int devices = 2; devices <= 16; devices += 2) {
    RuntimeMap const map = make_map("chimera", devices);
    for (int microbatches = 2; microbatches <= 4 * devices; microbatches += 2) {
      ActionRows const rows = lower(make_schedule("chimera", devices, microbatches), map);
      for (int depth = 1; depth <= 2; ++depth) {
        CAPTURE(devices);
        CAPTURE(microbatches);
        CAPTURE(depth);
        REQUIRE(verify(rows, map, microbatches, depth));
      }
    }
  }
}

}  // namespace chimera_test
