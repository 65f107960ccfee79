// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The gradients of batch normalisation: one pass of sums, which both of them use, then each.
///
/// With a fused ReLU, dy below stands for dy where y > 0 and 0 elsewhere; y is computed again.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/batch_norm.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/channels_last/row_sums.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

/// dy, or 0 where a ReLU behind y = distance * scale + shift passes none.
template <bool Relu>
[[gnu::always_inline]] inline Floats behind_relu(Floats const& dy, Floats const& distance,
                                                 Floats const& scale, Floats const& shift) {
  if constexpr (Relu) {
    return where_positive(multiply_add(distance, scale, shift), dy);
  } else {
    return dy;
  }
}

/// Sums of dy and of dy (x - center) over rows, to the first two arrays of @p sum.
template <bool Relu, class T>
void batch_norm_gradient_block(Rows<T const> const& x, Rows<T const> const& dy, std::int64_t first,
                               std::int64_t rows, int channels, BatchNormAffine const& affine,
                               std::int64_t slots, float* sum) {
  std::fill(sum, sum + 2 * slots, 0.0F);
  std::int64_t const ahead = rows_ahead<T>(channels);
  auto const add = [&]<int N>(std::int64_t row) {
    T const* const x_row = x.data + row * x.stride;
    T const* const dy_row = dy.data + row * dy.stride;
    for_vectors(channels, [&](int c, auto width) {
      std::int64_t const slot = slot_of_vector(c);
      Floats const center = width.load(affine.center + c);
      Floats const scale = width.load(affine.scale + c);
      Floats const shift = width.load(affine.shift + c);
      int const hint = hinted_channel(c);
      Floats total = load(sum + slot);
      Floats product = load(sum + slots + slot);
      for (int i = 0; i < N; ++i) {
        will_read(x_row + hint, (i + ahead) * x.stride);
        will_read(dy_row + hint, (i + ahead) * dy.stride);
        Floats const distance = width.load(x_row + i * x.stride + c) - center;
        Floats const g =
            behind_relu<Relu>(width.load(dy_row + i * dy.stride + c), distance, scale, shift);
        total += g;
        product = multiply_add(g, distance, product);
      }
      store(sum + slot, total);
      store(sum + slots + slot, product);
    });
  };
  std::int64_t row = first;
  for (; row + 4 <= first + rows; row += 4) {
    add.template operator()<4>(row);
  }
  for (; row < first + rows; ++row) {
    add.template operator()<1>(row);
  }
}

template <bool Relu, class T>
void batch_norm_map_gradient(Team& team, Rows<T const> const& x, Rows<T const> const& dy,
                             std::int64_t rows, int channels, BatchNormAffine const& affine,
                             float const* slope, float const* offset, Rows<T> const& dx) {
  std::int64_t const ahead = rows_ahead<T>(channels) / 2 + 1;
  std::int64_t const traffic = 3 * rows * channels * static_cast<std::int64_t>(sizeof(T));
  for_rows(team, rows, traffic, [&]<int N>(std::int64_t row) {
    T const* const x_row = x.data + row * x.stride;
    T const* const dy_row = dy.data + row * dy.stride;
    T* const dx_row = dx.data + row * dx.stride;
    for_vectors(channels, [&](int c, auto width) {
      Floats const center = width.load(affine.center + c);
      Floats const scale = width.load(affine.scale + c);
      Floats const shift = width.load(affine.shift + c);
      int const hint = hinted_channel(c);
      Floats const a = width.load(slope + c);
      Floats const b = width.load(offset + c);
      for (int i = 0; i < N; ++i) {
        will_read(x_row + hint, (i + ahead) * x.stride);
        will_read(dy_row + hint, (i + ahead) * dy.stride);
        will_write(dx_row + hint, (i + ahead) * dx.stride);
        Floats const distance = width.load(x_row + i * x.stride + c) - center;
        Floats const g =
            behind_relu<Relu>(width.load(dy_row + i * dy.stride + c), distance, scale, shift);
        width.store(dx_row + i * dx.stride + c, (g + multiply_add(distance, a, b)) * scale);
      }
    });
  });
}

}  // namespace detail

/// saved.sum_dy = sum(dy), saved.sum_dy_x = sum(dy (x - mean)), each channel over the rows.
///
/// Shapes: x, dy (rows, C), affine as in forward.
/// Cost:   reads x and dy once; bound by memory.
/// Order:  blocks of 256 rows in float; blocks, then parts in order in double.
/// @pre    scratch has RowScratch::bytes(rows, C)
template <class T>
TANDEM_NOINLINE void batch_norm_gradient_sums(Team& team, Rows<T const> x, Rows<T const> dy,
                                              std::int64_t rows, int channels,
                                              BatchNormAffine const& affine, bool relu,
                                              BatchNormSaved<float> const& saved,
                                              std::byte* memory) {
  RowScratch const scratch{memory, rows, channels};
  std::int64_t const slots = scratch.slots();
  row_sums(
      team, rows, scratch,
      [&](std::int64_t first, std::int64_t count, double const*, float* sum) {
        if (relu) {
          detail::batch_norm_gradient_block<true>(x, dy, first, count, channels, affine, slots,
                                                  sum);
        } else {
          detail::batch_norm_gradient_block<false>(x, dy, first, count, channels, affine, slots,
                                                   sum);
        }
      },
      [slots](std::int64_t, std::int64_t before, float const* sum, double* total, double* product) {
        for (std::int64_t s = 0; s < slots; ++s) {
          total[s] = (before > 0 ? total[s] : 0.0) + static_cast<double>(sum[s]);
          product[s] = (before > 0 ? product[s] : 0.0) + static_cast<double>(sum[slots + s]);
        }
      });
  std::int64_t const parts = RowParts{rows}.count;
  team.parallel_for(channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      std::int64_t const s = RowScratch::slot(static_cast<int>(c), channels);
      double total = 0;
      double product = 0;
      for (std::int64_t part = 0; part < parts; ++part) {
        total += scratch.total(part, 0)[s];
        product += scratch.total(part, 1)[s];
      }
      saved.sum_dy[c] = static_cast<float>(total);
      saved.sum_dy_x[c] = static_cast<float>(product);
    }
  });
}

/// dx = (dy + (x - center) * slope + offset) * scale of each channel, all (C).
///
/// Through the batch's statistics, with scale = gain / deviation: slope is -mean(dy (x - mean)) /
/// deviation² and offset -mean(dy). Where statistics are constants both are 0.
///
/// Shapes: x, dy, dx (rows, C); dx overlaps neither; between its rows nothing is touched.
/// Cost:   reads x and dy, writes dx; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_input_gradient(Team& team, Rows<T const> x, Rows<T const> dy,
                                               std::int64_t rows, int channels,
                                               BatchNormAffine const& affine, bool relu,
                                               float const* slope, float const* offset,
                                               Rows<T> dx) {
  if (relu) {
    detail::batch_norm_map_gradient<true>(team, x, dy, rows, channels, affine, slope, offset, dx);
  } else {
    detail::batch_norm_map_gradient<false>(team, x, dy, rows, channels, affine, slope, offset, dx);
  }
}

/// gain = [+=] sum(dy xhat), bias = [+=] sum(dy), mean = [+=] share * mean(x), variance = [+=]
/// share * var(x) * rows / (rows - 1); one row has no unbiased variance and passes the biased one.
/// With an absorbed bias mean = [+=] share * (mean(x) + it), and its gradient = [+=] 0.
///
/// @pre batch_norm_gradient_sums has left its sums in @p saved
inline void batch_norm_weight_gradient(std::int64_t rows, int channels, double share,
                                       BatchNormSaved<float> const& saved,
                                       BatchNormGradients<float> const& gradients,
                                       bool accumulate) {
  double const unbiased =
      rows > 1 ? static_cast<double>(rows) / static_cast<double>(rows - 1) : 1.0;
  auto const weight = static_cast<float>(share);
  auto const factor = static_cast<float>(static_cast<double>(weight) * unbiased);
  for (int c = 0; c < channels; ++c) {
    auto const dy_xhat = static_cast<float>(static_cast<double>(saved.sum_dy_x[c]) *
                                            static_cast<double>(saved.inverse_deviation[c]));
    gradients.gain[c] = dy_xhat + (accumulate ? gradients.gain[c] : 0.0F);
    gradients.bias[c] = saved.sum_dy[c] + (accumulate ? gradients.bias[c] : 0.0F);
    float const mean =
        saved.mean[c] + (gradients.absorbed != nullptr ? gradients.absorbed[c] : 0.0F);
    gradients.mean[c] = weight * mean + (accumulate ? gradients.mean[c] : 0.0F);
    gradients.variance[c] =
        factor * saved.variance[c] + (accumulate ? gradients.variance[c] : 0.0F);
  }
  if (gradients.absorbed_gradient != nullptr && !accumulate) {
    std::fill_n(gradients.absorbed_gradient, channels, 0.0F);
  }
}

}  // namespace tandem::host::channels_last
