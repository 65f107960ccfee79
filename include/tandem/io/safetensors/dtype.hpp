// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dtype: the element types of the safetensors format, their names and sizes.
///
/// A tensor of any other type, such as the complex one and those of less than a byte, is passed
/// over.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace tandem {

/// How the bytes of a tensor are to be read, little-endian. F8_E4M3 and F8_E5M2 are eight-bit
/// floats; the file's name for each is the enumerator's. OTHER is any type whose data nobody reads.
enum class Dtype {
  F64,
  F32,
  F16,
  BF16,
  F8_E4M3,
  F8_E5M2,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL,
  OTHER
};

namespace detail {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::int64_t bytes;
};

inline constexpr std::array<DtypeRow, 16> dtype_table{{{Dtype::F64, "F64", 8},
                                                       {Dtype::F32, "F32", 4},
                                                       {Dtype::F16, "F16", 2},
                                                       {Dtype::BF16, "BF16", 2},
                                                       {Dtype::F8_E4M3, "F8_E4M3", 1},
                                                       {Dtype::F8_E5M2, "F8_E5M2", 1},
                                                       {Dtype::I64, "I64", 8},
                                                       {Dtype::I32, "I32", 4},
                                                       {Dtype::I16, "I16", 2},
                                                       {Dtype::I8, "I8", 1},
                                                       {Dtype::U64, "U64", 8},
                                                       {Dtype::U32, "U32", 4},
                                                       {Dtype::U16, "U16", 2},
                                                       {Dtype::U8, "U8", 1},
                                                       {Dtype::BOOL, "BOOL", 1},
                                                       {Dtype::OTHER, "", 0}}};

/// The Dtype of a C++ type; no value where the format has no such type.
template <class T>
inline constexpr std::optional<Dtype> dtype_of_type{};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<double>{Dtype::F64};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<float>{Dtype::F32};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int64_t>{Dtype::I64};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int32_t>{Dtype::I32};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int16_t>{Dtype::I16};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int8_t>{Dtype::I8};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint64_t>{Dtype::U64};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint32_t>{Dtype::U32};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint16_t>{Dtype::U16};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint8_t>{Dtype::U8};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<bool>{Dtype::BOOL};

}  // namespace detail

/// Bytes of one element; 0 for OTHER.
constexpr std::int64_t dtype_bytes(Dtype dtype) {
  return detail::dtype_table[static_cast<std::size_t>(dtype)].bytes;
}

/// The name in a file: "F32"; "" for OTHER.
constexpr std::string_view dtype_name(Dtype dtype) {
  return detail::dtype_table[static_cast<std::size_t>(dtype)].name;
}

/// The Dtype with this name, or OTHER.
constexpr Dtype find_dtype(std::string_view name) {
  for (detail::DtypeRow const& row : detail::dtype_table) {
    if (row.name == name) {
      return row.dtype;
    }
  }
  return Dtype::OTHER;
}

/// The Dtype that holds a T: F32 for float, I64 for std::int64_t.
template <class T>
  requires(detail::dtype_of_type<std::remove_const_t<T>>.has_value())
inline constexpr Dtype dtype_of = *detail::dtype_of_type<std::remove_const_t<T>>;

}  // namespace tandem
