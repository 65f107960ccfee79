// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Safetensors: a parsed safetensors file, its tensors as views of the bytes.
///
/// Every statement of the file is checked before it is used: a file that parses has tensors that
/// cover its data once, without hole or overlap; read() also checks the checksums of a file that
/// has some. What the numbers mean is not checked. A tensor of a type that is not known is listed
/// as OTHER.
/// Source: the format description in the README of the safetensors project.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/layout.hpp>

namespace tandem {

namespace detail {
struct FileBytes;
struct SafetensorsEntry;
}  // namespace detail

/// The tensors and the metadata of a file. Moving it leaves the views valid.
class Safetensors {
 public:
  /// Reads the whole file at @p path into memory and parses it; the result owns the bytes.
  ///
  /// Cost: one allocation of the file's size, and one pass over the tensors that have checksums.
  /// @throws FileError  the file cannot be read, is not a valid safetensors file, or a tensor's
  ///                    checksum is not that of its bytes
  TANDEM_ONCE [[nodiscard]] static Safetensors read(std::string const& path);

  /// Likewise of bytes that have been read, as parse().
  TANDEM_ONCE [[nodiscard]] static Safetensors parse_checked(std::span<std::byte const> bytes,
                                                             std::string const& path);

  /// Parses @p file, which the result owns; checksums are not looked at.
  /// @throws FileError  as parse() does
  TANDEM_ONCE [[nodiscard]] static Safetensors parse(detail::FileBytes file,
                                                     std::string const& path);

  /// The tensors of all @p parts, in their order, and the metadata of the first, but for checksums.
  /// @param path  names them in errors
  /// @throws FileError  there are no parts, or a tensor is in two of them
  TANDEM_ONCE [[nodiscard]] static Safetensors join(std::vector<Safetensors> parts,
                                                    std::string const& path);

  /// Parses @p bytes, which must outlive the result; @p path names them in errors.
  ///
  /// Cost: O(header) + O(n log n) comparisons of names and offsets for n tensors; no data is read.
  /// @throws FileError  the bytes are not a valid safetensors file; the text says where and why
  TANDEM_ONCE [[nodiscard]] static Safetensors parse(std::span<std::byte const> bytes,
                                                     std::string const& path);

  /// Parses the beginning of a file of @p size bytes, with its whole header; tensors have no data,
  /// see make_room(). Sets @p begins to where in the file that of each begins.
  /// @throws FileError  as parse() does
  TANDEM_ONCE [[nodiscard]] static Safetensors parse_start(std::span<std::byte const> bytes,
                                                           std::uint64_t size,
                                                           std::string const& path,
                                                           std::vector<std::uint64_t>& begins);

  /// Memory for the data of tensor number @p i, which this owns; what it has is not yet set.
  /// @throws FileError  there is no memory
  TANDEM_ONCE std::span<std::byte> make_room(std::size_t i);

  /// In the order of the header.
  [[nodiscard]] std::vector<TensorView> const& tensors() const noexcept { return tensors_; }

  /// Which of tensors() it is.
  [[nodiscard]] std::size_t index_of(TensorView const& own) const noexcept {
    return static_cast<std::size_t>(&own - tensors_.data());
  }

  /// The tensor of this name, or null. O(log n).
  TANDEM_ONCE [[nodiscard]] TensorView const* find(std::string_view name) const noexcept;

  /// The tensor of this name.
  /// @throws FileError  there is none
  TANDEM_ONCE [[nodiscard]] TensorView const& at(std::string_view name) const;

  /// In the order of the header.
  [[nodiscard]] SafetensorsMetadata const& metadata() const noexcept { return metadata_; }

  /// The metadata under this key, or null. O(n).
  TANDEM_ONCE [[nodiscard]] std::string const* find_metadata(std::string_view key) const noexcept;

 private:
  TANDEM_ONCE Safetensors(std::string path, SafetensorsMetadata metadata);

  TANDEM_ONCE static std::uint64_t header_length(std::span<std::byte const> bytes,
                                                 std::uint64_t size, std::string const& path);

  /// @param data  data(entry): that of a tensor
  template <class Data>
  static Safetensors parse_header(std::span<std::byte const> bytes, std::uint64_t length,
                                  std::uint64_t size, std::string const& path, Data const& data);

  /// The tensors, sorted by their place, must lie end to end from 0 to @p size.
  TANDEM_ONCE static void check_cover(std::span<detail::SafetensorsEntry const> entries,
                                      std::int64_t size, std::string const& path);

  TANDEM_ONCE void sort_names();

  std::string path_;
  SafetensorsMetadata metadata_;
  std::vector<TensorView> tensors_;
  std::vector<std::size_t> by_name_;
  std::vector<std::unique_ptr<std::byte[]>> owned_;  // none where the caller owns the bytes
};

}  // namespace tandem

#if TANDEM_BODIES

#include <tandem/io/json/string.hpp>
#include <tandem/io/safetensors/checksum.hpp>
#include <tandem/io/safetensors/file.hpp>
#include <tandem/io/safetensors/header.hpp>

namespace tandem {

template <class Data>
Safetensors Safetensors::parse_header(std::span<std::byte const> bytes, std::uint64_t length,
                                      std::uint64_t size, std::string const& path,
                                      Data const& data) {
  std::span<std::byte const> const header = bytes.subspan(8, static_cast<std::size_t>(length));
  detail::SafetensorsHeader parsed = detail::read_safetensors_header(
      {reinterpret_cast<char const*>(header.data()), header.size()}, path, 8);
  check_cover(parsed.entries, static_cast<std::int64_t>(size - 8 - length), path);

  Safetensors result{path, std::move(parsed.metadata)};
  result.tensors_.reserve(parsed.entries.size());
  for (detail::SafetensorsEntry& entry : parsed.entries) {
    std::span<std::byte const> const own = data(entry);
    result.tensors_.push_back({std::move(entry.spec.name), entry.spec.dtype,
                               std::move(entry.spec.shape), own, std::move(entry.other)});
  }
  result.sort_names();
  return result;
}

TANDEM_ONCE Safetensors Safetensors::read(std::string const& path) {
  detail::FileBytes file = detail::read_whole_file(path);
  Safetensors parsed = parse_checked(file.span(), path);
  parsed.owned_.push_back(std::move(file.bytes));
  return parsed;
}

TANDEM_ONCE Safetensors Safetensors::parse_checked(std::span<std::byte const> bytes,
                                                   std::string const& path) {
  Safetensors parsed = parse(bytes, path);
  check_checksums(
      parsed.metadata_, [&](std::string const& name) { return parsed.find(name); },
      [&](TensorView const& tensor, std::string const& noted) {
        check_tensor(tensor, noted, path);
      },
      path);
  return parsed;
}

TANDEM_ONCE Safetensors Safetensors::parse(detail::FileBytes file, std::string const& path) {
  Safetensors parsed = parse(file.span(), path);
  parsed.owned_.push_back(std::move(file.bytes));
  return parsed;
}

TANDEM_ONCE Safetensors Safetensors::join(std::vector<Safetensors> parts, std::string const& path) {
  if (parts.empty()) {
    throw FileError{path, "there is no file of tensors"};
  }
  Safetensors all{path, std::move(parts[0].metadata_)};
  std::erase_if(all.metadata_, [](auto const& m) { return detail::is_checksum_key(m.first); });
  std::vector<std::string_view> names;
  for (Safetensors& part : parts) {
    std::move(part.tensors_.begin(), part.tensors_.end(), std::back_inserter(all.tensors_));
    std::move(part.owned_.begin(), part.owned_.end(), std::back_inserter(all.owned_));
  }
  for (TensorView const& tensor : all.tensors_) {
    names.push_back(tensor.name);
  }
  if (auto const name = detail::find_duplicate(names)) {
    throw FileError{path, "the tensor " + detail::json_quoted(*name) + " is in two files"};
  }
  all.sort_names();
  return all;
}

TANDEM_ONCE Safetensors Safetensors::parse(std::span<std::byte const> bytes,
                                           std::string const& path) {
  std::uint64_t const length = header_length(bytes, bytes.size(), path);
  std::span<std::byte const> const data = bytes.subspan(8 + static_cast<std::size_t>(length));
  return parse_header(bytes, length, bytes.size(), path, [&](auto const& entry) {
    return data.subspan(static_cast<std::size_t>(entry.begin),
                        static_cast<std::size_t>(entry.end - entry.begin));
  });
}

TANDEM_ONCE Safetensors Safetensors::parse_start(std::span<std::byte const> bytes,
                                                 std::uint64_t size, std::string const& path,
                                                 std::vector<std::uint64_t>& begins) {
  begins.clear();
  std::uint64_t const length = header_length(bytes, size, path);
  return parse_header(bytes, length, size, path, [&](auto const& entry) {
    begins.push_back(8 + length + static_cast<std::uint64_t>(entry.begin));
    return std::span<std::byte const>{};
  });
}

TANDEM_ONCE std::span<std::byte> Safetensors::make_room(std::size_t i) {
  TensorView& tensor = tensors_[i];
  auto const bytes = static_cast<std::size_t>(*tensor_bytes(tensor.dtype, tensor.shape));
  owned_.emplace_back(new (std::nothrow) std::byte[bytes]);
  if (owned_.back() == nullptr) {
    throw FileError{path_, "there is no memory for the " + std::to_string(bytes) +
                               " bytes of tensor " + detail::json_quoted(tensor.name)};
  }
  tensor.data = {owned_.back().get(), bytes};
  return {owned_.back().get(), bytes};
}

TANDEM_ONCE TensorView const* Safetensors::find(std::string_view name) const noexcept {
  auto const place = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::size_t i, std::string_view n) { return tensors_[i].name.compare(n) < 0; });
  return place != by_name_.end() && tensors_[*place].name == name ? &tensors_[*place] : nullptr;
}

TANDEM_ONCE TensorView const& Safetensors::at(std::string_view name) const {
  TensorView const* const tensor = find(name);
  if (tensor == nullptr) {
    throw FileError{path_, "there is no tensor " + detail::json_quoted(name) + " among the " +
                               std::to_string(tensors_.size()) + " of this file"};
  }
  return *tensor;
}

TANDEM_ONCE Safetensors::Safetensors(std::string path, SafetensorsMetadata metadata)
    : path_{std::move(path)}, metadata_{std::move(metadata)} {}

TANDEM_ONCE std::uint64_t Safetensors::header_length(std::span<std::byte const> bytes,
                                                     std::uint64_t size, std::string const& path) {
  if (size < 8) {
    throw FileError{path, "the file has " + std::to_string(size) +
                              " bytes; a safetensors file begins with an 8-byte length"};
  }
  std::uint64_t length = 0;
  for (std::size_t byte = 8; byte-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(bytes[byte]);
  }
  if (length > detail::longest_header) {
    throw FileError{path, "the header claims " + std::to_string(length) +
                              " bytes, more than the 100,000,000 that are allowed; it is probably "
                              "not a safetensors file"};
  }
  if (length > size - 8) {
    throw FileError{path, "the header claims " + std::to_string(length) + " bytes, but only " +
                              std::to_string(size - 8) + " follow; the file is cut off"};
  }
  return length;
}

TANDEM_ONCE void Safetensors::check_cover(std::span<detail::SafetensorsEntry const> entries,
                                          std::int64_t size, std::string const& path) {
  std::vector<detail::SafetensorsEntry const*> sorted;
  for (detail::SafetensorsEntry const& entry : entries) {
    if (entry.end > size) {
      throw FileError{path, "tensor " + detail::json_quoted(entry.spec.name) + " ends at byte " +
                                std::to_string(entry.end) + " of the data, which has only " +
                                std::to_string(size) + "; the file is cut off or damaged"};
    }
    sorted.push_back(&entry);
  }
  std::sort(sorted.begin(), sorted.end(), [](auto const* a, auto const* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::int64_t covered = 0;
  for (detail::SafetensorsEntry const* const entry : sorted) {
    if (entry->begin != covered) {
      throw FileError{path, "tensor " + detail::json_quoted(entry->spec.name) + " begins at byte " +
                                std::to_string(entry->begin) + " of the data, but " +
                                (entry->begin < covered ? "overlaps" : "leaves a hole after") +
                                " the tensors that end at byte " + std::to_string(covered)};
    }
    covered = entry->end;
  }
  if (covered != size) {
    throw FileError{path, "the file goes on for " + std::to_string(size - covered) +
                              " bytes after the last tensor"};
  }
}

TANDEM_ONCE void Safetensors::sort_names() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    by_name_.push_back(i);
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
}

TANDEM_ONCE std::string const* Safetensors::find_metadata(std::string_view key) const noexcept {
  for (auto const& [name, value] : metadata_) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

}  // namespace tandem

#endif
