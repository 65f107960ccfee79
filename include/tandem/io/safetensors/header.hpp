// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads the JSON header of a safetensors file, and trusts nothing that it reads.
///
/// The header is `{"__metadata__": {key: text, …}, name: {"dtype": "F32", "shape": [2, 3],
/// "data_offsets": [begin, end]}, …}`; the offsets count from the first byte of the data. The
/// metadata may be null, and further fields of a tensor are passed over, as other readers do.
/// Whether the tensors cover the data is checked in reader.hpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/json/reader.hpp>
#include <tandem/io/json/string.hpp>
#include <tandem/io/safetensors/dtype.hpp>
#include <tandem/io/safetensors/layout.hpp>

namespace tandem::detail {

/// A tensor of the header. Between its offsets lie exactly the bytes of its type and shape, unless
/// the type is OTHER.
struct SafetensorsEntry {
  TensorSpec spec;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string other{};  ///< as TensorView::other
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
};

/// Reads a header. @p text begins at byte @p first_byte of the file @p path.
/// @throws FileError  with the byte of the file, for any text but a header
TANDEM_ONCE SafetensorsHeader read_safetensors_header(std::string_view text,
                                                      std::string const& path,
                                                      std::size_t first_byte);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// Reads the value of one tensor: {"dtype": …, "shape": …, "data_offsets": …}, in any order.
TANDEM_ONCE SafetensorsEntry read_safetensors_entry(JsonReader& json, std::string name) {
  std::optional<std::string> type;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;
  std::string const of = " of tensor " + json_quoted(name);
  auto const numbers = [&](std::optional<std::vector<std::int64_t>>& list) {
    list.emplace();
    json.array([&] { list->push_back(json.natural()); });
  };
  json.object([&](std::string const& field) {
    bool const twice = (field == "dtype" && type) || (field == "shape" && shape) ||
                       (field == "data_offsets" && offsets);
    if (twice) {
      json.fail("the field " + json_quoted(field) + of + " occurs twice");
    }
    if (field == "dtype") {
      type = json.string();
    } else if (field == "shape") {
      numbers(shape);
    } else if (field == "data_offsets") {
      numbers(offsets);
    } else {
      json.skip();
    }
  });
  if (!type || !shape || !offsets) {
    json.fail(std::string{"the field "} +
              (!type    ? "\"dtype\""
               : !shape ? "\"shape\""
                        : "\"data_offsets\"") +
              of + " is missing");
  }
  if (offsets->size() != 2) {
    json.fail("the field \"data_offsets\"" + of + " has " + std::to_string(offsets->size()) +
              " numbers, not 2");
  }
  std::int64_t const begin = (*offsets)[0];
  std::int64_t const end = (*offsets)[1];
  Dtype const dtype = find_dtype(*type);
  std::optional<std::int64_t> const bytes = tensor_bytes(dtype, *shape);
  if (!bytes) {
    json.fail("the shape" + of + " has more than 2^63 - 1 bytes");
  }
  if (end < begin) {
    json.fail("the data_offsets" + of + " are reversed");
  }
  if (dtype == Dtype::OTHER) {
    return {{std::move(name), dtype, std::move(*shape)}, begin, end, std::move(*type)};
  }
  if (end - begin != *bytes) {
    json.fail("the data_offsets" + of + " span " + std::to_string(end - begin) +
              " bytes, but its dtype and shape make " + std::to_string(*bytes));
  }
  return {{std::move(name), dtype, std::move(*shape)}, begin, end};
}

TANDEM_ONCE SafetensorsHeader read_safetensors_header(std::string_view text,
                                                      std::string const& path,
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
      json.fail("the key " + json_quoted(name) + " occurs twice");
    }
    if (json.null()) {
      return;
    }
    json.object(
        [&](std::string key) { header.metadata.emplace_back(std::move(key), json.string()); });
  });
  json.end();

  std::vector<std::string_view> names;
  for (SafetensorsEntry const& entry : header.entries) {
    names.push_back(entry.spec.name);
  }
  if (auto const name = find_duplicate(names)) {
    throw FileError{path, "the tensor " + json_quoted(*name) + " occurs twice in the header"};
  }
  names.clear();
  for (auto const& [key, value] : header.metadata) {
    names.push_back(key);
  }
  if (auto const key = find_duplicate(names)) {
    throw FileError{path, "the key " + json_quoted(*key) + " occurs twice in the metadata"};
  }
  return header;
}

}  // namespace tandem::detail

#endif
