// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TensorDataset: a Dataset of arrays that the program already has.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>

namespace tandem {

/// The primary template is the error path: T is no element of a target.
template <class T>
class TensorDataset {
  static_assert(DataTarget<T>,
                "TensorDataset<T>: T must be std::int32_t (labels) or float (regression)");
};

/// Samples in two arrays: x is (size, shape) and y is (size, targets), both contiguous.
template <DataTarget T>
class TensorDataset<T> {
 public:
  using Target = T;

  /// Holds @p x and @p y; move them in to avoid a copy.
  /// @param targets  numbers of y for each sample, 1 for a label
  /// @throws ContractError  x or y is not a whole number of samples, or they differ in that number
  TensorDataset(Shape const& shape, std::vector<float> x, std::vector<T> y, int targets = 1)
      : shape_{shape}, x_{std::move(x)}, y_{std::move(y)}, targets_{targets} {
    expects(shape_.valid(), "TensorDataset: every extent of the shape must be at least 1");
    expects(targets_ >= 1, "TensorDataset: a sample needs at least one target");
    expects(x_.size() % elements() == 0,
            "TensorDataset: x must hold a whole number of samples of the shape");
    expects(y_.size() % width() == 0 && y_.size() / width() == x_.size() / elements(),
            "TensorDataset: y must hold `targets` numbers for each sample of x");
  }

  /// @pre 0 <= index < size(), x.size() == shape().elements(), y.size() == targets()
  void read(std::int64_t index, std::span<float> x, std::span<T> y) const {
    expects(index >= 0 && index < size(), "TensorDataset::read: the index must be in [0, size())");
    expects(x.size() == elements() && y.size() == width(),
            "TensorDataset::read: x takes shape().elements() numbers, y takes targets()");
    auto const at = static_cast<std::size_t>(index);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = x_[at * x.size() + i];
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = y_[at * y.size() + i];
    }
  }

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(x_.size() / elements());
  }
  [[nodiscard]] Shape shape() const noexcept { return shape_; }
  [[nodiscard]] int targets() const noexcept { return targets_; }

 private:
  [[nodiscard]] std::size_t elements() const noexcept {
    return static_cast<std::size_t>(shape_.elements());
  }
  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(targets_); }

  Shape shape_;
  std::vector<float> x_;
  std::vector<T> y_;
  int targets_;
};

}  // namespace tandem
