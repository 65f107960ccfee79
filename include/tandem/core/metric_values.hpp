// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MetricValues: what the metrics of a trainer came to, by name.

#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

/// Metrics of one trainer.
inline constexpr int most_metrics = 8;

/// A value of a metric, or a sum of it, and what it is called.
struct NamedMetric {
  std::string_view name;
  double value;
};

/// What each metric of a trainer came to: a mean over the samples that count.
///
///   for (auto [name, value] : result.metrics) { … }
///   result.metrics["top-5 accuracy"]
struct MetricValues {
  double value[most_metrics] = {};
  std::string_view const* names = nullptr;  ///< as many as size()
  int count = 0;

  class Iterator {
   public:
    constexpr Iterator(MetricValues const& all, int at) : all_{&all}, at_{at} {}
    constexpr NamedMetric operator*() const { return {all_->names[at_], all_->value[at_]}; }
    constexpr Iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr bool operator!=(Iterator const& other) const { return at_ != other.at_; }

   private:
    MetricValues const* all_;
    int at_;
  };

  [[nodiscard]] constexpr int size() const { return count; }
  [[nodiscard]] constexpr Iterator begin() const { return {*this, 0}; }
  [[nodiscard]] constexpr Iterator end() const { return {*this, count}; }

  /// Where @p name stands; -1: nowhere.
  [[nodiscard]] constexpr int find(std::string_view name) const {
    for (int i = 0; i < count; ++i) {
      if (names[i] == name) {
        return i;
      }
    }
    return -1;
  }
  /// @throws ContractError  the trainer has no metric of this name; the message says which it has
  [[nodiscard]] double operator[](std::string_view name) const {
    int const at = find(name);
    if (at < 0) {
      refuse(name);
    }
    return value[at];
  }

 private:
  TANDEM_ONCE [[noreturn]] void refuse(std::string_view name) const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void MetricValues::refuse(std::string_view name) const {
  std::string have;
  for (int i = 0; i < count; ++i) {
    have += (i > 0 ? ", '" : "'") + std::string{names[i]} + "'";
  }
  throw ContractError{"metrics[name]: this trainer has no metric '" + std::string{name} +
                      "', it has " + (have.empty() ? "none" : have)};
}

}  // namespace tandem

#endif
