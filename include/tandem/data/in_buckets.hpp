// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// in_buckets(): sequences in the order of their lengths, for an evaluation with little padding.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tandem/data/buckets.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/order.hpp>

namespace tandem {

/// A view of @p D, with a copy of it, whose samples stand in the order of their lengths; of a pair
/// the longer of both counts, of equals D's order.
template <class D>
  requires SequenceDataset<D> || PairDataset<D>
class InBuckets {
 public:
  using Input = DataInput<D>;
  using Target = typename D::Target;

  explicit InBuckets(D data) : data_{std::move(data)} {
    std::vector<std::int64_t> order(static_cast<std::size_t>(data_.size()));
    ascending_order(order);
    std::stable_sort(order.begin(), order.end(),
                     [this](std::int64_t a, std::int64_t b) { return longer(a) < longer(b); });
    order_ = std::make_shared<std::vector<std::int64_t> const>(std::move(order));
  }

  [[nodiscard]] std::int64_t size() const { return data_.size(); }
  [[nodiscard]] Shape shape() const { return data_.shape(); }
  [[nodiscard]] int targets() const { return data_.targets(); }
  [[nodiscard]] int length(std::int64_t index) const { return data_.length(original(index)); }
  void read(std::int64_t index, std::span<Input> x,
            std::span<Target> y) const requires SequenceDataset<D> {
    data_.read(original(index), x, y);
  }
  [[nodiscard]] Shape second_shape() const requires PairDataset<D> { return data_.second_shape(); }
  [[nodiscard]] int second_length(std::int64_t index) const requires PairDataset<D> {
    return data_.second_length(original(index));
  }
  void read(std::int64_t index, std::span<Input> x, std::span<Input> second,
            std::span<Target> y) const requires PairDataset<D> {
    data_.read(original(index), x, second, y);
  }
  [[nodiscard]] int buckets() const requires BucketedDataset<D> { return data_.buckets(); }
  [[nodiscard]] int classes() const requires ClassifiedDataset<D> { return data_.classes(); }

  /// Which of D's samples number @p index here is.
  [[nodiscard]] std::int64_t original(std::int64_t index) const {
    return (*order_)[static_cast<std::size_t>(index)];
  }

 private:
  [[nodiscard]] int longer(std::int64_t index) const {
    if constexpr (PairDataset<D>) {
      return std::max(data_.length(index), data_.second_length(index));
    } else {
      return data_.length(index);
    }
  }

  D data_;
  std::shared_ptr<std::vector<std::int64_t> const> order_;
};

/// The same samples in batches of like lengths, also where nothing is shuffled: a trainer evaluates
/// them faster, and gives the loss and metrics that it gives of @p data, but for rounding.
///
///   trainer.evaluate(in_buckets(pairs)).perplexity();
///
/// Cost: a sort, 8 bytes a sample, and a copy of @p data, which of Pairs is a few pointers.
template <class D>
[[nodiscard]] InBuckets<D> in_buckets(D const& data) {
  return InBuckets<D>{data};
}

}  // namespace tandem
