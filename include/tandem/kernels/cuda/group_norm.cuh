// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Group norm over channels-last images; a vector is one pixel.

#include <cmath>
#include <cstdint>

#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/divider.hpp>
#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/cuda/moments.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/row_norm.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/functors/group_norm_geometry.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// One block for a group of a sample: its mean and 1 / deviation.
template <int N, class T, class P>
TANDEM_KERNEL void group_moments_kernel(GroupNormGeometry g, Divider packs, std::int64_t first,
                                        ComputeType<T> epsilon, T const* x, P* saved) {
  await_previous();
  using Real = ComputeType<T>;
  using std::sqrt;
  std::int64_t const block = first + static_cast<std::int64_t>(blockIdx.x);
  std::int64_t const sample = block / g.groups;
  int const group = static_cast<int>(block % g.groups);
  T const* const corner = x + sample * g.pixels * g.channels + group * g.width();
  Moments<Real, 1> own{};
  std::int64_t const count = g.elements() / N;
  for (std::int64_t i = static_cast<int>(threadIdx.x); i < count; i += row_threads) {
    auto channel = static_cast<std::uint32_t>(i);
    std::int64_t const pixel = packs.split(channel);
    std::int64_t const at = pixel * g.channels + std::int64_t{channel} * N;
    add_values<RowNorm::layer>(own, loaded(load_pack<N>(corner + at)));
  }
  auto const all = join_lanes<row_threads>(own, JoinMoments{});
  if (threadIdx.x == 0) {
    GroupNormSaved<P> const to{g, saved, sample};
    Real const variance = all.squares[0] / static_cast<Real>(g.elements());
    to.mean[group] = static_cast<P>(all.mean[0]);
    to.inverse[group] = static_cast<P>(Real{1} / sqrt(variance + epsilon));
  }
}

/// One thread for N channels of a pixel.
template <int N, class T, class P>
TANDEM_KERNEL void group_norm_kernel(std::uint32_t count, ImageThreads threads, GroupNormGeometry g,
                                     T const* x, P const* gain, P const* bias, P* saved, T* y) {
  await_previous();
  using Real = ComputeType<T>;
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  GroupNormSaved<P> const own{g, saved, at.sample};
  std::int64_t const place = (at.sample * g.pixels + at.column) * g.channels + at.channel;
  Pack<Real, N> value = loaded(load_pack<N>(x + place));
  for (int v = 0; v < N; ++v) {
    int const c = at.channel + v;
    int const group = c / g.width();
    RowStatistics<Real> const of_group{static_cast<Real>(own.mean[group]),
                                       static_cast<Real>(own.inverse[group])};
    Real const xhat = of_group.normalised(value.value[v]);
    value.value[v] =
        gain != nullptr ? xhat * static_cast<Real>(gain[c]) + static_cast<Real>(bias[c]) : xhat;
  }
  store_pack(y + place, stored<T>(value));
}

inline constexpr int group_columns = 32;  // packs of channels of a block
inline constexpr int group_lines = 8;     // interleaved sums of each

/// One block for 32 packs of a sample: the sums over its pixels of dy and of dy xhat.
template <int N, class T, class P>
TANDEM_KERNEL void group_norm_sums_kernel(Divider parts, GroupNormGeometry g, std::int64_t first,
                                          T const* x, T const* dy, P* saved) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ Real sum[2][group_lines][group_columns][N];
  std::uint32_t part = blockIdx.x;
  std::int64_t const sample = first + static_cast<std::int64_t>(parts.split(part));
  int const column = static_cast<int>(threadIdx.x) % group_columns;
  int const line = static_cast<int>(threadIdx.x) / group_columns;
  int const channel = (static_cast<int>(part) * group_columns + column) * N;
  bool const works = channel < g.channels;
  GroupNormSaved<P> const own{g, saved, sample};
  Real total[2][N] = {};
  if (works) {
    RowStatistics<Real> of_group[N];
    for (int v = 0; v < N; ++v) {
      int const group = (channel + v) / g.width();
      of_group[v] = {static_cast<Real>(own.mean[group]), static_cast<Real>(own.inverse[group])};
    }
    for (std::int64_t p = line; p < g.pixels; p += group_lines) {
      std::int64_t const at = (sample * g.pixels + p) * g.channels + channel;
      Pack<Real, N> const value = loaded(load_pack<N>(x + at));
      Pack<Real, N> const slope = loaded(load_pack<N>(dy + at));
      for (int v = 0; v < N; ++v) {
        total[0][v] += slope.value[v];
        total[1][v] += slope.value[v] * of_group[v].normalised(value.value[v]);
      }
    }
  }
  for (int v = 0; v < N; ++v) {
    sum[0][line][column][v] = total[0][v];
    sum[1][line][column][v] = total[1][v];
  }
  __syncthreads();
  if (line == 0 && works) {
    for (int v = 0; v < N; ++v) {
      for (int l = 1; l < group_lines; ++l) {
        total[0][v] += sum[0][l][column][v];
        total[1][v] += sum[1][l][column][v];
      }
      own.dy[channel + v] = static_cast<P>(total[0][v]);
      own.dy_normalised[channel + v] = static_cast<P>(total[1][v]);
    }
  }
}

/// means (B, groups, 2) of dy gain and of dy gain xhat, from the sums of the channels.
template <class P>
struct GroupSlopeMeans {
  GroupNormGeometry g;
  P const* gain;
  P* saved;
  P* means;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    GroupNormSaved<P> const own{g, saved, i / g.groups};
    int const first = static_cast<int>(i % g.groups) * g.width();
    double slope = 0;
    double product = 0;
    for (int c = first; c < first + g.width(); ++c) {
      double const weight = gain != nullptr ? static_cast<double>(gain[c]) : 1.0;
      slope += weight * static_cast<double>(own.dy[c]);
      product += weight * static_cast<double>(own.dy_normalised[c]);
    }
    means[2 * i] = static_cast<P>(slope / static_cast<double>(g.elements()));
    means[2 * i + 1] = static_cast<P>(product / static_cast<double>(g.elements()));
  }
};

/// One thread for N channels of a pixel.
template <int N, class T, class P>
TANDEM_KERNEL void group_norm_gradient_kernel(std::uint32_t count, ImageThreads threads,
                                              GroupNormGeometry g, T const* x, T const* dy,
                                              P const* gain, P* saved, P const* means, T* dx) {
  await_previous();
  using Real = ComputeType<T>;
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  GroupNormSaved<P> const own{g, saved, at.sample};
  std::int64_t const place = (at.sample * g.pixels + at.column) * g.channels + at.channel;
  Pack<Real, N> const value = loaded(load_pack<N>(x + place));
  Pack<Real, N> slope = loaded(load_pack<N>(dy + place));
  for (int v = 0; v < N; ++v) {
    int const c = at.channel + v;
    int const group = c / g.width();
    RowStatistics<Real> const of_group{static_cast<Real>(own.mean[group]),
                                       static_cast<Real>(own.inverse[group])};
    P const* const mean = means + 2 * (at.sample * g.groups + group);
    Real const weighted =
        gain != nullptr ? slope.value[v] * static_cast<Real>(gain[c]) : slope.value[v];
    Real const rest = weighted - static_cast<Real>(mean[0]);
    slope.value[v] = (rest - of_group.normalised(value.value[v]) * static_cast<Real>(mean[1])) *
                     of_group.inverse;
  }
  store_pack(dx + place, stored<T>(slope));
}

/// Of one channel, the samples in order, in double.
template <class P>
struct GroupWeightGradient {
  GroupNormGeometry g;
  std::int64_t batch;
  P* saved;
  P* gain;
  P* bias;
  bool accumulate;

  TANDEM_HOST_DEVICE void operator()(std::int64_t c) const {
    double of_gain = 0;
    double of_bias = 0;
    for (std::int64_t sample = 0; sample < batch; ++sample) {
      GroupNormSaved<P> const own{g, saved, sample};
      of_gain += static_cast<double>(own.dy_normalised[c]);
      of_bias += static_cast<double>(own.dy[c]);
    }
    gain[c] = static_cast<P>(of_gain) + (accumulate ? gain[c] : P{0});
    bias[c] = static_cast<P>(of_bias) + (accumulate ? bias[c] : P{0});
  }
};

/// f(integral constant N): a pack of channels, or one.
template <class T, class Function>
void with_group_pack(int channels, Function const& f, T const* a, T const* b) {
  if (packs_channels(channels, a, b)) {
    f(std::integral_constant<int, full_pack<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

}  // namespace detail

/// Scratch of group_norm_gradient.
template <class P>
constexpr std::int64_t group_norm_scratch_bytes(GroupNormGeometry const& g, std::int64_t batch) {
  return 2 * batch * g.groups * static_cast<std::int64_t>(sizeof(P));
}

/// y = (x - mean) / sqrt(variance + epsilon) * gain + bias, each group of channels of a sample by
/// its own mean and (biased) variance.
///
/// Shapes: x (B, pixels, C), gain, bias (C) or both null; y (B, pixels, C); saved (B, g.saved()).
/// Cost:   reads x twice and writes y; bound by memory where a group has a pack of channels or
///         more: of narrower groups a sector is read again for each. Two launches.
/// Order:  a block takes a group of a sample: a thread's packs in order by Moments in
///         ComputeType<T>, then join_lanes().
/// Source: Wu, He, arXiv:1803.08494, section 3
template <class T, class P>
void group_norm_forward(Stream const& stream, GroupNormGeometry const& g, std::int64_t batch,
                        T const* x, P const* gain, P const* bias, double epsilon, T* y, P* saved) {
  using Real = ComputeType<T>;
  detail::with_group_pack(
      g.width(),
      [&](auto pack) {
        constexpr int n = decltype(pack)::value;
        std::int64_t const blocks = batch * g.groups;
        for (std::int64_t first = 0; first < blocks; first += largest_grid) {
          launch(detail::group_moments_kernel<n, T, P>, blocks_for(blocks - first, 1), row_threads,
                 stream, g, Divider{g.width() / n}, first, static_cast<Real>(epsilon), x, saved);
        }
      },
      x, static_cast<T const*>(y));
  detail::with_group_pack(
      g.channels,
      [&](auto pack) {
        constexpr int n = decltype(pack)::value;
        launch_images(detail::group_norm_kernel<n, T, P>, stream, batch,
                      {{1, static_cast<int>(g.pixels)}, g.channels, n}, g, x, gain, bias, saved, y);
      },
      x, static_cast<T const*>(y));
}

/// dx, unless it is null, and the sums of each sample and channel in @p saved that
/// group_norm_weight_gradient adds.
///
/// With g = dy gain: dx = (g - mean(g) - xhat mean(g xhat)) inverse.
///
/// Shapes: x, dy (B, pixels, C), gain (C) or null; dx (B, pixels, C), which may be dy.
/// Cost:   reads x and dy twice and writes dx; bound by memory. Three launches.
/// Order:  pixel p goes to sum p mod 8, the 8 are added in order, in ComputeType; the channels of a
///         group in order, in double.
/// @pre    group_norm_forward has written @p saved; scratch has group_norm_scratch_bytes<P>(g,
///         batch)
template <class T, class P>
void group_norm_gradient(Stream const& stream, GroupNormGeometry const& g, std::int64_t batch,
                         T const* x, T const* dy, P const* gain, T* dx, P* saved,
                         std::byte* scratch) {
  P* const means = reinterpret_cast<P*>(scratch);
  detail::with_group_pack(
      g.channels,
      [&](auto pack) {
        constexpr int n = decltype(pack)::value;
        std::int64_t const packs = g.channels / n;
        std::int64_t const parts = (packs + detail::group_columns - 1) / detail::group_columns;
        for_chunks(batch, parts, [&](std::int64_t first, std::int64_t samples) {
          launch(detail::group_norm_sums_kernel<n, T, P>, blocks_for(samples * parts, 1),
                 detail::group_columns * detail::group_lines, stream, Divider{parts}, g, first, x,
                 dy, saved);
        });
        if (dx != nullptr) {
          each(stream, batch * g.groups, detail::GroupSlopeMeans<P>{g, gain, saved, means});
          launch_images(detail::group_norm_gradient_kernel<n, T, P>, stream, batch,
                        {{1, static_cast<int>(g.pixels)}, g.channels, n}, g, x, dy, gain, saved,
                        means, dx);
        }
      },
      x, dx != nullptr && !aligned(dx) ? static_cast<T const*>(dx) : dy);
}

/// dgain = [+=] sum(dy xhat), dbias = [+=] sum(dy) of each channel.
///
/// Order: the samples in order, in double.
/// @pre   group_norm_gradient has written @p saved (B, g.saved())
template <class P>
void group_norm_weight_gradient(Stream const& stream, GroupNormGeometry const& g,
                                std::int64_t batch, P* saved, P* dgain, P* dbias, bool accumulate) {
  each(stream, g.channels,
       detail::GroupWeightGradient<P>{g, batch, saved, dgain, dbias, accumulate});
}

}  // namespace tandem::cuda
