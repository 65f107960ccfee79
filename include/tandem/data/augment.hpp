// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// augment(dataset, transforms...): a Dataset whose samples pass through transforms, in that order.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/transform.hpp>

namespace tandem {

/// The primary template is the error path: something is no Dataset, or no Transform.
template <class D, class... Ts>
class Augmented {
  static_assert(detail::expect_dataset<std::remove_cvref_t<D>>());
  static_assert(!PairDataset<std::remove_cvref_t<D>>,
                "augment(data, ...): transforms are of one input, and data has two");
  static_assert((Transform<Ts> && ...),
                "Augmented<D, Ts...>: every T must be a Transform, such as Normalize, PadTo, "
                "RandomCrop or RandomFlip: output(Shape) and apply(x, in) or apply(x, in, bits)");

 public:
  using Refused = void;
  explicit Augmented(auto const&...) {}
};

/// A dataset and the transforms of its samples; made by augment().
///
/// Training reads through all transforms, each random one with bits of (seed, epoch, sample) and
/// its place in the chain; evaluation, the plain read, leaves the random ones out.
///
/// Cost: that of the transforms, in place; where one makes samples smaller, memory for the largest
///       of the chain for each read.
template <class D, class... Ts>
  requires(PlainDataset<std::remove_cvref_t<D>> && (Transform<Ts> && ...))
class Augmented<D, Ts...> {
 public:
  using Base = std::remove_cvref_t<D>;
  using Target = typename Base::Target;
  static_assert(!SequenceDataset<Base>,
                "augment(data, ...): its transforms are of images and vectors; a dataset with "
                "length(index), of sequences of several lengths, is trained on as it is");

  static constexpr std::uint32_t draws =
      detail::draws_of<Base>() + static_cast<std::uint32_t>(sizeof...(Ts));

  /// @throws ContractError  a transform does not fit the shape that it meets, or is random and
  ///                        changes it
  explicit Augmented(D&& data, Ts... transforms)
      : data_{std::forward<D>(data)},
        transforms_{std::move(transforms)...},
        shape_{base().shape()},
        largest_{shape_.elements()} {
    auto const next = [this](auto const& transform) {
      shape_ = checked(transform, shape_);
      largest_ = std::max(largest_, shape_.elements());
    };
    std::apply([&](Ts const&... transform) { (next(transform), ...); }, transforms_);
  }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    in_place(x, [&](std::span<float> room) {
      base().read(index, input(room), y);
      transform(room,
                [](auto const& transform, std::span<float> values, Shape const& in, std::uint32_t) {
                  if constexpr (FixedTransform<decltype(transform)>) {
                    transform.apply(values, in);
                  }
                });
    });
  }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y,
            Randomness const& randomness) const {
    in_place(x, [&](std::span<float> room) {
      read_sample(base(), index, input(room), y, randomness);
      transform(room, [&](auto const& transform, std::span<float> values, Shape const& in,
                          std::uint32_t which) {
        if constexpr (RandomTransform<decltype(transform)>) {
          transform.apply(values, in, randomness.draw(which));
        } else {
          transform.apply(values, in);
        }
      });
    });
  }

  [[nodiscard]] std::int64_t size() const { return base().size(); }
  [[nodiscard]] Shape shape() const noexcept { return shape_; }
  [[nodiscard]] int targets() const { return base().targets(); }
  [[nodiscard]] int classes() const requires ClassifiedDataset<Base> { return base().classes(); }

 private:
  template <class T>
  static Shape checked(T const& transform, Shape const& in) {
    Shape const out = transform.output(in);
    expects(out.valid(), "augment: a transform leaves nothing of the sample");
    expects(FixedTransform<T> || out == in,
            "augment: a random transform may not change the shape, since evaluation leaves it out");
    return out;
  }

  [[nodiscard]] Base const& base() const noexcept { return data_; }

  /// Calls @p fill with room for the largest sample of the chain, whose front becomes @p x.
  template <class Fill>
  void in_place(std::span<float> x, Fill const& fill) const {
    expects(static_cast<std::int64_t>(x.size()) == shape_.elements(),
            "Augmented::read: x takes shape().elements() numbers");
    if (largest_ == shape_.elements()) {
      return fill(x);
    }
    std::vector<float> room(static_cast<std::size_t>(largest_));
    fill(std::span<float>{room.data(), room.size()});
    std::copy_n(room.data(), x.size(), x.data());
  }

  [[nodiscard]] std::span<float> input(std::span<float> x) const {
    return x.first(static_cast<std::size_t>(base().shape().elements()));
  }

  /// Calls @p apply for each transform with its room in @p x, its input shape and its draw.
  template <class Apply>
  void transform(std::span<float> x, Apply const& apply) const {
    Shape in = base().shape();
    std::uint32_t which = detail::draws_of<Base>();
    auto const one = [&](auto const& transform) {
      Shape const out = transform.output(in);
      apply(transform, x.first(static_cast<std::size_t>(std::max(in.elements(), out.elements()))),
            in, which++);
      in = out;
    };
    std::apply([&](Ts const&... each) { (one(each), ...); }, transforms_);
  }

  D data_;
  std::tuple<Ts...> transforms_;
  Shape shape_;
  std::int64_t largest_;  // elements of the largest sample of the chain
};

/// The samples of @p data after @p transforms.
///
/// A dataset that is an lvalue is referred to and must outlive the result; one that is an rvalue,
/// such as the result of another augment(), moves into it.
template <class D, class... Ts>
[[nodiscard]] Augmented<D, Ts...> augment(D&& data, Ts... transforms) {
  return Augmented<D, Ts...>{std::forward<D>(data), std::move(transforms)...};
}

}  // namespace tandem
