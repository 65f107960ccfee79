// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batch: some samples of a dataset side by side; BatchReader: how they come there.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/data/buckets.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/epoch_order.hpp>
#include <tandem/data/loader_options.hpp>

namespace tandem {

/// Samples side by side: x is (size, shape().elements()), y is (size, targets()), both contiguous.
/// Of sequences x and y have `time` rows of each, where there are length buckets as many as the
/// longest of the bucket; behind a sample's end x has 0 and y has -1.
///
/// Where a part of the batch is read (LoaderOptions::parts), x, y and second begin with sample
/// part.begin; lengths are those of all samples.
template <class Scalar, class Target>
struct Batch {
  Scalar const* x = nullptr;
  Target const* y = nullptr;
  int size = 0;
  std::int64_t first = 0;  ///< position of its first sample in the epoch: where to resume
  int time = 0;  ///< rows of each sample, of sequences: the longest one's, or its bucket's
  std::int32_t const* lengths = nullptr;  ///< (size): how many of them are the sample's; null: all
  Scalar const* second = nullptr;         ///< of a PairDataset the second input, likewise
  int second_time = 0;
  std::int32_t const* second_lengths = nullptr;
  BatchPart part{};  ///< what of it is here: [0, size), unless a part was asked for
};

/// The memory of one batch.
template <class Scalar, class Target>
struct BatchSlot {
  std::vector<Scalar> x;
  std::vector<Target> y;
  std::vector<std::int32_t> lengths;  ///< none where all samples are as long
  std::vector<Scalar> second;
  std::vector<std::int32_t> second_lengths;
  int size = 0;
  int time = 0;
  int second_time = 0;
  std::int64_t first = 0;
  BatchPart part{};  ///< what of the batch is read into it; lengths are those of all

  [[nodiscard]] Batch<Scalar, Target> batch() const {
    return {.x = x.data(),
            .y = y.data(),
            .size = size,
            .first = first,
            .time = time,
            .lengths = lengths.empty() ? nullptr : lengths.data(),
            .second = second.data(),
            .second_time = second_time,
            .second_lengths = second_lengths.data(),
            .part = part};
  }
};

/// Reads samples into a BatchSlot, one behind the other.
template <class Scalar, class Target>
class SampleReader {
 public:
  using Slot = BatchSlot<Scalar, Target>;
  using Order = EpochOrder;

  virtual ~SampleReader() = default;

  /// Bytes of the longest sample.
  [[nodiscard]] virtual std::size_t sample_bytes() const = 0;

  /// Memory for @p samples of them, and the lengths of a batch of @p all.
  virtual void allocate(Slot& slot, std::size_t samples, std::size_t all) const = 0;

  /// Notes how long the slot.size samples are that begin at position slot.first of @p order.
  virtual void prepare(Slot& slot, Order const& order) const = 0;

  /// Reads samples [begin, end) of a slot that is prepared, all of its part; several readers may,
  /// each its own.
  /// @param goes_on  goes_on(position) before each sample; no: told to stop, and this gives false
  virtual bool read(Slot& slot, Order const& order, int begin, int end,
                    FunctionRef<bool(std::int64_t)> goes_on) = 0;
};

/// A SampleReader of a dataset.
template <Dataset D, class Scalar>
class BatchReader final : public SampleReader<Scalar, typename D::Target> {
 public:
  using Target = typename D::Target;
  using Input = DataInput<D>;
  using Slot = BatchSlot<Scalar, Target>;
  using Order = EpochOrder;

  /// @p data must live, unchanged, as long as this does.
  BatchReader(D const& data, bool augment, std::uint64_t seed, std::int64_t epoch)
      : data_{data},
        augment_{augment},
        seed_{seed},
        epoch_{epoch},
        elements_{static_cast<std::size_t>(data.shape().elements())},
        targets_{static_cast<std::size_t>(data.targets())},
        sample_(std::is_same_v<Scalar, Input> ? std::size_t{0} : elements_) {
    if constexpr (PairDataset<D>) {
      second_ = static_cast<std::size_t>(data.second_shape().elements());
    }
  }

  [[nodiscard]] std::size_t sample_bytes() const override {
    return (elements_ + second_) * sizeof(Scalar) + targets_ * sizeof(Target);
  }

  void allocate(Slot& slot, std::size_t samples, std::size_t all) const override {
    slot.x.resize(samples * elements_);
    slot.y.resize(samples * targets_);
    slot.lengths.resize(SequenceDataset<D> || PairDataset<D> ? all : 0);
    slot.second.resize(samples * second_);
    slot.second_lengths.resize(PairDataset<D> ? all : 0);
  }

  void prepare(Slot& slot, Order const& order) const override {
    if constexpr (PairDataset<D>) {
      slot.time = longest(
          slot, order, data_.shape()[0], [this](std::int64_t index) { return data_.length(index); },
          slot.lengths);
      slot.second_time = longest(
          slot, order, data_.second_shape()[0],
          [this](std::int64_t index) { return data_.second_length(index); }, slot.second_lengths);
    } else {
      slot.time = time_of(slot, order);
    }
  }

  bool read(Slot& slot, Order const& order, int begin, int end,
            FunctionRef<bool(std::int64_t)> goes_on) override {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      std::int64_t const position = slot.first + static_cast<std::int64_t>(i);
      if (!goes_on(position)) {
        return false;
      }
      std::int64_t const index = order[position];
      if constexpr (PairDataset<D>) {
        read_pair(slot, i, index);
      } else {
        read_sample_of(slot, i, index);
      }
    }
    return true;
  }

 private:
  void read_sample_of(Slot& slot, std::size_t i, std::int64_t index) {
    Shape const shape = data_.shape();
    auto const elements = static_cast<std::size_t>(shape.elements(slot.time));
    std::size_t const targets = is_timed() ? static_cast<std::size_t>(slot.time) : targets_;
    std::size_t const at = place(slot, i);
    std::span<Scalar> const x{slot.x.data() + at * elements, elements};
    std::span<Target> const y{slot.y.data() + at * targets, targets};
    std::size_t own = elements;
    std::size_t own_targets = targets;
    if constexpr (SequenceDataset<D>) {
      own = static_cast<std::size_t>(slot.lengths[i]) *
            static_cast<std::size_t>(shape.row_elements());
      own_targets = is_timed() ? static_cast<std::size_t>(slot.lengths[i]) : targets;
      std::fill(x.begin() + static_cast<std::ptrdiff_t>(own), x.end(), Scalar{0});
      std::fill(y.begin() + static_cast<std::ptrdiff_t>(own_targets), y.end(),
                static_cast<Target>(-1));
    }
    if constexpr (std::is_same_v<Scalar, Input>) {
      read(index, x.first(own), y.first(own_targets));
    } else {
      read(index, std::span{sample_}.first(own), y.first(own_targets));
      for (std::size_t e = 0; e < own; ++e) {
        x[e] = static_cast<Scalar>(sample_[e]);
      }
    }
  }

  void read_pair(Slot& slot, std::size_t i, std::int64_t index) {
    auto const time = static_cast<std::size_t>(slot.time);
    auto const second_time = static_cast<std::size_t>(slot.second_time);
    bool const timed = data_.targets() == data_.second_shape()[0];
    std::size_t const targets = timed ? second_time : targets_;
    std::size_t const at = place(slot, i);
    auto const x = rows(slot.x, at, time, slot.lengths[i], 0);
    auto const second = rows(slot.second, at, second_time, slot.second_lengths[i], 0);
    auto const y =
        rows(slot.y, at, targets, timed ? slot.second_lengths[i] : static_cast<int>(targets), -1);
    data_.read(index, x, second, y);
  }

  // Where in its memory sample i of the batch stands.
  static std::size_t place(Slot const& slot, std::size_t i) {
    return i - static_cast<std::size_t>(slot.part.begin);
  }

  // The first @p count of sample i's rows; behind them stands @p padding.
  template <class E>
  static std::span<E> rows(std::vector<E>& all, std::size_t i, std::size_t time, int count,
                           int padding) {
    std::span<E> const own{all.data() + i * time, time};
    std::fill(own.begin() + count, own.end(), static_cast<E>(padding));
    return own.first(static_cast<std::size_t>(count));
  }

  // Whether each row of a sequence has a target.
  [[nodiscard]] bool is_timed() const {
    Shape const shape = data_.shape();
    return shape.timed && targets_ == static_cast<std::size_t>(shape[0]);
  }

  // Rows of each of the samples from this one on, whose lengths are noted.
  int time_of(Slot& slot, Order const& order) const {
    Shape const shape = data_.shape();
    if constexpr (SequenceDataset<D>) {
      return longest(
          slot, order, shape[0], [this](std::int64_t index) { return data_.length(index); },
          slot.lengths);
    } else {
      return shape.timed ? shape[0] : 0;
    }
  }

  // The rows of a slot's samples, of which each is noted: as the longest has, or its bucket.
  template <class Length>
  int longest(Slot const& slot, Order const& order, int most, Length const& length_of,
              std::vector<std::int32_t>& lengths) const {
    int longest = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(slot.size); ++i) {
      std::int64_t const index = order[slot.first + static_cast<std::int64_t>(i)];
      int const length = length_of(index);
      if (length < 1 || length > most) {
        throw Error{"a dataset says that sequence " + std::to_string(index) + " has " +
                    std::to_string(length) + " rows, but its shape allows 1 to " +
                    std::to_string(most) + "; split longer ones, and leave out empty ones"};
      }
      lengths[i] = length;
      longest = std::max(longest, length);
    }
    return detail::rows_of_batch(data_, longest, most);
  }

  void read(std::int64_t index, std::span<Input> x, std::span<Target> y) const {
    if (augment_) {
      read_sample(data_, index, x, y, Randomness{seed_, epoch_, index});
    } else {
      data_.read(index, x, y);
    }
  }

  D const& data_;
  bool augment_;
  std::uint64_t seed_;
  std::int64_t epoch_;
  std::size_t elements_;
  std::size_t targets_;
  std::size_t second_ = 0;     // elements of the second input
  std::vector<Input> sample_;  // one sample before its conversion
};

}  // namespace tandem
