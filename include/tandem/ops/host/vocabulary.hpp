// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Vocabulary on Host: a Linear's products around the rows of a softmax.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/kernels/host/vocabulary.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/host/convolution.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Any Vocabulary: logits of rows as Linear's op makes them, their gradient in their place, and
/// what that op makes of it. The gradient is CriterionPass::row_scale times that of a row's loss;
/// dy is not read.
///
/// Chunked, it has memory for the logits of so many rows, and makes them again for each gradient.
/// The losses and dx have the same bits where Linear's do not depend on its batch; weights'
/// gradients add chunk by chunk.
/// @tparam Linear  the op of Linear<V> with or without a bias; or one of fewer words, which has
///                 columns(): where in the logits of forward() the rows' targets stand
/// @tparam Rows    run(): vocabulary_rows
template <class T, class P, class Linear, class Rows>
class VocabularyOp {
 public:
  /// @param more  arguments of Linear's behind its setup
  VocabularyOp(OpSetup const& setup, int words, double smoothing, int chunk_rows,
               auto const&... more)
      : VocabularyOp{Found{chunk_of(setup, chunk_rows) * std::int64_t{sizeof(VocabularyRow)}},
                     setup,
                     words,
                     smoothing,
                     chunk_rows,
                     more...} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = saved_,
            .scratch_bytes = linear_scratch_ + found_ + (chunked_ ? logits_bytes() : 0),
            .packed_bytes = linear_.needs().packed_bytes};
  }

  void pack(Operands<T, P> const& o, Device& device) requires requires(Linear& linear) {
    linear.pack(o, device);
  }
  { linear_.pack(o, device); }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) {
    if (p.criterion.scores != nullptr) {
      score(o, p);
      return;
    }
    each_chunk(o, p, [&](std::int64_t first, Operands<T, P> const& part, Pass<Device> const& some) {
      make_rows(part, some, p.training && !chunked_);
      VocabularyRow const* const row = results(p.device);
      for (int r = 0; r < some.batch; ++r) {
        put_row(row[r], o.y + 3 * (first + r));
      }
    });
  }

  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    each_chunk(o, p, [&](std::int64_t first, Operands<T, P> part, Pass<Device> const& some) {
      remake(part, some);
      T* const dx = o.dx[0] + first * in_[1];
      part.dx = &dx;
      linear_.input_gradient(part, some);
    });
  }

  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    each_chunk(o, p, [&](std::int64_t first, Operands<T, P> const& part, Pass<Device> some) {
      remake(part, some);
      some.accumulate = p.accumulate || first > 0;
      linear_.weight_gradient(part, some);
    });
  }

 protected:
  /// Bytes of scratch for what is found of rows.
  struct Found {
    std::int64_t bytes;
  };
  VocabularyOp(Found found, OpSetup const& setup, int words, double smoothing, int chunk_rows,
               auto const&... more)
      : in_{setup.node.in},
        words_{words},
        smoothing_{smoothing},
        chunked_{chunk_rows > 0},
        chunk_{chunk_of(setup, chunk_rows)},
        linear_{linear_setup(setup, words, chunk_), more...},
        linear_scratch_{rounded(linear_.needs().scratch_bytes)},
        found_{rounded(found.bytes)},
        saved_{chunked_ ? 0 : logits_bytes()} {}

  /// f(first number, logits, numbers) of those of each sample's last row.
  template <class F>
  void each_last_row(Operands<T, P> const& o, Pass<Device> const& p, F const& f) {
    std::int64_t const at_once = p.time == 1 ? chunk_ : 1;  // then these rows stand together
    for (std::int64_t sample = 0; sample < p.batch; sample += at_once) {
      T const* const x = o.x[0] + ((sample + 1) * p.time - 1) * in_[1];
      Operands<T, P> part = o;
      part.x = &x;
      part.y = logits(o, p.device);
      Pass<Device> some = p;
      some.batch = static_cast<int>(std::min<std::int64_t>(at_once, p.batch - sample));
      some.lengths = nullptr;
      linear_.forward(part, some);
      f(sample * words_, part.y, std::int64_t{some.batch} * words_);
    }
  }

  /// A row of y.
  static void put_row(VocabularyRow const& row, T* y) {
    y[0] = static_cast<T>(row.loss);
    y[1] = static_cast<T>(row.loss - static_cast<double>(y[0]));
    y[2] = static_cast<T>(static_cast<float>(row.right));
  }

  static constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

  static std::int64_t chunk_of(OpSetup const& setup, int chunk_rows) {
    std::int64_t const all = setup.node.in.rows(setup.batch, setup.node.in[0]);
    return std::max<std::int64_t>(1,
                                  chunk_rows > 0 ? std::min<std::int64_t>(all, chunk_rows) : all);
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
  /// Where that is.
  [[nodiscard]] std::byte* found(Device& device) const { return device.scratch + linear_scratch_; }
  [[nodiscard]] T* logits(Operands<T, P> const& o, Device& device) const {
    return reinterpret_cast<T*>(chunked_ ? found(device) + found_ : o.saved);
  }

  /// f(first, operands, pass) of each chunk: of the Linear on its rows, y and dy its logits. Once
  /// for no rows, which have gradients of 0.
  template <class F>
  void each_chunk(Operands<T, P> const& o, Pass<Device> const& p, F const& f) const {
    std::int64_t const rows = p.rows(in_);
    for (std::int64_t first = 0; first == 0 || first < rows; first += chunk_) {
      T const* const x = o.x[0] + first * in_[1];
      Operands<T, P> part = o;
      part.x = &x;
      part.y = logits(o, p.device);
      part.dy = part.y;
      Pass<Device> some = p;
      some.batch = static_cast<int>(std::min(chunk_, rows - first));
      some.lengths = nullptr;
      some.criterion.targets =
          p.criterion.targets != nullptr ? p.criterion.targets + first : nullptr;
      f(first, part, some);
    }
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
  void score(Operands<T, P> const& o, Pass<Device> const& p) {
    each_last_row(o, p, [&](std::int64_t at, T const* logits, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        p.criterion.scores[at + i] = static_cast<float>(logits[i]);
      }
    });
    std::fill_n(o.y, 3 * p.rows(in_), static_cast<T>(0.0F));
  }
  [[nodiscard]] VocabularyRow* results(Device& device) const {
    return reinterpret_cast<VocabularyRow*>(found(device));
  }

  void make_rows(Operands<T, P> const& part, Pass<Device> const& some, bool gradient) {
    linear_.forward(part, some);
    std::int32_t const* targets = some.criterion.targets;
    if constexpr (requires { linear_.columns(); }) {
      targets = linear_.columns();
    }
    Rows::run(some.device.team, some.batch, words_, part.y, targets, smoothing_,
              gradient ? some.criterion.row_scale : nullptr, results(some.device));
  }
  void remake(Operands<T, P> const& part, Pass<Device> const& some) {
    if (chunked_) {
      make_rows(part, some, true);
    }
  }
};

/// The portable kernels, for VocabularyOp and for that of a slice.
struct VocabularyByRow {
  template <class T>
  static void run(Team& team, std::int64_t rows, int vocabulary, T* logits,
                  std::int32_t const* targets, double smoothing, double const* scale,
                  VocabularyRow* results) {
    vocabulary_rows(team, rows, vocabulary, logits, targets, smoothing, scale, results);
  }
  template <class T>
  static VocabularyPart part(int count, T const* z, int target) {
    return vocabulary_part(count, z, target);
  }
  template <class T>
  static void gradient(int count, T* z, int target, VocabularyPart const& all, double elsewhere,
                       double on_target, double scale) {
    vocabulary_gradient(count, z, target, all, elsewhere, on_target, scale);
  }
};

}  // namespace host

template <int V, class... Options, class Precision>
  requires(Vocabulary<V, Options...>::options.sampled == 0)
struct Op<Vocabulary<V, Options...>, BasicHost<Portable, Precision>>
    : host::VocabularyOp<
          typename Precision::Scalar, typename Precision::Master,
          host::LinearOp<typename Precision::Scalar, Vocabulary<V, Options...>::bias>,
          host::VocabularyByRow> {
  using L = Vocabulary<V, Options...>;
  explicit Op(OpSetup const& setup)
      : host::VocabularyOp<typename Precision::Scalar, typename Precision::Master,
                           host::LinearOp<typename Precision::Scalar, L::bias>,
                           host::VocabularyByRow>{setup, V, L::options.smoothing,
                                                  L::options.chunk_rows} {}
};

}  // namespace tandem
