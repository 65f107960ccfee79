// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Vocabulary with Sampled on Cuda: in training a Vocabulary of the drawn words and the row's own,
/// elsewhere one of all words, a few rows at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/embedding.cuh>
#include <tandem/kernels/cuda/gradient_rows.cuh>
#include <tandem/kernels/cuda/log_uniform_sample.cuh>
#include <tandem/kernels/cuda/sampled_vocabulary.cuh>
#include <tandem/kernels/cuda/token_runs.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/cuda/array_cutter.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/cuda/vocabulary.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// The logits of a step's sample, and behind them that of each row's target: a Linear whose weight
/// is gathered in each pass, for VocabularyOp.
///
/// The sample is drawn anew in each pass, in scratch: some ten launches, where it could be kept
/// beside the logits.
template <class Precision>
class SampledLinear {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  /// @param setup    of a Linear of sampled + 1 words
  /// @param by_rows  the gradients of weight and bias are GradientRows
  SampledLinear(OpSetup const& setup, RankDevice& device, int vocabulary, bool bias, bool by_rows)
      : vocabulary_{vocabulary},
        channels_{setup.node.in[0]},
        width_{setup.node.out[0]},
        sampled_{width_ - 1},
        rows_{std::max(setup.batch, 1)},
        layer_{static_cast<std::uint32_t>(setup.index)},
        bias_{bias},
        by_rows_{by_rows},
        linear_{setup, device},
        draws_{device.compute, {vocabulary}, sampled_},
        runs_{by_rows ? 0
                      : token_runs_scratch_bytes(device.compute,
                                                 static_cast<std::int32_t>(sampled_ + rows_),
                                                 std::int64_t{vocabulary} + 1)} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true, .scratch_bytes = work(nullptr, rows_).bytes};
  }

  /// Of the rows of the forward() before, in the same pass.
  [[nodiscard]] std::int32_t const* columns(RankDevice const& device, std::int64_t rows) const {
    return work(device.scratch, rows).columns;
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Work const own = work(p.device.scratch, p.batch);
    with_sample(o, p, own,
                [&](Operands<T, P> const& of_sample, Pass<RankDevice> const& some,
                    SampleView const& sample) {
                  linear_.forward(of_sample, some);
                  each(p.device.compute, sampled_, SampleBias<P>{sample, bias(o), own.bias});
                  sampled_logits(p.device.compute, rows_of(o, p), sample, own.bias, o.y,
                                 own.columns);
                });
  }

  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    with_sample(o, p, work(p.device.scratch, p.batch),
                [&](Operands<T, P> const& of_sample, Pass<RankDevice> const& some,
                    SampleView const&) { linear_.input_gradient(of_sample, some); });
    each(p.device.compute, std::int64_t{p.batch} * channels_,
         TargetInputGradient<T, P>{rows_of(o, p), sampled_, o.dy, o.dx[0]});
  }

  /// As of an embedding: the sample's words and the rows' targets are its tokens. Terms are of P,
  /// and gradients of rows have the bits of dense ones.
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    Work const own = work(p.device.scratch, p.batch);
    std::int64_t const rows = p.batch;
    Operands<T, P> of_sample = o;
    of_sample.gradient = &own.terms;
    Pass<RankDevice> overwriting = p;
    overwriting.accumulate = false;
    linear_.weight_gradient(of_sample, overwriting);

    SampleView const sample = draw(p, own);
    std::int64_t const tokens = sampled_ + rows;
    each(stream, tokens,
         SampledTokens{sample.word, sampled_, p.criterion.targets, vocabulary_, own.columns});
    TokenRuns runs{};
    if (!by_rows_) {
      runs = token_runs(stream, own.columns, static_cast<std::int32_t>(tokens),
                        std::int64_t{vocabulary_} + 1, own.runs, runs_);
    }
    auto const spread = [&](int which, int columns) {
      P const* const terms = own.terms;
      if (by_rows_) {
        embedding_gradient_rows(stream, own.columns, static_cast<std::int32_t>(tokens), terms,
                                o.rows[which], p.accumulate);
      } else {
        embedding_gradient(stream, runs, vocabulary_, columns, terms, o.gradient[which],
                           p.accumulate);
      }
    };
    // Behind the sample's, over what the Linear gave to the targets' column.
    TargetTerms<T, P> terms{rows_of(o, p), sampled_, o.dy,
                            own.terms + std::int64_t{sampled_} * channels_, false};
    each(stream, rows * channels_, terms);
    spread(0, channels_);
    if (bias_) {
      column_sum(stream, o.dy, rows, width_, own.terms, false, p.device.scratch);
      terms.term = own.terms + sampled_;
      terms.of_bias = true;
      each(stream, rows, terms);
      spread(1, 1);
    }
  }

 private:
  /// One after another behind the Linear's own.
  struct Work {
    T* weight;              ///< (width, C) the sample's, then zeros
    P* bias;                ///< (width) of it
    std::int32_t* columns;  ///< (rows) of forward, or the tokens of a gradient, (S + rows)
    P* terms;               ///< (S + rows, C)
    std::byte* sample;
    std::byte* runs;
    std::int64_t bytes;
  };
  [[nodiscard]] Work work(std::byte* scratch, std::int64_t rows) const {
    std::int64_t const linear =
        std::max(linear_.needs().scratch_bytes, column_sum_scratch_bytes<T>(rows_, width_));
    ArrayCutter<256> cut{scratch};
    Work own{};
    cut.template next<std::byte>(linear);
    own.weight = cut.template next<T>(std::int64_t{width_} * channels_);
    own.bias = cut.template next<P>(width_);
    own.sample = cut.template next<std::byte>(draws_.bytes());
    own.runs = cut.template next<std::byte>(runs_);
    own.columns = cut.template next<std::int32_t>(sampled_ + rows);
    own.terms = cut.template next<P>((sampled_ + std::max<std::int64_t>(rows, 1)) * channels_);
    own.bytes = cut.used();
    return own;
  }

  [[nodiscard]] P const* bias(Operands<T, P> const& o) const {
    return bias_ ? o.parameter[1] : nullptr;
  }
  [[nodiscard]] SampledRows<T, P> rows_of(Operands<T, P> const& o,
                                          Pass<RankDevice> const& p) const {
    return {p.batch, channels_, width_, o.x[0], o.weight[0], bias(o), p.criterion.targets};
  }
  [[nodiscard]] SampleView draw(Pass<RankDevice> const& p, Work const& own) const {
    return draws_.draw(p.device.compute, &p.state->seed, &p.state->step, layer_, own.sample);
  }

  /// f(operands, pass, sample), the weight of which is the sample's.
  template <class F>
  void with_sample(Operands<T, P> const& o, Pass<RankDevice> const& p, Work const& own,
                   F const& f) {
    Stream const& stream = p.device.compute;
    SampleView const sample = draw(p, own);
    embedding_forward(stream, sample.word, sampled_, {0, vocabulary_}, channels_, o.weight[0],
                      own.weight);
    std::int64_t const padding = std::int64_t{width_ - sampled_} * channels_;
    clear_bytes(own.weight + std::int64_t{sampled_} * channels_,
                static_cast<std::size_t>(padding) * sizeof(T), stream);
    T const* const weight = own.weight;
    Operands<T, P> of_sample = o;
    of_sample.weight = &weight;
    f(of_sample, p, sample);
  }

  int vocabulary_;
  int channels_;
  int width_;
  int sampled_;
  std::int64_t rows_;
  std::uint32_t layer_;
  bool bias_;
  bool by_rows_;
  LinearOp<Precision, false> linear_;
  LogUniformDraws draws_;
  std::int64_t runs_;
};

/// Any Vocabulary with Sampled.
template <class Precision, bool Bias>
class SampledVocabularyOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  SampledVocabularyOp(OpSetup const& setup, RankDevice& device, int words, int sampled,
                      bool by_rows, int chunk_rows)
      : sampled_{setup, device, sampled + 1, 0.0, chunk_rows, words, Bias, by_rows},
        whole_{setup, device, words, 0.0,
               chunk_rows > 0 ? chunk_rows : rows_of(setup, words, sampled)} {}

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds all = sampled_.needs();
    all.scratch_bytes = std::max(all.scratch_bytes, whole_.needs().scratch_bytes);
    return all;
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.training && p.criterion.scores == nullptr) {
      sampled_.forward(o, p);
    } else {
      whole_.forward(o, p);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    sampled_.input_gradient(o, p);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    sampled_.weight_gradient(o, p);
  }

 private:
  /// As many rows of all words' logits as have the memory of the sampled ones, but no fewer than
  /// 64: these cost the more, as each chunk reads all weights.
  static int rows_of(OpSetup const& setup, int words, int sampled) {
    std::int64_t const rows = setup.node.in.rows(setup.batch, setup.node.in[0]);
    return static_cast<int>(std::max<std::int64_t>(64, rows * (sampled + 1) / words));
  }

  VocabularyOp<Precision, SampledLinear<Precision>> sampled_;
  VocabularyOp<Precision, LinearOp<Precision, Bias>> whole_;
};

}  // namespace cuda

template <int V, class... Options, class Kernels, class Precision>
  requires(Vocabulary<V, Options...>::options.sampled > 0)
struct Op<Vocabulary<V, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::SampledVocabularyOp<Precision, Vocabulary<V, Options...>::bias> {
  using L = Vocabulary<V, Options...>;
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::SampledVocabularyOp<Precision, L::bias>{
            setup, device, V, L::options.sampled, L::by_rows, L::options.chunk_rows} {}
};

}  // namespace tandem
