// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SequenceBatches: a caller's samples, of whatever number, cut into batches.

#include <algorithm>
#include <cstdint>
#include <span>

#include <tandem/engine/step/state.hpp>
#include <tandem/train/options/batch_check.hpp>

namespace tandem::detail {

/// @tparam Batch  StepBatch
template <class Program, class Batch>
class SequenceBatches {
 public:
  using In = typename Batch::Input;

  /// Refers to both.
  /// @throws ContractError  they are not @p samples, or a length is out of range
  SequenceBatches(std::span<In const> x, Sequences const& sequences, std::int64_t samples)
      : all_{.x = x.data(), .lengths = pointer_to(sequences.lengths)}, samples_{samples} {
    all_.time = rows(input, x.size(), sequences.time, sequences.lengths);
    if (second.valid() || !sequences.second.empty()) {
      all_.second = {
          reinterpret_cast<In const*>(sequences.second.data()),
          rows(second, sequences.second.size(), sequences.second_time, sequences.second_lengths),
          pointer_to(sequences.second_lengths)};
    }
  }

  [[nodiscard]] std::int64_t samples() const { return samples_; }

  /// Samples from @p first on, at most @p most.
  [[nodiscard]] Batch of(std::int64_t first, int most) const {
    Batch some = all_;
    some.size = static_cast<int>(std::min<std::int64_t>(most, samples_ - first));
    some.x += first * input.elements(all_.time);
    some.lengths += all_.lengths != nullptr ? first : 0;
    if (all_.second.x != nullptr) {
      some.second.x += first * second.elements(all_.second.time);
      some.second.lengths += all_.second.lengths != nullptr ? first : 0;
    }
    return some;
  }

 private:
  static constexpr Shape input = Program::network.node[0].out;
  static constexpr Shape second = input_shape<Program>(1);

  // How many each sample has of an input.
  [[nodiscard]] int rows(Shape const& shape, std::size_t numbers, int time,
                         std::span<std::int32_t const> lengths) const {
    expects(time >= 0 && (time == 0 || (shape.timed && time <= shape[0])),
            "predict(x, sequences): .time must be at most the network's, and 0 for images");
    int const all = time > 0 || !shape.timed ? time : shape[0];
    expects(static_cast<std::int64_t>(numbers) == samples_ * shape.elements(all),
            "predict(x): x must be whole samples, each of the network's input, and of two inputs "
            "there must be as many");
    expects(lengths.empty() || static_cast<std::int64_t>(lengths.size()) == samples_,
            "predict(x, sequences): .lengths must have one number a sample");
    for (std::int32_t const length : lengths) {
      expects(length >= 1 && length <= all,
              "predict(x, sequences): each of .lengths must be in [1, time]");
    }
    return all;
  }

  static std::int32_t const* pointer_to(std::span<std::int32_t const> list) {
    return list.empty() ? nullptr : list.data();
  }

  Batch all_;
  std::int64_t samples_;
};

}  // namespace tandem::detail
