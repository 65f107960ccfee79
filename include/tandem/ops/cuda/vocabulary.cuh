// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Vocabulary on Cuda: a Linear's products around the rows of a softmax.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/vocabulary.cuh>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Vocabulary of a precision: logits of rows as Linear's op makes them, their gradient in their
/// place, and what that op makes of it. The gradient is CriterionPass::row_scale times that of a
/// row's loss; dy is not read.
///
/// Chunked, it has memory for the logits of so many rows, and makes them again for each gradient;
/// weights' gradients add chunk by chunk. A chunk has a multiple of 8 rows, so that all chunks
/// begin at multiples of 16 bytes, which cuBLASLt has been promised.
/// @tparam Linear  the op of Linear<V> with or without a bias; or one of fewer words, which has
///                 columns(): where in the logits of forward() the rows' targets stand
template <class Precision, class Linear>
class VocabularyOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  /// @param more  arguments of Linear's behind its setup and device
  VocabularyOp(OpSetup const& setup, RankDevice& device, int words, double smoothing,
               int chunk_rows, auto const&... more)
      : VocabularyOp{Found{0}, setup, device, words, smoothing, chunk_rows, more...} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = saved_,
            .scratch_bytes = linear_scratch_ + found_ + (chunked_ ? logits_bytes() : 0)};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.criterion.scores != nullptr) {
      score(o, p);
      return;
    }
    each_chunk(o, p,
               [&](std::int64_t first, Operands<T, P> const& part, Pass<RankDevice> const& some) {
                 make_rows(part, some, p.training && !chunked_, o.y + 3 * first);
               });
  }

  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    each_chunk(o, p, [&](std::int64_t first, Operands<T, P> part, Pass<RankDevice> const& some) {
      remake(part, some);
      T* const dx = o.dx[0] + first * in_[1];
      part.dx = &dx;
      linear_.input_gradient(part, some);
    });
  }

  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    each_chunk(o, p, [&](std::int64_t first, Operands<T, P> const& part, Pass<RankDevice> some) {
      remake(part, some);
      some.accumulate = p.accumulate || first > 0;
      linear_.weight_gradient(part, some);
    });
  }

 protected:
  /// Bytes of scratch for what is found of rows, where others than these kernels do.
  struct Found {
    std::int64_t bytes;
  };
  VocabularyOp(Found found, OpSetup const& setup, RankDevice& device, int words, double smoothing,
               int chunk_rows, auto const&... more)
      : in_{setup.node.in},
        words_{words},
        smoothing_{smoothing},
        chunked_{chunk_rows > 0},
        chunk_{chunk_of(setup, chunk_rows)},
        linear_{linear_setup(setup, words, chunk_), device, more...},
        linear_scratch_{rounded(linear_.needs().scratch_bytes)},
        found_{rounded(found.bytes)},
        saved_{chunked_ ? 0 : logits_bytes()} {}

  static constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

  static std::int64_t chunk_of(OpSetup const& setup, int chunk_rows) {
    std::int64_t const all =
        std::max<std::int64_t>(1, setup.node.in.rows(setup.batch, setup.node.in[0]));
    std::int64_t const wanted = (std::int64_t{chunk_rows} + 7) / 8 * 8;
    return chunk_rows > 0 ? std::min(all, wanted) : all;
  }
  static OpSetup linear_setup(OpSetup setup, int words, std::int64_t chunk) {
    setup.node.in = vector_shape(setup.node.in[1]);
    setup.node.out = vector_shape(words);
    setup.batch = static_cast<int>(chunk);
    return setup;
  }

  [[nodiscard]] std::int64_t logits_bytes() const {
    return chunk_ * words_ * static_cast<std::int64_t>(sizeof(T));
  }
  [[nodiscard]] T* logits(Operands<T, P> const& o, RankDevice const& device) const {
    return reinterpret_cast<T*>(chunked_ ? found(device) + found_ : o.saved);
  }
  /// Where that is.
  [[nodiscard]] std::byte* found(RankDevice const& device) const {
    return device.scratch + linear_scratch_;
  }

  /// f(first, operands, pass) of each chunk. Once for no rows, which have gradients of 0.
  template <class F>
  void each_chunk(Operands<T, P> const& o, Pass<RankDevice> const& p, F const& f) const {
    std::int64_t const rows = p.rows(in_);
    for (std::int64_t first = 0; first == 0 || first < rows; first += chunk_) {
      with_rows(o, p, first, std::min(chunk_, rows - first), f);
    }
  }
  /// f(first, operands, pass) of the Linear on @p count rows, y and dy its logits.
  template <class F>
  void with_rows(Operands<T, P> const& o, Pass<RankDevice> const& p, std::int64_t first,
                 std::int64_t count, F const& f) const {
    T const* const x = o.x[0] + first * in_[1];
    Operands<T, P> part = o;
    part.x = &x;
    part.y = logits(o, p.device);
    part.dy = part.y;
    Pass<RankDevice> some = p;
    some.batch = static_cast<int>(count);
    some.lengths = nullptr;
    some.criterion.targets = p.criterion.targets != nullptr ? p.criterion.targets + first : nullptr;
    f(first, part, some);
  }

  /// f(logits) of the last row, made with those of the chunk that it ends.
  template <class F>
  void with_last_row(Operands<T, P> const& o, Pass<RankDevice> const& p, F const& f) {
    std::int64_t const last = p.rows(in_) - 1;
    std::int64_t const begin = last / chunk_ * chunk_;
    with_rows(o, p, begin, last + 1 - begin,
              [&](std::int64_t, Operands<T, P> const& part, Pass<RankDevice> const& some) {
                linear_.forward(part, some);
                f(part.y + (last - begin) * words_);
              });
  }

  Shape in_;
  int words_;
  double smoothing_;
  bool chunked_;
  std::int64_t chunk_;
  Linear linear_;
  std::int64_t linear_scratch_;
  std::int64_t found_;
  std::int64_t saved_;

 private:
  void make_rows(Operands<T, P> const& part, Pass<RankDevice> const& some, bool gradient, T* y) {
    linear_.forward(part, some);
    std::int32_t const* targets = some.criterion.targets;
    if constexpr (requires { linear_.columns(some.device, some.batch); }) {
      targets = linear_.columns(some.device, some.batch);
    }
    vocabulary_rows(some.device.compute, part.y, targets, some.batch, words_, smoothing_,
                    gradient ? some.criterion.row_scale : nullptr, y);
  }
  void remake(Operands<T, P> const& part, Pass<RankDevice> const& some) {
    if (chunked_) {
      make_rows(part, some, true, nullptr);
    }
  }
  void score(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    with_last_row(
        o, p, [&](T const* logits) { cast(p.device.compute, logits, p.criterion.scores, words_); });
  }
};

}  // namespace cuda

template <int V, class... Options, class Kernels, class Precision>
  requires(Vocabulary<V, Options...>::options.sampled == 0)
struct Op<Vocabulary<V, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::VocabularyOp<Precision, cuda::LinearOp<Precision, Vocabulary<V, Options...>::bias>> {
  using L = Vocabulary<V, Options...>;
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : Op::VocabularyOp{setup, device, V, L::options.smoothing, L::options.chunk_rows} {}
};

}  // namespace tandem
