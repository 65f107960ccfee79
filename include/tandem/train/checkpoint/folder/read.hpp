// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tensors of a checkpoint or of a model: one safetensors file, or a folder of them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/folder/index.hpp>
#include <tandem/train/checkpoint/folder/manifest.hpp>
#include <tandem/train/checkpoint/folder/names.hpp>

namespace tandem::detail {

/// The text of a small file.
TANDEM_ONCE std::string read_small_text(std::string const& path);

/// @throws FileError  a file of a checkpoint has other than the noted bytes
TANDEM_ONCE void check_size(std::string const& path, std::uint64_t bytes, std::uint64_t noted);

TANDEM_ONCE [[noreturn]] void fail_of_sum(std::string const& path, std::uint32_t now,
                                          std::uint32_t noted);

/// A file of a checkpoint, which must be what tandem.json says.
TANDEM_ONCE FileBytes read_summed(std::string const& folder, FileSum const& noted);

/// The tensors are of the step of tandem.json, and those of the index are there.
TANDEM_ONCE void check_parts(Safetensors const& all, std::string const& folder,
                             CheckpointManifest const& manifest,
                             std::vector<IndexEntry> const& index);

/// For a folder that has neither tandem.json nor an index nor one file of the whole model.
TANDEM_ONCE [[noreturn]] void fail_of_folder(std::string const& path);

/// All tensors of the safetensors file at @p path; or of the folder there: a checkpoint's, or a
/// model's, with an index or as one model.safetensors.
/// @throws FileError  a file is not there, is not what it should be, or is damaged; or the folder
///                    is none of these
TANDEM_ONCE Safetensors read_tensors(std::string const& path);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string read_small_text(std::string const& path) {
  FileBytes const file = read_whole_file(path);
  return {reinterpret_cast<char const*>(file.bytes.get()), file.size};
}

TANDEM_ONCE void check_size(std::string const& path, std::uint64_t bytes, std::uint64_t noted) {
  if (bytes != noted) {
    throw FileError{path, "it has " + std::to_string(bytes) + " bytes, but " +
                              std::to_string(noted) +
                              " were written; take another copy of "
                              "the checkpoint, or an earlier one"};
  }
}

TANDEM_ONCE void fail_of_sum(std::string const& path, std::uint32_t now, std::uint32_t noted) {
  throw FileError{path, "it is damaged: its CRC-32C is " + hex_of_sum(now) +
                            ", but it was written with " + hex_of_sum(noted) +
                            "; take another copy of the checkpoint, or an earlier one"};
}

TANDEM_ONCE FileBytes read_summed(std::string const& folder, FileSum const& noted) {
  std::string const path = in_folder(folder, noted.name);
  FileBytes file = read_whole_file(path);
  check_size(path, file.size, noted.bytes);
  if (std::uint32_t const now = crc32c(file.span()); now != noted.crc32c) {
    static_cast<void>(
        Safetensors::parse_checked(file.span(), path));  // names the tensor, if it can
    fail_of_sum(path, now, noted.crc32c);
  }
  return file;
}

TANDEM_ONCE void check_parts(Safetensors const& all, std::string const& folder,
                             CheckpointManifest const& manifest,
                             std::vector<IndexEntry> const& index) {
  TensorView const* const step = all.find("tandem.step");
  if (step != nullptr && step->data.size() == sizeof(std::int64_t)) {
    std::int64_t value;
    std::memcpy(&value, step->data.data(), sizeof value);
    if (value != manifest.step) {
      throw FileError{folder, "the tensors are of step " + std::to_string(value) +
                                  ", but tandem.json of step " + std::to_string(manifest.step) +
                                  "; files of two checkpoints were mixed"};
    }
  }
  for (IndexEntry const& entry : index) {
    static_cast<void>(all.at(entry.tensor));
  }
}

/// A folder that was written by tandem.
TANDEM_ONCE Safetensors read_checkpoint_folder(std::string const& folder) {
  std::string const about = in_folder(folder, manifest_name);
  CheckpointManifest const manifest = read_manifest(read_small_text(about), about);
  std::vector<Safetensors> parts;
  std::vector<IndexEntry> index;
  for (FileSum const& noted : manifest.files) {
    FileBytes file = read_summed(folder, noted);
    std::string const path = in_folder(folder, noted.name);
    if (noted.name == index_name) {
      index = read_index({reinterpret_cast<char const*>(file.bytes.get()), file.size}, path);
    } else {
      parts.push_back(Safetensors::parse(std::move(file), path));
    }
  }
  Safetensors all = Safetensors::join(std::move(parts), folder);
  check_parts(all, folder, manifest, index);
  return all;
}

/// A folder of a model as Hugging Face's tools write it: an index and its files.
TANDEM_ONCE Safetensors read_indexed_folder(std::string const& folder) {
  std::string const path = in_folder(folder, index_name);
  std::vector<IndexEntry> const index = read_index(read_small_text(path), path);
  std::vector<Safetensors> parts;
  for (std::string const& name : files_of(index)) {
    parts.push_back(Safetensors::read(in_folder(folder, name)));
  }
  Safetensors all = Safetensors::join(std::move(parts), folder);
  for (IndexEntry const& entry : index) {
    static_cast<void>(all.at(entry.tensor));
  }
  return all;
}

TANDEM_ONCE void fail_of_folder(std::string const& path) {
  std::vector<std::int64_t> const steps = complete_checkpoints(path);
  throw FileError{path, steps.empty()
                            ? std::string{"this is a folder without tandem.json, "} + index_name +
                                  " or " + whole_model_name + ", so it is no complete checkpoint"
                            : "this is a folder of checkpoints; give one of them, of "
                              "which the newest is '" +
                                  in_folder(path, checkpoint_name(steps.back())) + "'"};
}

TANDEM_ONCE Safetensors read_tensors(std::string const& path) {
  if (!is_folder(path)) {
    return Safetensors::read(path);
  }
  if (is_file(in_folder(path, manifest_name))) {
    return read_checkpoint_folder(path);
  }
  if (is_file(in_folder(path, index_name))) {
    return read_indexed_folder(path);
  }
  if (std::string const whole = in_folder(path, whole_model_name); is_file(whole)) {
    return Safetensors::read(whole);
  }
  fail_of_folder(path);
}

}  // namespace tandem::detail

#endif
