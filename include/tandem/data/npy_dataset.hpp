// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NpyDataset: a Dataset of two .npy files, which are mapped, not read.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/npy_header.hpp>
#include <tandem/io/mapped_file.hpp>

namespace tandem {

struct NpyOptions {
  Shape shape{};       ///< of a sample, of as many elements as the file has; none: the file's
  float scale = 1.0F;  ///< times which x is: 1.0F / 255 of bytes
};

namespace detail {

/// A mapped array whose axis 0 is samples.
class NpyArray {
 public:
  TANDEM_ONCE explicit NpyArray(std::string const& path);

  [[nodiscard]] NpyHeader const& header() const noexcept { return header_; }
  [[nodiscard]] std::int64_t samples() const noexcept { return header_.extent[0]; }
  [[nodiscard]] std::int64_t width() const noexcept { return header_.elements / samples(); }

  /// Calls @p take(i, value) for elements [first, first + count), with its type.
  template <class Take>
  void read(std::int64_t first, std::size_t count, Take const& take) const {
    switch (header_.type) {
      case NpyType::u1:
        return read_as<std::uint8_t>(first, count, take);
      case NpyType::i4:
        return read_as<std::int32_t>(first, count, take);
      case NpyType::i8:
        return read_as<std::int64_t>(first, count, take);
      case NpyType::f4:
        return read_as<float>(first, count, take);
      case NpyType::f8:
        return read_as<double>(first, count, take);
    }
  }

 private:
  template <class E, class Take>
  void read_as(std::int64_t first, std::size_t count, Take const& take) const {
    std::uint8_t const* from =
        file_.bytes().data() + header_.bytes + static_cast<std::size_t>(first) * sizeof(E);
    for (std::size_t i = 0; i < count; ++i, from += sizeof(E)) {
      E value;
      std::memcpy(&value, from, sizeof(E));  // the header need not end where an E may stand
      take(i, value);
    }
  }

  MappedFile file_;
  NpyHeader header_;
};

}  // namespace detail

/// The primary template is the error path: T is no element of a target.
template <class T = std::int32_t>
class NpyDataset {
  static_assert(DataTarget<T>,
                "NpyDataset<T>: T must be std::int32_t (labels) or float (regression)");
};

/// Samples in two files that numpy.save wrote: x (size, shape), y (size) or (size, targets), of
/// bytes, bools, int32, int64, float32 or float64; images stand as (channels, height, width).
///
/// Cost: address space for the files; what is read of them is the system's to keep or to drop.
///       The labels are looked at once, by the constructor.
template <DataTarget T>
class NpyDataset<T> {
 public:
  using Target = T;

  /// @throws FileError      a file is missing or not what parse_npy() takes, they differ in the
  ///                        number of samples, or labels are no whole numbers from -1 to 2^31 - 2
  /// @throws ContractError  options.shape has another number of elements than a sample
  NpyDataset(std::string const& x, std::string const& y, NpyOptions const& options = {})
      : x_{x}, y_{y}, shape_{options.shape}, scale_{options.scale} {
    if (y_.samples() != x_.samples()) {
      throw FileError{y, "expected targets of " + std::to_string(x_.samples()) +
                             " samples, one for each of '" + x + "', found " +
                             std::to_string(y_.samples())};
    }
    std::int64_t const most = std::max(x_.width(), y_.width());
    if (most > 0x7FFFFFFF) {
      throw FileError{x_.width() == most ? x : y, "a sample has more than 2147483647 numbers"};
    }
    if (shape_.rank == 0) {
      NpyHeader const& header = x_.header();
      shape_.rank = header.rank == 1 ? 1 : header.rank - 1;
      shape_.extent[0] = 1;
      for (int axis = 1; axis < header.rank; ++axis) {
        shape_.extent[axis - 1] = static_cast<int>(header.extent[axis]);
      }
    }
    expects(shape_.elements() == x_.width(),
            "NpyOptions: shape must have as many elements as a sample of the file");
    if constexpr (std::is_same_v<T, std::int32_t>) {
      check_labels(y);
    }
  }

  /// @pre 0 <= index < size(), x.size() == shape().elements(), y.size() == targets()
  void read(std::int64_t index, std::span<float> x, std::span<T> y) const {
    expects(index >= 0 && index < size(), "NpyDataset::read: the index must be in [0, size())");
    expects(static_cast<std::int64_t>(x.size()) == x_.width() &&
                static_cast<std::int64_t>(y.size()) == y_.width(),
            "NpyDataset::read: x takes shape().elements() numbers, y takes targets()");
    x_.read(index * x_.width(), x.size(),
            [&](std::size_t i, auto value) { x[i] = static_cast<float>(value) * scale_; });
    y_.read(index * y_.width(), y.size(),
            [&](std::size_t i, auto value) { y[i] = static_cast<T>(value); });
  }

  [[nodiscard]] std::int64_t size() const noexcept { return x_.samples(); }
  [[nodiscard]] Shape shape() const noexcept { return shape_; }
  [[nodiscard]] int targets() const noexcept { return static_cast<int>(y_.width()); }
  /// One more than the largest label.
  [[nodiscard]] int classes() const noexcept requires std::same_as<T, std::int32_t> {
    return classes_;
  }

 private:
  void check_labels(std::string const& y) {
    NpyType const type = y_.header().type;
    if (type == NpyType::f4 || type == NpyType::f8) {
      throw FileError{y,
                      "labels are whole numbers, but these are floats: save y.astype(\"<i4\"), or "
                      "for regression take NpyDataset<float>"};
    }
    y_.read(0, static_cast<std::size_t>(y_.header().elements), [&](std::size_t i, auto value) {
      auto const label = static_cast<std::int64_t>(value);
      if (label < -1 || label > 0x7FFFFFFE) {
        throw FileError{y, "label out of range: expected labels from 0, or -1 for none, found " +
                               std::to_string(label) + " at place " + std::to_string(i)};
      }
      classes_ = std::max(classes_, static_cast<int>(label) + 1);
    });
  }

  detail::NpyArray x_;
  detail::NpyArray y_;
  Shape shape_;
  float scale_;
  int classes_ = 0;
};

/// Without an argument the targets are labels.
NpyDataset(std::string const&, std::string const&)->NpyDataset<std::int32_t>;
NpyDataset(std::string const&, std::string const&, NpyOptions const&)->NpyDataset<std::int32_t>;

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE NpyArray::NpyArray(std::string const& path)
    : file_{path}, header_{parse_npy(file_.bytes(), path)} {
  if (header_.rank == 0) {
    throw FileError{path, "the .npy file holds one number, expected an array of samples"};
  }
}

}  // namespace tandem::detail

#endif
