// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// model.safetensors.index.json: which file has which of the network's tensors, as Hugging Face's
/// tools write and read it.
///
///   {"metadata": {"total_size": 123},
///    "weight_map": {"0.weight": "model-00001-of-00002.safetensors"}}

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/json/reader.hpp>
#include <tandem/io/json/string.hpp>
#include <tandem/train/checkpoint/folder/manifest.hpp>

namespace tandem::detail {

/// A tensor and the file that has it.
struct IndexEntry {
  std::string tensor;
  std::string file;
  bool operator==(IndexEntry const&) const = default;
};

/// @param bytes  of all tensors' data
TANDEM_ONCE std::string write_index(std::vector<IndexEntry> const& entries, std::int64_t bytes);

/// Reads the `weight_map` of what any such tool wrote, and passes over all else.
/// @param path  names the file in errors
/// @throws FileError  there is no `weight_map`, or it is wrong
TANDEM_ONCE std::vector<IndexEntry> read_index(std::string_view text, std::string const& path);

/// The names of the files, each once.
TANDEM_ONCE std::vector<std::string> files_of(std::vector<IndexEntry> const& entries);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string write_index(std::vector<IndexEntry> const& entries, std::int64_t bytes) {
  std::string text =
      "{\n  \"metadata\": {\"total_size\": " + std::to_string(bytes) + "},\n  \"weight_map\": {";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    text += i > 0 ? ",\n    " : "\n    ";
    append_json_string(text, entries[i].tensor);
    text += ": ";
    append_json_string(text, entries[i].file);
  }
  return text + "\n  }\n}\n";
}

TANDEM_ONCE std::vector<IndexEntry> read_index(std::string_view text, std::string const& path) {
  std::vector<IndexEntry> entries;
  JsonReader json{text, path, 0, "the file"};
  json.object([&](std::string const& key) {
    if (key == "weight_map") {
      json.object([&](std::string tensor) {
        std::string file = json.string();
        if (!is_name_in_folder(file)) {
          json.fail("the name " + json_quoted(file) + " is none of a file beside it");
        }
        entries.push_back({std::move(tensor), std::move(file)});
      });
    } else {
      json.skip();
    }
  });
  json.end();
  if (entries.empty()) {
    json.fail("there is no tensor in a \"weight_map\"");
  }
  return entries;
}

TANDEM_ONCE std::vector<std::string> files_of(std::vector<IndexEntry> const& entries) {
  std::vector<std::string> files;
  for (IndexEntry const& entry : entries) {
    files.push_back(entry.file);
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace tandem::detail

#endif
