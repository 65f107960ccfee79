// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// y = x Wᵀ + b, and its gradients; three calls of gemm.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/gemm.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Elements of T that each of the three kernels needs as scratch for a Team of @p threads.
template <class T>
constexpr std::int64_t linear_scratch(int threads) {
  return gemm_scratch<T>(threads);
}

/// y += b, row by row. Shapes: y (B, Out), b (Out).
template <class T>
void add_bias(Team& team, int batch, int out, T const* bias, T* y) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T* const row = y + s * out;
      for (int j = 0; j < out; ++j) {
        row[j] += bias[j];
      }
    }
  });
}

/// dbias = [+=] the sum of dy over the batch, in order. Shapes: dy (B, Out), dbias (Out).
template <class T>
void bias_gradient(Team& team, int batch, int out, T const* dy, T* dbias, bool accumulate) {
  team.parallel_for(out, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      T total{0};
      for (std::int64_t s = 0; s < batch; ++s) {
        total += dy[s * out + j];
      }
      dbias[j] = accumulate ? dbias[j] + total : total;
    }
  });
}

/// y = x Wᵀ + b.
///
/// Shapes: x (B, In), weight (Out, In), bias (Out) or null; y (B, Out).
/// Cost:   B In Out multiply-accumulates.
/// Order:  as gemm, then the bias; a sample's bits do not depend on its batch.
template <class T>
TANDEM_NOINLINE void linear_forward(Team& team, int batch, int in, int out, T const* x,
                                    T const* weight, T const* bias, T* y, T* scratch) {
  gemm(team, Transpose::no, Transpose::yes, batch, out, in, x, in, weight, in, y, out, false,
       scratch);
  if (bias != nullptr) {
    add_bias(team, batch, out, bias, y);
  }
}

/// dx = dy W.
///
/// Shapes: weight (Out, In), dy (B, Out); dx (B, In).
/// Cost:   B In Out multiply-accumulates.
/// Order:  as gemm; a sample's bits do not depend on its batch.
template <class T>
TANDEM_NOINLINE void linear_input_gradient(Team& team, int batch, int in, int out, T const* weight,
                                           T const* dy, T* dx, T* scratch) {
  gemm(team, Transpose::no, Transpose::no, batch, in, out, dy, out, weight, in, dx, in, false,
       scratch);
}

/// dweight = [+=] dyᵀ x, dbias = [+=] the sum of dy over the batch.
///
/// Shapes: x (B, In), dy (B, Out); dweight (Out, In), dbias (Out) or null.
/// Cost:   B In Out multiply-accumulates.
/// Order:  as gemm, the k of which is the sample; dbias adds the samples in order.
template <class T>
TANDEM_NOINLINE void linear_weight_gradient(Team& team, int batch, int in, int out, T const* x,
                                            T const* dy, T* dweight, T* dbias, bool accumulate,
                                            T* scratch) {
  gemm(team, Transpose::yes, Transpose::no, out, in, batch, dy, out, x, in, dweight, in, accumulate,
       scratch);
  if (dbias != nullptr) {
    bias_gradient(team, batch, out, dy, dbias, accumulate);
  }
}

}  // namespace tandem::host
