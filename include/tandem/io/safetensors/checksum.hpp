// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checksums of a safetensors file, in its metadata: one a tensor, and one of the metadata itself.
///
/// Key "xxh64.<name>": XXH64 of the line "<name> <dtype> [<extents>]\n" ("0.weight F32 [16,1,3,3]")
/// and the tensor's bytes. Key "xxh64": XXH64 of every other key and its value, a zero byte behind
/// each, in the order of the keys' bytes. Both as 16 hexadecimal digits. Files need not have them;
/// what they have must be true. The two hold wherever a file has its tensors and keys, so that a
/// program that copies both need know nothing of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/json/string.hpp>
#include <tandem/io/safetensors/dtype.hpp>
#include <tandem/io/safetensors/layout.hpp>

namespace tandem {

namespace detail {

inline constexpr std::string_view checksum_key = "xxh64";

/// Whether a key is the metadata's checksum or a tensor's.
constexpr bool is_checksum_key(std::string_view key) {
  return key.starts_with(checksum_key) &&
         (key.size() == checksum_key.size() || key[checksum_key.size()] == '.');
}

TANDEM_ONCE std::string tensor_checksum(TensorView const& tensor);

TANDEM_ONCE std::string metadata_checksum(SafetensorsMetadata const& metadata);

TANDEM_ONCE void check_checksum(std::string const& what, std::string const& now,
                                std::string const& noted, std::string const& path);

}  // namespace detail

/// @p metadata with the checksums of @p tensors and its own, in place of any that it has.
/// Cost: reads all data once.
TANDEM_ONCE SafetensorsMetadata with_checksums(std::span<TensorView const> tensors,
                                               SafetensorsMetadata metadata);

/// Checks the checksum of a tensor.
/// @param noted  what it must be
/// @throws FileError  it is another
TANDEM_ONCE void check_tensor(TensorView const& tensor, std::string const& noted,
                              std::string const& path);

/// Checks the metadata's checksum, and those of tensors, as far as the metadata has them.
/// @param find   find(name): the tensor, or null
/// @param check  check(tensor, noted checksum), which check_tensor() does
/// @param path   names the file in errors
/// @throws FileError  the metadata's checksum is another, or a tensor with one is missing
template <class Find, class Check>
void check_checksums(SafetensorsMetadata const& metadata, Find const& find, Check const& check,
                     std::string const& path) {
  for (auto const& [key, value] : metadata) {
    if (!detail::is_checksum_key(key)) {
      continue;
    }
    if (key == detail::checksum_key) {
      detail::check_checksum("the metadata", detail::metadata_checksum(metadata), value, path);
      continue;
    }
    std::string const name = key.substr(detail::checksum_key.size() + 1);
    TensorView const* const tensor = find(name);
    if (tensor == nullptr) {
      throw FileError{path, "there is a checksum of tensor " + detail::json_quoted(name) +
                                ", but no such tensor; the file is damaged, or a program has "
                                "removed tensors and kept the metadata of them all"};
    }
    check(*tensor, value);
  }
}

}  // namespace tandem

#if TANDEM_BODIES

#include <tandem/core/xxhash64.hpp>

namespace tandem::detail {

TANDEM_ONCE std::string hex_of(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t digit = text.size(); digit-- > 0; number >>= 4) {
    text[digit] = "0123456789abcdef"[number & 0xF];
  }
  return text;
}

TANDEM_ONCE std::string tensor_checksum(TensorView const& tensor) {
  std::string line = tensor.name + " " + std::string{dtype_name(tensor.dtype)} + " [";
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    line += axis > 0 ? "," : "";  // one by one: of a sum g++ 12 warns, wrongly (-Wrestrict)
    line += std::to_string(tensor.shape[axis]);
  }
  line += "]\n";
  Xxhash64 hash;
  hash.add(std::as_bytes(std::span{line}));
  hash.add(tensor.data);
  return hex_of(hash.digest());
}

TANDEM_ONCE std::string metadata_checksum(SafetensorsMetadata const& metadata) {
  std::vector<std::pair<std::string_view, std::string_view>> sorted;
  for (auto const& [key, value] : metadata) {
    if (key != checksum_key) {
      sorted.emplace_back(key, value);
    }
  }
  std::sort(sorted.begin(), sorted.end());
  Xxhash64 hash;
  for (auto const& [key, value] : sorted) {
    for (std::string_view const text : {key, value}) {
      hash.add(std::as_bytes(std::span{text}));
      hash.add(std::as_bytes(std::span{"", 1}));
    }
  }
  return hex_of(hash.digest());
}

TANDEM_ONCE void check_checksum(std::string const& what, std::string const& now,
                                std::string const& noted, std::string const& path) {
  if (now != noted) {
    throw FileError{path, what + " is damaged: its checksum is " + now +
                              ", but the file was written with " + json_quoted(noted) +
                              "; take another copy of the file"};
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE SafetensorsMetadata with_checksums(std::span<TensorView const> tensors,
                                               SafetensorsMetadata metadata) {
  std::erase_if(metadata, [](auto const& entry) { return detail::is_checksum_key(entry.first); });
  std::string const prefix = std::string{detail::checksum_key} + ".";
  for (TensorView const& tensor : tensors) {
    metadata.emplace_back(prefix + tensor.name, detail::tensor_checksum(tensor));
  }
  metadata.emplace_back(detail::checksum_key, detail::metadata_checksum(metadata));
  return metadata;
}

TANDEM_ONCE void check_tensor(TensorView const& tensor, std::string const& noted,
                              std::string const& path) {
  detail::check_checksum("tensor " + detail::json_quoted(tensor.name),
                         detail::tensor_checksum(tensor), noted, path);
}

}  // namespace tandem

#endif
