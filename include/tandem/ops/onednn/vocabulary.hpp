// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Vocabulary, of all words, of a rank's or of a sample, on Host with products by oneDNN, its rows
/// in vectors.

#include <cstdint>

#include <tandem/kernels/channels_last/vocabulary.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/ops/host/sampled_vocabulary.hpp>
#include <tandem/ops/host/vocabulary.hpp>
#include <tandem/ops/host/vocabulary_slice.hpp>
#include <tandem/ops/onednn/linear.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

/// The kernels in vectors, for VocabularyOp and for that of a slice.
struct VocabularyInVectors {
  template <class T>
  static void run(Team& team, std::int64_t rows, int vocabulary, T* logits,
                  std::int32_t const* targets, double smoothing, double const* scale,
                  VocabularyRow* results) {
    channels_last::vocabulary_rows(team, rows, vocabulary, logits, targets, smoothing, scale,
                                   results);
  }
  template <class T>
  static VocabularyPart part(int count, T const* z, int target) {
    return channels_last::vocabulary_part(count, z, target);
  }
  template <class T>
  static void gradient(int count, T* z, int target, VocabularyPart const& all, double elsewhere,
                       double on_target, double scale) {
    channels_last::vocabulary_gradient(count, z, target, all, elsewhere, on_target, scale);
  }
};

}  // namespace host::channels_last

template <int V, class... Options, class Precision>
  requires(Vocabulary<V, Options...>::options.sampled == 0)
struct Op<Vocabulary<V, Options...>, BasicHost<OneDnn, Precision>>
    : host::VocabularyOp<
          typename Precision::Scalar, typename Precision::Master,
          onednn::LinearOp<typename Precision::Scalar, Vocabulary<V, Options...>::bias>,
          host::channels_last::VocabularyInVectors> {
  using L = Vocabulary<V, Options...>;
  explicit Op(OpSetup const& setup)
      : host::VocabularyOp<typename Precision::Scalar, typename Precision::Master,
                           onednn::LinearOp<typename Precision::Scalar, L::bias>,
                           host::channels_last::VocabularyInVectors>{setup, V, L::options.smoothing,
                                                                     L::options.chunk_rows} {}
};

template <int V, class... Options, class Precision>
struct Op<WordSlice<Vocabulary<V, Options...>>, BasicHost<OneDnn, Precision>>
    : host::VocabularySliceOp<
          typename Precision::Scalar, typename Precision::Master,
          onednn::LinearOp<typename Precision::Scalar, Vocabulary<V, Options...>::bias>,
          host::channels_last::VocabularyInVectors> {
  using L = Vocabulary<V, Options...>;
  explicit Op(OpSetup const& setup)
      : Op::VocabularySliceOp{setup, V, L::options.smoothing, L::options.chunk_rows} {}
};

template <int V, class... Options, class Precision>
  requires(Vocabulary<V, Options...>::options.sampled > 0)
struct Op<Vocabulary<V, Options...>, BasicHost<OneDnn, Precision>>
    : host::SampledVocabularyOp<
          typename Precision::Scalar, typename Precision::Master,
          onednn::LinearOp<typename Precision::Scalar, true>,
          host::VocabularyOp<
              typename Precision::Scalar, typename Precision::Master,
              onednn::LinearOp<typename Precision::Scalar, Vocabulary<V, Options...>::bias>,
              host::channels_last::VocabularyInVectors>,
          host::channels_last::VocabularyInVectors> {
  using L = Vocabulary<V, Options...>;
  explicit Op(OpSetup const& setup)
      : Op::SampledVocabularyOp{setup,   V,          L::options.sampled,
                                L::bias, L::by_rows, L::options.chunk_rows} {}
};

}  // namespace tandem
