// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A rank's words of an Embedding and of a Vocabulary on Host, where several ranks share them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/mesh.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/kernels/host/vocabulary.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/host/embedding.hpp>
#include <tandem/ops/host/vocabulary.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/phases.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Any Vocabulary of all words, of which this rank has a slice. Of each row the ranks bring four
/// numbers together (VocabularyPart), and all of them make the same loss of these; where scores are
/// wanted they bring the logits together instead.
///
/// Its weights have as many rows on each rank; those behind the last word are 0 and have gradients
/// of 0.
/// @tparam Rows  part(), gradient(): of a row
template <class T, class P, class Linear, class Rows>
class VocabularySliceOp : public VocabularyOp<T, P, Linear, Rows> {
  using Base = VocabularyOp<T, P, Linear, Rows>;

 public:
  VocabularySliceOp(OpSetup const& setup, int words, double smoothing, int chunk_rows,
                    auto const&... more)
      : Base{typename Base::Found{gathered_bytes(setup, padded_slice(words, setup.slice.count))},
             setup,
             padded_slice(words, setup.slice.count),
             smoothing,
             chunk_rows,
             more...},
        all_words_{words},
        slice_{setup.slice} {
    auto const [first, count] = padded_range(words, slice_);
    own_ = {.first = first, .count = count, .stride = this->words_};
    if (this->chunked_) {
      this->saved_ = all_rows(setup) * std::int64_t{sizeof(VocabularyPart)};
    }
  }

  /// The rank's part of gathered().
  void forward(Operands<T, P> const& o, Pass<Device> const& p) {
    if (p.criterion.scores != nullptr) {
      double* const own = gathered_at(p.device) + slice_.number * gathered_each(p);
      this->each_last_row(o, p, [&](std::int64_t at, T const* logits, std::int64_t count) {
        std::transform(logits, logits + count, own + at,
                       [](T z) { return static_cast<double>(z); });
      });
      return;
    }
    VocabularyPart* const own = parts(p.device) + slice_.number * p.rows(this->in_);
    this->each_chunk(
        o, p, [&](std::int64_t first, Operands<T, P> const& part, Pass<Device> const& some) {
          this->linear_.forward(part, some);
          vocabulary_parts(some.device.team, some.batch, own_, part.y, some.criterion.targets,
                           own + first, &Rows::template part<T>);
        });
  }

  /// What the ranks bring together.
  [[nodiscard]] std::span<double> gathered(Operands<T, P> const& /*operands*/,
                                           Pass<Device> const& p) const {
    return {gathered_at(p.device), static_cast<std::size_t>(slice_.count * gathered_each(p))};
  }

  /// y, from gathered(); and in training the gradient over the logits in their place, or what it
  /// takes.
  void forward_joint(Operands<T, P> const& o, Pass<Device> const& p) {
    if (p.criterion.scores != nullptr) {
      put_scores(p);
      std::fill_n(o.y, 3 * p.rows(this->in_), static_cast<T>(0.0F));
      return;
    }
    std::int64_t const rows = p.rows(this->in_);
    VocabularyPart* const all = parts(p.device);
    join_vocabulary_parts(p.device.team, rows, slice_.count, all);
    T* y = o.y;
    for (std::int64_t r = 0; r < rows; ++r, y += 3) {
      bool const counts = p.criterion.targets != nullptr && p.criterion.targets[r] >= 0;
      this->put_row(counts ? vocabulary_row(all[r], all_words_, this->smoothing_) : VocabularyRow{},
                    y);
    }
    if (p.training && this->chunked_) {
      std::copy_n(all, rows, reinterpret_cast<VocabularyPart*>(o.saved));
    } else if (p.training) {
      make_gradient(rows, this->logits(o, p.device), p, all);
    }
  }

  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    this->each_chunk(o, p, [&](std::int64_t first, Operands<T, P> part, Pass<Device> const& some) {
      remake(o, first, part, some);
      T* const dx = o.dx[0] + first * this->in_[1];
      part.dx = &dx;
      this->linear_.input_gradient(part, some);
    });
  }

  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    this->each_chunk(o, p, [&](std::int64_t first, Operands<T, P> const& part, Pass<Device> some) {
      remake(o, first, part, some);
      some.accumulate = p.accumulate || first > 0;
      this->linear_.weight_gradient(part, some);
    });
  }

  using ForwardPhases = Phases<Compute<&VocabularySliceOp::forward>,
                               Gather<Axis::tensor, &VocabularySliceOp::gathered>,
                               Compute<&VocabularySliceOp::forward_joint>>;
  using InputGradientPhases = Phases<Compute<&VocabularySliceOp::input_gradient>>;
  using WeightGradientPhases = Phases<Compute<&VocabularySliceOp::weight_gradient>>;

 private:
  static std::int64_t all_rows(OpSetup const& setup) {
    return setup.node.in.rows(setup.batch, setup.node.in[0]);
  }
  static std::int64_t gathered_bytes(OpSetup const& setup, int words) {
    return setup.slice.count *
           std::max(all_rows(setup) * std::int64_t{sizeof(VocabularyPart)},
                    std::int64_t{setup.batch} * words * std::int64_t{sizeof(double)});
  }
  /// Doubles of a rank.
  [[nodiscard]] std::int64_t gathered_each(Pass<Device> const& p) const {
    constexpr std::int64_t numbers = sizeof(VocabularyPart) / sizeof(double);
    return p.criterion.scores != nullptr ? std::int64_t{p.batch} * this->words_
                                         : p.rows(this->in_) * numbers;
  }
  [[nodiscard]] double* gathered_at(Device& device) const {
    return reinterpret_cast<double*>(this->found(device));
  }
  [[nodiscard]] VocabularyPart* parts(Device& device) const {
    return reinterpret_cast<VocabularyPart*>(this->found(device));
  }

  void put_scores(Pass<Device> const& p) const {
    double const* from = gathered_at(p.device);
    for (int number = 0; number < slice_.count; ++number) {
      auto const [first, count] = padded_range(all_words_, {number, slice_.count});
      for (std::int64_t sample = 0; sample < p.batch; ++sample, from += this->words_) {
        std::transform(from, from + count, p.criterion.scores + sample * all_words_ + first,
                       [](double z) { return static_cast<float>(z); });
      }
    }
  }

  void make_gradient(std::int64_t rows, T* logits, Pass<Device> const& p,
                     VocabularyPart const* all) const {
    vocabulary_part_gradients(p.device.team, rows, own_, all_words_, logits, p.criterion.targets,
                              all, this->smoothing_, p.criterion.row_scale,
                              &Rows::template gradient<T>);
  }
  void remake(Operands<T, P> const& o, std::int64_t first, Operands<T, P> const& part,
              Pass<Device> const& some) {
    if (this->chunked_) {
      this->linear_.forward(part, some);
      make_gradient(some.batch, part.y, some,
                    reinterpret_cast<VocabularyPart const*>(o.saved) + first);
    }
  }

  int all_words_;
  Slice slice_;
  WordRange own_{};
};

}  // namespace host

template <int V, int C, class... Options, class Kernels, class Precision>
struct Op<WordSlice<Embedding<V, C, Options...>>, BasicHost<Kernels, Precision>>
    : host::EmbeddingOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::EmbeddingOp<typename Precision::Scalar, typename Precision::Master>{
            setup, V, has_row_gradient<Options...>()} {}
};

template <int V, class... Options, class Precision>
struct Op<WordSlice<Vocabulary<V, Options...>>, BasicHost<Portable, Precision>>
    : host::VocabularySliceOp<
          typename Precision::Scalar, typename Precision::Master,
          host::LinearOp<typename Precision::Scalar, Vocabulary<V, Options...>::bias>,
          host::VocabularyByRow> {
  using L = Vocabulary<V, Options...>;
  explicit Op(OpSetup const& setup)
      : Op::VocabularySliceOp{setup, V, L::options.smoothing, L::options.chunk_rows} {}
};

}  // namespace tandem
