// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dataset: what the trainer needs of data, as a concept; and Randomness, the source of
/// augmentation.
///
/// A dataset is any type with size, shape, targets and read; it needs no base class. Samples are
/// float, whatever precision the network has: a Loader converts them; those of a network of Tokens
/// are std::int32_t.

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

namespace detail {

template <class D>
struct ElementOf {
  using type = float;
};
template <class D>
  requires requires { typename D::Input; }
struct ElementOf<D> {
  using type = typename D::Input;
};

}  // namespace detail

/// An element of a sample of D: `D::Input`, std::int32_t for indices; float where it has none.
template <class D>
using DataInput = typename detail::ElementOf<D>::type;

/// Samples with random access.
///
/// read(index, x, y) writes sample `index` of [0, size()): shape().elements() numbers to x,
/// targets() numbers to y (one for a label). It is the plain sample, as evaluation wants it, and is
/// called by several threads at once. size(), shape() and targets() never change.
///
/// Sequences of several lengths also have length(index), at most shape()[0]: x then has so many
/// rows, and y, where targets() is shape()[0], as many numbers.
template <class D>
concept PlainDataset = DataTarget<typename D::Target> &&
    (std::same_as<DataInput<D>, float> ||
     std::same_as<DataInput<D>, std::int32_t>)&&requires(D const& data, std::int64_t index,
                                                         std::span<DataInput<D>> x,
                                                         std::span<typename D::Target> y) {
  { data.size() } -> std::same_as<std::int64_t>;
  { data.shape() } -> std::same_as<Shape>;
  { data.targets() } -> std::same_as<int>;
  data.read(index, x, y);
};

/// A Dataset that also has read(index, x, y, randomness): the sample as training wants it.
template <class D>
concept RandomDataset = PlainDataset<D> &&
    requires(D const& data, std::int64_t index, std::span<DataInput<D>> x,
             std::span<typename D::Target> y, Randomness const& randomness) {
  data.read(index, x, y, randomness);
};

/// A Dataset of sequences of several lengths.
template <class D>
concept SequenceDataset = PlainDataset<D> && requires(D const& data, std::int64_t index) {
  { data.length(index) } -> std::same_as<int>;
};

/// A Dataset of two inputs for a network on Inputs<A, B>: sequences of tokens both, each of its own
/// length. Its shape(), length() and x are those of the first; there are second_shape(),
/// second_length(index), and read(index, x, second, y) in place of the shorter one. Where targets()
/// is second_shape()[0], each row of the second has one: what is to be said in answer to the first.
template <class D>
concept PairDataset = DataTarget<typename D::Target> && std::same_as<DataInput<D>, std::int32_t> &&
    requires(D const& data, std::int64_t index, std::span<std::int32_t> x,
             std::span<typename D::Target> y) {
  { data.size() } -> std::same_as<std::int64_t>;
  { data.shape() } -> std::same_as<Shape>;
  { data.second_shape() } -> std::same_as<Shape>;
  { data.targets() } -> std::same_as<int>;
  { data.length(index) } -> std::same_as<int>;
  { data.second_length(index) } -> std::same_as<int>;
  data.read(index, x, x, y);
};

/// What a Loader reads, and a Trainer takes.
template <class D>
concept Dataset = PlainDataset<D> || PairDataset<D>;

/// A Dataset whose labels are in [0, classes()).
template <class D>
concept ClassifiedDataset = Dataset<D> && requires(D const& data) {
  { data.classes() } -> std::same_as<int>;
};

namespace detail {

/// Called where a function or class begins that takes a Dataset: the sentence for what is none, of
/// which compilers print the member that is not there.
template <class D>
constexpr bool expect_dataset() {
  constexpr bool is_known = Dataset<D> || requires { typename D::Refused; };
  constexpr bool are_two = requires(D const& data) { data.train().size() + data.test().size(); };
  static_assert(is_known || !are_two,
                "this has two datasets: give data.train() to train, and data.test() to evaluate");
  constexpr bool is_whole = is_known || are_two;
  constexpr bool has_target = is_whole || requires { requires DataTarget<typename D::Target>; };
  constexpr bool has_size = is_whole || requires(D const& data) {
    { data.size() } -> std::same_as<std::int64_t>;
  };
  constexpr bool has_shape = is_whole || requires(D const& data) {
    { data.shape() } -> std::same_as<Shape>;
  };
  constexpr bool has_targets = is_whole || requires(D const& data) {
    { data.targets() } -> std::same_as<int>;
  };
  constexpr bool has_read = is_whole || !has_target || !has_size || !has_shape || !has_targets;
  static_assert(has_target && has_size && has_shape && has_targets && has_read,
                "a dataset has `using Target = std::int32_t;` or float, `std::int64_t size() "
                "const`, `Shape shape() const`, `int targets() const` and `void read(std::int64_t "
                "index, std::span<float> x, std::span<Target> y) const`; of tokens, or two inputs, "
                "see Dataset in tandem/data/dataset.hpp");
  return true;
}

/// Draws of Randomness that a dataset's own transforms take, so that those around them take others.
template <class D>
constexpr std::uint32_t draws_of() {
  if constexpr (requires { D::draws; }) {
    return D::draws;
  } else {
    return 0;
  }
}

}  // namespace detail

/// Reads a sample for training: by the random form of read if @p data has it, else by the plain
/// one.
template <PlainDataset D>
void read_sample(D const& data, std::int64_t index, std::span<DataInput<D>> x,
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
