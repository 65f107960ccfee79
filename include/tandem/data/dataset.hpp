// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dataset: what the trainer needs of data, as a concept; and Randomness, the source of
/// augmentation.
///
/// A dataset is any type with size, shape, targets and read; it needs no base class. Samples are
/// float, whatever precision the network has: a Loader converts them.

#include <concepts>
#include <cstdint>
#include <span>

#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// The random numbers of one sample in one epoch: they depend on these three and nothing else, so
/// that a sample is augmented alike on every device, under every strategy, and after a resume.
struct Randomness {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;

  /// 128 bits; different for each @p which, one number for each transform of a chain.
  /// @pre 0 <= epoch < 2^32
  [[nodiscard]] constexpr Random4 draw(std::uint32_t which) const {
    return philox(seed, RandomUse::augmentation, static_cast<std::uint64_t>(sample),
                  (static_cast<std::uint64_t>(epoch) << 32) | which);
  }
};

/// An element of a sample's target: std::int32_t for labels, float for regression.
template <class T>
concept DataTarget = std::same_as<T, std::int32_t> || std::same_as<T, float>;

/// Samples with random access.
///
/// read(index, x, y) writes sample `index` of [0, size()): shape().elements() floats to x,
/// targets() numbers to y (one for a label). It is the plain sample, as evaluation wants it, and is
/// called by several threads at once. size(), shape() and targets() never change.
template <class D>
concept Dataset = DataTarget<typename D::Target> &&
    requires(D const& data, std::int64_t index, std::span<float> x,
             std::span<typename D::Target> y) {
  { data.size() } -> std::same_as<std::int64_t>;
  { data.shape() } -> std::same_as<Shape>;
  { data.targets() } -> std::same_as<int>;
  { data.read(index, x, y) } -> std::same_as<void>;
};

/// A Dataset that also has read(index, x, y, randomness): the sample as training wants it.
template <class D>
concept RandomDataset = Dataset<D> &&
    requires(D const& data, std::int64_t index, std::span<float> x, std::span<typename D::Target> y,
             Randomness const& randomness) {
  { data.read(index, x, y, randomness) } -> std::same_as<void>;
};

/// A Dataset whose labels are in [0, classes()).
template <class D>
concept ClassifiedDataset = Dataset<D> && requires(D const& data) {
  { data.classes() } -> std::same_as<int>;
};

/// Reads a sample for training: by the random form of read if @p data has it, else by the plain
/// one.
template <Dataset D>
void read_sample(D const& data, std::int64_t index, std::span<float> x,
                 std::span<typename D::Target> y, Randomness const& randomness) {
  if constexpr (RandomDataset<D>) {
    data.read(index, x, y, randomness);
  } else {
    data.read(index, x, y);
  }
}

/// The number of classes of @p data, or 0 where it does not say.
template <Dataset D>
[[nodiscard]] int classes_of(D const& data) {
  if constexpr (ClassifiedDataset<D>) {
    return data.classes();
  } else {
    return 0;
  }
}

}  // namespace tandem
