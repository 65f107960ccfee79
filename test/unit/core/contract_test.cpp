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

TEST_CASE("expects throws a ContractError that holds the sentence and the place of the call") {
  int const line = __LINE__ + 2;
  try {
    tandem::expects(false, "give me something true");
    FAIL("expects(false) returned");
  } catch (tandem::ContractError const& error) {
    std::string const what = error.what();
    CHECK(what.find("give me something true (") == 0);
    CHECK(what.find("contract_test.cpp:" + std::to_string(line)) != std::string::npos);
  }
}

#if defined(TANDEM_ASSERT)  // the single header undefines it
TEST_CASE("TANDEM_ASSERT checks in debug builds only") {
#if defined(NDEBUG)
  CHECK_NOTHROW(TANDEM_ASSERT(1 + 1 == 3));
#else
  CHECK_THROWS_WITH_AS(TANDEM_ASSERT(1 + 1 == 3), doctest::Contains("1 + 1 == 3"),
                       tandem::ContractError);
#endif
  CHECK_NOTHROW(TANDEM_ASSERT(1 + 1 == 2));
}
#endif

}  // namespace contract_test
