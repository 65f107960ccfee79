// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CsvDataset: a Dataset of a table of numbers, one of whose columns is the target.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/csv_cells.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/gzip.hpp>
#include <tandem/io/mapped_file.hpp>

namespace tandem {

struct CsvOptions {
  std::string label{};                 ///< name of the target's column; none: by its number
  int label_column = -1;               ///< from 0; -1: the last one
  bool header = true;                  ///< the first line has the names of the columns
  bool class_names = false;            ///< labels are words: classes are these, sorted
  std::vector<std::string> classes{};  ///< labels are these words, in this order: class_names() of
                                       ///< the training's data set for a test's
  char separator = ',';
};

/// The primary template is the error path: T is no element of a target.
template <class T = std::int32_t>
class CsvDataset {
  static_assert(DataTarget<T>,
                "CsvDataset<T>: T must be std::int32_t (labels) or float (regression)");
};

/// A line for each sample: the target, and in the order of their columns the numbers of x.
///
/// Cells are numbers as 1, -2.5 or 1e-3, blanks around them aside, and may stand in quotes (RFC
/// 4180). A file that begins as gzip does is inflated.
///
/// Cost: 4 bytes a number, in memory; the file is mapped while it is read, a pipe or what a gzip
///       file holds is in memory.
template <DataTarget T>
class CsvDataset<T> {
 public:
  using Target = T;

  /// @throws FileError      the file is missing, or a pipe or gzip file of more than 1 GiB, has no
  ///                        such column or no samples, or a cell is not what it must be, whose line
  ///                        and column are named
  /// @throws ContractError  class_names or classes of a regression
  explicit CsvDataset(std::string const& path, CsvOptions const& options = {}) {
    expects((!options.class_names && options.classes.empty()) || std::is_same_v<T, std::int32_t>,
            "CsvOptions: class_names and classes are of labels; take CsvDataset without <float>");
    if (is_regular_file(path)) {
      MappedFile const file{path};
      parse_plain_or_gzip(file.bytes(), path, options);
    } else {
      parse_plain_or_gzip(read_file(path), path, options);
    }
  }

  /// @pre 0 <= index < size(), x.size() == shape().elements(), y.size() == 1
  void read(std::int64_t index, std::span<float> x, std::span<T> y) const {
    expects(index >= 0 && index < size(), "CsvDataset::read: the index must be in [0, size())");
    expects(x.size() == columns_ && y.size() == 1,
            "CsvDataset::read: x takes shape().elements() numbers, y takes one");
    auto const at = static_cast<std::size_t>(index);
    std::copy_n(x_.begin() + static_cast<std::ptrdiff_t>(at * columns_), columns_, x.begin());
    y[0] = y_[at];
  }

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(y_.size()); }
  [[nodiscard]] Shape shape() const noexcept { return vector_shape(static_cast<int>(columns_)); }
  [[nodiscard]] int targets() const noexcept { return 1; }
  /// One more than the largest label.
  [[nodiscard]] int classes() const noexcept requires std::same_as<T, std::int32_t> {
    return classes_;
  }
  /// By label, where CsvOptions::class_names or ::classes says that they are words; else none.
  [[nodiscard]] std::vector<std::string> const& class_names() const noexcept {
    return class_names_;
  }

 private:
  struct Place {
    std::string const& path;
    std::size_t line;
    std::size_t column;
    std::string_view name;
    std::string_view cell;

    [[noreturn]] void fail(std::string const& what) const {
      throw FileError{
          path, "line " + std::to_string(line) + ", column " + std::to_string(column + 1) +
                    (name.empty() ? "" : " (" + detail::printable(name) + ")") +
                    (cell.empty()
                         ? ": the cell is empty; " + std::string{"fill it, or leave the line out"}
                         : ": '" + detail::printable(cell, 40) + "' " + what)};
    }
  };

  void parse_plain_or_gzip(std::span<std::uint8_t const> bytes, std::string const& path,
                           CsvOptions const& options) {
    detail::is_gzip(bytes) ? parse(Inflate::inflate(bytes, path, default_file_limit), path, options)
                           : parse(bytes, path, options);
  }

  void parse(std::span<std::uint8_t const> bytes, std::string const& path,
             CsvOptions const& options) {
    detail::CsvCells cells{detail::characters_of(bytes), options.separator, path};
    std::vector<std::string> row;
    std::vector<std::string> names;
    if (options.header && cells.next(row)) {
      names = row;
    }
    class_names_ = options.classes;
    std::map<std::string, std::size_t> labels;  // of words, in the order in which they come
    for (std::size_t i = 0; i < class_names_.size(); ++i) {
      labels.emplace(class_names_[i], i);
    }
    std::size_t columns = names.size();
    std::size_t label = columns > 0 ? label_of(names, columns, path, options) : 0;
    while (cells.next(row)) {
      if (columns == 0) {
        columns = row.size();
        label = label_of(names, columns, path, options);
      }
      if (row.size() != columns) {
        throw FileError{path, "line " + std::to_string(cells.line()) + " has " +
                                  std::to_string(row.size()) + " cells, but the first line " +
                                  std::to_string(columns)};
      }
      for (std::size_t c = 0; c < columns; ++c) {
        Place const place{path, cells.line(), c, names.empty() ? std::string_view{} : names[c],
                          row[c]};
        if (c != label) {
          x_.push_back(number<float>(place, "is no number"));
        } else if (options.class_names || !class_names_.empty()) {
          if (row[c].empty() || (!class_names_.empty() && labels.count(row[c]) == 0)) {
            place.fail("is no class of CsvOptions::classes");
          }
          y_.push_back(static_cast<T>(labels.emplace(row[c], labels.size()).first->second));
        } else {
          y_.push_back(target(place));
        }
      }
    }
    columns_ = columns > 0 ? columns - 1 : 0;
    if (class_names_.empty() && !labels.empty()) {
      sort_classes(labels);
    }
    classes_ = std::max(classes_, static_cast<int>(class_names_.size()));
    if (y_.empty()) {
      throw FileError{path, columns == 0 ? "the file is empty"
                            : options.header
                                ? "the table has no lines but that of the names; a file without "
                                  "names is read with CsvOptions::header = false"
                                : "the table has no lines"};
    }
  }

  static std::size_t label_of(std::vector<std::string> const& names, std::size_t columns,
                              std::string const& path, CsvOptions const& options) {
    if (columns < 2) {
      throw FileError{path,
                      "the table has one column, expected a target and at least one number; "
                      "is '" +
                          std::string{options.separator} + "' what separates cells?"};
    }
    if (!options.label.empty()) {
      auto const found = std::find(names.begin(), names.end(), options.label);
      if (found == names.end()) {
        std::string all;
        for (std::string const& name : names) {
          all += (all.empty() ? "" : ", ") + detail::printable(name, 40);
        }
        throw FileError{path, "there is no column '" + detail::printable(options.label) +
                                  "'; the first line has " +
                                  (all.empty() ? "no names" : detail::printable(all, 400))};
      }
      return static_cast<std::size_t>(found - names.begin());
    }
    std::int64_t const index =
        options.label_column == -1 ? static_cast<std::int64_t>(columns) - 1 : options.label_column;
    if (index < 0 || index >= static_cast<std::int64_t>(columns)) {
      throw FileError{path, "there is no column of number " + std::to_string(options.label_column) +
                                ", CsvOptions::label_column; the table has " +
                                std::to_string(columns) + ", counted from 0"};
    }
    return static_cast<std::size_t>(index);
  }

  /// Whether a number that is out of range is nearer to 0 than floats are, not too large.
  static bool is_tiny(std::string_view number) {
    std::size_t const e = std::min(number.find_first_of("eE"), number.size());
    std::string_view const digits = number.substr(0, e);
    std::string_view power = number.substr(std::min(e + 1, number.size()));
    power.remove_prefix(power.starts_with('+') ? 1 : 0);
    std::int32_t exponent = 0;
    if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec ==
        std::errc::result_out_of_range) {
      exponent = power[0] == '-' ? -0x7FFFFFFF : 0x7FFFFFFF;
    }
    auto const point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
    auto const first = static_cast<std::int64_t>(digits.find_first_of("123456789"));
    return point - first + exponent < 0;
  }

  template <class E>
  static E number(Place const& place, char const* what) {
    std::string_view text = place.cell;
    text.remove_prefix(text.size() > 1 && text[0] == '+' && text[1] != '-' ? 1 : 0);
    E value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
      place.fail(what);
    }
    if (error == std::errc::result_out_of_range) {
      if (std::is_same_v<E, float> && is_tiny(text)) {
        return E{0};
      }
      place.fail("is outside of what the numbers can hold");
    }
    if constexpr (std::is_same_v<E, float>) {
      if (!std::isfinite(value)) {
        place.fail("is not finite");
      }
    }
    return value;
  }

  T target(Place const& place) {
    T const value = number<T>(
        place, std::is_same_v<T, float>
                   ? "is no number"
                   : "is no label, a whole number from 0; of words CsvOptions::class_names makes "
                     "labels");
    if constexpr (std::is_same_v<T, std::int32_t>) {
      if (value < -1 || value == 0x7FFFFFFF) {
        place.fail("is no label: expected a whole number from 0, or -1 for none");
      }
      classes_ = std::max(classes_, value + 1);
    }
    return value;
  }

  /// Renumbers the labels so that the words are sorted, as they are in @p labels.
  void sort_classes(std::map<std::string, std::size_t> const& labels) {
    std::vector<T> sorted(labels.size());
    for (auto const& [word, label] : labels) {
      sorted[label] = static_cast<T>(class_names_.size());
      class_names_.push_back(word);
    }
    for (T& label : y_) {
      label = sorted[static_cast<std::size_t>(label)];
    }
  }

  std::vector<float> x_;
  std::vector<T> y_;
  std::size_t columns_ = 0;  // of x
  int classes_ = 0;
  std::vector<std::string> class_names_;
};

/// Without an argument the targets are labels.
CsvDataset(std::string const&)->CsvDataset<std::int32_t>;
CsvDataset(std::string const&, CsvOptions const&)->CsvDataset<std::int32_t>;

}  // namespace tandem
