// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/concat.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace concat_test {

using namespace tandem;
using test::Team;

TEST_CASE_TEMPLATE("concat: parts behind one another in each sample, and back", T, float, double) {
  for (int const batch : {0, 1, 5}) {
    std::int64_t const parts[] = {3, 1, 0, 8};
    auto const whole = test::on_teams([&](Team& team) {
      auto y = test::poisoned<T>(batch * 12);
      std::int64_t offset = 0;
      for (std::int64_t const part : parts) {
        auto const x = test::random<T>(batch * part, static_cast<std::uint64_t>(part));
        host::concat_forward(team, batch, part, offset, 12, x.data(), y.data());
        auto back = test::poisoned<T>(batch * part);
        host::concat_gradient(team, batch, part, offset, 12, y.data(), back.data());
        CHECK(test::same_bits(back, x));
        offset += part;
      }
      return y;
    });
    std::vector<T> expected;
    for (std::int64_t s = 0; s < batch; ++s) {
      for (std::int64_t const part : parts) {
        auto const x = test::random<T>(batch * part, static_cast<std::uint64_t>(part));
        expected.insert(expected.end(), x.begin() + s * part, x.begin() + (s + 1) * part);
      }
    }
    CHECK(test::same_bits(whole, expected));
  }
}

}  // namespace concat_test
