// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads and writes the JSON header of a safetensors file, and trusts nothing that it reads.
///
/// The header is `{"__metadata__": {key: text, …}, name: {"dtype": "F32", "shape": [2, 3],
/// "data_offsets": [begin, end]}, …}`; the offsets count from the first byte of the data. Whether the
/// tensors cover the data is checked in safetensors_reader.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/train/json.hpp>
#include <tandem/train/json_string.hpp>
#include <tandem/train/safetensors_dtype.hpp>
#include <tandem/train/safetensors_layout.hpp>

namespace tandem::detail {

/// A tensor of the header. Between its offsets lie exactly the bytes of its type and shape.
struct SafetensorsEntry {
  TensorSpec spec;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
};

/// The first of @p names that occurs twice, in no particular order; a null view if none does.
inline std::string_view find_duplicate(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  auto const place = std::adjacent_find(names.begin(), names.end());
  return place == names.end() ? std::string_view{} : *place;
}

/// Reads the value of one tensor: {"dtype": …, "shape": …, "data_offsets": …}, in any order.
inline SafetensorsEntry read_safetensors_entry(JsonReader& json, std::string name) {
  std::optional<Dtype> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;
  std::string const of = " of tensor " + quoted(name);
  auto const numbers = [&](std::optional<std::vector<std::int64_t>>& list) {
    list.emplace();
    json.array([&] { list->push_back(json.natural()); });
  };
  json.object([&](std::string const& field) {
    bool const twice = (field == "dtype" && dtype) || (field == "shape" && shape) ||
                       (field == "data_offsets" && offsets);
    if (twice) {
      json.fail("the field " + quoted(field) + of + " occurs twice");
    }
    if (field == "dtype") {
      std::string const type = json.string();
      dtype = find_dtype(type);
      if (!dtype) {
        json.fail("the dtype " + quoted(type) + of + " is unknown");
      }
    } else if (field == "shape") {
      numbers(shape);
    } else if (field == "data_offsets") {
      numbers(offsets);
    } else {
      json.fail("the field " + quoted(field) + of + " is unknown");
    }
  });
  if (!dtype || !shape || !offsets) {
    json.fail(std::string{"the field "} +
              (!dtype ? "\"dtype\"" : !shape ? "\"shape\"" : "\"data_offsets\"") + of + " is missing");
  }
  if (offsets->size() != 2) {
    json.fail("the field \"data_offsets\"" + of + " has " + std::to_string(offsets->size()) +
              " numbers, not 2");
  }
  std::int64_t const begin = (*offsets)[0];
  std::int64_t const end = (*offsets)[1];
  std::optional<std::int64_t> const bytes = tensor_bytes(*dtype, *shape);
  if (!bytes) {
    json.fail("the shape" + of + " has more than 2^63 - 1 bytes");
  }
  if (end < begin) {
    json.fail("the data_offsets" + of + " are reversed");
  }
  if (end - begin != *bytes) {
    json.fail("the data_offsets" + of + " span " + std::to_string(end - begin) +
              " bytes, but its dtype and shape make " + std::to_string(*bytes));
  }
  return {{std::move(name), *dtype, std::move(*shape)}, begin, end};
}

/// Reads a header. @p text begins at byte @p first_byte of the file @p path.
/// @throws FileError  with the byte of the file, for any text but a header
inline SafetensorsHeader read_safetensors_header(std::string_view text, std::string const& path,
                                                 std::size_t first_byte) {
  SafetensorsHeader header;
  bool has_metadata = false;
  JsonReader json{text, path, first_byte};
  if (!text.starts_with('{')) {
    json.fail("expected '{' as the first character");
  }
  json.object([&](std::string name) {
    if (name != metadata_key) {
      header.entries.push_back(read_safetensors_entry(json, std::move(name)));
      return;
    }
    if (std::exchange(has_metadata, true)) {
      json.fail("the key " + quoted(name) + " occurs twice");
    }
    json.object([&](std::string key) { header.metadata.emplace_back(std::move(key), json.string()); });
  });
  json.end();

  std::vector<std::string_view> names;
  for (SafetensorsEntry const& entry : header.entries) {
    names.push_back(entry.spec.name);
  }
  if (auto const name = find_duplicate(names); name.data() != nullptr) {
    throw FileError{path, "the tensor " + quoted(name) + " occurs twice in the header"};
  }
  names.clear();
  for (auto const& [key, value] : header.metadata) {
    names.push_back(key);
  }
  if (auto const key = find_duplicate(names); key.data() != nullptr) {
    throw FileError{path, "the key " + quoted(key) + " occurs twice in the metadata"};
  }
  return header;
}

/// The first bytes of a file with these tensors one after the other: length, JSON, and blanks up to a
/// multiple of 8.
/// @throws ContractError  a name that is not UTF-8, occurs twice or is `__metadata__`; a negative
///                        extent; a header or data too long for the format
inline std::string write_safetensors_header(std::span<TensorSpec const> tensors,
                                            SafetensorsMetadata const& metadata) {
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
    expects(find_duplicate(names).data() == nullptr, "safetensors: a metadata key occurs twice");
  }
  names.clear();
  std::int64_t begin = 0;
  for (TensorSpec const& tensor : tensors) {
    std::optional<std::int64_t> const bytes = tensor_bytes(tensor.dtype, tensor.shape);
    expects(bytes && *bytes <= std::numeric_limits<std::int64_t>::max() - begin,
            "safetensors: a negative extent, or more than 2^63 - 1 bytes of data");
    expects(tensor.name != metadata_key, "safetensors: no tensor may be named __metadata__");
    append_key(tensor.name);
    json += "{\"dtype\":\"" + std::string{dtype_name(tensor.dtype)} + "\",\"shape\":[";
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      json += (axis > 0 ? "," : "") + std::to_string(tensor.shape[axis]);
    }
    json += "],\"data_offsets\":[" + std::to_string(begin) + ',' + std::to_string(begin + *bytes) + "]}";
    begin += *bytes;
  }
  expects(find_duplicate(names).data() == nullptr, "safetensors: two tensors have the same name");
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  expects(json.size() <= longest_header, "safetensors: the header is longer than 100,000,000 bytes");

  std::string file;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    file += static_cast<char>((json.size() >> (8 * byte)) & 0xFF);
  }
  return file + json;
}

}  // namespace tandem::detail
