// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The IDX format of MNIST and Fashion-MNIST: a checked parser, and one split as a Dataset.
///
/// Only what those sets use: unsigned bytes, of rank 1 (labels) or 3 (images). Whole folders are
/// read by mnist.hpp.
/// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits", file formats

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// What an IDX header promises, once the file has been seen to keep it.
struct IdxHeader {
  std::int64_t count = 0;  ///< samples
  int rows = 1;
  int columns = 1;
  std::size_t bytes = 0;  ///< of the header itself: where the values start
};

/// Checks the IDX file with content @p bytes, of @p rank 1 (labels) or 3 (images).
///
/// @throws FileError  another magic number, an extent of 0 or absurdly large, or a header that does
///                    not agree with the number of bytes; @p name is for the message
TANDEM_ONCE [[nodiscard]] TANDEM_COLD IdxHeader parse_idx(std::span<std::uint8_t const> bytes,
                                                          std::string const& name, int rank);

/// Images and labels of one IDX split, in memory as bytes; a Dataset of (1, rows, columns) images
/// with pixels in [0, 1], a byte divided by 255.
class IdxSplit {
 public:
  using Target = std::int32_t;

  /// @param images, labels            the contents of the two files
  /// @param images_name, labels_name  for messages
  /// @throws FileError  see parse_idx; or the counts differ; or a label is not below @p classes
  TANDEM_ONCE IdxSplit(std::vector<std::uint8_t> images, std::vector<std::uint8_t> labels,
                       std::string const& images_name, std::string const& labels_name,
                       int classes = 10);

  /// @pre 0 <= index < size(), x.size() == shape().elements(), y.size() == 1
  TANDEM_ONCE void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const;

  [[nodiscard]] std::int64_t size() const noexcept { return header_.count; }
  [[nodiscard]] Shape shape() const noexcept {
    return image_shape(1, header_.rows, header_.columns);
  }
  [[nodiscard]] int targets() const noexcept { return 1; }
  [[nodiscard]] int classes() const noexcept { return classes_; }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
  IdxHeader header_;
  std::size_t first_label_ = 0;
  int classes_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

namespace detail {

TANDEM_ONCE std::uint32_t big_endian(std::span<std::uint8_t const> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 |
         static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | static_cast<std::uint32_t>(bytes[at + 3]);
}

TANDEM_ONCE std::string hexadecimal(std::uint32_t word) {
  std::string text = "0x00000000";
  for (std::size_t digit = 10; digit-- > 2; word >>= 4) {
    text[digit] = "0123456789abcdef"[word & 15U];
  }
  return text;
}

TANDEM_ONCE TANDEM_COLD std::string idx_kind(std::uint32_t magic) {
  std::string const kind = magic == 0x801          ? ", labels"
                           : magic == 0x803        ? ", images"
                           : magic >> 16 == 0x1F8B ? ", a gzip file"
                           : magic >> 24 == '<'    ? ", a web page; download the file again"
                                                   : "";
  return hexadecimal(magic) + kind;
}

}  // namespace detail

TANDEM_ONCE IdxHeader parse_idx(std::span<std::uint8_t const> bytes, std::string const& name,
                                int rank) {
  expects(rank == 1 || rank == 3, "parse_idx: rank must be 1 (labels) or 3 (images)");
  std::size_t const header = 4 + 4 * static_cast<std::size_t>(rank);
  std::uint32_t const expected = 0x800U + static_cast<std::uint32_t>(rank);
  if (bytes.size() >= 4 && detail::big_endian(bytes, 0) != expected) {
    throw FileError{name, "expected an IDX file with magic number " + detail::idx_kind(expected) +
                              "; found " + detail::idx_kind(detail::big_endian(bytes, 0))};
  }
  if (bytes.size() < header) {
    throw FileError{name, "the file is truncated: expected an IDX header of " +
                              std::to_string(header) + " bytes, found " +
                              std::to_string(bytes.size()) + " bytes"};
  }
  std::uint64_t extent[3] = {1, 1, 1};
  std::string text;
  bool sane = true;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(rank); ++axis) {
    extent[axis] = detail::big_endian(bytes, 4 + 4 * axis);
    text += (axis > 0 ? " x " : "") + std::to_string(extent[axis]);
    sane = sane && extent[axis] > 0 && extent[axis] <= (axis == 0 ? 0x7FFFFFFFU : 0xFFFFU);
  }
  if (!sane) {
    throw FileError{name,
                    "expected between 1 and 2147483647 samples of between 1 and 65535 rows "
                    "and columns, found " +
                        text};
  }
  std::uint64_t const size = header + extent[0] * extent[1] * extent[2];  // < 2^63 + 16
  if (size != bytes.size()) {
    throw FileError{
        name, std::string{bytes.size() < size ? "the file is truncated" : "the file is too long"} +
                  ": expected " + std::to_string(size) + " bytes for a header and " + text +
                  " values, found " + std::to_string(bytes.size()) + " bytes"};
  }
  return {static_cast<std::int64_t>(extent[0]), static_cast<int>(extent[1]),
          static_cast<int>(extent[2]), header};
}

TANDEM_ONCE IdxSplit::IdxSplit(std::vector<std::uint8_t> images, std::vector<std::uint8_t> labels,
                               std::string const& images_name, std::string const& labels_name,
                               int classes)
    : images_{std::move(images)}, labels_{std::move(labels)}, classes_{classes} {
  header_ = parse_idx(images_, images_name, 3);
  IdxHeader const label_header = parse_idx(labels_, labels_name, 1);
  first_label_ = label_header.bytes;
  if (label_header.count != header_.count) {
    throw FileError{labels_name, "expected " + std::to_string(header_.count) +
                                     " labels, one for each image of '" + images_name +
                                     "', found " + std::to_string(label_header.count)};
  }
  for (std::size_t i = first_label_; i < labels_.size(); ++i) {
    if (labels_[i] >= classes_) {
      throw FileError{labels_name, "label out of range: expected labels from 0 to " +
                                       std::to_string(classes_ - 1) + ", found " +
                                       std::to_string(labels_[i]) + " for sample " +
                                       std::to_string(i - first_label_)};
    }
  }
}

TANDEM_ONCE void IdxSplit::read(std::int64_t index, std::span<float> x,
                                std::span<std::int32_t> y) const {
  std::size_t const pixels = static_cast<std::size_t>(shape().elements());
  expects(index >= 0 && index < size(), "IdxSplit::read: the index must be in [0, size())");
  expects(x.size() == pixels && y.size() == 1,
          "IdxSplit::read: x takes rows * columns numbers, y takes one label");
  std::uint8_t const* const image =
      images_.data() + header_.bytes + static_cast<std::size_t>(index) * pixels;
  for (std::size_t i = 0; i < pixels; ++i) {
    x[i] = static_cast<float>(image[i]) / 255.0F;
  }
  y[0] = labels_[first_label_ + static_cast<std::size_t>(index)];
}

}  // namespace tandem

#endif
