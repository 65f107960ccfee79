// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LaunchSizes: what the kernels of one pass of a node depend on; LaunchRow: a line of
/// launch_table.hpp.

#include <cstdint>
#include <string_view>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/kernels/cuda/box_launches.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/functors/recurrent.hpp>
#include <tandem/kernels/functors/window_cells.hpp>

namespace tandem::cuda {

/// What an op is called for.
enum class KernelPass : std::uint8_t { forward, input_gradient, weight_gradient };

/// What a layer's type says beyond its node.
struct LaunchTraits {
  int heads = 0;          ///< of an attention
  int key_heads = 0;      ///< likewise
  double dropout = 0;     ///< likewise, or of the layer itself
  int chunk_rows = 0;     ///< of a Vocabulary; 0: all at once
  int sampled = 0;        ///< likewise; 0: all words
  int cell_bytes = 4;     ///< of a max pool's saved cells
  int groups = 0;         ///< of a GroupNorm
  int head_size = 0;      ///< of RotaryPositions
  RowsTouched touched{};  ///< of the first parameter, whose gradient is then GradientRows
  RecurrentShape recurrent{};
};

/// What a layer's type says that its node does not.
/// @param slices  ranks that share it
template <class L>
LaunchTraits launch_traits(Shape in, int slices = 1) {
  LaunchTraits traits;
  if constexpr (requires { L::heads, L::key_heads, L::dropout; }) {
    traits.heads = L::heads / slices;
    traits.key_heads = L::key_heads / slices;
    traits.dropout = L::dropout;
  }
  if constexpr (requires { L::options.chunk_rows; }) {
    traits.chunk_rows = L::options.chunk_rows;
  }
  if constexpr (requires { L::options.sampled; }) {
    traits.sampled = L::options.sampled;
  }
  if constexpr (requires { cell_fits_byte(L::geometry(in).window); }) {
    traits.cell_bytes = cell_fits_byte(L::geometry(in).window) ? 1 : 4;
  }
  if constexpr (requires { L::groups(in), L::affine; }) {
    traits.groups = L::groups(in);
  }
  if constexpr (requires { L::options.turned(), L::options.all(); }) {
    traits.head_size = in[1] / (L::options.all() / slices);
  }
  if constexpr (requires { L::parameters(in); }) {
    if (auto const parameters = L::parameters(in); parameters.count > 0) {
      traits.touched = parameters.item[0].touched;
    }
  }
  if constexpr (requires { L::options.gates; }) {
    constexpr auto o = L::options;
    traits.recurrent = {in[1],        o.hidden, o.handed(),    in[0],
                        o.directions, o.biases, o.forget_bias, o.projection > 0};
  }
  return traits;
}

/// One node and microbatch in training, in a backend with cuDNN.
struct LaunchSizes {
  Node node{};
  LaunchTraits traits{};
  int scalar = 4;            ///< bytes of an element of an activation
  int master = 4;            ///< bytes of an element of a parameter
  bool fp32 = false;         ///< products do not round their factors: no GELU goes into them
  bool accumulates = false;  ///< an earlier microbatch has left gradients
  bool gives_input_gradient = true;
  bool apart = false;        ///< both gradients are computed by passes of their own
  bool joins = false;        ///< statistics are added over the replicas
  bool joins_tiles = false;  ///< and over the ranks that have the other tiles of its images
  int siblings = 1;  ///< convolutions that one computes side by side; then y and the like are all's
  int chunk = 0;     ///< of time, of node.sequence.chunks: which it is
  int batch = 1;
  int microbatches = 1;  ///< of a step, and the samples of the largest
  int largest = 1;
  double x = 0;        ///< bytes of the first input
  double y = 0;        ///< bytes of the output
  double inputs = 0;   ///< bytes of all inputs
  int forks = 0;       ///< gradients of the output that are added
  double weights = 0;  ///< elements of the first parameter
  double biases = 0;   ///< elements of the second
  double numbers = 0;  ///< elements of all parameters, statistics too

  /// Bytes of so many elements as products read them, and as the optimizer has them.
  [[nodiscard]] constexpr double rounded(double n) const { return n * scalar; }
  [[nodiscard]] constexpr double kept(double n) const { return n * master; }
  [[nodiscard]] constexpr bool mixed() const { return scalar != master; }

  /// Whether rows come in chunks of time; and whether none is behind this one.
  [[nodiscard]] constexpr bool in_chunks() const { return node.sequence.chunks > 1; }
  [[nodiscard]] constexpr bool last_chunk() const { return chunk + 1 == node.sequence.chunks; }

  /// Multiplications and additions of the forward pass.
  [[nodiscard]] constexpr double products() const {
    return 2.0 * static_cast<double>(node.macs) * batch;
  }
  /// Of a value whose last axis in memory is that of its columns.
  [[nodiscard]] static constexpr int columns(Shape const& shape) {
    return shape.timed ? shape[1] : shape[0];
  }
  [[nodiscard]] constexpr std::int64_t rows(Shape const& shape) const {
    return shape.elements() / columns(shape) * batch;
  }

  /// Blocks below one another, of a sum over the rows of a matrix; more than one leave partial
  /// sums.
  [[nodiscard]] constexpr std::int64_t chunks(std::int64_t row_count, int column_count) const {
    return scalar == 2   ? column_tiles<BFloat16>(row_count, column_count).chunks
           : scalar == 4 ? column_tiles<float>(row_count, column_count).chunks
                         : column_tiles<double>(row_count, column_count).chunks;
  }
  /// Bytes of so many partial sums a column, 0 where there is one chunk.
  [[nodiscard]] constexpr double partial(int sums, std::int64_t row_count, int column_count) const {
    std::int64_t const all = chunks(row_count, column_count);
    return all > 1 ? static_cast<double>(sums * all * column_count) * (scalar == 8 ? 8 : 4) : 0;
  }
};

/// Kernels of one kind that a pass queues.
struct Launch {
  std::string_view kernel{};  ///< the function's name, with its body's where that says more
  double times = 1;
  double read = 0;        ///< bytes, all of these kernels together
  double written = 0;     ///< likewise
  double operations = 0;  ///< of products and convolutions, two a multiply-accumulate
};

/// A line: which op and pass, in which cases, and the kernel. For one named "map_kernel:F", F not a
/// Body, transform.cuh takes CUB's where the elements are many.
struct LaunchRow {
  using Sizes = LaunchSizes;
  using Case = bool (*)(Sizes const&);
  using Number = double (*)(Sizes const&);

  std::string_view layer;
  KernelPass pass;
  Case when;
  std::string_view kernel;
  Number read;
  Number written;
  Number operations = [](Sizes const&) { return 0.0; };
  Number times = [](Sizes const&) { return 1.0; };
};

}  // namespace tandem::cuda
