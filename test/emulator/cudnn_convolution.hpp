// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The arithmetic of the emulator's cuDNN: one pass of a convolution, channels-last, by the kernels
/// of Host.

#include <cstdint>
#include <cstring>
#include <vector>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/host/convolution.hpp>
#include <tandem/runtime/host/team.hpp>

#include "tf32.hpp"

namespace cuda_emulator {

enum class ConvolutionKind : unsigned char { forward, backward_data, backward_filter };

/// One execution. x, weight and y are in the device's memory, of 16 bits if `half`, else float.
struct ConvolutionJob {
  ConvolutionKind kind = ConvolutionKind::forward;
  tandem::ConvolutionGeometry geometry{};
  int batch = 0;
  bool half = false;  ///< BFloat16, or Float16 if `ieee`
  bool ieee = false;
  bool tf32 = false;  ///< inputs rounded to 10 fraction bits
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;  ///< a copy of the first input goes by way of it
  std::int64_t workspace_bytes = 0;
};

/// A tensor (n, h w, c) as floats in the order (n, c, h w).
inline std::vector<float> channels_first(ConvolutionJob const& job, void const* from,
                                         std::int64_t n, std::int64_t pixels, std::int64_t c) {
  std::vector<float> result(static_cast<std::size_t>(n * pixels * c));
  for (std::int64_t s = 0; s < n; ++s) {
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t i = 0; i < c; ++i) {
        std::int64_t const at = (s * pixels + p) * c + i;
        float const value = job.ieee   ? float{static_cast<tandem::Float16 const*>(from)[at]}
                            : job.half ? float{static_cast<tandem::BFloat16 const*>(from)[at]}
                                       : static_cast<float const*>(from)[at];
        result[static_cast<std::size_t>((s * c + i) * pixels + p)] =
            job.tf32 ? rounded_to_tf32(value) : value;
      }
    }
  }
  return result;
}

/// The way back.
inline void channels_last(ConvolutionJob const& job, std::vector<float> const& from, void* to,
                          std::int64_t n, std::int64_t pixels, std::int64_t c) {
  for (std::int64_t s = 0; s < n; ++s) {
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t i = 0; i < c; ++i) {
        std::int64_t const at = (s * pixels + p) * c + i;
        float const value = from[static_cast<std::size_t>((s * c + i) * pixels + p)];
        if (job.ieee) {
          static_cast<tandem::Float16*>(to)[at] = tandem::Float16{value};
        } else if (job.half) {
          static_cast<tandem::BFloat16*>(to)[at] = tandem::BFloat16{value};
        } else {
          static_cast<float*>(to)[at] = value;
        }
      }
    }
  }
}

inline void run(ConvolutionJob job) {
  tandem::ConvolutionGeometry const& g = job.geometry;
  tandem::host::Team team{1};
  std::vector<float> scratch(
      static_cast<std::size_t>(tandem::host::convolution_scratch<float>(g, 1)));
  std::int64_t const in = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out = std::int64_t{g.out.height} * g.out.width;
  std::int64_t const taps = std::int64_t{g.window.kernel.height} * g.window.kernel.width;
  int const maps = g.in_channels / g.groups;
  void*& first = job.kind == ConvolutionKind::backward_data ? job.y : job.x;
  if (job.workspace_bytes > 0) {
    std::memcpy(job.workspace, first, static_cast<std::size_t>(job.workspace_bytes));
    first = job.workspace;
  }
  auto const x = [&] { return channels_first(job, job.x, job.batch, in, g.in_channels); };
  auto const y = [&] { return channels_first(job, job.y, job.batch, out, g.out_channels); };
  auto const weight = [&] { return channels_first(job, job.weight, g.out_channels, taps, maps); };
  switch (job.kind) {
    case ConvolutionKind::forward: {
      std::vector<float> result(static_cast<std::size_t>(job.batch * out * g.out_channels));
      tandem::host::convolution_forward<float>(team, g, job.batch, x().data(), weight().data(),
                                               nullptr, result.data(), scratch.data());
      return channels_last(job, result, job.y, job.batch, out, g.out_channels);
    }
    case ConvolutionKind::backward_data: {
      std::vector<float> result(static_cast<std::size_t>(job.batch * in * g.in_channels));
      tandem::host::convolution_input_gradient<float>(team, g, job.batch, weight().data(),
                                                      y().data(), result.data(), scratch.data());
      return channels_last(job, result, job.x, job.batch, in, g.in_channels);
    }
    case ConvolutionKind::backward_filter: {
      std::vector<float> result(static_cast<std::size_t>(g.out_channels * taps * maps));
      tandem::host::convolution_weight_gradient<float>(team, g, job.batch, x().data(), y().data(),
                                                       result.data(), nullptr, false,
                                                       scratch.data());
      return channels_last(job, result, job.weight, g.out_channels, taps, maps);
    }
  }
}

}  // namespace cuda_emulator
