// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What stands between the halves of a batch normalisation whose batch is spread over replicas:
/// from the own moments and sums to those that are added, and from the sums of all back.
///
/// The passes over x and dy are those of batch_norm.cuh and batch_norm_gradient.cuh. Each function
/// here is one launch over the channels and reads no more than a few numbers of each.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/batch_norm.cuh>
#include <tandem/kernels/cuda/batch_norm_gradient.cuh>
#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/functors/batch_norm_sums.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <class P>
struct PutLocalSums {
  BatchNormSaved<P> own;
  P const* shift;
  double count;
  BatchNormSums sums;

  TANDEM_HOST_DEVICE void operator()(std::int64_t c) const {
    if (c == 0) {
      *sums.count = count;
    }
    set_shifted_sums(sums, c, count,
                     {static_cast<double>(own.mean[c]), static_cast<double>(own.variance[c])},
                     static_cast<double>(shift[c]));
  }
};

template <class P>
struct PutJointStatistics {
  BatchNormSaved<P> saved;
  P const* shift;
  P epsilon;
  BatchNormSums sums;

  TANDEM_HOST_DEVICE void operator()(std::int64_t c) const {
    using std::sqrt;
    ChannelMoments const moments = moments_of(sums, c, static_cast<double>(shift[c]));
    saved.mean[c] = static_cast<P>(moments.mean);
    saved.variance[c] = static_cast<P>(moments.variance);
    saved.inverse_deviation[c] =
        static_cast<P>(1.0 / sqrt(moments.variance + static_cast<double>(epsilon)));
  }
};

template <class P>
struct PutLocalGradientSums {
  BatchNormSaved<P> own;
  double count;
  BatchNormSums sums;

  TANDEM_HOST_DEVICE void operator()(std::int64_t c) const {
    if (c == 0) {
      *sums.count = count;
    }
    sums.first[c] = static_cast<double>(own.sum_dy[c]);
    sums.second[c] = static_cast<double>(own.sum_dy_x[c]);
  }
};

template <class P>
struct PutGradientMeans {
  BatchNormSums sums;
  P* dy;
  P* dy_x;

  TANDEM_HOST_DEVICE void operator()(std::int64_t c) const {
    dy[c] = static_cast<P>(sums.first[c] / *sums.count);
    dy_x[c] = static_cast<P>(sums.second[c] / *sums.count);
  }
};

template <class P>
struct PutJointWeightGradient {
  BatchNormSaved<P> saved;
  double const* count;
  P share;
  BatchNormGradients<P> gradients;
  bool accumulate;

  TANDEM_HOST_DEVICE void operator()(std::int64_t c) const {
    P const unbiased_share = static_cast<P>(static_cast<double>(share) * unbiased_factor(*count));
    put_weight_gradient(c, saved, share, unbiased_share, gradients, accumulate);
  }
};

}  // namespace detail

/// The sums of x - shift and of its square from the moments of @p rows rows in @p own.
///
/// Shapes: shift (C).
template <class P>
void batch_norm_local_sums(Stream const& stream, std::int64_t rows, int channels,
                           BatchNormSaved<P> const& own, P const* shift,
                           BatchNormSums const& sums) {
  each(stream, channels, detail::PutLocalSums<P>{own, shift, static_cast<double>(rows), sums});
}

/// Mean, biased variance and inverse deviation of all that has been added to @p sums.
///
/// Shapes: shift (C).
template <class P>
void batch_norm_joint_statistics(Stream const& stream, int channels, BatchNormSums const& sums,
                                 P const* shift, P epsilon, BatchNormSaved<P> const& saved) {
  each(stream, channels, detail::PutJointStatistics<P>{saved, shift, epsilon, sums});
}

/// The sums of dy and dy (x - mean) that batch_norm_gradient_sums left in @p own.
template <class P>
void batch_norm_local_gradient_sums(Stream const& stream, std::int64_t rows, int channels,
                                    BatchNormSaved<P> const& own, BatchNormSums const& sums) {
  each(stream, channels, detail::PutLocalGradientSums<P>{own, static_cast<double>(rows), sums});
}

/// Scratch of batch_norm_joint_input_gradient.
template <class P>
constexpr std::int64_t batch_norm_joint_scratch_bytes(int channels) {
  return 2 * std::int64_t{channels} * static_cast<std::int64_t>(sizeof(P));
}

/// batch_norm_input_gradient with the sums of dy and dy (x - mean) over all replicas.
///
/// Shapes: x, dy (rows, C), gain, bias (C); dx (rows, C), which may be dy.
/// Cost:   reads x and dy once, writes dx once; bound by memory. Two launches.
/// @pre    scratch has batch_norm_joint_scratch_bytes<P>(C)
template <class T, class P>
void batch_norm_joint_input_gradient(Stream const& stream, T const* x, T const* dy,
                                     std::int64_t rows, int channels, P const* gain, P const* bias,
                                     bool relu, BatchNormSaved<P> const& saved,
                                     BatchNormSums const& sums, T* dx, std::byte* scratch,
                                     RowStrides own = {}) {
  P* const mean_dy = reinterpret_cast<P*>(scratch);
  P* const mean_dy_x = mean_dy + channels;
  each(stream, channels, detail::PutGradientMeans<P>{sums, mean_dy, mean_dy_x});
  detail::BatchNormSource<P> const source{gain, bias, saved.mean, saved.inverse_deviation,
                                          P{0}, false};
  RowStrides const strides = own.of(channels);
  bool const whole = aligned(x, dy, dx) && strides.keep_aligned<T>();
  column_map<T>(stream, rows, channels, [=](auto width) {
    return detail::BatchNormGradientMap<T, decltype(width)::value, P>{
        {x, dy, strides, source, relu, whole}, mean_dy, mean_dy_x, 1, dx};  // means of one row
  });
}

/// batch_norm_weight_gradient of the own rows, but for the statistics, which are those of all:
/// mean = [+=] share * mean(x), variance = [+=] share * var(x) * count / (count - 1).
///
/// @pre batch_norm_gradient_sums has left its sums in @p saved
template <class P>
void batch_norm_joint_weight_gradient(Stream const& stream, int channels, double share,
                                      BatchNormSaved<P> const& saved, BatchNormSums const& sums,
                                      BatchNormGradients<P> const& gradients, bool accumulate) {
  each(stream, channels,
       detail::PutJointWeightGradient<P>{saved, sums.count, static_cast<P>(share), gradients,
                                         accumulate});
}

}  // namespace tandem::cuda
