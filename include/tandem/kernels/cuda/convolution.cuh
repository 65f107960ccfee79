// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PatchConvolution: the three passes of a convolution as products with the matrix of patches.
///
/// Needs the CUDA Toolkit alone. The matrix is made for so many samples at a time that it fits a
/// limit; a kernel of one cell that visits every pixel needs none, since there x is the matrix.
///
/// Images are channels-last. A row of the matrix is a position (sample, row, column of the output),
/// its columns are (group, kernel row, kernel column, channel of the group).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/by_batch.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/divider.hpp>
#include <tandem/kernels/cuda/im2col_index.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// One unit of N channels of the matrix of patches.
template <class T, int N>
struct GatherPatch {
  PatchIndex index;
  T const* x;
  T* patches;

  TANDEM_HOST_DEVICE void operator()(std::int64_t n) const {
    std::int64_t const source = index.source(static_cast<std::uint32_t>(n));
    store_pack<N>(patches + n * N, source < 0 ? Pack<T, N>{} : load_pack<N>(x + source * N));
  }
};

/// A sum over the places in the matrix of patches where a unit of x stands.
template <class T, int N>
struct PatchSum {
  T const* patches;
  Pack<ComputeType<T>, N> total;

  TANDEM_HOST_DEVICE void operator()(std::int64_t place) {
    Pack<ComputeType<T>, N> const term = loaded(load_pack<N>(patches + place * N));
    for (int i = 0; i < N; ++i) {
      total.value[i] += term.value[i];
    }
  }
};

/// One unit of N channels of dx.
template <class T, int N>
struct GatherGradient {
  PatchIndex index;
  T const* patches;
  T* dx;

  TANDEM_HOST_DEVICE void operator()(std::int64_t n) const {
    PatchSum<T, N> sum{patches, {}};
    index.each_place(static_cast<std::uint32_t>(n), sum);
    store_pack<N>(dx + n * N, stored<T>(sum.total));
  }
};

/// f(integral constant N) with the widest N that the channels of a group and the addresses allow.
template <class T, class Function>
void with_pack(ConvolutionGeometry const& g, T const* a, T const* b, Function const& f) {
  if (packs_channels(g.in_channels / g.groups, a, b)) {
    f(std::integral_constant<int, full_pack<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

}  // namespace detail

/// Elements of one sample's matrix of patches.
constexpr std::int64_t patch_elements(ConvolutionGeometry const& g) {
  return std::int64_t{g.out.height} * g.out.width * g.window.kernel.height * g.window.kernel.width *
         g.in_channels;
}

/// patches = for each position what the window sees there, zeros outside the image.
///
/// Shapes: x (B, in, in_channels), patches (B, out, groups, kernel, in_channels / groups).
/// Cost:   writes the patches and reads x once or a few times, from cache; bound by memory.
/// @param most  units of a launch, for tests
template <class T>
void im2col(Stream const& stream, ConvolutionGeometry const& g, std::int64_t batch, T const* x,
            T* patches, std::int64_t most = most_threads) {
  std::int64_t const image = std::int64_t{g.in.height} * g.in.width * g.in_channels;
  std::int64_t const matrix = patch_elements(g);
  detail::with_pack(g, x, patches, [&](auto pack) {
    constexpr int width = decltype(pack)::value;
    PatchIndex const index{g, width};
    auto const run = [&](std::int64_t first, std::int64_t samples) {
      each(stream, samples * (matrix / width),
           detail::GatherPatch<T, width>{index, x + first * image, patches + first * matrix});
    };
    for_chunks(batch, matrix / width, run, most);
  });
}

/// dx = the sum of a gradient of the patches over all the places where a pixel stands.
///
/// Shapes: dpatches (B, out, groups, kernel, in_channels / groups), dx (B, in, in_channels),
///         overwritten.
/// Cost:   reads dpatches once and writes dx once; bound by memory.
/// Order:  each element of dx is summed by one thread, in the order of the kernel's cells.
/// @param most  units of a launch, for tests
template <class T>
void col2im(Stream const& stream, ConvolutionGeometry const& g, std::int64_t batch,
            T const* dpatches, T* dx, std::int64_t most = most_threads) {
  std::int64_t const image = std::int64_t{g.in.height} * g.in.width * g.in_channels;
  std::int64_t const matrix = patch_elements(g);
  detail::with_pack(g, dpatches, dx, [&](auto pack) {
    constexpr int width = decltype(pack)::value;
    PatchIndex const index{g, width};
    auto const run = [&](std::int64_t first, std::int64_t samples) {
      each(stream, samples * (image / width),
           detail::GatherGradient<T, width>{index, dpatches + first * matrix, dx + first * image});
    };
    for_chunks(batch, image / width, run, most);
  });
}

/// Bytes that a matrix of patches may take; one sample's is allowed to be larger.
inline constexpr std::int64_t patch_limit = std::int64_t{256} << 20;

/// A convolution prepared for batches of up to a number of samples, channels-last.
///
/// T: type of x, y, their gradients and the weights; P: of the gradient of the weights.
/// Shapes: x (B, in, in_channels), weight (out_channels, kernel, in_channels / groups),
///         y (B, out, out_channels).
/// Cost:   B g.macs() multiply-accumulates a pass, and the matrix of patches written and read once.
/// Order:  the same at each run. The samples of one matrix are summed as Matmul does, the matrices
///         added to each other in order.
/// Source: Chellapilla, Puri, Simard, IWFHR 2006, section 4
template <class T, class P = T>
class PatchConvolution {
 public:
  /// @param bias  forward adds a bias (of type T) in its product; wants one group
  PatchConvolution(CublasLt const& library, ConvolutionGeometry const& geometry, std::int64_t batch,
                   MatmulMath math, bool bias = false, std::int64_t limit = patch_limit)
      : library_{&library},
        geometry_{geometry},
        batch_{batch},
        math_{math},
        bias_{bias},
        pointwise_{geometry.window == Window{}} {
    std::int64_t const most =
        pointwise_ ? batch
                   : limit / (patch_elements(geometry) * static_cast<std::int64_t>(sizeof(T)));
    chunk_ = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(batch, 1));
    for (std::int64_t const samples : {chunk_, batch % chunk_}) {
      if (samples > 0) {
        Products const& p = products(samples);
        planned_ = std::max({planned_, p.forward.workspace_bytes(), p.input.workspace_bytes(),
                             p.weight.workspace_bytes()});
      }
    }
    limit_ = planned_;
  }

  /// Samples whose patches are in memory at a time.
  [[nodiscard]] std::int64_t chunk() const noexcept { return chunk_; }

  /// Of any one pass over a batch up to the one that this was prepared for.
  [[nodiscard]] std::int64_t scratch_bytes() const { return patch_bytes() + planned_; }

  /// y = convolution of x with the weights, plus the bias (out_channels) if it was announced.
  void forward(Stream const& stream, std::int64_t batch, T const* x, T const* weight, T const* bias,
               T* y, std::byte* scratch) {
    each_chunk(batch, [&](std::int64_t first, std::int64_t samples) {
      T const* const patches = patches_of(stream, samples, x + first * in_elements(), scratch);
      products(samples).forward.run(stream, patches, weight, y + first * out_elements(), {1, 0},
                                    scratch + patch_bytes(), {.bias = bias});
    });
  }

  /// dx = the gradient of forward to x, overwritten.
  void input_gradient(Stream const& stream, std::int64_t batch, T const* weight, T const* dy, T* dx,
                      std::byte* scratch) {
    each_chunk(batch, [&](std::int64_t first, std::int64_t samples) {
      T* const to = dx + first * in_elements();
      T* const dpatches = pointwise_ ? to : reinterpret_cast<T*>(scratch);
      products(samples).input.run(stream, dy + first * out_elements(), weight, dpatches, {1, 0},
                                  scratch + patch_bytes());
      if (!pointwise_) {
        col2im(stream, geometry_, samples, dpatches, to);
      }
    });
  }

  /// dweight = [+=] the gradient of forward to the weights; zeros for a batch of 0.
  void weight_gradient(Stream const& stream, std::int64_t batch, T const* x, T const* dy,
                       P* dweight, bool accumulate, std::byte* scratch) {
    if (batch == 0) {
      products(0).weight.run(stream, dy, x, dweight, {1, accumulate ? 1.0F : 0.0F}, nullptr);
    }
    each_chunk(batch, [&](std::int64_t first, std::int64_t samples) {
      T const* const patches = patches_of(stream, samples, x + first * in_elements(), scratch);
      bool const add = accumulate || first > 0;
      products(samples).weight.run(stream, dy + first * out_elements(), patches, dweight,
                                   {1, add ? 1.0F : 0.0F}, scratch + patch_bytes());
    });
  }

 private:
  /// The products for one number of samples.
  struct Products {
    Matmul<T> forward;
    Matmul<T> input;
    Matmul<T, P> weight;
  };

  [[nodiscard]] std::int64_t in_elements() const {
    return std::int64_t{geometry_.in.height} * geometry_.in.width * geometry_.in_channels;
  }
  [[nodiscard]] std::int64_t out_elements() const {
    return std::int64_t{geometry_.out.height} * geometry_.out.width * geometry_.out_channels;
  }
  [[nodiscard]] std::int64_t patch_bytes() const {
    std::int64_t const bytes =
        chunk_ * patch_elements(geometry_) * static_cast<std::int64_t>(sizeof(T));
    return pointwise_ ? 0 : (bytes + 255) / 256 * 256;
  }

  template <class Function>
  void each_chunk(std::int64_t batch, Function const& f) const {
    std::int64_t const step = pointwise_ ? std::max<std::int64_t>(batch, 1) : chunk_;
    for (std::int64_t first = 0; first < batch; first += step) {
      f(first, std::min(step, batch - first));
    }
  }

  T const* patches_of(Stream const& stream, std::int64_t samples, T const* x,
                      std::byte* scratch) const {
    if (pointwise_) {
      return x;
    }
    T* const patches = reinterpret_cast<T*>(scratch);
    im2col(stream, geometry_, samples, x, patches);
    return patches;
  }

  Products& products(std::int64_t samples) {
    return products_.get(samples, [this](std::int64_t count) { return make(count); });
  }

  [[nodiscard]] Products make(std::int64_t samples) const {
    ConvolutionGeometry const& g = geometry_;
    std::int64_t const rows = samples * g.out.height * g.out.width;
    std::int64_t const out = g.out_channels / g.groups;
    std::int64_t const taps =
        std::int64_t{g.window.kernel.height} * g.window.kernel.width * g.in_channels / g.groups;
    std::int64_t const row = taps * g.groups;
    // every chunk but the first begins somewhere in y
    std::int64_t const step = chunk_ * out_elements() * static_cast<std::int64_t>(sizeof(T));
    int const alignment = chunk_ < batch_ ? alignment_of(step) : 16;
    MatmulShape forward{.transpose_b = Transpose::yes,
                        .m = rows,
                        .n = out,
                        .k = taps,
                        .lda = row,
                        .ldb = taps,
                        .ldd = g.out_channels,
                        .groups = g.groups,
                        .stride_a = taps,
                        .stride_b = out * taps,
                        .stride_d = out,
                        .bias = bias_,
                        .alignment_d = alignment};
    MatmulShape input{.m = rows,
                      .n = taps,
                      .k = out,
                      .lda = g.out_channels,
                      .ldb = taps,
                      .ldd = row,
                      .groups = g.groups,
                      .stride_a = out,
                      .stride_b = out * taps,
                      .stride_d = taps,
                      .alignment_a = alignment};
    MatmulShape weight{.transpose_a = Transpose::yes,
                       .m = out,
                       .n = taps,
                       .k = rows,
                       .lda = g.out_channels,
                       .ldb = row,
                       .ldd = taps,
                       .groups = g.groups,
                       .stride_a = out,
                       .stride_b = taps,
                       .stride_d = out * taps,
                       .alignment_a = alignment};
    return {{*library_, forward, math_, limit_},
            {*library_, input, math_, limit_},
            {*library_, weight, math_, limit_}};
  }

  CublasLt const* library_;
  ConvolutionGeometry geometry_;
  std::int64_t batch_;
  MatmulMath math_;
  bool bias_;
  bool pointwise_;
  std::int64_t chunk_ = 1;
  std::int64_t limit_ = matmul_workspace_limit;
  std::int64_t planned_ = 0;
  ByBatch<Products> products_;
};

}  // namespace tandem::cuda
