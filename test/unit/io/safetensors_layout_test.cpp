// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <tandem/io/safetensors/layout.hpp>

namespace tandem {
namespace safetensors_layout_test {

using Extents = std::vector<std::int64_t>;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST_CASE("tensor_bytes: the product of the extents and the size of an element") {
  CHECK(tensor_bytes(Dtype::F32, Extents{2, 3}) == 24);
  CHECK(tensor_bytes(Dtype::BF16, Extents{}) == 2);
  CHECK(tensor_bytes(Dtype::F64, Extents{3, 0, 2}) == 0);
  CHECK(tensor_bytes(Dtype::U8, Extents{largest}) == largest);
  CHECK(tensor_bytes(Dtype::U8, Extents{0, largest, largest}) == 0);
}

TEST_CASE("tensor_bytes: nothing where the product overflows or an extent is negative") {
  CHECK(tensor_bytes(Dtype::U16, Extents{largest}) == std::nullopt);
  CHECK(tensor_bytes(Dtype::U16, Extents{largest / 2}) == largest - 1);
  CHECK(tensor_bytes(Dtype::U8, Extents{std::int64_t{1} << 32, std::int64_t{1} << 31}) ==
        std::nullopt);
  CHECK(tensor_bytes(Dtype::U8, Extents{std::int64_t{1} << 32, std::int64_t{1} << 32}) ==
        std::nullopt);
  CHECK(tensor_bytes(Dtype::U8, Extents{-1}) == std::nullopt);
  CHECK(tensor_bytes(Dtype::U8, Extents{-1, -1}) == std::nullopt);
  CHECK(tensor_bytes(Dtype::U8, Extents{0, -1}) == std::nullopt);
}

TEST_CASE("find_duplicate") {
  CHECK(!detail::find_duplicate({}));
  CHECK(!detail::find_duplicate({"b", "a", "ab"}));
  CHECK(detail::find_duplicate({"b", "a", "c", "b"}) == "b");
  CHECK(detail::find_duplicate({"", "a", ""}) == "");
}

}  // namespace safetensors_layout_test
}  // namespace tandem
