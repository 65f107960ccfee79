// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// augment(dataset, transforms...): a Dataset whose samples pass through transforms, in that order.

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tandem/core/contract.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/transform.hpp>

namespace tandem {

/// The primary template is the error path: something is no Dataset, or no Transform.
template <class D, class... Ts>
class Augmented {
  static_assert(PlainDataset<std::remove_cvref_t<D>>,
                "Augmented<D, Ts...>: D must be a Dataset, or a reference to one");
  static_assert((Transform<Ts> && ...),
                "Augmented<D, Ts...>: every T must be a Transform, such as Normalize, PadTo, "
                "RandomCrop or RandomFlip: output(Shape) and apply(x, in) or apply(x, in, bits)");
};

/// A dataset and the transforms of its samples; made by augment().
///
/// Training reads through all transforms, each random one with bits of (seed, epoch, sample) and
/// its place in the chain; evaluation, the plain read, leaves the random ones out.
///
/// Cost: that of the transforms, in place; no memory.
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

  /// @throws ContractError  a transform does not fit the shape that it meets, shrinks it, or is
  ///                        random and changes it
  explicit Augmented(D&& data, Ts... transforms)
      : data_{std::forward<D>(data)},
        transforms_{std::move(transforms)...},
        shape_{base().shape()} {
    std::apply([this](Ts const&... transform) { ((shape_ = checked(transform, shape_)), ...); },
               transforms_);
  }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    base().read(index, input(x), y);
    transform(x,
              [](auto const& transform, std::span<float> values, Shape const& in, std::uint32_t) {
                if constexpr (FixedTransform<decltype(transform)>) {
                  transform.apply(values, in);
                }
              });
  }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y,
            Randomness const& randomness) const {
    read_sample(base(), index, input(x), y, randomness);
    transform(x, [&](auto const& transform, std::span<float> values, Shape const& in,
                     std::uint32_t which) {
      if constexpr (RandomTransform<decltype(transform)>) {
        transform.apply(values, in, randomness.draw(which));
      } else {
        transform.apply(values, in);
      }
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
    expects(out.elements() >= in.elements(),
            "augment: a transform may not make a sample smaller, since it works in place");
    expects(FixedTransform<T> || out == in,
            "augment: a random transform may not change the shape, since evaluation leaves it out");
    return out;
  }

  [[nodiscard]] Base const& base() const noexcept { return data_; }

  [[nodiscard]] std::span<float> input(std::span<float> x) const {
    expects(static_cast<std::int64_t>(x.size()) == shape_.elements(),
            "Augmented::read: x takes shape().elements() numbers");
    return x.first(static_cast<std::size_t>(base().shape().elements()));
  }

  /// Calls @p apply for each transform with its part of @p x, its input shape and its draw.
  template <class Apply>
  void transform(std::span<float> x, Apply const& apply) const {
    Shape in = base().shape();
    std::uint32_t which = detail::draws_of<Base>();
    auto const one = [&](auto const& transform) {
      Shape const out = transform.output(in);
      apply(transform, x.first(static_cast<std::size_t>(out.elements())), in, which++);
      in = out;
    };
    std::apply([&](Ts const&... each) { (one(each), ...); }, transforms_);
  }

  D data_;
  std::tuple<Ts...> transforms_;
  Shape shape_;
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
