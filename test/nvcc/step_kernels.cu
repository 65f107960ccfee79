// SPDX-License-Identifier: Apache-2.0
// The kernels of a step in bf16, for read_back.py: compiled for a GPU and looked at, never run.
#include <cstdint>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cuda/attention_softmax.cuh>
#include <tandem/kernels/cuda/attention_time_chunk.cuh>
#include <tandem/kernels/cuda/bahdanau.cuh>
#include <tandem/kernels/cuda/batch_norm.cuh>
#include <tandem/kernels/cuda/batch_norm_gradient.cuh>
#include <tandem/kernels/cuda/cast_many.cuh>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/dropout.cuh>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/embedding.cuh>
#include <tandem/kernels/cuda/global_avg_pool.cuh>
#include <tandem/kernels/cuda/gradient_rows.cuh>
#include <tandem/kernels/cuda/max_pool.cuh>
#include <tandem/kernels/cuda/recurrent_rows.hpp>
#include <tandem/kernels/cuda/relu.cuh>
#include <tandem/kernels/cuda/row_norm.cuh>
#include <tandem/kernels/cuda/row_norm_weight_gradient.cuh>
#include <tandem/kernels/cuda/sampled_vocabulary.cuh>
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/kernels/cuda/take_batch.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/cuda/update.cuh>
#include <tandem/kernels/cuda/vocabulary.cuh>
#include <tandem/kernels/cuda/vocabulary_slice.cuh>
#include <tandem/ops/cuda/update.cuh>
#include <tandem/optim/adagrad.hpp>

namespace tandem::cuda {

using T = BFloat16;

void step(Stream const& s, T* x, float* p, std::int32_t* labels, double* sums, std::uint8_t* cells,
          std::byte* scratch, PoolGeometry const& pool, CastQueue& casts) {
  BatchNormSaved<float> const saved = BatchNormSaved<float>::at(scratch, 64);
  batch_norm_forward(s, x, 64, 64, p, p, 1e-5F, true, x, saved, scratch);
  batch_norm_gradient_sums(s, x, x, 64, 64, p, p, true, saved, scratch, {},
                           detail::BatchNormWeights<float>{64, 1.0, saved, {}, false});
  batch_norm_input_gradient(s, x, x, 64, 64, p, p, true, saved, x);
  finish_casts<T, float>(s, casts);
  add_bias(s, x, p, 64, 64);
  column_sum(s, x, 64, 64, p, false, scratch);
  T const* const both[] = {x, x};
  sum(s, both, 2, x, 64);
  max_pool_forward(s, pool, 1, x, x, cells, 64);
  max_pool_gradient(s, pool, 1, x, cells, x, 64);
  global_avg_pool_forward(s, 1, 64, 64, x, x);
  global_avg_pool_gradient(s, 1, 64, 64, x, x);
  relu_forward(s, x, x, 64);
  relu_gradient(s, x, x, x, 64);
  RowNormSaved<float> const rows = RowNormSaved<float>::at(RowNorm::layer, scratch, 64);
  row_norm_forward<RowNorm::layer>(s, x, 64, 64, static_cast<float const*>(p), p, 1e-5, x, rows, x,
                                   x);
  row_norm_input_gradient<RowNorm::layer>(s, x, x, 64, 64, static_cast<float const*>(p), rows, x);
  row_norm_weight_gradient<RowNorm::layer>(s, x, x, 64, 64, rows, p, p, false, scratch);
  softmax_cross_entropy_forward(s, x, labels, 1, 10, 0.0, sums, sums);
  softmax_cross_entropy_gradient(s, x, labels, 1, 10, 0.0, 1.0, x);
  vocabulary_rows(s, x, labels, 1, 64, 0.0, sums, x);
  auto* const parts = reinterpret_cast<VocabularyPart*>(scratch);
  vocabulary_parts(s, x, labels, 1, {0, 64, 64}, parts);
  join_vocabulary_parts(s, 1, 2, labels, 128, 0.0, parts, parts, x);
  vocabulary_part_gradients(s, x, labels, 1, {0, 64, 64}, 128, parts, 0.0, sums);
}

template <class O>
void update(Stream const& s, UpdateChunk const* chunks, std::byte* runs, T* x, int const* stopped) {
  using Run = typename detail::PrepareRun<O, float>::Run;
  apply_update(s, chunks, 1, reinterpret_cast<Run const*>(runs), x, stopped);
}

void row_step(Stream const& s, T* x, float* p, std::int32_t* tokens, std::byte* scratch,
              int const* stopped) {
  GradientRows<float> rows = gradient_rows(p, 64, 64);
  rows.limit = 64;
  rows.scratch = scratch;
  embedding_gradient_rows(s, tokens, 64, x, rows, true);
  add_rows(s, rows, rows);
  GradientRows<float> const sets[] = {rows, rows};
  for (int const n : {2, 8, 16}) {
    sum_gradient_rows(s, sets, n, rows);
  }
  gradient_row_squares(s, rows, 4096, 1, reinterpret_cast<double*>(scratch));
  using Run = typename detail::PrepareRun<Sgd, float>::Run;
  update_rows(s, rows, 0, 0, detail::FetchRun<Run>{reinterpret_cast<Run const*>(scratch)}, x,
              stopped);
  using Own = detail::PrepareRun<Adagrad, float>;
  update_rows(s, rows, 0, 0, detail::MakeRun<Own>{}, x, stopped);
}

void sampled_step(Stream const& s, T* x, float* p, std::int32_t* tokens, std::byte* scratch) {
  LogUniformDraws const draws{s, {500}, 64};
  auto const* const seed = reinterpret_cast<std::uint64_t*>(scratch);
  auto const* const step = reinterpret_cast<std::int64_t*>(scratch);
  SampleView const sample = draws.draw(s, seed, step, 1, scratch);
  for (int const width : {65, 2000}) {
    SampledRows<T, float> const rows{1, 64, width, x, x, p, tokens};
    sampled_logits(s, rows, sample, p, x, tokens);
    each(s, 64, SampleBias<float>{sample, p, p});
    each(s, 64, TargetInputGradient<T, float>{rows, 64, x, x});
    each(s, 64, TargetTerms<T, float>{rows, 64, x, p, false});
    each(s, 64, SampledTokens{tokens, 64, tokens, 64, tokens});
  }
}

void sequence_step(Stream const& s, T* x, float* p, std::int32_t* tokens, UpdateChunk const* chunks,
                   std::byte* scratch, int const* stopped) {
  StagedBatch<float, std::int32_t> const* const staged = nullptr;
  take_batch(s, staged, 0, 64, 1, 64, x, {}, 1, tokens);
  embedding_forward(s, tokens, 1, {0, 64}, 64, x, x);
  embedding_gradient(s, tokens, 1, 64, {0, 64}, 64, x, p, false, scratch, 4096);
  dropout_forward(s, 1, 64, 64, {}, 0.5F, x, x);
  attention_softmax(s, {}, {}, p, x, p);
  attention_softmax_gradient(s, {}, {}, 1.0, x, x, p, p, p, x, x);
  RecurrentRow const row{.batch = 1, .hidden = 64};
  sampled_step(s, x, p, tokens, scratch);
  each(s, 64, LstmRow<T>{row});
  each(s, 64, LstmRowGradient<T>{row});
  each(s, 64, GruRow<T>{row});
  each(s, 64, GruRowGradient<T>{row});
  each(s, 64, HandOn<T>{64});
  each(s, 64, TakeUp<T>{64});
  each(s, 64, GatherKeys<T>{});
  each(s, 64, TakeKeyGradients<T>{});
  each(s, 64, StateGradientSum<T>{row, 64});
  AdditiveRows const rows{1, 1, 64, 64, 64};
  AdditiveTerms<float> const terms{p, p, p, p, p};
  additive_scale<float>(s, 64, p, p, p);
  additive_scores(s, rows, terms, p);
  additive_softmax<float>(s, rows, p, x);
  additive_softmax_gradient<float>(s, rows, static_cast<T const*>(x), p);
  each(s, 64, AdditiveQueryGradient<T>{rows, terms, p, x, p});
  each(s, 64, AdditiveKeyGradient<T>{rows, terms, p, x});
  additive_scale_gradient<float>(s, 64, p, p, p, p, p, false);
  update<Sgd>(s, chunks, scratch, x, stopped);
  update<AdamW>(s, chunks, scratch, x, stopped);
}

}  // namespace tandem::cuda
