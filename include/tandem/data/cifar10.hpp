// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CIFAR-10 in its binary version: a checked parser, a split as a Dataset, and the whole folder.
///
/// A record is one label byte and 3072 pixels, 32 x 32 red, then green, then blue; a file is
/// nothing but records. Source: Krizhevsky, "Learning multiple layers of features from tiny
/// images", 2009; binary version

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
#include <tandem/io/file.hpp>

namespace tandem {

inline constexpr Shape cifar10_shape = image_shape(3, 32, 32);

/// Bytes of one record: its label, then its pixels.
inline constexpr std::size_t cifar10_record = 1 + 3 * 32 * 32;

/// The number of records in @p bytes.
/// @throws FileError  not a whole number of records, or none, or a label above 9; @p name is for
///                    the message
TANDEM_ONCE [[nodiscard]] std::int64_t parse_cifar10(std::span<std::uint8_t const> bytes,
                                                     std::string const& name);

/// Records of CIFAR-10, in memory as bytes; a Dataset of (3, 32, 32) images with pixels in [0, 1],
/// a byte divided by 255.
class Cifar10Split {
 public:
  using Target = std::int32_t;

  /// Any number of records, such as a part of the original files.
  /// @throws FileError  see parse_cifar10; @p name is for the message
  TANDEM_ONCE Cifar10Split(std::vector<std::uint8_t> records, std::string const& name);

  /// @pre 0 <= index < size(), x.size() == 3072, y.size() == 1
  TANDEM_ONCE void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const;

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] Shape shape() const noexcept { return cifar10_shape; }
  [[nodiscard]] int targets() const noexcept { return 1; }
  [[nodiscard]] int classes() const noexcept { return 10; }

 private:
  std::vector<std::uint8_t> records_;
  std::int64_t size_;
};

/// A folder with `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or the folder
/// around it that the archive makes, which holds `cifar-10-batches-bin`.
///
/// Cost: both splits stay in memory as bytes, 184 MB.
class Cifar10 {
 public:
  /// @throws FileError  the folder or a file is missing, or a file does not hold 10,000 records
  TANDEM_ONCE explicit Cifar10(std::string const& folder);

  [[nodiscard]] Cifar10Split const& train() const& noexcept { return train_; }
  [[nodiscard]] Cifar10Split const& test() const& noexcept { return test_; }
  Cifar10Split const& train() const&& = delete;  // Cifar10 owns its splits: give it a name
  Cifar10Split const& test() const&& = delete;

 private:
  static constexpr std::size_t file_bytes = 10000 * cifar10_record;

  TANDEM_ONCE static std::string located(std::string const& folder);

  TANDEM_ONCE static Cifar10Split read(std::string const& folder,
                                       std::vector<std::string> const& names);

  Cifar10Split train_;
  Cifar10Split test_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::int64_t parse_cifar10(std::span<std::uint8_t const> bytes,
                                       std::string const& name) {
  if (bytes.size() % cifar10_record != 0 && bytes.size() % (cifar10_record + 1) == 0) {
    throw FileError{
        name,
        "the size is that of records of CIFAR-100, which have two labels each; expected "
        "a file of CIFAR-10's binary version"};
  }
  if (bytes.empty() || bytes.size() % cifar10_record != 0) {
    throw FileError{name, "truncated or oversized: expected a whole number of records of " +
                              std::to_string(cifar10_record) + " bytes, found " +
                              std::to_string(bytes.size()) + " bytes, " +
                              std::to_string(bytes.size() % cifar10_record) + " more than " +
                              std::to_string(bytes.size() / cifar10_record) + " records"};
  }
  std::size_t const records = bytes.size() / cifar10_record;
  for (std::size_t record = 0; record < records; ++record) {
    int const label = bytes[record * cifar10_record];
    if (label > 9) {
      throw FileError{name, "label out of range: expected labels from 0 to 9, found " +
                                std::to_string(label) + " in record " + std::to_string(record)};
    }
  }
  return static_cast<std::int64_t>(records);
}

TANDEM_ONCE Cifar10Split::Cifar10Split(std::vector<std::uint8_t> records, std::string const& name)
    : records_{std::move(records)}, size_{parse_cifar10(records_, name)} {}

TANDEM_ONCE void Cifar10Split::read(std::int64_t index, std::span<float> x,
                                    std::span<std::int32_t> y) const {
  expects(index >= 0 && index < size_, "Cifar10Split::read: the index must be in [0, size())");
  expects(x.size() == cifar10_record - 1 && y.size() == 1,
          "Cifar10Split::read: x takes 3072 numbers, y takes one label");
  std::uint8_t const* const record =
      records_.data() + static_cast<std::size_t>(index) * cifar10_record;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(record[i + 1]) / 255.0F;
  }
  y[0] = record[0];
}

TANDEM_ONCE Cifar10::Cifar10(std::string const& folder)
    : train_{read(located(folder), {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin"})},
      test_{read(located(folder), {"test_batch.bin"})} {}

TANDEM_ONCE Cifar10Split Cifar10::read(std::string const& folder,
                                       std::vector<std::string> const& names) {
  std::vector<std::uint8_t> records;
  records.reserve(names.size() * file_bytes);
  for (std::string const& name : names) {
    std::string const path = folder + "/" + name;
    std::vector<std::uint8_t> const file = read_file(path);
    std::int64_t const count = parse_cifar10(file, path);
    if (count != 10000) {
      throw FileError{
          path, "expected the 10000 records of a file of CIFAR-10, found " + std::to_string(count)};
    }
    records.insert(records.end(), file.begin(), file.end());
  }
  return {std::move(records), folder};
}

TANDEM_ONCE std::string Cifar10::located(std::string const& folder) {
  std::string const inner = folder + "/cifar-10-batches-bin";
  if (folder_exists(inner)) {
    return inner;
  }
  if (!folder_exists(folder)) {
    throw FileError{folder,
                    "there is no such folder; expected the unpacked binary version of CIFAR-10 "
                    "(cifar-10-binary.tar.gz), data_batch_1.bin to data_batch_5.bin and "
                    "test_batch.bin"};
  }
  return folder;
}

}  // namespace tandem

#endif
