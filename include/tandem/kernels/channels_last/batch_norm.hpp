// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batch normalisation of each channel over rows of pixels, and a ReLU behind it if asked for.
///
/// With the batch's statistics or running ones; rows may be slices of wider ones. The gradients
/// stand in batch_norm_gradient.hpp. Source: Ioffe, Szegedy, arXiv:1502.03167, section 3.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/channels_last/row_sums.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/functors/batch_norm_saved.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// Rows of C channels, `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
};

/// y = (x - center) * scale + shift of each channel, (C) each.
///
/// Both forward and the mask of the gradients compute multiply_add(x - center, scale, shift), so
/// that a gradient is masked where forward has written a 0.
struct BatchNormAffine {
  float const* center;
  float const* scale;
  float const* shift;
};

inline float inverse_deviation_of(double variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
}

namespace detail {

/// Calls f<N>(row) so that rows row to row + N - 1 of all calls are all rows, each once.
///
/// N is 4 or 1. Four rows share the loads of the channels' constants; where `bytes` of traffic do
/// not fit the caches one is faster, as memory is then read and written in order (x and y of 25 MB:
/// 2.4 ms against 2.9; of 6 MB: 0.29 against 0.20).
template <class Function>
void for_rows(Team& team, std::int64_t rows, std::int64_t bytes, Function const& f) {
  team.parallel_for((rows + 3) / 4, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t const last = std::min(rows, 4 * end);
    std::int64_t row = 4 * begin;
    if (bytes <= (std::int64_t{1} << 24)) {
      for (; row + 4 <= last; row += 4) {
        f.template operator()<4>(row);
      }
    }
    for (; row < last; ++row) {
      f.template operator()<1>(row);
    }
  });
}

/// What the sums of a block are counted from moves to the mean of its first @p rows rows.
///
/// With s and q the sums of d = x - k and of d²: k moves by m = s / rows, rounded, so that s
/// becomes s - rows m, and q becomes q - m (2 s - rows m).
inline void recenter(int channels, std::int64_t rows, std::int64_t slots, float* sum) {
  Floats const count{static_cast<float>(rows)};
  Floats const part{1.0F / static_cast<float>(rows)};
  Floats const none{0.0F};
  for_vectors(channels, [&](int c, auto) {
    float* const center = sum + slot_of_vector(c);
    Floats const k = load(center);
    Floats const total = load(center + slots);
    Floats const moved_to = multiply_add(total, part, k);
    Floats const move = moved_to - k;
    Floats const rest = multiply_add(none - count, move, total);
    store(center, moved_to);
    store(center + slots, rest);
    store(center + 2 * slots, multiply_add(none - move, total + rest, load(center + 2 * slots)));
  });
}

/// Sums of x - k and of their squares over rows; in @p sum: k, then those.
///
/// k is near the mean whatever a row holds, so that nothing cancels: with s and q those sums over n
/// rows, q - s² / n >= q / 4. Where there is a mean of at least as many rows before, @p before, k
/// is that one: if it is far off, so is the block's own mean from it, which counts as much. Else k
/// is the first row, then the mean of the first 4 rows, of 16 and of 64.
template <class T>
void batch_norm_block(Rows<T const> const& x, std::int64_t first, std::int64_t rows, int channels,
                      std::int64_t slots, double const* before, float* sum) {
  T const* const start = x.data + first * x.stride;
  float* const squares = sum + 2 * slots;
  std::fill(sum + slots, sum + 3 * slots, 0.0F);
  if (before != nullptr) {
    std::transform(before, before + slots, sum, [](double mean) { return float(mean); });
  } else {
    for_vectors(channels,
                [&](int c, auto width) { store(sum + slot_of_vector(c), width.load(start + c)); });
  }
  std::int64_t const ahead = rows_ahead<T>(channels) * x.stride;
  auto const add = [&]<int N>(T const* row) {
    for_vectors(channels, [&](int c, auto width) {
      std::int64_t const slot = slot_of_vector(c);
      Floats const k = load(sum + slot);
      Floats total = load(sum + slots + slot);
      Floats square = load(squares + slot);
      for (int i = 0; i < N; ++i) {
        T const* const p = row + i * x.stride + c;
        will_read(row + hinted_channel(c), ahead + i * x.stride);
        Floats const distance = width.load(p) - k;
        total += distance;
        square = multiply_add(distance, distance, square);
      }
      store(sum + slots + slot, total);
      store(squares + slot, square);
    });
  };
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    if (before == nullptr && (row == 4 || row == 16 || row == 64)) {
      recenter(channels, row, slots, sum);
    }
    add.template operator()<4>(start + row * x.stride);
  }
  for (; row < rows; ++row) {
    add.template operator()<1>(start + row * x.stride);
  }
}

/// Adds `count` values of a mean and a sum of squared distances from it to those of `before`.
/// Source: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm, 1979, eq. 2.1.
inline void merge_moments(double before, double count, double mean, double squares,
                          double& all_mean, double& all_squares) {
  double const weight = count / (before + count);
  double const delta = before > 0 ? mean - all_mean : mean;
  all_mean = before > 0 ? all_mean + delta * weight : mean;
  all_squares = before > 0 ? all_squares + squares + delta * delta * weight * before : squares;
}

}  // namespace detail

/// mean, biased variance and inverse deviation of each channel over the rows.
///
/// Shapes: x (rows, C); the statistics (C).
/// Cost:   reads x once; bound by memory.
/// Order:  blocks of 256 rows in float, as distances from a mean of rows before, so that neither a
///         mean far from 0 nor any one row costs digits; blocks, then parts in order in double. A
///         function of rows only.
/// @pre    scratch has RowScratch::bytes(rows, C); rows >= 1
template <class T>
TANDEM_NOINLINE void batch_norm_moments(Team& team, Rows<T const> x, std::int64_t rows,
                                        int channels, float epsilon,
                                        BatchNormSaved<float> const& saved, std::byte* memory) {
  RowScratch const scratch{memory, rows, channels};
  std::int64_t const slots = scratch.slots();
  row_sums(
      team, rows, scratch,
      [&](std::int64_t first, std::int64_t count, double const* before, float* sum) {
        detail::batch_norm_block(x, first, count, channels, slots, before, sum);
      },
      [slots](std::int64_t count, std::int64_t before, float const* sum, double* mean,
              double* squares) {
        auto const n = static_cast<double>(count);
        for (std::int64_t s = 0; s < slots; ++s) {
          double const total = static_cast<double>(sum[slots + s]);
          double const square = static_cast<double>(sum[2 * slots + s]);
          detail::merge_moments(static_cast<double>(before), n,
                                static_cast<double>(sum[s]) + total / n,
                                std::max(square - total * total / n, 0.0), mean[s], squares[s]);
        }
      });
  RowParts const parts{rows};
  team.parallel_for(channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      std::int64_t const s = RowScratch::slot(static_cast<int>(c), channels);
      double mean = 0;
      double squares = 0;
      for (std::int64_t part = 0; part < parts.count; ++part) {
        std::int64_t const before = part * parts.each;
        std::int64_t const count = std::min(rows - before, parts.each);
        detail::merge_moments(static_cast<double>(before), static_cast<double>(count),
                              scratch.total(part, 0)[s], scratch.total(part, 1)[s], mean, squares);
      }
      double const variance = squares / static_cast<double>(rows);
      saved.mean[c] = static_cast<float>(mean);
      saved.variance[c] = static_cast<float>(variance);
      saved.inverse_deviation[c] = inverse_deviation_of(variance, epsilon);
    }
  });
}

/// y = (x - center) * scale + shift of each channel; then max(y, 0) with @p relu.
///
/// Shapes: x, y (rows, C), which must not overlap; what lies between the rows is not touched.
/// Cost:   reads x, writes y; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_apply(Team& team, Rows<T const> x, std::int64_t rows, int channels,
                                      BatchNormAffine const& affine, bool relu, Rows<T> y) {
  std::int64_t const ahead = rows_ahead<T>(channels) / 2 + 1;
  std::int64_t const traffic = 2 * rows * channels * static_cast<std::int64_t>(sizeof(T));
  Floats const least{relu ? 0.0F : -std::numeric_limits<float>::infinity()};
  detail::for_rows(team, rows, traffic, [&]<int N>(std::int64_t row) {
    T const* const from = x.data + row * x.stride;
    T* const to = y.data + row * y.stride;
    for_vectors(channels, [&](int c, auto width) {
      Floats const center = width.load(affine.center + c);
      Floats const scale = width.load(affine.scale + c);
      Floats const shift = width.load(affine.shift + c);
      int const hint = hinted_channel(c);
      for (int i = 0; i < N; ++i) {
        will_read(from + hint, (i + ahead) * x.stride);
        will_write(to + hint, (i + ahead) * y.stride);
        Floats const distance = width.load(from + i * x.stride + c) - center;
        width.store(to + i * y.stride + c, max(multiply_add(distance, scale, shift), least));
      }
    });
  });
}

}  // namespace tandem::host::channels_last
