// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

#include <tandem/io/safetensors/dtype.hpp>

namespace tandem {
namespace safetensors_dtype_test {

template <class T>
concept HasDtype = requires {
  dtype_of<T>;
};

static_assert(HasDtype<float> && HasDtype<float const> && HasDtype<bool>);
static_assert(!HasDtype<long double> && !HasDtype<char> && !HasDtype<float*> && !HasDtype<float&>);
static_assert(dtype_of<double const> == Dtype::F64);
static_assert(find_dtype("BF16") == Dtype::BF16);

TEST_CASE("every row of the table is at its enumerator's place, and its name finds it") {
  int place = 0;
  for (detail::DtypeRow const& row : detail::dtype_table) {
    CAPTURE(row.name);
    CHECK(static_cast<int>(row.dtype) == place++);
    CHECK(dtype_name(row.dtype) == row.name);
    CHECK(dtype_bytes(row.dtype) == row.bytes);
    CHECK(find_dtype(row.name) == row.dtype);
  }
  CHECK(place == static_cast<int>(Dtype::OTHER) + 1);
}

TEST_CASE("find_dtype knows whole names in capitals only") {
  for (char const* const name : {"", "f32", "F3", "F320", " F32", "C64", "F4"}) {
    CHECK(find_dtype(name) == Dtype::OTHER);
  }
}

TEST_CASE_TEMPLATE("a C++ type has the size of its Dtype", T, double, float, std::int64_t,
                   std::int32_t, std::int16_t, std::int8_t, std::uint64_t, std::uint32_t,
                   std::uint16_t, std::uint8_t, bool) {
  CHECK(dtype_bytes(dtype_of<T>) == sizeof(T));
  char const kind = dtype_name(dtype_of<T>)[0];
  CHECK(kind == (std::is_same_v<T, bool>       ? 'B'
                 : std::is_floating_point_v<T> ? 'F'
                 : std::is_signed_v<T>         ? 'I'
                                               : 'U'));
}

}  // namespace safetensors_dtype_test
}  // namespace tandem
