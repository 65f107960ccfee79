// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// soft_labels(dataset, mixings...): a Dataset whose targets are shares of the classes, and whose
/// samples may be mixtures of two.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/mix.hpp>

namespace tandem {

namespace detail {

template <class D>
concept LabelledDataset = PlainDataset<D> && std::same_as<typename D::Target, std::int32_t> &&
                          std::same_as < DataInput<D>,
float > &&!SequenceDataset<D>;

template <bool IsLabelled, bool AreMixings, bool KnowsClasses>
struct SoftLabelsFit {
  static constexpr bool value = true;
  static_assert(IsLabelled,
                "soft_labels(data, ...): data must be a dataset of images or vectors with a "
                "std::int32_t label each");
  static_assert(!IsLabelled || AreMixings,
                "soft_labels(data, ...): what follows the data must be Mixup{} or CutMix{}, or a "
                "Mixing of yours; transforms of one sample belong into augment(data, ...)");
  static_assert(!IsLabelled || KnowsClasses,
                "soft_labels(data, ...): this dataset does not say how many classes it has; write "
                "soft_labels<10>(data, ...)");
};

}  // namespace detail

/// The primary template is the error path.
template <int Classes, class D, class... Ms>
class SoftLabels {
  using Base = std::remove_cvref_t<D>;
  static_assert(detail::SoftLabelsFit<detail::LabelledDataset<Base>, (Mixing<Ms> && ...),
                                      (Classes > 0 || ClassifiedDataset<Base>)>::value);

 public:
  using Target = float;
  explicit SoftLabels(auto&&... /*arguments*/) {}
  // A Dataset, so that a sentence is the only error.
  void read(std::int64_t, std::span<float>, std::span<float>) const {}
  [[nodiscard]] static std::int64_t size() { return 0; }
  [[nodiscard]] static Shape shape() { return {}; }
  [[nodiscard]] static int targets() { return 0; }
};

/// Made by soft_labels().
///
/// Training mixes sample i with a partner, any sample of the dataset, drawn with the share from
/// (seed, epoch, i) as all augmentation is: so neither batches nor devices nor a resume change it.
/// The partner is what it is itself in this epoch, augmented. Of several mixings a sample takes
/// one, each as likely. Evaluation, the plain read, mixes nothing.
///
/// Cost: a sample that is mixed is two reads, and memory for the second while it is read.
template <int Classes, class D, class... Ms>
  requires(detail::LabelledDataset<std::remove_cvref_t<D>> && (Mixing<Ms> && ...) &&
           (Classes > 0 || ClassifiedDataset<std::remove_cvref_t<D>>))
class SoftLabels<Classes, D, Ms...> {
 public:
  using Base = std::remove_cvref_t<D>;
  using Target = float;
  static constexpr std::uint32_t draws = detail::draws_of<Base>() + 3;

  /// @throws ContractError  a mixing does not fit the samples, or an option of it is out of range
  explicit SoftLabels(D&& data, Ms... mixings)
      : data_{std::forward<D>(data)}, mixings_{std::move(mixings)...} {
    expects(base().targets() == 1, "soft_labels(data, ...): a sample must have one label");
    std::apply([&](Ms const&... mixing) { (mixing.check(shape()), ...); }, mixings_);
  }

  void read(std::int64_t index, std::span<float> x, std::span<float> y) const {
    std::int32_t label = -1;
    base().read(index, x, {&label, 1});
    put(y, index, label, 1.0F, true);
  }

  void read(std::int64_t index, std::span<float> x, std::span<float> y,
            Randomness const& randomness) const {
    std::int32_t label = -1;
    read_sample(base(), index, x, {&label, 1}, randomness);
    double share = 1.0;
    std::int64_t partner = index;
    std::int32_t second = label;
    if constexpr (sizeof...(Ms) > 0) {
      constexpr std::uint32_t which = detail::draws_of<Base>();
      Random4 const bits = randomness.draw(which);
      std::uint64_t const wide = (std::uint64_t{bits.word[0]} << 32) | bits.word[1];
      partner = static_cast<std::int64_t>(wide % static_cast<std::uint64_t>(size()));
      auto const chosen = below(bits.word[2], static_cast<std::uint32_t>(sizeof...(Ms)));
      std::uint32_t number = 0;
      auto const one = [&](auto const& mixing) {
        if (number++ == chosen && uniform(bits.word[3]) < mixing.probability) {
          std::vector<float> other(x.size());
          read_sample(base(), partner, std::span{other}, {&second, 1},
                      {randomness.seed, randomness.epoch, partner});
          share = mixing.mix(x, other, shape(),
                             detail::beta_variate(double{mixing.alpha}, randomness, which + 1),
                             randomness.draw(which + 2));
        }
      };
      std::apply([&](Ms const&... each) { (one(each), ...); }, mixings_);
    }
    auto const own = static_cast<float>(share);
    put(y, index, label, own, true);
    put(y, partner, second, 1.0F - own, false);
  }

  [[nodiscard]] std::int64_t size() const { return base().size(); }
  [[nodiscard]] Shape shape() const { return base().shape(); }
  [[nodiscard]] int targets() const { return classes(); }
  [[nodiscard]] int classes() const {
    if constexpr (Classes > 0) {
      return Classes;
    } else {
      return base().classes();
    }
  }

 private:
  [[nodiscard]] Base const& base() const noexcept { return data_; }

  /// @throws ContractError  the label is none of the classes
  void put(std::span<float> y, std::int64_t index, std::int32_t label, float share,
           bool first) const {
    if (label < 0 || label >= classes()) {
      throw ContractError{"soft_labels(data): label " + std::to_string(label) + " of sample " +
                          std::to_string(index) + " of the dataset is out of range: it has " +
                          std::to_string(classes()) + " classes"};
    }
    if (first) {
      std::fill(y.begin(), y.end(), 0.0F);
    }
    y[static_cast<std::size_t>(label)] += share;
  }

  D data_;
  std::tuple<Ms...> mixings_;
};

/// The samples of @p data with a share of each class for a target, as SoftCrossEntropy wants them:
/// 1 of the label's, or those of the two labels of a mixture:
///
///   soft_labels(augment(mnist.train(), RandomCrop{2}), Mixup{.alpha = 0.2F}, CutMix{})
///
/// @tparam Classes  how many there are, where the dataset does not say
/// A dataset that is an lvalue is referred to and must outlive the result; one that is an rvalue
/// moves into it.
template <int Classes = 0, class D, class... Ms>
[[nodiscard]] auto soft_labels(D&& data, Ms... mixings) {
  return SoftLabels<Classes, D, Ms...>{std::forward<D>(data), std::move(mixings)...};
}

}  // namespace tandem
