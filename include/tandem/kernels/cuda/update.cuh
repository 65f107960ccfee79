// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The update of all parameters in one launch, and the norm of their gradient.
///
/// Blocks work on chunks of runs; a run's functor stands in device memory, where finish_step has
/// made it. What the functors compute is optim/'s business.

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/update_chunk.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// One run's functor: of its weights, or of its statistics.
template <class Weight, class Statistic>
struct RunUpdate {
  Weight weight;
  Statistic average;
  bool statistic;
};

namespace detail {

template <class P, class Settings>
TANDEM_KERNEL void gradient_squares_kernel(UpdateChunk const* chunks, Settings const* runs,
                                           P const* gradients, double* squares) {
  __shared__ double shared[row_threads];
  UpdateChunk const chunk = chunks[blockIdx.x];
  double own = 0;
  if (!runs[chunk.run].statistic) {
    for (int i = static_cast<int>(threadIdx.x); i < chunk.count; i += row_threads) {
      double const g = static_cast<double>(gradients[chunk.begin + i]);
      own += g * g;
    }
  }
  double const total = merge_lanes<row_threads>(own, shared, AddLanes{});
  if (threadIdx.x == 0) {
    squares[blockIdx.x] = total;
  }
}

/// Updates N neighbours from element @p at on.
template <int N, class Update, class T>
TANDEM_HOST_DEVICE void update_pack(Update const& update, std::int64_t at, T* rounded) {
  auto const& run = update.run;
  using P = std::remove_pointer_t<decltype(run.parameter)>;
  Pack<P, N> p = load_pack<N>(run.parameter + at);
  Pack<P, N> const g = load_pack<N>(run.gradient + at);
  Pack<P, N> first{};
  Pack<P, N> second{};
  if (run.state[0] != nullptr) {
    first = load_pack<N>(run.state[0] + at);
  }
  if (run.state[1] != nullptr) {
    second = load_pack<N>(run.state[1] + at);
  }
  for (int i = 0; i < N; ++i) {
    P state[2] = {first.value[i], second.value[i]};
    p.value[i] = update.next(p.value[i], g.value[i], state);
    first.value[i] = state[0];
    second.value[i] = state[1];
  }
  store_pack(run.parameter + at, p);
  if (run.state[0] != nullptr) {
    store_pack(run.state[0] + at, first);
  }
  if (run.state[1] != nullptr) {
    store_pack(run.state[1] + at, second);
  }
  if (rounded != nullptr) {
    Pack<T, N> result;
    for (int i = 0; i < N; ++i) {
      result.value[i] = store<T>(static_cast<ComputeType<T>>(p.value[i]));
    }
    store_pack(rounded + at, result);
  }
}

/// Null or a multiple of 16 bytes, from element @p at on.
template <class T>
TANDEM_HOST_DEVICE bool starts_pack(T const* x, std::int64_t at) {
  return x == nullptr || reinterpret_cast<std::uintptr_t>(x + at) % 16 == 0;
}

template <class Update, class T>
TANDEM_HOST_DEVICE void update_all(Update const& update, UpdateChunk const& chunk, int thread,
                                   T* rounded) {
  auto const& run = update.run;
  constexpr int n = full_pack<std::remove_pointer_t<decltype(run.parameter)>>;
  std::int64_t const at = chunk.begin;
  bool const whole = starts_pack(run.parameter, at) && starts_pack(run.gradient, at) &&
                     starts_pack(run.state[0], at) && starts_pack(run.state[1], at) &&
                     reinterpret_cast<std::uintptr_t>(rounded + at) % (n * sizeof(T)) == 0;
  int const packed = whole ? chunk.count - chunk.count % n : 0;
  for (int i = n * thread; i < packed; i += n * row_threads) {
    update_pack<n>(update, at + i, rounded);
  }
  for (int i = packed + thread; i < chunk.count; i += row_threads) {
    update_pack<1>(update, at + i, rounded);
  }
}

template <class Run, class T>
TANDEM_KERNEL void apply_update_kernel(UpdateChunk const* chunks, Run const* runs, T* rounded,
                                       int const* stopped) {
  if (*stopped != 0) {
    return;
  }
  UpdateChunk const chunk = chunks[blockIdx.x];
  Run const run = runs[chunk.run];
  int const thread = static_cast<int>(threadIdx.x);
  if (run.statistic) {
    update_all(run.average, chunk, thread, rounded);
  } else {
    update_all(run.weight, chunk, thread, rounded);
  }
}

}  // namespace detail

/// squares[i] = the sum of the squares of chunk i's gradients, in double; 0 where its run is of
/// statistics.
///
/// Shapes: chunks, squares (count); runs by UpdateChunk::run, of a type with a bool `statistic`.
/// Cost:   reads the gradients once; bound by memory.
/// Order:  element i of a chunk goes to lane i mod 256; the lanes are added as a binary tree.
template <class P, class Settings>
void gradient_squares(Stream const& stream, UpdateChunk const* chunks, std::int64_t count,
                      Settings const* runs, P const* gradients, double* squares) {
  launch(detail::gradient_squares_kernel<P, Settings>, blocks_for(count, 1), row_threads, stream,
         chunks, runs, gradients, squares);
}

/// Each parameter of the chunks, and its optimizer states, becomes what its run's functor says;
/// rounded[i] = parameter i rounded to T, unless @p rounded is null. Does nothing where *stopped is
/// not 0.
///
/// Shapes: chunks (count); runs, each a RunUpdate, by UpdateChunk::run. A functor has `run`, with
///         the arrays of all parameters, and next(p, g, state), the parameter's new value.
/// Cost:   reads parameters, gradients and states and writes all but gradients; bound by memory.
template <class Run, class T>
void apply_update(Stream const& stream, UpdateChunk const* chunks, std::int64_t count,
                  Run const* runs, T* rounded, int const* stopped) {
  launch(detail::apply_update_kernel<Run, T>, blocks_for(count, 1), row_threads, stream, chunks,
         runs, rounded, stopped);
}

}  // namespace tandem::cuda
