// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointOutline: all of a checkpoint but its tensors, and where in its files those are.
///
/// One process reads it, a CheckpointStart, and sends it to the others; each then reads the tensors
/// that it is to read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/crc32c.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/folder/index.hpp>
#include <tandem/train/checkpoint/folder/manifest.hpp>
#include <tandem/train/checkpoint/folder/names.hpp>
#include <tandem/train/checkpoint/folder/read.hpp>

namespace tandem {

/// Bytes of a checkpoint's tensors that a process has read from files, and got from others.
struct LoadedBytes {
  std::int64_t read = 0;
  std::int64_t received = 0;

  bool operator==(LoadedBytes const&) const = default;
};

namespace detail {

/// A file of a checkpoint and its first bytes, to the end of its header.
struct FileStart {
  std::string name{};  ///< in the folder; "" of a checkpoint of one file
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> crc32c{};
  std::string header{};
};

/// What one process reads for all.
struct CheckpointStart {
  std::string identity{};  ///< what a copy of the checkpoint is known by
  std::vector<FileStart> files{};
  std::string position{};  ///< the data of tandem.step and its like, in the order of the tensors
};

struct TensorPlace {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::string checksum{};  ///< "" where the file has none
};

struct CheckpointOutline {
  Safetensors tensors;  ///< those of the position have data, the others get it by read_tensor()
  std::vector<TensorPlace> places{};  ///< of each
  std::vector<std::string> paths{};   ///< of each file
};

TANDEM_ONCE std::string known_by(FileStart const& only);

/// Of a checkpoint at @p path: what two copies of it have alike, and other checkpoints not.
TANDEM_ONCE std::string known_by(std::string const& path);

/// Strings, each behind its size: in this process's words, which only another of its kind reads.
TANDEM_ONCE std::string to_text(CheckpointStart const& start);

/// What to_text() was made of.
TANDEM_ONCE CheckpointStart start_of(std::string_view text);

/// @param start  the position may be missing yet
TANDEM_ONCE CheckpointOutline outline_of(std::string const& path, CheckpointStart const& start);

/// Holds a whole file against its CRC-32C. @returns its bytes
TANDEM_ONCE std::int64_t check_sum(std::string const& path, InputFile& file,
                                   FileStart const& noted);

/// Reads the tensors @p which, in the order of their places, and holds them against their
/// checksums; of those that have none the whole file.
/// @throws FileError  one cannot be read, or is damaged
TANDEM_ONCE void read_places(CheckpointStart const& start, CheckpointOutline const& outline,
                             Safetensors& tensors, std::vector<std::size_t> which,
                             LoadedBytes& bytes);

/// Reads and checks what all are to know of the checkpoint at @p path.
/// @throws FileError  as read_tensors(), but for tensors' data
TANDEM_ONCE CheckpointStart read_start(std::string const& path, LoadedBytes& bytes);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// A tensor of training's position.
TANDEM_ONCE bool is_of_position(TensorView const& tensor) {
  return tensor.name.starts_with("tandem.") && *tensor_bytes(tensor.dtype, tensor.shape) <= 128;
}

TANDEM_ONCE FileStart read_file_start(std::string const& path, std::string name) {
  InputFile file{path, Pipes::refuse};
  FileStart start{.name = std::move(name), .bytes = file.size()};
  auto const read = [&](std::uint64_t bytes) {
    start.header.resize(static_cast<std::size_t>(std::min(bytes, start.bytes)));
    file.read_at(0, reinterpret_cast<std::uint8_t*>(start.header.data()), start.header.size());
  };
  read(8);
  std::uint64_t length = 0;
  std::memcpy(&length, start.header.data(), start.header.size());
  if (length <= longest_header) {  // else the parser says so
    read(8 + length);
  }
  return start;
}

TANDEM_ONCE std::string known_by(FileStart const& only) {
  return only.header + std::to_string(only.bytes);
}

TANDEM_ONCE std::string known_by(std::string const& path) {
  if (!is_folder(path)) {
    return known_by(read_file_start(path, ""));
  }
  for (char const* const name : {manifest_name, index_name}) {
    if (std::string const own = in_folder(path, name); is_file(own)) {
      return read_small_text(own);
    }
  }
  return known_by(read_file_start(in_folder(path, whole_model_name), whole_model_name));
}

TANDEM_ONCE std::string to_text(CheckpointStart const& start) {
  std::string text;
  auto const add = [&](std::string_view part) {
    (text += std::to_string(part.size()) += ':').append(part);
  };
  add(start.identity);
  add(start.position);
  for (FileStart const& file : start.files) {
    add(file.name);
    add(std::to_string(file.bytes));
    add(file.crc32c ? std::to_string(*file.crc32c) : "");
    add(file.header);
  }
  return text;
}

TANDEM_ONCE CheckpointStart start_of(std::string_view text) {
  auto const next = [&] {
    std::size_t const size = std::stoul(std::string{text.substr(0, text.find(':'))});
    std::string part{text.substr(text.find(':') + 1, size)};
    text.remove_prefix(text.find(':') + 1 + size);
    return part;
  };
  CheckpointStart start;
  start.identity = next();
  start.position = next();
  while (!text.empty()) {
    FileStart& file = start.files.emplace_back();
    file.name = next();
    file.bytes = std::stoull(next());
    std::string const sum = next();
    if (!sum.empty()) {
      file.crc32c = static_cast<std::uint32_t>(std::stoul(sum));
    }
    file.header = next();
  }
  return start;
}

TANDEM_ONCE CheckpointOutline outline_of(std::string const& path, CheckpointStart const& start) {
  std::vector<Safetensors> parts;
  std::vector<TensorPlace> places;
  std::vector<std::string> paths;
  for (FileStart const& file : start.files) {
    paths.push_back(file.name.empty() ? path : in_folder(path, file.name));
    std::vector<std::uint64_t> begins;
    Safetensors const& part = parts.emplace_back(Safetensors::parse_start(
        std::as_bytes(std::span{file.header}), file.bytes, paths.back(), begins));
    std::size_t const first = places.size();
    for (std::uint64_t const begin : begins) {
      places.push_back({.file = paths.size() - 1, .begin = begin});
    }
    check_checksums(
        part.metadata(), [&](std::string const& name) { return part.find(name); },
        [&](TensorView const& tensor, std::string const& noted) {
          places[first + part.index_of(tensor)].checksum = noted;
        },
        paths.back());
  }
  CheckpointOutline outline{.tensors = Safetensors::join(std::move(parts), path),
                            .places = std::move(places),
                            .paths = std::move(paths)};
  std::size_t used = 0;
  auto const& tensors = outline.tensors.tensors();
  for (std::size_t i = 0; i < tensors.size() && used < start.position.size(); ++i) {
    if (is_of_position(tensors[i])) {
      std::span<std::byte> const room = outline.tensors.make_room(i);
      std::memcpy(room.data(), start.position.data() + used, room.size());
      used += room.size();
    }
  }
  return outline;
}

TANDEM_ONCE std::int64_t check_sum(std::string const& path, InputFile& file,
                                   FileStart const& noted) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  std::vector<std::uint8_t> some(static_cast<std::size_t>(std::min(piece, noted.bytes)));
  Crc32c crc;
  for (std::uint64_t begin = 0; begin < noted.bytes; begin += some.size()) {
    some.resize(static_cast<std::size_t>(std::min(piece, noted.bytes - begin)));
    file.read_at(begin, some.data(), some.size());
    crc.add(std::as_bytes(std::span{some}));
  }
  if (crc.digest() != *noted.crc32c) {
    fail_of_sum(path, crc.digest(), *noted.crc32c);
  }
  return static_cast<std::int64_t>(noted.bytes);
}

TANDEM_ONCE void read_places(CheckpointStart const& start, CheckpointOutline const& outline,
                             Safetensors& tensors, std::vector<std::size_t> which,
                             LoadedBytes& bytes) {
  auto const place = [&](std::size_t i) -> TensorPlace const& { return outline.places[i]; };
  std::sort(which.begin(), which.end(), [&](std::size_t a, std::size_t b) {
    return place(a).file != place(b).file ? place(a).file < place(b).file
                                          : place(a).begin < place(b).begin;
  });
  std::optional<InputFile> file;
  bool summed = false;
  for (std::size_t at = 0; at < which.size(); ++at) {
    TensorPlace const& own = place(which[at]);
    std::string const& path = outline.paths[own.file];
    FileStart const& noted = start.files[own.file];
    if (at == 0 || place(which[at - 1]).file != own.file) {
      file.emplace(path, Pipes::refuse);
      check_size(path, file->size(), noted.bytes);
      summed = false;
    }
    std::span<std::byte> const room = tensors.make_room(which[at]);
    file->read_at(own.begin, reinterpret_cast<std::uint8_t*>(room.data()), room.size());
    bytes.read += static_cast<std::int64_t>(room.size());
    if (!own.checksum.empty()) {
      check_tensor(tensors.tensors()[which[at]], own.checksum, path);
    } else if (noted.crc32c && !summed) {
      summed = true;
      bytes.read += check_sum(path, *file, noted);
    }
  }
}

TANDEM_ONCE CheckpointStart read_start(std::string const& path, LoadedBytes& bytes) {
  CheckpointStart start;
  CheckpointManifest manifest;
  std::vector<IndexEntry> index;
  bool const is_own = is_file(in_folder(path, manifest_name));
  if (!is_folder(path)) {
    start.identity = known_by(start.files.emplace_back(read_file_start(path, "")));
  } else if (is_own) {
    start.identity = known_by(path);
    manifest = read_manifest(start.identity, in_folder(path, manifest_name));
    for (FileSum const& noted : manifest.files) {
      std::string const own = in_folder(path, noted.name);
      if (noted.name == index_name) {
        FileBytes const file = read_summed(path, noted);
        index = read_index({reinterpret_cast<char const*>(file.bytes.get()), file.size}, own);
        continue;
      }
      FileStart& file = start.files.emplace_back(read_file_start(own, noted.name));
      check_size(own, file.bytes, noted.bytes);
      file.crc32c = noted.crc32c;
    }
  } else if (is_file(in_folder(path, index_name))) {
    start.identity = known_by(path);
    index = read_index(start.identity, in_folder(path, index_name));
    for (std::string const& name : files_of(index)) {
      start.files.push_back(read_file_start(in_folder(path, name), name));
    }
  } else if (std::string const whole = in_folder(path, whole_model_name); is_file(whole)) {
    start.identity = known_by(start.files.emplace_back(read_file_start(whole, whole_model_name)));
  } else {
    fail_of_folder(path);
  }
  CheckpointOutline outline = outline_of(path, start);
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < outline.places.size(); ++i) {
    if (is_of_position(outline.tensors.tensors()[i])) {
      numbers.push_back(i);
    }
  }
  read_places(start, outline, outline.tensors, numbers, bytes);
  for (std::size_t const i : numbers) {
    std::span<std::byte const> const data = outline.tensors.tensors()[i].data;
    start.position.append(reinterpret_cast<char const*>(data.data()), data.size());
  }
  if (is_own) {
    check_parts(outline.tensors, path, manifest, index);
  }
  return start;
}

}  // namespace tandem::detail

#endif
