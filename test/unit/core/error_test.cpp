// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>

namespace error_test {

template <class Child>
constexpr bool is_error = std::is_base_of_v<tandem::Error, Child>;

static_assert(std::is_base_of_v<std::runtime_error, tandem::Error>);
static_assert(is_error<tandem::ContractError> && is_error<tandem::FileError>);
static_assert(is_error<tandem::NonFiniteLoss> && is_error<tandem::TimeoutError>);
static_assert(is_error<tandem::AbortedError> && is_error<tandem::RankError>);

TEST_CASE("a FileError names the file") {
  tandem::FileError const error{"data/train.bin", "is truncated"};
  CHECK(error.path() == "data/train.bin");
  CHECK(std::string{error.what()} == "'data/train.bin': is truncated");
}

TEST_CASE("a RankError names the rank") {
  tandem::RankError const error{3, "the loss is not finite"};
  CHECK(error.rank() == 3);
  CHECK(std::string{error.what()} == "rank 3: the loss is not finite");
}

TEST_CASE_TEMPLATE("an error keeps its sentence", E, tandem::Error, tandem::ContractError,
                   tandem::NonFiniteLoss, tandem::TimeoutError, tandem::AbortedError) {
  CHECK(std::string{E{"what to do"}.what()} == "what to do");
}

}  // namespace error_test
