// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LpText: a mixed-integer linear program, row by row, in the text form that CPLEX, CBC, Gurobi,
/// HiGHS and SCIP read.

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Variables are at least 0; they come to be by being named.
class LpText {
 public:
  struct Term {
    double factor = 1;
    std::string variable{};
  };

  /// Each line of @p comment stands behind a backslash.
  TANDEM_ONCE LpText(std::string_view comment, std::string const& minimized);

  void at_least(std::vector<Term> const& sum, double bound) { row(sum, ">=", bound); }
  void at_most(std::vector<Term> const& sum, double bound) { row(sum, "<=", bound); }
  void equal(std::vector<Term> const& sum, double value) { row(sum, "=", value); }

  void zero_or_one(std::string const& variable) { binaries_ += " " + variable + "\n"; }

  [[nodiscard]] std::string str() const { return text_ + "Binaries\n" + binaries_ + "End\n"; }

 private:
  void number(double value) {
    char digits[32] = {};  // the shortest that reads back as the same number has at most 24
    text_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  TANDEM_ONCE void row(std::vector<Term> const& sum, char const* relation, double bound);

  std::string text_{};
  std::string binaries_{};
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE LpText::LpText(std::string_view comment, std::string const& minimized) {
  while (!comment.empty()) {
    std::size_t const length = comment.find('\n');
    text_.append("\\ ").append(comment.substr(0, length)).append("\n");
    comment.remove_prefix(length == comment.npos ? comment.size() : length + 1);
  }
  text_ += "Minimize\n obj: " + minimized + "\nSubject To\n";
}

TANDEM_ONCE void LpText::row(std::vector<Term> const& sum, char const* relation, double bound) {
  std::size_t written = 0;
  for (auto const& [factor, variable] : sum) {
    if (factor == 0) {
      continue;
    }
    text_ += factor < 0 ? " - " : " + ";
    if (factor != 1 && factor != -1) {
      number(factor < 0 ? -factor : factor);
      text_ += " ";
    }
    text_ += variable;
    text_ += ++written % 8 == 0 ? "\n " : "";  // readers limit the length of lines
  }
  if (written > 0) {
    text_.append(" ").append(relation).append(" ");
    number(bound);
    text_ += "\n";
  }
}

}  // namespace tandem::detail

#endif
