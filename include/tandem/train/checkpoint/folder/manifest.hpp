// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// tandem.json, the last file of a checkpoint's folder to be written: where training stood, and
/// the size and CRC-32C of every other file.
///
/// Its own CRC-32C is its last line, of all that stands before that line.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/crc32c.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/json/reader.hpp>
#include <tandem/io/json/string.hpp>
#include <tandem/io/safetensors/layout.hpp>
#include <tandem/io/synced_file.hpp>
#include <tandem/train/checkpoint/folder/names.hpp>

namespace tandem::detail {

/// What tandem.json says. Steps and samples are there for people and scripts: what is loaded is in
/// the tensors, as in a checkpoint of one file.
struct CheckpointManifest {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  std::uint64_t seed = 0;
  std::string optimizer{};
  int processes = 1;  ///< that wrote
  std::vector<FileSum> files{};
};

/// Eight hexadecimal digits.
inline std::string hex_of_sum(std::uint32_t sum) {
  std::string text(8, '0');
  for (std::size_t digit = text.size(); digit-- > 0; sum >>= 4) {
    text[digit] = "0123456789abcdef"[sum & 0xFU];
  }
  return text;
}

/// What stands behind the text that it is the sum of.
TANDEM_ONCE std::string manifest_end(std::string_view text);

/// The members of an object of files.
TANDEM_ONCE std::string files_text(std::vector<FileSum> const& files);

TANDEM_ONCE std::string write_manifest(CheckpointManifest const& manifest);

/// A file in the folder itself, and a name that no terminal obeys: the text is not trusted.
inline bool is_name_in_folder(std::string_view name) {
  constexpr std::string_view allowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return name.find_first_not_of(allowed) == name.npos &&
         (name.ends_with(".safetensors") || name == index_name);
}

/// Reads an object of files.
TANDEM_ONCE std::vector<FileSum> read_files(JsonReader& json);

/// Reads a number below 2^64 in quotes, which JSON's own numbers are too small for.
TANDEM_ONCE std::uint64_t read_digits(JsonReader& json);

/// Reads what write_manifest() wrote; keys may stand in any order, and none be left out or added.
/// @param path  names the file in errors
/// @throws FileError  for any other text, also where only a bit has changed
TANDEM_ONCE CheckpointManifest read_manifest(std::string_view text, std::string const& path);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// The number of exactly eight such digits.
TANDEM_ONCE std::optional<std::uint32_t> sum_of_hex(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::uint32_t sum = 0;
  for (char const c : text) {
    std::size_t const digit = digits.find(c);
    if (digit == digits.npos) {
      return {};
    }
    sum = sum << 4 | static_cast<std::uint32_t>(digit);
  }
  return text.size() == 8 ? std::optional{sum} : std::nullopt;
}

TANDEM_ONCE std::string manifest_end(std::string_view text) {
  return ",\n  \"crc32c\": \"" + hex_of_sum(crc32c(std::as_bytes(std::span{text}))) + "\"\n}\n";
}

TANDEM_ONCE std::string files_text(std::vector<FileSum> const& files) {
  std::string text;
  for (FileSum const& file : files) {
    text += text.empty() ? "\n    " : ",\n    ";
    append_json_string(text, file.name);
    text += ": {\"bytes\": " + std::to_string(file.bytes) + ", \"crc32c\": \"" +
            hex_of_sum(file.crc32c) + "\"}";
  }
  return text;
}

TANDEM_ONCE std::string write_manifest(CheckpointManifest const& manifest) {
  std::string text = "{\n  \"format\": \"tandem\",\n  \"version\": 1";
  auto const number = [&](char const* key, std::int64_t value) {
    text += ",\n  \"" + std::string{key} + "\": " + std::to_string(value);
  };
  number("step", manifest.step);
  number("epoch", manifest.epoch);
  number("position", manifest.position);
  text += ",\n  \"seed\": \"" + std::to_string(manifest.seed) + "\"";  // 64 bits: no JSON number
  text += ",\n  \"optimizer\": ";
  append_json_string(text, manifest.optimizer);
  number("processes", manifest.processes);
  text += ",\n  \"files\": {";
  text += files_text(manifest.files);
  text += "\n  }";
  return text + manifest_end(text);
}

/// Reads {"bytes": …, "crc32c": "…"}, in any order.
TANDEM_ONCE FileSum read_file_sum(JsonReader& json, std::string name) {
  std::optional<std::int64_t> bytes;
  std::optional<std::uint32_t> sum;
  json.object([&](std::string const& field) {
    if (field == "bytes" && !bytes) {
      bytes = json.natural();
    } else if (field == "crc32c" && !sum) {
      sum = sum_of_hex(json.string());
      if (!sum) {
        json.fail("a \"crc32c\" must be eight hexadecimal digits");
      }
    } else {
      json.fail("the field " + json_quoted(field) + " of a file is unknown, or there twice");
    }
  });
  if (!bytes || !sum) {
    json.fail("a file must have \"bytes\" and \"crc32c\"");
  }
  return {.name = std::move(name), .bytes = static_cast<std::uint64_t>(*bytes), .crc32c = *sum};
}

TANDEM_ONCE std::vector<FileSum> read_files(JsonReader& json) {
  std::vector<FileSum> files;
  json.object([&](std::string name) {
    if (!is_name_in_folder(name)) {
      json.fail("the name " + json_quoted(name) + " is none of a checkpoint's file");
    }
    files.push_back(read_file_sum(json, std::move(name)));
  });
  return files;
}

TANDEM_ONCE std::uint64_t read_digits(JsonReader& json) {
  std::string const digits = json.string();
  std::uint64_t value = 0;
  char const* const end = digits.data() + digits.size();
  auto const [last, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || last != end) {
    json.fail("expected a number below 2^64 in quotes");
  }
  return value;
}

TANDEM_ONCE CheckpointManifest read_manifest(std::string_view text, std::string const& path) {
  std::size_t const end_size = manifest_end("").size();
  std::size_t const size = text.size() < end_size ? 0 : text.size() - end_size;
  if (text.substr(size) != manifest_end(text.substr(0, size))) {
    throw FileError{path,
                    "it does not end with the checksum of what stands before, so it is damaged or "
                    "was edited; take another checkpoint, or another copy of this one"};
  }
  CheckpointManifest manifest;
  JsonReader json{text, path, 0, "the file"};
  std::vector<std::string> keys;
  auto const counted = [&](std::int64_t& value) {
    value = json.natural();
    if (value > std::int64_t{1} << 53) {
      json.fail("a count is beyond 2^53");
    }
  };
  json.object([&](std::string key) {
    keys.push_back(key);
    if (key == "format") {
      if (json.string() != "tandem") {
        json.fail("\"format\" must be \"tandem\"");
      }
    } else if (key == "version") {
      if (json.natural() != 1) {
        json.fail("\"version\" must be 1: a later tandem wrote this checkpoint");
      }
    } else if (key == "step") {
      counted(manifest.step);
    } else if (key == "epoch") {
      counted(manifest.epoch);
    } else if (key == "position") {
      counted(manifest.position);
    } else if (key == "seed") {
      manifest.seed = read_digits(json);
    } else if (key == "optimizer") {
      manifest.optimizer = json.string();
    } else if (key == "processes") {
      std::int64_t const processes = json.natural();
      if (processes < 1 || processes > 1 << 20) {
        json.fail("\"processes\" must be from 1 to 2^20");
      }
      manifest.processes = static_cast<int>(processes);
    } else if (key == "files") {
      manifest.files = read_files(json);
    } else if (key == "crc32c") {
      static_cast<void>(json.string());
    } else {
      json.fail("the key " + json_quoted(key) + " is unknown");
    }
  });
  json.end();
  std::vector<std::string_view> names{keys.begin(), keys.end()};
  constexpr std::size_t all_keys = 10;
  if (names.size() != all_keys || find_duplicate(names)) {
    json.fail("a key is missing, or there twice");
  }
  names.clear();
  for (FileSum const& file : manifest.files) {
    names.push_back(file.name);
  }
  if (find_duplicate(names)) {
    json.fail("a file is there twice");
  }
  return manifest;
}

}  // namespace tandem::detail

#endif
