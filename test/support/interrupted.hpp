// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Interrupted: a dataset whose reader fails after a number of samples, as a user who presses
/// Ctrl-C would.

#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>

#include <tandem/data/tensor_dataset.hpp>

namespace tandem::test {

class Interrupted {
 public:
  using Target = std::int32_t;

  /// @param data  outlives this
  /// @param left  samples that can be read
  Interrupted(TensorDataset<std::int32_t> const& data, std::int64_t left)
      : data_{&data}, left_{left} {}

  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    if (left_.fetch_sub(1) <= 0) {
      throw std::runtime_error{"interrupted"};
    }
    data_->read(index, x, y);
  }
  [[nodiscard]] std::int64_t size() const { return data_->size(); }
  [[nodiscard]] Shape shape() const { return data_->shape(); }
  [[nodiscard]] int targets() const { return data_->targets(); }

 private:
  TensorDataset<std::int32_t> const* data_;
  mutable std::atomic<std::int64_t> left_;
};

}  // namespace tandem::test
