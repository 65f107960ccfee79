// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention of a sequence that comes in pieces, for generation: keys and values of the rows before
/// are kept from call to call.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime_api.h>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/attention_softmax.cuh>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// The product of @p width numbers at @p a and at @p b, in order.
template <int N, class T>
TANDEM_HOST_DEVICE ComputeType<T> product_of(int width, T const* a, T const* b) {
  ComputeType<T> sum = 0;
  for (int d = 0; d < width; d += N) {
    auto const left = loaded(load_pack<N>(a + d));
    auto const right = loaded(load_pack<N>(b + d));
    for (int v = 0; v < N; ++v) {
      sum += left.value[v] * right.value[v];
    }
  }
  return sum;
}

/// Threads of a block next to one another, each with N numbers of a value, and below one another,
/// which share the keys.
inline constexpr int step_across = 32;
inline constexpr int step_down = row_threads / step_across;

/// Block (h, r) makes head h of row position + r. Its probabilities, but for their sum, stand in
/// scores (rows, Heads, longest).
template <int N, class T>
TANDEM_KERNEL void attention_step_kernel(AttentionShape shape, int position, T const* x,
                                         T const* cache, ComputeType<T>* scores, T* y) {
  await_previous();
  using Real = ComputeType<T>;
  using std::exp;
  using std::sqrt;
  __shared__ ScoreSums<Real> shared_sums;
  __shared__ Real shared[step_down][N][step_across];
  std::int64_t const head = blockIdx.x;
  std::int64_t const row = blockIdx.y;
  std::int64_t const kept = shape.row() - shape.out();
  int const thread = static_cast<int>(threadIdx.x);
  int const keys = position + static_cast<int>(row) + 1;
  T const* const query = x + row * shape.row() + shape.query(head);
  T const* const key = cache + shape.key(head / shape.group()) - shape.out();
  T const* const value = cache + shape.value(head / shape.group()) - shape.out();
  Real* const p = scores + (row * shape.heads + head) * shape.longest;
  Real const scale = Real{1} / sqrt(static_cast<Real>(shape.width));
  ScoreSums<Real> own{};
  for (int j = thread; j < keys; j += row_threads) {
    p[j] = scale * product_of<N>(shape.width, query, key + j * kept);
    own.add(p[j]);
  }
  auto const all = join_lanes<row_threads>(own, JoinScoreSums<Real>{});
  if (thread == 0) {
    shared_sums = all;
  }
  __syncthreads();
  ScoreSums<Real> const sums = shared_sums;
  for (int j = thread; j < keys; j += row_threads) {
    p[j] = exp(p[j] - sums.largest);
  }
  __syncthreads();
  int const lane = thread % step_across;
  int const down = thread / step_across;
  T* const to = y + row * shape.out() + shape.query(head);
  for (int first = 0; first < shape.width; first += step_across * N) {
    int const column = first + lane * N;
    Pack<Real, N> sum{};
    for (int j = down; j < keys && column < shape.width; j += step_down) {
      auto const some = loaded(load_pack<N>(value + j * kept + column));
      for (int v = 0; v < N; ++v) {
        sum.value[v] += p[j] * some.value[v];
      }
    }
    for (int v = 0; v < N; ++v) {
      shared[down][v][lane] = sum.value[v];
    }
    __syncthreads();
    if (down == 0 && column < shape.width) {
      for (int v = 0; v < N; ++v) {
        for (int d = 1; d < step_down; ++d) {
          sum.value[v] += shared[d][v][lane];
        }
        sum.value[v] /= sums.total;
      }
      store_pack(to + column, stored<T>(sum));
    }
    __syncthreads();
  }
}

/// Launches attention_step_kernel. @param packs  whether all arrays allow packs of 16 bytes
template <class T>
void attention_step(Stream const& stream, Grid grid, bool packs, AttentionShape const& shape,
                    int position, T const* x, T const* cache, ComputeType<T>* scores, T* y) {
  launch(packs ? attention_step_kernel<full_pack<T>, T> : attention_step_kernel<1, T>, grid,
         row_threads, stream, shape, position, x, cache, scores, y);
}

}  // namespace detail

/// Rows of one sample of a causal attention without dropout, behind those of the calls before.
///
/// Shapes: x (time, shape.row()), the new rows; y (time, Heads D); carry (longest, 2 KeyHeads D),
///         [keys | values] of the rows before, to which the new ones are added.
/// Cost:   2 D multiply-accumulates a head, row and key; reads the keys and values before once for
///         each head and row. A copy, and a launch for every 64 rows.
/// Order:  a row's bits depend on its own keys only, not on how many rows came with it: scores over
///         D in order; exponentials as attention_softmax does in a block; of values key j goes to
///         sum j mod 8, and the 8 sums are added in order.
template <class T>
class AttentionStep {
 public:
  explicit AttentionStep(AttentionShape const& shape) : shape_{shape} {}

  [[nodiscard]] std::int64_t carried_bytes() const {
    return shape_.causal ? shape_.longest * kept() * element_bytes : 0;
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return shape_.causal ? std::int64_t{rows_at_once()} * shape_.heads * shape_.longest *
                               static_cast<std::int64_t>(sizeof(ComputeType<T>))
                         : 0;
  }

  /// @pre shape.causal; 0 <= position, position + time <= shape.longest; carry has carried_bytes(),
  ///      scratch scratch_bytes()
  void forward(Stream const& stream, int position, int time, T const* x, std::byte* carry, T* y,
               std::byte* scratch) const {
    auto* const cache = reinterpret_cast<T*>(carry);
    auto const bytes = [](std::int64_t elements) {
      return static_cast<std::size_t>(elements * element_bytes);
    };
    ScopedDevice const scope{stream.device()};
    check(cudaMemcpy2DAsync(cache + position * kept(), bytes(kept()), x + shape_.out(),
                            bytes(shape_.row()), bytes(kept()), static_cast<std::size_t>(time),
                            cudaMemcpyDeviceToDevice, stream.get()));
    bool const packs =
        packs_channels(shape_.width, x, static_cast<T const*>(cache), static_cast<T const*>(y));
    auto* const scores = reinterpret_cast<ComputeType<T>*>(scratch);
    for (int row = 0; row < time; row += rows_at_once()) {
      Grid const grid{static_cast<unsigned>(shape_.heads),
                      static_cast<unsigned>(std::min(rows_at_once(), time - row))};
      detail::attention_step<T>(stream, grid, packs, shape_, position + row, x + row * shape_.row(),
                                cache, scores, y + row * shape_.out());
    }
  }

 private:
  static constexpr auto element_bytes = static_cast<std::int64_t>(sizeof(T));

  /// Numbers that a row leaves behind.
  [[nodiscard]] std::int64_t kept() const { return shape_.row() - shape_.out(); }
  [[nodiscard]] int rows_at_once() const { return std::min(shape_.longest, 64); }

  AttentionShape shape_;
};

}  // namespace tandem::cuda
