// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A rank's words of a Vocabulary on Cuda, where several ranks share them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/mesh.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/vocabulary_slice.cuh>
#include <tandem/kernels/functors/table_rows.hpp>
#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/cuda/vocabulary.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/ops/phases.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Vocabulary of all words, of which this rank has a slice, as Host's VocabularySliceOp: of
/// each row the ranks bring four numbers together, and all of them make the same loss of these;
/// where scores are wanted they bring the last row's logits together instead.
///
/// Its weights have as many rows on each rank; those behind the last word are 0 and have gradients
/// of 0.
template <class Precision, class Linear>
class VocabularySliceOp : public VocabularyOp<Precision, Linear> {
  using Base = VocabularyOp<Precision, Linear>;

 public:
  using typename Base::P;
  using typename Base::T;

  VocabularySliceOp(OpSetup const& setup, RankDevice& device, int words, double smoothing,
                    int chunk_rows)
      : Base{typename Base::Found{gathered_bytes(setup, padded_slice(words, setup.slice.count))},
             setup,
             device,
             padded_slice(words, setup.slice.count),
             smoothing,
             chunk_rows},
        all_words_{words},
        slice_{setup.slice} {
    OwnRows const rows = padded_range(words, slice_);
    own_ = {.first = rows.first, .count = rows.count, .stride = this->words_};
    if (this->chunked_) {
      this->saved_ = all_rows(setup) * std::int64_t{sizeof(VocabularyPart)};
    }
  }

  /// The rank's part of gathered().
  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.criterion.scores != nullptr) {
      double* const own = gathered_at(p.device) + slice_.number * gathered_each(p);
      this->with_last_row(
          o, p, [&](T const* logits) { cast(p.device.compute, logits, own, this->words_); });
      return;
    }
    VocabularyPart* const own = parts(p.device) + slice_.number * p.rows(this->in_);
    this->each_chunk(
        o, p, [&](std::int64_t first, Operands<T, P> const& part, Pass<RankDevice> const& some) {
          this->linear_.forward(part, some);
          vocabulary_parts(some.device.compute, part.y, some.criterion.targets, some.batch, own_,
                           own + first);
        });
  }

  /// What the ranks bring together.
  [[nodiscard]] std::span<double> gathered(Operands<T, P> const& /*operands*/,
                                           Pass<RankDevice> const& p) const {
    return {gathered_at(p.device), static_cast<std::size_t>(slice_.count * gathered_each(p))};
  }

  /// y, from gathered(); and in training the gradient over the logits in their place, or what it
  /// takes.
  void forward_joint(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.criterion.scores != nullptr) {
      put_scores(p);
      return;
    }
    std::int64_t const rows = p.rows(this->in_);
    VocabularyPart* const all = parts(p.device);
    bool const keeps = p.training && this->chunked_;
    join_vocabulary_parts(p.device.compute, rows, slice_.count, p.criterion.targets, all_words_,
                          this->smoothing_, all, keeps ? saved_parts(o) : nullptr, o.y);
    if (p.training && !keeps) {
      make_gradient(rows, this->logits(o, p.device), p, all);
    }
  }

  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    this->each_chunk(o, p,
                     [&](std::int64_t first, Operands<T, P> part, Pass<RankDevice> const& some) {
                       remake(o, first, part, some);
                       T* const dx = o.dx[0] + first * this->in_[1];
                       part.dx = &dx;
                       this->linear_.input_gradient(part, some);
                     });
  }

  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    this->each_chunk(o, p,
                     [&](std::int64_t first, Operands<T, P> const& part, Pass<RankDevice> some) {
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
    return setup.slice.count * std::max(all_rows(setup) * std::int64_t{sizeof(VocabularyPart)},
                                        words * std::int64_t{sizeof(double)});
  }
  /// Doubles of a rank.
  [[nodiscard]] std::int64_t gathered_each(Pass<RankDevice> const& p) const {
    constexpr std::int64_t numbers = sizeof(VocabularyPart) / sizeof(double);
    std::int64_t const scores = p.batch > 0 ? this->words_ : 0;
    return p.criterion.scores != nullptr ? scores : p.rows(this->in_) * numbers;
  }
  [[nodiscard]] double* gathered_at(RankDevice const& device) const {
    return reinterpret_cast<double*>(this->found(device));
  }
  [[nodiscard]] VocabularyPart* parts(RankDevice const& device) const {
    return reinterpret_cast<VocabularyPart*>(this->found(device));
  }
  static VocabularyPart* saved_parts(Operands<T, P> const& o) {
    return reinterpret_cast<VocabularyPart*>(o.saved);
  }

  /// The words of all ranks are neighbours there, and padding stands behind the last.
  void put_scores(Pass<RankDevice> const& p) const {
    cast(p.device.compute, gathered_at(p.device), p.criterion.scores, all_words_);
  }

  void make_gradient(std::int64_t rows, T* logits, Pass<RankDevice> const& p,
                     VocabularyPart const* all) const {
    vocabulary_part_gradients(p.device.compute, logits, p.criterion.targets, rows, own_, all_words_,
                              all, this->smoothing_, p.criterion.row_scale);
  }
  void remake(Operands<T, P> const& o, std::int64_t first, Operands<T, P> const& part,
              Pass<RankDevice> const& some) {
    if (this->chunked_) {
      this->linear_.forward(part, some);
      make_gradient(some.batch, part.y, some, saved_parts(o) + first);
    }
  }

  int all_words_;
  Slice slice_;
  WordRange own_{};
};

}  // namespace cuda

template <int V, class... Options, class Kernels, class Precision>
struct Op<WordSlice<Vocabulary<V, Options...>>, BasicCuda<Kernels, Precision>>
    : cuda::VocabularySliceOp<Precision,
                              cuda::LinearOp<Precision, Vocabulary<V, Options...>::bias>> {
  using L = Vocabulary<V, Options...>;
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : Op::VocabularySliceOp{setup, device, V, L::options.smoothing, L::options.chunk_rows} {}
};

}  // namespace tandem
