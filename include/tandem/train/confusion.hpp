// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Confusion: which class a classifier takes samples of each class for, and precision, recall and
/// F1 of that.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

/// Counts of (true class, predicted class), whole numbers. What is 0 / 0, as the precision of a
/// class that was never predicted, is 0.
class Confusion {
 public:
  /// Classes at most.
  static constexpr int most = 4096;

  /// @throws ContractError  @p classes is not in [1, most]
  explicit Confusion(int classes) : classes_{classes} {
    expects(classes >= 1 && classes <= most, "Confusion: classes must be from 1 to 4096");
    counts_.resize(static_cast<std::size_t>(classes) * static_cast<std::size_t>(classes));
  }

  /// @throws ContractError  one is no class
  void add(int truth, int predicted, std::int64_t samples = 1) {
    counts_[place(truth, predicted)] += samples;
  }

  [[nodiscard]] int classes() const { return classes_; }
  /// Samples of class @p truth that were taken for @p predicted.
  [[nodiscard]] std::int64_t operator()(int truth, int predicted) const {
    return counts_[place(truth, predicted)];
  }
  /// Row by row: (classes, classes).
  [[nodiscard]] std::span<std::int64_t const> counts() const { return counts_; }
  [[nodiscard]] std::span<std::int64_t> counts() { return counts_; }

  /// Samples of a class, and samples that were taken for it.
  [[nodiscard]] std::int64_t of(int label) const {
    return sum([&](int other) { return (*this)(label, other); });
  }
  [[nodiscard]] std::int64_t predicted(int label) const {
    return sum([&](int other) { return (*this)(other, label); });
  }
  [[nodiscard]] std::int64_t samples() const {
    return sum([&](int label) { return of(label); });
  }

  /// Share of samples that were taken for what they are.
  [[nodiscard]] double accuracy() const {
    return share(sum([&](int label) { return (*this)(label, label); }), samples());
  }
  /// Of what was taken for the class, the share that is of it.
  [[nodiscard]] double precision(int label) const {
    return share((*this)(label, label), predicted(label));
  }
  /// Of the class, the share that was taken for it.
  [[nodiscard]] double recall(int label) const { return share((*this)(label, label), of(label)); }
  /// 2 / (1 / precision + 1 / recall).
  [[nodiscard]] double f1(int label) const {
    return share(2 * (*this)(label, label), of(label) + predicted(label));
  }
  /// Means over the classes that are there: those of a sample, or that a sample was taken for.
  [[nodiscard]] double macro_precision() const {
    return macro([&](int label) { return precision(label); });
  }
  [[nodiscard]] double macro_recall() const {
    return macro([&](int label) { return recall(label); });
  }
  [[nodiscard]] double macro_f1() const {
    return macro([&](int label) { return f1(label); });
  }

  /// The counts as text: a row a true class, a column a predicted one.
  /// @param names  of the classes, strings; those that have none have their number
  template <class Names = std::span<std::string_view const>>
  [[nodiscard]] std::string table(Names const& names = {}) const {
    std::size_t first = 4;  // "true"
    std::size_t width = std::to_string(samples()).size();
    for (int c = 0; c < classes_; ++c) {
      first = std::max(first, name_of(names, c).size());
      width = std::max(width, name_of(names, c).size());
    }
    std::string text = left("true", first) + " | predicted\n" + left("", first) + " |";
    for (int c = 0; c < classes_; ++c) {
      text += ' ' + right(name_of(names, c), width);
    }
    text += '\n';
    for (int truth = 0; truth < classes_; ++truth) {
      text += left(name_of(names, truth), first) + " |";
      for (int c = 0; c < classes_; ++c) {
        text += ' ' + right(std::to_string((*this)(truth, c)), width);
      }
      text += '\n';
    }
    return text;
  }

  /// A line a class with its precision, recall, F1 and samples; then the means, and the accuracy.
  template <class Names = std::span<std::string_view const>>
  [[nodiscard]] std::string report(Names const& names = {}) const {
    std::size_t first = 8;  // "accuracy"
    for (int c = 0; c < classes_; ++c) {
      first = std::max(first, name_of(names, c).size());
    }
    auto const line = [&](std::string const& name, double a, double b, double c,
                          std::int64_t count) {
      char numbers[96];
      std::snprintf(numbers, sizeof numbers, "  %9.4f  %9.4f  %9.4f  %9lld\n", a, b, c,
                    static_cast<long long>(count));
      return left(name, first) + numbers;
    };
    std::string text = left("", first) + "  precision     recall         F1    samples\n";
    for (int c = 0; c < classes_; ++c) {
      text += line(name_of(names, c), precision(c), recall(c), f1(c), of(c));
    }
    text += line("macro", macro_precision(), macro_recall(), macro_f1(), samples());
    char number[32];
    std::snprintf(number, sizeof number, "  %9.4f\n", accuracy());
    return text + left("accuracy", first) + number;
  }

  friend bool operator==(Confusion const&, Confusion const&) = default;

 private:
  TANDEM_ONCE [[nodiscard]] std::size_t place(int truth, int predicted) const;
  template <class F>
  [[nodiscard]] std::int64_t sum(F const& f) const {
    std::int64_t all = 0;
    for (int c = 0; c < classes_; ++c) {
      all += f(c);
    }
    return all;
  }
  template <class F>
  [[nodiscard]] double macro(F const& f) const {
    double all = 0.0;
    int there = 0;
    for (int c = 0; c < classes_; ++c) {
      if (of(c) + predicted(c) > 0) {
        all += f(c);
        ++there;
      }
    }
    return there > 0 ? all / there : 0.0;
  }
  static double share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  }
  template <class Names>
  static std::string name_of(Names const& names, int label) {
    auto const at = static_cast<std::size_t>(label);
    return at < names.size() ? std::string{names[at]} : std::to_string(label);
  }
  static std::string left(std::string const& text, std::size_t width) {
    return text + std::string(width - std::min(width, text.size()), ' ');
  }
  static std::string right(std::string const& text, std::size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
  }

  int classes_;
  std::vector<std::int64_t> counts_{};
};

namespace detail {

/// Adds a sample to @p matrix by its outputs, the first of equals being what it is taken for.
/// @throws ContractError  one is a NaN
template <class T>
void add_sample(Confusion& matrix, int truth, std::span<T const> outputs, std::int64_t sample) {
  std::size_t best = 0;
  bool sound = true;
  for (std::size_t c = 0; c < outputs.size(); ++c) {
    best = outputs[c] > outputs[best] ? c : best;
    sound = sound && outputs[c] == outputs[c];
  }
  if (!sound) {
    throw ContractError{"confusion(data): the outputs of sample " + std::to_string(sample) +
                        " have a NaN, so that it is taken for no class"};
  }
  matrix.add(truth, static_cast<int>(best));
}

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::size_t Confusion::place(int truth, int predicted) const {
  expects(truth >= 0 && truth < classes_ && predicted >= 0 && predicted < classes_,
          "Confusion: a class must be from 0 to classes() - 1");
  return static_cast<std::size_t>(truth) * static_cast<std::size_t>(classes_) +
         static_cast<std::size_t>(predicted);
}

}  // namespace tandem

#endif
