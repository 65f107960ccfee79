// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which keys a lane of a row of attention's scores has, and which of them dropout keeps.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/dropout.cuh>
#include <tandem/kernels/functors/attention.hpp>

namespace tandem::cuda {

/// Tasks [first, first + count) of a step: task = sample heads + head.
struct AttentionTasks {
  AttentionShape shape{};
  AttentionRows rows{};  ///< its lengths are in the device's memory
  std::int64_t first = 0;
  std::int64_t count = 0;
  int before = 0;  ///< of a chunk of time: rows before it, which its rows look at besides

  /// Of a matrix of scores.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int columns() const { return before + rows.time; }
};

/// As AttentionDropout, its seed and step read by the kernel.
struct AttentionMaskSource {
  DropoutSource source{};
  float rate = 0.0F;
};

namespace detail {

/// Where a row of a matrix of scores stands in the step.
struct AttentionPlace {
  std::int64_t task;
  std::int64_t sample;
  std::int64_t head;
  int i;     ///< row of the sample, among those of the step
  int row;   ///< among all of the sample
  int keys;  ///< that it looks at: none where it is behind the sample's length

  TANDEM_HOST_DEVICE AttentionPlace(AttentionTasks const& tasks, std::int64_t row_of_all)
      : task{tasks.first + row_of_all / tasks.rows.time},
        sample{task / tasks.shape.heads},
        head{task % tasks.shape.heads},
        i{static_cast<int>(row_of_all % tasks.rows.time)},
        row{tasks.before + i},
        keys{0} {
    int const length = tasks.rows.length(sample);
    keys = i < length ? tasks.shape.keys(row, tasks.before + length) : 0;
  }
};

/// A lane's keys of a row: key 64 b + 16 w + n, w = 0 … 3, for every (Lanes / 16)-th b; these four
/// are of one draw of the mask.
template <int Lanes>
struct AttentionKeys {
  static constexpr int block = attention_word_keys;
  static constexpr int beside = 16;
  static constexpr int blocks = Lanes / beside;  // at once

  /// f(key, w) for all keys below @p end, before(b) where a block begins.
  template <class Before, class Function>
  __device__ static void each(int lane, int end, Before const& before, Function const& f) {
    for (int b = lane / beside; b * block < end; b += blocks) {
      before(b);
      for (int w = 0; w < block / beside; ++w) {
        int const key = b * block + w * beside + lane % beside;
        if (key < end) {
          f(key, w);
        }
      }
    }
  }
  template <class Function>
  __device__ static void each(int lane, int end, Function const& f) {
    each(
        lane, end, [](int /*b*/) {}, [&](int key, int /*w*/) { f(key); });
  }
};

/// What the probabilities of one row are multiplied by.
template <class Real>
class AttentionFactors {
 public:
  TANDEM_HOST_DEVICE AttentionFactors(AttentionTasks const& tasks, AttentionMaskSource const& mask,
                                      AttentionPlace const& at, int n)
      : shape_{tasks.shape}, rate_{mask.rate}, at_{at}, n_{n} {
    if (rate_ != 0.0F) {
      DropoutSource const& s = mask.source;
      place_ = {*s.seed, static_cast<std::uint32_t>(*s.step), s.layer, s.first_sample};
      scale_ = dropout_scale<Real>(rate_);
    }
  }

  /// Draws for keys 64 b + 16 w + n of all w.
  TANDEM_HOST_DEVICE void draw(int b) {
    if (rate_ != 0.0F) {
      words_ = dropout_words(place_, at_.sample,
                             attention_word_block(shape_, at_.head, at_.row, b) + n_);
    }
  }
  [[nodiscard]] TANDEM_HOST_DEVICE Real operator()(int w) const {
    return rate_ != 0.0F ? dropped(words_.word[w], rate_, scale_, Real{1}) : Real{1};
  }

 private:
  AttentionShape const& shape_;
  float rate_;
  AttentionPlace const& at_;
  int n_;
  DropoutPlace place_{};
  Real scale_ = 1;
  Random4 words_{};
};

}  // namespace detail

}  // namespace tandem::cuda
