// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ByBatch: one prepared object for each batch size that occurs: the usual one and the last one.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tandem {

/// Keeps what was made for each number of samples; addresses stay valid.
template <class Plan>
class ByBatch {
 public:
  /// The plan for @p samples, made by make(samples) at the first request.
  template <class Make>
  Plan& get(std::int64_t samples, Make const& make) {
    for (auto& [size, plan] : plans_) {
      if (size == samples) {
        return *plan;
      }
    }
    plans_.emplace_back(samples, std::make_unique<Plan>(make(samples)));
    return *plans_.back().second;
  }

 private:
  std::vector<std::pair<std::int64_t, std::unique_ptr<Plan>>> plans_;
};

}  // namespace tandem
