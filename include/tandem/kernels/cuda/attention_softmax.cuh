// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention's probabilities from its scores, masked and dropped, and the gradient of the scores.
///
/// Matrices of scores are (tasks, time, keys), a task being a head of a sample, their rows
/// attention_distance(keys) apart; keys are the rows themselves, and those before a chunk of time;
/// what stands behind a row's keys is written as 0, since products read whole matrices.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/attention_chunks.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/dropout.cuh>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Tasks [first, first + count) of a step: task = sample heads + head.
struct AttentionTasks {
  AttentionShape shape{};
  AttentionRows rows{};  ///< its lengths are in the device's memory
  std::int64_t first = 0;
  std::int64_t count = 0;
  int before = 0;  ///< of a chunk of time: rows before it, which its rows look at besides

  /// A matrix of scores has so many columns.
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

namespace detail {

/// The largest of some scores, and the sum of exp(score - largest); no scores: total 0.
template <class Real>
struct ScoreSums {
  Real largest;
  Real total;

  TANDEM_HOST_DEVICE void add(Real score) {
    using std::exp;
    if (total == Real{0}) {
      *this = {score, Real{1}};
    } else if (score > largest) {
      *this = {score, total * exp(largest - score) + Real{1}};
    } else {
      total += exp(score - largest);
    }
  }
};

template <class Real>
struct JoinScoreSums {
  TANDEM_HOST_DEVICE ScoreSums<Real> operator()(ScoreSums<Real> const& a,
                                                ScoreSums<Real> const& b) const {
    using std::exp;
    if (b.total == Real{0}) {
      return a;
    }
    if (a.total == Real{0}) {
      return b;
    }
    return b.largest > a.largest
               ? ScoreSums<Real>{b.largest, a.total * exp(a.largest - b.largest) + b.total}
               : ScoreSums<Real>{a.largest, a.total + b.total * exp(b.largest - a.largest)};
  }
};

template <int Lanes, class T>
TANDEM_KERNEL void attention_softmax_kernel(AttentionTasks tasks, AttentionMaskSource mask,
                                            ComputeType<T> const* scores, T* probabilities,
                                            ComputeType<T>* normalisers) {
  await_previous();
  using Real = ComputeType<T>;
  using std::exp;
  using std::log;
  using Keys = AttentionKeys<Lanes>;
  __shared__ ScoreSums<Real> shared[row_threads / Lanes];
  int const time = tasks.rows.time;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, tasks.count * time};
  std::int64_t const row = place.works ? place.row : 0;
  AttentionPlace const at{tasks, row};
  std::int64_t const first = row * attention_distance(tasks.columns());
  Real const* const score = scores + first;
  ScoreSums<Real> own{};
  if (place.works) {
    Keys::each(place.lane, at.keys, [&](int key) { own.add(score[key]); });
  }
  auto const all = join_lanes<Lanes>(own, JoinScoreSums<Real>{});
  if (place.lane == 0) {
    shared[threadIdx.x / Lanes] = all;
  }
  __syncthreads();
  if (!place.works) {
    return;
  }
  ScoreSums<Real> const sums = shared[threadIdx.x / Lanes];
  if (place.lane == 0 && normalisers != nullptr) {
    normalisers[at.task * time + at.i] = at.keys > 0 ? sums.largest + log(sums.total) : Real{0};
  }
  AttentionFactors<Real> factors{tasks, mask, at, place.lane % Keys::beside};
  T* const to = probabilities + first;
  Keys::each(
      place.lane, tasks.columns(),
      [&](int b) {
        if (b * Keys::block < at.keys) {
          factors.draw(b);
        }
      },
      [&](int key, int w) {
        Real p = 0;
        if (key < at.keys) {
          p = exp(score[key] - sums.largest) / sums.total * factors(w);
        }
        to[key] = store<T>(p);
      });
}

/// Of the rows of one task in y and dy, the sum of y dy: the mean of the probabilities' gradients.
template <int Lanes, class T>
TANDEM_HOST_DEVICE ComputeType<T> lane_product(AttentionTasks const& tasks,
                                               AttentionPlace const& at, int lane, T const* y,
                                               T const* dy) {
  std::int64_t const first =
      (at.sample * tasks.rows.time + at.i) * tasks.shape.out() + tasks.shape.query(at.head);
  ComputeType<T> sum = 0;
  for (int d = lane; at.keys > 0 && d < tasks.shape.width; d += Lanes) {
    sum += load(y[first + d]) * load(dy[first + d]);
  }
  return sum;
}

template <int Lanes, class T>
TANDEM_KERNEL void attention_softmax_gradient_kernel(AttentionTasks tasks, AttentionMaskSource mask,
                                                     ComputeType<T> scale, T const* y, T const* dy,
                                                     ComputeType<T> const* normalisers,
                                                     ComputeType<T> const* scores,
                                                     ComputeType<T> const* slopes, T* probabilities,
                                                     T* gradient) {
  await_previous();
  using Real = ComputeType<T>;
  using std::exp;
  using Keys = AttentionKeys<Lanes>;
  __shared__ Real shared[row_threads / Lanes];
  int const time = tasks.rows.time;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, tasks.count * time};
  std::int64_t const row = place.works ? place.row : 0;
  AttentionPlace const at{tasks, row};
  Real const own = place.works ? lane_product<Lanes>(tasks, at, place.lane, y, dy) : Real{0};
  Real const sum = sum_lanes<Lanes>(own);
  if (place.lane == 0) {
    shared[threadIdx.x / Lanes] = sum;
  }
  __syncthreads();
  if (!place.works) {
    return;
  }
  Real const mean = shared[threadIdx.x / Lanes];
  std::int64_t const first = row * attention_distance(tasks.columns());
  Real const normaliser = normalisers[at.task * time + at.i];
  AttentionFactors<Real> factors{tasks, mask, at, place.lane % Keys::beside};
  Keys::each(
      place.lane, tasks.columns(),
      [&](int b) {
        if (b * Keys::block < at.keys) {
          factors.draw(b);
        }
      },
      [&](int key, int w) {
        std::int64_t const i = first + key;
        Real kept = 0;
        Real ds = 0;
        if (key < at.keys) {
          Real const p = exp(scores[i] - normaliser);
          Real const factor = factors(w);
          ds = scale * p * (factor * slopes[i] - mean);
          kept = factor * p;
        }
        probabilities[i] = store<T>(kept);
        gradient[i] = store<T>(ds);
      });
}

}  // namespace detail

/// probabilities = mask softmax(scores) over each row's keys, 0 behind them.
///
/// Shapes: scores, probabilities (tasks, time, keys), which may be one array where the types are
///         the same; normalisers (B, Heads, time) or null: log(sum(exp(scores))), 0 of a row
///         without keys.
/// Cost:   reads the scores of a row's keys twice, the second time from a cache, and writes the
///         probabilities once; with dropout a Philox block for four of them. One launch.
/// Order:  a warp takes a row, or a block where there are more than 1024 keys: a lane's keys in
///         order in ComputeType<T>, then join_lanes(). No bit depends on what stands behind the
///         keys.
template <class T>
void attention_softmax(Stream const& stream, AttentionTasks const& tasks,
                       AttentionMaskSource const& mask, ComputeType<T> const* scores,
                       T* probabilities, ComputeType<T>* normalisers) {
  with_row_lanes(tasks.columns(), [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::attention_softmax_kernel<n, T>,
           blocks_for(tasks.count * tasks.rows.time, row_threads / n), row_threads, stream, tasks,
           mask, scores, probabilities, normalisers);
  });
}

/// From scores and the gradients of the masked probabilities, which are dy vᵀ: the masked
/// probabilities, and gradient = scale p (mask slopes - sum(y dy)), that of q kᵀ.
///
/// Shapes: scores, slopes, probabilities, gradient (tasks, time, keys), probabilities may be the
///         scores and gradient the slopes where the types are the same; y, dy (B, time, Heads D);
///         normalisers (B, Heads, time), of attention_softmax.
/// Cost:   reads two matrices and writes two; bound by memory, or by Philox. One launch.
/// Order:  sum(y dy): every 32nd (256th) number in ComputeType<T>, then join_lanes().
template <class T>
void attention_softmax_gradient(Stream const& stream, AttentionTasks const& tasks,
                                AttentionMaskSource const& mask, double scale, T const* y,
                                T const* dy, ComputeType<T> const* normalisers,
                                ComputeType<T> const* scores, ComputeType<T> const* slopes,
                                T* probabilities, T* gradient) {
  with_row_lanes(tasks.columns(), [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::attention_softmax_gradient_kernel<n, T>,
           blocks_for(tasks.count * tasks.rows.time, row_threads / n), row_threads, stream, tasks,
           mask, static_cast<ComputeType<T>>(scale), y, dy, normalisers, scores, slopes,
           probabilities, gradient);
  });
}

}  // namespace tandem::cuda
