// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SafetensorsWriter: writes a safetensors file tensor by tensor, with no second copy of the data.
///
/// The header comes first, so the names, types and shapes of all tensors are needed at the start;
/// the data may then be gathered piece by piece. The file appears whole or not at all (AtomicFile).

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
#include <tandem/core/contract.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/io/safetensors/dtype.hpp>
#include <tandem/io/safetensors/layout.hpp>

namespace tandem {

namespace detail {

/// The first bytes of a file with these tensors one after the other: length, JSON, and blanks up to
/// a multiple of 8. Only a test gives another @p longest length than that of the format.
///
/// @throws ContractError  a name that is not UTF-8, occurs twice or is `__metadata__`; a negative
///                        extent; a type that is OTHER; a header or data too long for the format
TANDEM_ONCE std::string write_safetensors_header(std::span<TensorSpec const> tensors,
                                                 SafetensorsMetadata const& metadata,
                                                 std::uint64_t longest = longest_header);

}  // namespace detail

/// Writes the data of the tensors that it was made for, in their order.
class [[nodiscard]] SafetensorsWriter {
 public:
  /// Writes the header of the file that finish() will put at @p path.
  ///
  /// @throws ContractError  two names are the same, or name, shape or metadata do not fit the
  /// format
  /// @throws FileError      the folder cannot be written
  TANDEM_ONCE SafetensorsWriter(std::string path, std::vector<TensorSpec> tensors,
                                SafetensorsMetadata const& metadata = {});

  /// Appends @p bytes to the data of the first tensor that still lacks some. One call never serves
  /// two tensors, so that a tensor of the wrong size does not shift those after it.
  /// @throws ContractError  the tensor does not need so many bytes, or no tensor needs any
  /// @throws FileError      the disk is full or broken; the previous file is untouched
  TANDEM_ONCE void write(std::span<std::byte const> bytes);

  /// Gives the file its name. Without it the previous file stays.
  /// @throws ContractError  a tensor still lacks bytes
  /// @throws FileError      the disk is full or broken; the text says which file is there now
  TANDEM_ONCE void finish();

 private:
  TANDEM_ONCE SafetensorsWriter(std::string const& header, std::string path,
                                std::vector<TensorSpec> tensors);

  TANDEM_ONCE void to_next_incomplete();

  AtomicFile file_;
  std::vector<TensorSpec> tensors_;
  std::size_t next_ = 0;      // the first tensor whose size is not in missing_ yet
  std::int64_t missing_ = 0;  // bytes that the current tensor lacks; 0: all are complete
};

/// Writes @p tensors, in their order, to a new file at @p path, or leaves the file there as it was.
///
/// @throws ContractError  the data of a tensor is not as long as its type and shape say, two names
///                        are the same, or name, shape or metadata do not fit the format
/// @throws FileError      the disk is full or broken; the text says which file is there now
TANDEM_ONCE void write_safetensors(std::string const& path, std::span<TensorView const> tensors,
                                   SafetensorsMetadata const& metadata = {});

}  // namespace tandem

#if TANDEM_BODIES

#include <tandem/io/json/string.hpp>

namespace tandem::detail {

TANDEM_ONCE std::string write_safetensors_header(std::span<TensorSpec const> tensors,
                                                 SafetensorsMetadata const& metadata,
                                                 std::uint64_t longest) {
  std::string json = "{";
  std::vector<std::string_view> names;
  auto const append_key = [&](std::string_view key) {
    expects(is_utf8(key), "safetensors: every name and metadata key must be UTF-8");
    json += json.back() == '{' ? "" : ",";
    append_json_string(json, key);
    json += ':';
    names.push_back(key);
  };
  if (!metadata.empty()) {
    append_key(metadata_key);
    json += '{';
    names.clear();
    for (auto const& [key, value] : metadata) {
      append_key(key);
      expects(is_utf8(value), "safetensors: every metadata value must be UTF-8");
      append_json_string(json, value);
    }
    json += '}';
    expects(!find_duplicate(names), "safetensors: a metadata key occurs twice");
  }
  names.clear();
  std::int64_t begin = 0;
  for (TensorSpec const& tensor : tensors) {
    std::optional<std::int64_t> const bytes = tensor_bytes(tensor.dtype, tensor.shape);
    expects(tensor.dtype != Dtype::OTHER,
            "safetensors: no tensor of the type OTHER can be written");
    expects(bytes && *bytes <= std::numeric_limits<std::int64_t>::max() - begin,
            "safetensors: a negative extent, or more than 2^63 - 1 bytes of data");
    expects(tensor.name != metadata_key, "safetensors: no tensor may be named __metadata__");
    append_key(tensor.name);
    json += "{\"dtype\":\"" + std::string{dtype_name(tensor.dtype)} + "\",\"shape\":[";
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      json += axis > 0 ? "," : "";
      json += std::to_string(tensor.shape[axis]);
    }
    json += "],\"data_offsets\":[" + std::to_string(begin) + ',' + std::to_string(begin + *bytes) +
            "]}";
    begin += *bytes;
  }
  expects(!find_duplicate(names), "safetensors: two tensors have the same name");
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  expects(json.size() <= longest, "safetensors: the header is longer than 100,000,000 bytes");

  std::string file;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    file += static_cast<char>((json.size() >> (8 * byte)) & 0xFF);
  }
  return file + json;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorSpec> tensors,
                                                 SafetensorsMetadata const& metadata)
    : SafetensorsWriter{detail::write_safetensors_header(tensors, metadata), std::move(path),
                        std::move(tensors)} {}

TANDEM_ONCE SafetensorsWriter::SafetensorsWriter(std::string const& header, std::string path,
                                                 std::vector<TensorSpec> tensors)
    : file_{std::move(path)}, tensors_{std::move(tensors)} {
  file_.write(std::as_bytes(std::span{header}));
  to_next_incomplete();
}

TANDEM_ONCE void SafetensorsWriter::to_next_incomplete() {
  for (; missing_ == 0 && next_ < tensors_.size(); ++next_) {
    missing_ = *tensor_bytes(tensors_[next_].dtype, tensors_[next_].shape);
  }
}

TANDEM_ONCE void write_safetensors(std::string const& path, std::span<TensorView const> tensors,
                                   SafetensorsMetadata const& metadata) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (TensorView const& tensor : tensors) {
    expects(
        tensor_bytes(tensor.dtype, tensor.shape) == static_cast<std::int64_t>(tensor.data.size()),
        "write_safetensors: the data of a tensor must be as long as its dtype and shape say");
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  SafetensorsWriter writer{path, std::move(specs), metadata};
  for (TensorView const& tensor : tensors) {
    if (!tensor.data.empty()) {
      writer.write(tensor.data);
    }
  }
  writer.finish();
}

TANDEM_ONCE void SafetensorsWriter::finish() {
  expects(missing_ == 0, "SafetensorsWriter: finish() before every tensor was written whole");
  file_.commit();
}

TANDEM_ONCE void SafetensorsWriter::write(std::span<std::byte const> bytes) {
  auto const size = static_cast<std::int64_t>(bytes.size());
  expects(size <= missing_, "SafetensorsWriter: more bytes than the current tensor's shape has");
  file_.write(bytes);
  missing_ -= size;
  to_next_incomplete();
}

}  // namespace tandem

#endif
