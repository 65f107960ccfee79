// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// first(data, count): the first samples of a dataset.

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/data/buckets.hpp>
#include <tandem/data/dataset.hpp>

namespace tandem {

/// @tparam D  a dataset, which is kept, or `T const&`, which must live as long as this
template <class D>
  requires Dataset<std::remove_cvref_t<D>>
class First {
 public:
  using Base = std::remove_cvref_t<D>;
  using Input = DataInput<Base>;
  using Target = typename Base::Target;

  static constexpr std::uint32_t draws = detail::draws_of<Base>();

  First(D&& data, std::int64_t count)
      : data_{std::forward<D>(data)}, count_{std::clamp<std::int64_t>(count, 0, base().size())} {}

  [[nodiscard]] std::int64_t size() const { return count_; }
  [[nodiscard]] Shape shape() const { return base().shape(); }
  [[nodiscard]] int targets() const { return base().targets(); }
  [[nodiscard]] int classes() const requires ClassifiedDataset<Base> { return base().classes(); }
  [[nodiscard]] int length(std::int64_t index) const requires SequenceDataset<Base> ||
      PairDataset<Base> {
    return base().length(index);
  }
  [[nodiscard]] int buckets() const requires BucketedDataset<Base> { return base().buckets(); }
  [[nodiscard]] Shape second_shape() const requires PairDataset<Base> {
    return base().second_shape();
  }
  [[nodiscard]] int second_length(std::int64_t index) const requires PairDataset<Base> {
    return base().second_length(index);
  }

  void read(std::int64_t index, std::span<Input> x,
            std::span<Target> y) const requires PlainDataset<Base> {
    base().read(index, x, y);
  }
  void read(std::int64_t index, std::span<Input> x, std::span<Target> y,
            Randomness const& randomness) const requires PlainDataset<Base> {
    read_sample(base(), index, x, y, randomness);
  }
  void read(std::int64_t index, std::span<Input> x, std::span<Input> second,
            std::span<Target> y) const requires PairDataset<Base> {
    base().read(index, x, second, y);
  }

 private:
  [[nodiscard]] Base const& base() const noexcept { return data_; }

  D data_;
  std::int64_t count_;
};

/// The first @p count samples of @p data, or all if it has fewer.
///
/// A dataset that is an lvalue is referred to and must outlive the result; one that is an rvalue,
/// such as the result of augment(), moves into it.
template <class D>
  requires Dataset<std::remove_cvref_t<D>>
[[nodiscard]] auto first(D&& data, std::int64_t count) {
  using Held = std::conditional_t<std::is_lvalue_reference_v<D>, std::remove_cvref_t<D> const&,
                                  std::remove_cvref_t<D>>;
  return First<Held>{static_cast<Held&&>(data), count};
}

}  // namespace tandem
