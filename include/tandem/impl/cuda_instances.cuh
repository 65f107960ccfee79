// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The CUDA kernels of tandem::compiled_cuda: explicit instantiations of the functions that launch
/// them. The units of impl/src.cuh, one a precision, instantiate them, and every other unit
/// declares them; so are the ranks of GPUs. A file with a kernel of its own needs nvcc: an
/// ElementLayer's, an optimizer's, a loss's with options that are not listed.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/impl/instance_macros.hpp>
#include <tandem/kernels/cuda/clear_padding.cuh>
#include <tandem/optim/adagrad.hpp>
#include <tandem/optim/lamb.hpp>
#include <tandem/optim/lion.hpp>
#include <tandem/optim/rmsprop.hpp>

#define TANDEM_EACH_OF(...) TANDEM_INSTANCE_OF(each<__VA_ARGS__>)

// Kernels by the type T of an element.
#define TANDEM_CUDA_ELEMENTS(T)                                                        \
  TANDEM_INSTANCE_OF(relu_forward<T>)                                                  \
  TANDEM_INSTANCE_OF(relu_gradient<T>)                                                 \
  TANDEM_INSTANCE_OF(activation_forward<GeluFunction, T>)                              \
  TANDEM_INSTANCE_OF(activation_gradient<GeluFunction, T>)                             \
  TANDEM_INSTANCE_OF(activation_forward<GeluTanhFunction, T>)                          \
  TANDEM_INSTANCE_OF(activation_gradient<GeluTanhFunction, T>)                         \
  TANDEM_INSTANCE_OF(activation_forward<SiluFunction, T>)                              \
  TANDEM_INSTANCE_OF(activation_gradient<SiluFunction, T>)                             \
  TANDEM_INSTANCE_OF(activation_forward<SigmoidFunction, T>)                           \
  TANDEM_INSTANCE_OF(activation_gradient<SigmoidFunction, T>)                          \
  TANDEM_INSTANCE_OF(activation_forward<TanhFunction, T>)                              \
  TANDEM_INSTANCE_OF(activation_gradient<TanhFunction, T>)                             \
  TANDEM_INSTANCE_OF(swiglu_forward<T>)                                                \
  TANDEM_INSTANCE_OF(swiglu_gradient<T>)                                               \
  TANDEM_INSTANCE_OF(attention_softmax<T>)                                             \
  TANDEM_INSTANCE_OF(attention_softmax_gradient<T>)                                    \
  TANDEM_INSTANCE_OF(detail::attention_step<T>)                                        \
  TANDEM_INSTANCE_OF(avg_pool_forward<T>)                                              \
  TANDEM_INSTANCE_OF(avg_pool_gradient<T>)                                             \
  TANDEM_INSTANCE_OF(pack_boxes<T>)                                                    \
  TANDEM_INSTANCE_OF(place_boxes<T>)                                                   \
  TANDEM_INSTANCE_OF(add_boxes<T>)                                                     \
  TANDEM_INSTANCE_OF(clear_padding<T>)                                                 \
  TANDEM_INSTANCE_OF(concat_forward<T>)                                                \
  TANDEM_INSTANCE_OF(concat_gradient<T>)                                               \
  TANDEM_INSTANCE_OF(im2col<T>)                                                        \
  TANDEM_INSTANCE_OF(col2im<T>)                                                        \
  TANDEM_INSTANCE_OF(criterion_sum<T>)                                                 \
  TANDEM_INSTANCE_OF(dropout_forward<T>)                                               \
  TANDEM_INSTANCE_OF(dropout_gradient<T>)                                              \
  TANDEM_INSTANCE_OF(drop_columns<T>)                                                  \
  TANDEM_INSTANCE_OF(embedding_forward<T>)                                             \
  TANDEM_INSTANCE_OF(copy<T>)                                                          \
  TANDEM_INSTANCE_OF(add<T>)                                                           \
  TANDEM_INSTANCE_OF(sum<T>)                                                           \
  TANDEM_INSTANCE_OF(global_avg_pool_forward<T>)                                       \
  TANDEM_INSTANCE_OF(global_avg_pool_gradient<T>)                                      \
  TANDEM_INSTANCE_OF(max_pool_forward<T, std::uint8_t>)                                \
  TANDEM_INSTANCE_OF(max_pool_gradient<T, std::uint8_t>)                               \
  TANDEM_INSTANCE_OF(max_pool_forward<T, std::int32_t>)                                \
  TANDEM_INSTANCE_OF(max_pool_gradient<T, std::int32_t>)                               \
  TANDEM_INSTANCE_OF(product<T>)                                                       \
  TANDEM_INSTANCE_OF(product_gradient<T>)                                              \
  TANDEM_INSTANCE_OF(resample_forward<T, PadAxis>)                                     \
  TANDEM_INSTANCE_OF(resample_gradient<T, PadAxis>)                                    \
  TANDEM_INSTANCE_OF(resample_forward<T, UpsampleAxis<false>>)                         \
  TANDEM_INSTANCE_OF(resample_gradient<T, UpsampleAxis<false>>)                        \
  TANDEM_INSTANCE_OF(resample_forward<T, UpsampleAxis<true>>)                          \
  TANDEM_INSTANCE_OF(resample_gradient<T, UpsampleAxis<true>>)                         \
  TANDEM_INSTANCE_OF(rotate<T>)                                                        \
  TANDEM_INSTANCE_OF(softmax_forward<T>)                                               \
  TANDEM_INSTANCE_OF(softmax_gradient<T>)                                              \
  TANDEM_INSTANCE_OF(softmax_cross_entropy_forward<T>)                                 \
  TANDEM_INSTANCE_OF(softmax_cross_entropy_gradient<T>)                                \
  TANDEM_INSTANCE_OF(subsample_forward<T>)                                             \
  TANDEM_INSTANCE_OF(subsample_gradient<T>)                                            \
  TANDEM_INSTANCE_OF(last_row_forward<T>)                                              \
  TANDEM_INSTANCE_OF(mean_over_time_forward<T>)                                        \
  TANDEM_INSTANCE_OF(time_pool_gradient<LastRowShare, T>)                              \
  TANDEM_INSTANCE_OF(time_pool_gradient<MeanShare, T>)                                 \
  TANDEM_INSTANCE_OF(vocabulary_rows<T>)                                               \
  TANDEM_INSTANCE_OF(vocabulary_parts<T>)                                              \
  TANDEM_INSTANCE_OF(join_vocabulary_parts<T>)                                         \
  TANDEM_INSTANCE_OF(vocabulary_part_gradients<T>)                                     \
  TANDEM_INSTANCE_OF(finish_casts<T, T>)                                               \
  TANDEM_INSTANCE_OF(transpose<T, T>)                                                  \
  TANDEM_INSTANCE_OF(element_loss_forward<MeanSquaredError, T>)                        \
  TANDEM_INSTANCE_OF(element_loss_gradient<MeanSquaredError, T>)                       \
  TANDEM_INSTANCE_OF(element_loss_forward<MeanAbsoluteError, T>)                       \
  TANDEM_INSTANCE_OF(element_loss_gradient<MeanAbsoluteError, T>)                      \
  TANDEM_INSTANCE_OF(element_loss_forward<Huber<>, T>)                                 \
  TANDEM_INSTANCE_OF(element_loss_gradient<Huber<>, T>)                                \
  TANDEM_INSTANCE_OF(element_loss_forward<BinaryCrossEntropy, T>)                      \
  TANDEM_INSTANCE_OF(element_loss_gradient<BinaryCrossEntropy, T>)                     \
  TANDEM_INSTANCE_OF(                                                                  \
      class_targets_forward<T, LabelTargets<SoftmaxCrossEntropy<IgnoreIndex<-100>>>>)  \
  TANDEM_INSTANCE_OF(                                                                  \
      class_targets_gradient<T, LabelTargets<SoftmaxCrossEntropy<IgnoreIndex<-100>>>>) \
  TANDEM_INSTANCE_OF(class_targets_forward<T, SoftTargets<SoftCrossEntropy<>>>)        \
  TANDEM_INSTANCE_OF(class_targets_gradient<T, SoftTargets<SoftCrossEntropy<>>>)       \
  TANDEM_INSTANCE_OF(top_k_count<T, LabelOf>)                                          \
  TANDEM_INSTANCE_OF(top_k_count<T, LargestOf>)                                        \
  TANDEM_EACH_OF(GatherKeys<T>)                                                        \
  TANDEM_EACH_OF(TakeKeyGradients<T>)                                                  \
  TANDEM_EACH_OF(AdditiveKeyGradient<T>)                                               \
  TANDEM_EACH_OF(AdditiveQueryGradient<T>)                                             \
  TANDEM_EACH_OF(LstmRow<T>)                                                           \
  TANDEM_EACH_OF(LstmRowGradient<T>)                                                   \
  TANDEM_EACH_OF(GruRow<T>)                                                            \
  TANDEM_EACH_OF(GruRowGradient<T>)                                                    \
  TANDEM_EACH_OF(TakeUp<T>)                                                            \
  TANDEM_EACH_OF(HandOn<T>)                                                            \
  TANDEM_EACH_OF(StateGradientSum<T>)

// Kernels by the types T of an element and P of a parameter.
#define TANDEM_CUDA_PAIR(T, P)                                                                     \
  TANDEM_INSTANCE_OF(batch_norm_forward<T, P>)                                                     \
  TANDEM_INSTANCE_OF(detail::batch_norm_apply<T, P>)                                               \
  TANDEM_INSTANCE_OF(batch_norm_evaluation_forward<T, P>)                                          \
  TANDEM_INSTANCE_OF(batch_norm_evaluation_input_gradient<T, P>)                                   \
  TANDEM_INSTANCE_OF(batch_norm_gradient_sums<T, P>)                                               \
  TANDEM_INSTANCE_OF(batch_norm_gradient_sums<T, P, detail::BatchNormWeights<P>>)                  \
  TANDEM_INSTANCE_OF(batch_norm_input_gradient<T, P>)                                              \
  TANDEM_INSTANCE_OF(batch_norm_moments<T, P>)                                                     \
  TANDEM_INSTANCE_OF(batch_norm_joint_input_gradient<T, P>)                                        \
  TANDEM_INSTANCE_OF(column_sum<T, P>)                                                             \
  TANDEM_INSTANCE void add_bias(Stream const&, T const*, T*, P const*, std::int64_t, int, int);    \
  TANDEM_INSTANCE void add_bias(Stream const&, T*, P const*, std::int64_t, int, int);              \
  TANDEM_INSTANCE void embedding_gradient(Stream const&, TokenRuns const&, int, int, T const*, P*, \
                                          bool);                                                   \
  TANDEM_INSTANCE_OF(embedding_gradient_rows<T, P>)                                                \
  TANDEM_INSTANCE_OF(group_norm_forward<T, P>)                                                     \
  TANDEM_INSTANCE_OF(group_norm_gradient<T, P>)                                                    \
  TANDEM_INSTANCE_OF(to_channels_last<P, T>)                                                       \
  TANDEM_INSTANCE_OF(from_channels_last<T, P>)                                                     \
  TANDEM_INSTANCE_OF(positions_forward<T, P>)                                                      \
  TANDEM_INSTANCE_OF(positions_gradient<T, P>)                                                     \
  TANDEM_INSTANCE_OF(row_norm_forward<RowNorm::layer, T, P>)                                       \
  TANDEM_INSTANCE_OF(row_norm_input_gradient<RowNorm::layer, T, P>)                                \
  TANDEM_INSTANCE_OF(row_norm_weight_gradient<RowNorm::layer, T, P>)                               \
  TANDEM_INSTANCE_OF(row_norm_forward<RowNorm::rms, T, P>)                                         \
  TANDEM_INSTANCE_OF(row_norm_input_gradient<RowNorm::rms, T, P>)                                  \
  TANDEM_INSTANCE_OF(row_norm_weight_gradient<RowNorm::rms, T, P>)                                 \
  TANDEM_INSTANCE_OF(sampled_logits<T, P>)                                                         \
  TANDEM_INSTANCE_OF(additive_softmax<P, T>)                                                       \
  TANDEM_INSTANCE_OF(additive_softmax_gradient<P, T>)                                              \
  TANDEM_EACH_OF(TargetInputGradient<T, P>)                                                        \
  TANDEM_EACH_OF(TargetTerms<T, P>)                                                                \
  TANDEM_INSTANCE_OF(take_batch<T, P, std::int32_t>)                                               \
  TANDEM_INSTANCE_OF(take_batch<T, P, float>)                                                      \
  TANDEM_INSTANCE_OF(apply_update<RunUpdate<SgdUpdate<P>, AverageUpdate<P, 2>>, T>)                \
  TANDEM_INSTANCE_OF(apply_update<RunUpdate<AdamUpdate<P>, AverageUpdate<P, 2>>, T>)               \
  TANDEM_INSTANCE_OF(                                                                              \
      update_rows<detail::FetchRun<RunUpdate<SgdUpdate<P>, AverageUpdate<P, 2>>>, P, T>)           \
  TANDEM_INSTANCE_OF(make_and_apply<detail::MakeRun<detail::PrepareRun<Lamb, P>>, T>)              \
  TANDEM_INSTANCE_OF(make_and_apply<detail::MakeRun<detail::PrepareRun<Lion, P>>, T>)              \
  TANDEM_INSTANCE_OF(make_and_apply<detail::MakeRun<detail::PrepareRun<RMSprop, P>>, T>)           \
  TANDEM_INSTANCE_OF(make_and_apply<detail::MakeRun<detail::PrepareRun<Adagrad, P>>, T>)           \
  TANDEM_INSTANCE_OF(update_rows<detail::MakeRun<detail::PrepareRun<Adagrad, P>>, P, T>)

// Kernels for weights of type P that are rounded to T.
#define TANDEM_CUDA_ROUNDED(T, P)                \
  TANDEM_INSTANCE_OF(tree_sum<T, RoundedSum<T>>) \
  TANDEM_INSTANCE_OF(cast<T, P>)                 \
  TANDEM_INSTANCE_OF(cast<P, T>)                 \
  TANDEM_INSTANCE_OF(cast_add<T, P>)             \
  TANDEM_INSTANCE_OF(finish_casts<T, P>)

// Kernels by the type P of a parameter.
#define TANDEM_CUDA_PARAMETERS(P)                                                                \
  TANDEM_INSTANCE_OF(additive_scale<P>)                                                          \
  TANDEM_INSTANCE_OF(additive_scale_gradient<P>)                                                 \
  TANDEM_INSTANCE_OF(additive_scores<P>)                                                         \
  TANDEM_INSTANCE_OF(batch_norm_weight_gradient<P>)                                              \
  TANDEM_INSTANCE_OF(sum_of_squares<P>)                                                          \
  TANDEM_INSTANCE_OF(copy_rows<P>)                                                               \
  TANDEM_INSTANCE_OF(add_rows<P>)                                                                \
  TANDEM_INSTANCE_OF(sum_gradient_rows<P>)                                                       \
  TANDEM_INSTANCE_OF(gradient_row_squares<P>)                                                    \
  TANDEM_INSTANCE_OF(group_norm_weight_gradient<P>)                                              \
  TANDEM_INSTANCE_OF(batch_norm_local_sums<P>)                                                   \
  TANDEM_INSTANCE_OF(batch_norm_joint_statistics<P>)                                             \
  TANDEM_INSTANCE_OF(batch_norm_local_gradient_sums<P>)                                          \
  TANDEM_INSTANCE_OF(batch_norm_joint_weight_gradient<P>)                                        \
  TANDEM_INSTANCE_OF(rotary_table<P>)                                                            \
  TANDEM_INSTANCE_OF(gradient_squares<P, RunSettings>)                                           \
  TANDEM_INSTANCE_OF(check_gradients<P, RunSettings>)                                            \
  TANDEM_INSTANCE_OF(tree_sum<P, Sum>)                                                           \
  TANDEM_INSTANCE_OF(move_states<detail::MakeRun<detail::PrepareRun<Lamb, P>>>)                  \
  TANDEM_INSTANCE_OF(                                                                            \
      own_value_sum<tandem::detail::CountedValue<BinaryAccuracy, BinaryCrossEntropy>, P, float>) \
  TANDEM_INSTANCE_OF(finish_step<StepResult, detail::PrepareRun<Sgd, P>>)                        \
  TANDEM_INSTANCE_OF(finish_step<StepResult, detail::PrepareRun<Adam, P>>)                       \
  TANDEM_INSTANCE_OF(finish_step<StepResult, detail::PrepareRun<AdamW, P>>)                      \
  TANDEM_EACH_OF(RowKeys<P>)                                                                     \
  TANDEM_EACH_OF(CheckRows<P>)                                                                   \
  TANDEM_EACH_OF(SwapElement<P>)                                                                 \
  TANDEM_EACH_OF(AverageWeight<P>)                                                               \
  TANDEM_EACH_OF(SampleBias<P>)                                                                  \
  TANDEM_EACH_OF(TakeMean<P>)                                                                    \
  TANDEM_EACH_OF(PredictElement<P>)                                                              \
  TANDEM_EACH_OF(AverageUpdate<P, 2>)

// Kernels that every precision has.
#define TANDEM_CUDA_COMMON                                                 \
  TANDEM_INSTANCE_OF(fill<double>)                                         \
  TANDEM_INSTANCE_OF(fill<unsigned char>)                                  \
  TANDEM_INSTANCE_OF(fill<std::int32_t>)                                   \
  TANDEM_INSTANCE_OF(fill<std::uint64_t>)                                  \
  TANDEM_INSTANCE_OF(copy<unsigned char>)                                  \
  TANDEM_INSTANCE_OF(copy<std::int32_t>)                                   \
  TANDEM_INSTANCE_OF(copy<std::uint64_t>)                                  \
  TANDEM_INSTANCE_OF(cast<float, double>)                                  \
  TANDEM_INSTANCE_OF(cast<double, float>)                                  \
  TANDEM_INSTANCE_OF(take_batch<std::int32_t, std::int32_t, std::int32_t>) \
  TANDEM_INSTANCE_OF(ordered_sum<double>)                                  \
  TANDEM_INSTANCE_OF(join_squares<double>)                                 \
  TANDEM_INSTANCE_OF(sort_pairs<std::int32_t>)                             \
  TANDEM_INSTANCE_OF(first_of_equals<std::int32_t>)                        \
  TANDEM_INSTANCE_OF(finish_step<StepResult, PrepareNothing>)              \
  TANDEM_EACH_OF(SpreadSums)                                               \
  TANDEM_EACH_OF(ScaleRow)                                                 \
  TANDEM_EACH_OF(SpoilSum)                                                 \
  TANDEM_EACH_OF(OpenRows)                                                 \
  TANDEM_EACH_OF(SampledTokens)                                            \
  TANDEM_EACH_OF(BeginStates)                                              \
  TANDEM_EACH_OF(detail::OrderKinds)                                       \
  TANDEM_EACH_OF(detail::MarkRun)                                          \
  TANDEM_EACH_OF(detail::DrawClass)                                        \
  TANDEM_EACH_OF(detail::Count)

// Ranks with kernels K that talk by C.
#define TANDEM_CUDA_RANKS_OF(C, K)                    \
  TANDEM_RANK_OF(C, float, BasicCuda<K, Tf32>)        \
  TANDEM_RANK_OF(C, std::int32_t, BasicCuda<K, Tf32>) \
  TANDEM_RANK_OF(C, float, BasicCuda<K, Bf16>)        \
  TANDEM_RANK_OF(C, std::int32_t, BasicCuda<K, Bf16>)

// Whether this unit instantiates precision `part`; impl/src.cuh numbers them.
#if defined(TANDEM_IMPL_CUDA)
#define TANDEM_IMPL_HAS(part) (TANDEM_IMPL_CUDA == part)
#else
#define TANDEM_IMPL_HAS(part) 0
#endif

// The choice of cuDNN and NCCL changes which ranks there are, so it is in the name of a symbol that
// the unit with the ranks defines and every other unit asks for. Units of one program that differ
// do not link, and the linker's message says in what.
#if defined(TANDEM_CUDNN)
#define TANDEM_NAME_OF_CUDNN with_cudnn
#else
#define TANDEM_NAME_OF_CUDNN without_cudnn
#endif
#if defined(TANDEM_NCCL)
#define TANDEM_NAME_OF_NCCL with_nccl
#else
#define TANDEM_NAME_OF_NCCL without_nccl
#endif
#define TANDEM_JOIN_NAMES(a, b) tandem_kernels_##a##_##b
#define TANDEM_NAME_OF_KERNELS(a, b) TANDEM_JOIN_NAMES(a, b)
#define TANDEM_KERNELS_NAME TANDEM_NAME_OF_KERNELS(TANDEM_NAME_OF_CUDNN, TANDEM_NAME_OF_NCCL)
extern char const TANDEM_KERNELS_NAME;
#if TANDEM_IMPL_HAS(5)
char const TANDEM_KERNELS_NAME = 0;
#elif defined(__GNUC__) || defined(__clang__)
namespace tandem::detail {
[[gnu::used]] static char const* const kernels_elsewhere = &TANDEM_KERNELS_NAME;
}
#endif
#undef TANDEM_KERNELS_NAME
#undef TANDEM_NAME_OF_KERNELS
#undef TANDEM_JOIN_NAMES
#undef TANDEM_NAME_OF_NCCL
#undef TANDEM_NAME_OF_CUDNN

namespace tandem::cuda {

#if TANDEM_IMPL_HAS(1)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
TANDEM_CUDA_COMMON
TANDEM_INSTANCE_OF(fill<float>)
TANDEM_CUDA_ELEMENTS(float)
TANDEM_CUDA_PAIR(float, float)
TANDEM_CUDA_PARAMETERS(float)
#undef TANDEM_INSTANCE

#if TANDEM_IMPL_HAS(2)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
TANDEM_CUDA_ELEMENTS(double)
TANDEM_CUDA_PAIR(double, double)
TANDEM_CUDA_PARAMETERS(double)
#undef TANDEM_INSTANCE

#if TANDEM_IMPL_HAS(3)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
TANDEM_INSTANCE_OF(fill<BFloat16>)
TANDEM_INSTANCE_OF(cast<BFloat16, double>)
TANDEM_CUDA_ELEMENTS(BFloat16)
TANDEM_CUDA_PAIR(BFloat16, float)
TANDEM_CUDA_ROUNDED(BFloat16, float)
#undef TANDEM_INSTANCE

#if TANDEM_IMPL_HAS(4)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
TANDEM_INSTANCE_OF(fill<Float16>)
TANDEM_INSTANCE_OF(cast<Float16, double>)
TANDEM_CUDA_ELEMENTS(Float16)
TANDEM_CUDA_PAIR(Float16, float)
TANDEM_CUDA_ROUNDED(Float16, float)
#undef TANDEM_INSTANCE

}  // namespace tandem::cuda

namespace tandem {

#if TANDEM_IMPL_HAS(5)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
#if defined(TANDEM_CUDNN)
TANDEM_CUDA_RANKS_OF(CudaSelfCommunicator, CuDnn)
#else
TANDEM_CUDA_RANKS_OF(CudaSelfCommunicator, Portable)
#endif
#if defined(TANDEM_NCCL) && defined(TANDEM_CUDNN)
TANDEM_CUDA_RANKS_OF(NcclCommunicator, CuDnn)
#elif defined(TANDEM_NCCL)
TANDEM_CUDA_RANKS_OF(NcclCommunicator, Portable)
#endif
#undef TANDEM_INSTANCE

}  // namespace tandem

#undef TANDEM_CUDA_COMMON
#undef TANDEM_CUDA_PARAMETERS
#undef TANDEM_CUDA_ROUNDED
#undef TANDEM_CUDA_PAIR
#undef TANDEM_CUDA_ELEMENTS
#undef TANDEM_CUDA_RANKS_OF
#undef TANDEM_IMPL_HAS
#undef TANDEM_EACH_OF
#undef TANDEM_RANK_OF
#undef TANDEM_INSTANCE_OF
