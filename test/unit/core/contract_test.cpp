// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/core/contract.hpp>

namespace contract_test {

constexpr int half(int n) {
  tandem::expects(n % 2 == 0, "half: n must be even");
  return n / 2;
}

static_assert(half(6) == 3);  // expects() costs a constant evaluation nothing

TEST_CASE("expects passes a true condition") { CHECK(half(4) == 2); }

TEST_CASE("expects throws a ContractError that is the sentence, and no place in a source") {
  CHECK_THROWS_WITH_AS(tandem::expects(false, "give me something true"), "give me something true",
                       tandem::ContractError);
}

#if defined(TANDEM_ASSERT)  // the single header undefines it
TEST_CASE("TANDEM_ASSERT checks in debug builds only") {
#if defined(NDEBUG)
  CHECK_NOTHROW(TANDEM_ASSERT(1 + 1 == 3));
#else
  int const line = __LINE__ + 2;
  std::string const place = "contract_test.cpp:" + std::to_string(line) + ")";
  CHECK_THROWS_WITH_AS(TANDEM_ASSERT(1 + 1 == 3), doctest::Contains(place.c_str()),
                       tandem::ContractError);
  CHECK_THROWS_WITH_AS(TANDEM_ASSERT(1 + 1 == 3), doctest::Contains("internal check: 1 + 1 == 3 ("),
                       tandem::ContractError);
#endif
  CHECK_NOTHROW(TANDEM_ASSERT(1 + 1 == 2));
}
#endif

}  // namespace contract_test
