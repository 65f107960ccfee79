// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CsvCells: the rows of a table in text (RFC 4180), cell by cell.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// Cells without the blanks around them; those in quotes may hold separators, ends of lines, and
/// quotes written twice. Lines end in LF, CRLF or CR; the last one need not, and blank ones may
/// follow.
class CsvCells {
 public:
  /// @p text and @p path must outlive this.
  /// @throws FileError  the text is UTF-16
  TANDEM_ONCE CsvCells(std::string_view text, char separator, std::string const& path);

  /// False at the end.
  /// @throws FileError  a quote has no end or something behind it, or a blank line is followed
  TANDEM_ONCE bool next(std::vector<std::string>& row);

  /// Of the row that next() gave, from 1.
  [[nodiscard]] std::size_t line() const noexcept { return line_; }

 private:
  static bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == text.npos;
  }

  bool take(char c) {
    bool const is_there = !left_.empty() && left_.front() == c;
    left_.remove_prefix(is_there ? 1 : 0);
    return is_there;
  }

  void skip_blanks() {
    while (!left_.empty() && left_.front() != separator_ &&
           (left_.front() == ' ' || left_.front() == '\t')) {
      left_.remove_prefix(1);
    }
  }

  TANDEM_ONCE std::string cell();

  TANDEM_ONCE std::string quoted();

  std::string_view left_;
  char separator_;
  std::string const& path_;
  std::size_t line_ = 0;
  std::size_t next_line_ = 1;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE CsvCells::CsvCells(std::string_view text, char separator, std::string const& path)
    : left_{text}, separator_{separator}, path_{path} {
  if (left_.substr(0, 3) == "\xEF\xBB\xBF") {  // Excel's mark of UTF-8
    left_.remove_prefix(3);
  }
  std::string_view const front = left_.substr(0, 2);
  if (front == "\xFF\xFE" || front == "\xFE\xFF" || front.find('\0') != front.npos) {
    throw FileError{path_, "the text is UTF-16; save it as UTF-8, as 'iconv -f UTF-16' does"};
  }
}

TANDEM_ONCE bool CsvCells::next(std::vector<std::string>& row) {
  row.clear();
  line_ = next_line_;
  if (is_blank(left_)) {
    return false;
  }
  if (is_blank(left_.substr(0, left_.find_first_of("\r\n")))) {
    throw FileError{path_, "line " + std::to_string(line_) + " is blank; take it out"};
  }
  do {
    row.push_back(cell());
  } while (take(separator_));
  bool ends = left_.empty();
  while (take('\r')) {
    ends = true;
  }
  if (!take('\n') && !ends) {
    throw FileError{path_, "line " + std::to_string(line_) + ", column " +
                               std::to_string(row.size()) +
                               ": something stands behind the quotes of the cell"};
  }
  ++next_line_;
  return true;
}

TANDEM_ONCE std::string CsvCells::cell() {
  skip_blanks();
  if (take('"')) {
    std::string const inside = quoted();
    skip_blanks();
    return inside;
  }
  char const ends[] = {separator_, '\n', '\r'};
  std::string_view inside = left_.substr(0, left_.find_first_of({ends, 3}));
  left_.remove_prefix(inside.size());
  while (!inside.empty() && (inside.back() == ' ' || inside.back() == '\t')) {
    inside.remove_suffix(1);
  }
  return std::string{inside};
}

TANDEM_ONCE std::string CsvCells::quoted() {
  std::string inside;
  while (true) {
    std::size_t const end = left_.find('"');
    if (end == left_.npos) {
      throw FileError{path_, "line " + std::to_string(line_) + ": a quote has no end"};
    }
    inside += left_.substr(0, end);
    for (char const c : left_.substr(0, end)) {
      next_line_ += c == '\n' ? 1 : 0;
    }
    left_.remove_prefix(end + 1);
    if (!take('"')) {
      return inside;
    }
    inside += '"';
  }
}

}  // namespace tandem::detail

#endif
