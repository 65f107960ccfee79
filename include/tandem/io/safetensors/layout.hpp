// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a safetensors file says of a tensor: its name, type and shape; and how many bytes they
/// take.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/io/safetensors/dtype.hpp>

namespace tandem {

/// A tensor of a file, without its data. An empty shape is a scalar; an extent may be 0.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;
};

/// A tensor and its data: row-major, little-endian, and aligned to nothing, so copy it out with
/// memcpy. The bytes belong to somebody else.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;
  std::span<std::byte const> data;
  std::string other{};  ///< where dtype is OTHER: the file's name of the type

  /// The file's name of the type, for errors.
  TANDEM_ONCE [[nodiscard]] std::string type() const;
};

/// Free text about a file, as keys and values, in the order of the file.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

namespace detail {

/// The key of the metadata, which no tensor may have as its name.
inline constexpr std::string_view metadata_key = "__metadata__";

/// Longest header, in bytes, that readers of this format accept.
inline constexpr std::uint64_t longest_header = 100'000'000;

/// One of @p names that occurs twice, if there is one.
TANDEM_ONCE std::optional<std::string_view> find_duplicate(std::vector<std::string_view> names);

}  // namespace detail

/// Bytes of a tensor of this type and shape, 0 for OTHER; nothing if an extent is negative or the
/// number of bytes, multiplied up from the left, goes beyond 2^63 - 1.
constexpr std::optional<std::int64_t> tensor_bytes(Dtype dtype,
                                                   std::span<std::int64_t const> shape) {
  std::int64_t product = dtype_bytes(dtype);
  for (std::int64_t const extent : shape) {
    if (extent < 0 || (extent > 0 && product > std::numeric_limits<std::int64_t>::max() / extent)) {
      return std::nullopt;
    }
    product *= extent;
  }
  return product;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string TensorView::type() const {
  return dtype == Dtype::OTHER ? detail::printable(other) : std::string{dtype_name(dtype)};
}

}  // namespace tandem

namespace tandem::detail {

TANDEM_ONCE std::optional<std::string_view> find_duplicate(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  auto const place = std::adjacent_find(names.begin(), names.end());
  return place == names.end() ? std::nullopt : std::optional{*place};
}

}  // namespace tandem::detail

#endif
