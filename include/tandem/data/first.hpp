// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// first(data, count): the first samples of a dataset.

#include <algorithm>
#include <cstdint>
#include <span>

#include <tandem/data/dataset.hpp>

namespace tandem {

/// A view: the dataset must live as long as it.
template <PlainDataset D>
class First {
 public:
  using Input = DataInput<D>;
  using Target = typename D::Target;

  First(D const& data, std::int64_t count)
      : data_{&data}, count_{std::clamp<std::int64_t>(count, 0, data.size())} {}

  [[nodiscard]] std::int64_t size() const { return count_; }
  [[nodiscard]] Shape shape() const { return data_->shape(); }
  [[nodiscard]] int targets() const { return data_->targets(); }
  [[nodiscard]] int classes() const requires ClassifiedDataset<D> { return data_->classes(); }

  void read(std::int64_t index, std::span<Input> x, std::span<Target> y) const {
    data_->read(index, x, y);
  }
  void read(std::int64_t index, std::span<Input> x, std::span<Target> y,
            Randomness const& randomness) const {
    read_sample(*data_, index, x, y, randomness);
  }

 private:
  D const* data_;
  std::int64_t count_;
};

/// The first @p count samples of @p data, or all if it has fewer. No copy.
template <PlainDataset D>
First<D> first(D const& data, std::int64_t count) {
  return {data, count};
}

}  // namespace tandem
