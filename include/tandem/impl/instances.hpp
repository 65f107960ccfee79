// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What is compiled in the unit of bodies alone, of templates on an element's type and a backend:
/// the kernels, what a device has in memory, and a checkpoint's tensors.
///
/// With other types a unit that needs them compiles them itself.

#include <tandem/core/config.hpp>
#include <tandem/impl/instance_macros.hpp>

// Whether this unit instantiates a part, or only declares it. impl/src.hpp lists the parts.
#if !defined(TANDEM_IMPL_UNIT)
#define TANDEM_IMPL_HAS(part) 0
#elif !defined(TANDEM_IMPL_PART)
#define TANDEM_IMPL_HAS(part) 1
#else
#define TANDEM_IMPL_HAS(part) (TANDEM_IMPL_PART == part)
#endif

// Portable kernels, by the type of an element.
#define TANDEM_KERNELS_OF(T)                                            \
  TANDEM_INSTANCE_OF(host::relu_forward<T>)                             \
  TANDEM_INSTANCE_OF(host::relu_gradient<T>)                            \
  TANDEM_INSTANCE_OF(host::attention_forward<T>)                        \
  TANDEM_INSTANCE_OF(host::attention_gradient<T>)                       \
  TANDEM_INSTANCE_OF(host::attention_chunk_forward<T>)                  \
  TANDEM_INSTANCE_OF(host::attention_chunk_gradient<T>)                 \
  TANDEM_INSTANCE_OF(host::attention_step<T>)                           \
  TANDEM_INSTANCE_OF(host::avg_pool_forward<T>)                         \
  TANDEM_INSTANCE_OF(host::avg_pool_gradient<T>)                        \
  TANDEM_INSTANCE_OF(host::additive_forward<T>)                         \
  TANDEM_INSTANCE_OF(host::additive_gradient<T>)                        \
  TANDEM_INSTANCE_OF(host::additive_value_gradient<T>)                  \
  TANDEM_INSTANCE_OF(host::batch_norm_forward<T>)                       \
  TANDEM_INSTANCE_OF(host::batch_norm_input_gradient<T>)                \
  TANDEM_INSTANCE_OF(host::batch_norm_parameter_gradient<T>)            \
  TANDEM_INSTANCE_OF(host::batch_norm_statistics<T>)                    \
  TANDEM_INSTANCE_OF(host::batch_norm_evaluation_forward<T>)            \
  TANDEM_INSTANCE_OF(host::batch_norm_evaluation_input_gradient<T>)     \
  TANDEM_INSTANCE_OF(host::batch_norm_evaluation_parameter_gradient<T>) \
  TANDEM_INSTANCE_OF(host::concat_forward<T>)                           \
  TANDEM_INSTANCE_OF(host::concat_gradient<T>)                          \
  TANDEM_INSTANCE_OF(host::convolution_forward<T>)                      \
  TANDEM_INSTANCE_OF(host::convolution_input_gradient<T>)               \
  TANDEM_INSTANCE_OF(host::convolution_weight_gradient<T>)              \
  TANDEM_INSTANCE_OF(host::dropout_forward<T>)                          \
  TANDEM_INSTANCE_OF(host::dropout_gradient<T>)                         \
  TANDEM_INSTANCE_OF(host::drop_columns<T>)                             \
  TANDEM_INSTANCE_OF(host::fill<T>)                                     \
  TANDEM_INSTANCE_OF(host::copy<T>)                                     \
  TANDEM_INSTANCE_OF(host::sum<T>)                                      \
  TANDEM_INSTANCE_OF(host::axpby<T>)                                    \
  TANDEM_INSTANCE_OF(host::gemm<T>)                                     \
  TANDEM_INSTANCE_OF(host::global_avg_pool_forward<T>)                  \
  TANDEM_INSTANCE_OF(host::global_avg_pool_gradient<T>)                 \
  TANDEM_INSTANCE_OF(host::add_rows<T>)                                 \
  TANDEM_INSTANCE_OF(host::copy_rows<T>)                                \
  TANDEM_INSTANCE_OF(host::sum_gradient_rows<T>)                        \
  TANDEM_INSTANCE_OF(host::group_norm_weight_gradient<T>)               \
  TANDEM_INSTANCE_OF(host::linear_forward<T>)                           \
  TANDEM_INSTANCE_OF(host::linear_input_gradient<T>)                    \
  TANDEM_INSTANCE_OF(host::linear_weight_gradient<T>)                   \
  TANDEM_INSTANCE_OF(host::add_map_bias<T>)                             \
  TANDEM_INSTANCE_OF(host::map_bias_gradient<T>)                        \
  TANDEM_INSTANCE_OF(host::max_pool_forward<T>)                         \
  TANDEM_INSTANCE_OF(host::max_pool_gradient<T>)                        \
  TANDEM_INSTANCE_OF(host::product_forward<T>)                          \
  TANDEM_INSTANCE_OF(host::product_gradient<T>)                         \
  TANDEM_INSTANCE_OF(host::rows_to_times<T>)                            \
  TANDEM_INSTANCE_OF(host::add_state_gradient<T>)                       \
  TANDEM_INSTANCE_OF(host::lstm_row<T>)                                 \
  TANDEM_INSTANCE_OF(host::lstm_row_gradient<T>)                        \
  TANDEM_INSTANCE_OF(host::gru_row<T>)                                  \
  TANDEM_INSTANCE_OF(host::gru_row_gradient<T>)                         \
  TANDEM_INSTANCE_OF(host::rotate<T>)                                   \
  TANDEM_INSTANCE_OF(host::swiglu_forward<T>)                           \
  TANDEM_INSTANCE_OF(host::swiglu_gradient<T>)                          \
  TANDEM_INSTANCE_OF(host::softmax_forward<T>)                          \
  TANDEM_INSTANCE_OF(host::softmax_gradient<T>)                         \
  TANDEM_INSTANCE_OF(host::softmax_cross_entropy_forward<T>)            \
  TANDEM_INSTANCE_OF(host::softmax_cross_entropy_gradient<T>)           \
  TANDEM_INSTANCE_OF(host::subsample_forward<T>)                        \
  TANDEM_INSTANCE_OF(host::subsample_gradient<T>)                       \
  TANDEM_INSTANCE_OF(host::batch_norm_local_sums<T>)                    \
  TANDEM_INSTANCE_OF(host::batch_norm_local_gradient_sums<T>)           \
  TANDEM_INSTANCE_OF(host::batch_norm_joint_input_gradient<T>)          \
  TANDEM_INSTANCE_OF(host::last_row_forward<T>)                         \
  TANDEM_INSTANCE_OF(host::mean_over_time_forward<T>)                   \
  TANDEM_INSTANCE_OF(host::vocabulary_rows<T>)                          \
  TANDEM_INSTANCE_OF(host::all_finite<T>)                               \
  TANDEM_INSTANCE_OF(host::embedding_forward<T, T>)                     \
  TANDEM_INSTANCE_OF(host::embedding_gradient<T, T>)                    \
  TANDEM_INSTANCE_OF(host::positions_forward<T, T>)                     \
  TANDEM_INSTANCE_OF(host::positions_gradient<T, T>)                    \
  TANDEM_INSTANCE_OF(host::embedding_gradient_rows<T, T>)               \
  TANDEM_INSTANCE_OF(host::group_norm_forward<T, T>)                    \
  TANDEM_INSTANCE_OF(host::group_norm_gradient<T, T>)                   \
  TANDEM_INSTANCE_OF(host::gather_sample<T, T>)                         \
  TANDEM_INSTANCE_OF(host::target_logits<T, T>)                         \
  TANDEM_INSTANCE_OF(host::add_target_input_gradient<T, T>)             \
  TANDEM_INSTANCE_OF(host::spread_sample<T, T>)                         \
  TANDEM_INSTANCE_OF(host::spread_sample_rows<T, T>)                    \
  TANDEM_INSTANCE_OF(host::norm_forward<true, T, T>)                    \
  TANDEM_INSTANCE_OF(host::norm_forward<false, T, T>)                   \
  TANDEM_INSTANCE_OF(host::norm_gradient<true, T, T>)                   \
  TANDEM_INSTANCE_OF(host::norm_gradient<false, T, T>)                  \
  TANDEM_INSTANCE_OF(host::update<T, SgdUpdate<T>>)                     \
  TANDEM_INSTANCE_OF(host::update<T, AdamUpdate<T>>)                    \
  TANDEM_INSTANCE_OF(host::update<T, AverageUpdate<T, 2>>)

// Tensors of a checkpoint and sums over ranks, by the type of weights.
#define TANDEM_WEIGHTS_OF(P)                      \
  TANDEM_INSTANCE_OF(detail::saved_model<P>)      \
  TANDEM_INSTANCE_OF(detail::named_parameters<P>) \
  TANDEM_INSTANCE_OF(read_parameters<P>)          \
  TANDEM_INSTANCE_OF(detail::read_model<P>)       \
  TANDEM_INSTANCE_OF(detail::take_plan<P>)        \
  TANDEM_INSTANCE class ParametersElsewhere<P>;   \
  TANDEM_INSTANCE struct LoadedCheckpoint<P>;     \
  TANDEM_INSTANCE_OF(initialize<P>)               \
  TANDEM_INSTANCE_OF(reduce_in_tree<P, Sum>)

// A device's memory, by the types of an element and of weights.
#define TANDEM_MEMORY_OF(T, P) TANDEM_INSTANCE class OperandTables<T, P>;

// Kernels on images whose channels are next to each other.
#define TANDEM_CHANNELS_OF(T)                                                  \
  TANDEM_INSTANCE_OF(host::channels_last::attention_forward<T>)                \
  TANDEM_INSTANCE_OF(host::channels_last::attention_gradient<T>)               \
  TANDEM_INSTANCE_OF(host::channels_last::avg_pool_forward<T>)                 \
  TANDEM_INSTANCE_OF(host::channels_last::avg_pool_gradient<T>)                \
  TANDEM_INSTANCE_OF(host::channels_last::batch_norm_moments<T>)               \
  TANDEM_INSTANCE_OF(host::channels_last::batch_norm_apply<T>)                 \
  TANDEM_INSTANCE_OF(host::channels_last::batch_norm_gradient_sums<T>)         \
  TANDEM_INSTANCE_OF(host::channels_last::batch_norm_input_gradient<T>)        \
  TANDEM_INSTANCE_OF(host::channels_last::concat_forward<T>)                   \
  TANDEM_INSTANCE_OF(host::channels_last::concat_gradient<T>)                  \
  TANDEM_INSTANCE_OF(host::channels_last::dropout_forward<T>)                  \
  TANDEM_INSTANCE_OF(host::channels_last::dropout_gradient<T>)                 \
  TANDEM_INSTANCE_OF(host::channels_last::relu_forward<T>)                     \
  TANDEM_INSTANCE_OF(host::channels_last::relu_gradient<T>)                    \
  TANDEM_INSTANCE_OF(host::channels_last::global_avg_pool_forward<T>)          \
  TANDEM_INSTANCE_OF(host::channels_last::global_avg_pool_gradient<T>)         \
  TANDEM_INSTANCE_OF(host::channels_last::add_row_bias<T>)                     \
  TANDEM_INSTANCE_OF(host::channels_last::subsample_forward<T>)                \
  TANDEM_INSTANCE_OF(host::channels_last::subsample_gradient<T>)               \
  TANDEM_INSTANCE_OF(host::channels_last::vocabulary_rows<T>)                  \
  TANDEM_INSTANCE_OF(host::channels_last::convert<float, T>)                   \
  TANDEM_INSTANCE_OF(host::channels_last::to_channels_last<float, T>)          \
  TANDEM_INSTANCE_OF(host::channels_last::from_channels_last<T, float>)        \
  TANDEM_INSTANCE_OF(host::channels_last::max_pool_forward<T, unsigned char>)  \
  TANDEM_INSTANCE_OF(host::channels_last::max_pool_forward<T, int>)            \
  TANDEM_INSTANCE_OF(host::channels_last::max_pool_gradient<T, unsigned char>) \
  TANDEM_INSTANCE_OF(host::channels_last::max_pool_gradient<T, int>)

// Ops of the portable kernels, then of oneDNN.
#define TANDEM_OPS_OF(T)                                \
  TANDEM_INSTANCE class host::ConvolutionOp<T, false>;  \
  TANDEM_INSTANCE class host::ConvolutionOp<T, true>;   \
  TANDEM_INSTANCE class host::LinearOp<T, false>;       \
  TANDEM_INSTANCE class host::LinearOp<T, true>;        \
  TANDEM_INSTANCE class host::BatchNormOp<T>;           \
  TANDEM_INSTANCE class host::MaxPoolOp<T>;             \
  TANDEM_INSTANCE class host::EmbeddingOp<T, T>;        \
  TANDEM_INSTANCE class host::NormOp<T, T, true, true>; \
  TANDEM_INSTANCE class host::AttentionOp<T, T, host::AttentionByRow<T>>;

#define TANDEM_ONEDNN_OPS_OF(T)                          \
  TANDEM_INSTANCE_OF(onednn::column_sum<T>)              \
  TANDEM_INSTANCE class onednn::ConvolutionOp<T, false>; \
  TANDEM_INSTANCE class onednn::ConvolutionOp<T, true>;  \
  TANDEM_INSTANCE class onednn::LinearOp<T, false>;      \
  TANDEM_INSTANCE class onednn::LinearOp<T, true>;       \
  TANDEM_INSTANCE class host::channels_last::BatchNormOp<T>;

#define TANDEM_RANKS_OF(K, P)                                     \
  TANDEM_RANK_OF(SelfCommunicator, P::Master, BasicHost<K, P>)    \
  TANDEM_RANK_OF(SelfCommunicator, std::int32_t, BasicHost<K, P>) \
  TANDEM_RANK_OF(ThreadsCommunicator, P::Master, BasicHost<K, P>) \
  TANDEM_RANK_OF(ThreadsCommunicator, std::int32_t, BasicHost<K, P>)

// A trainer but for its network, its strategy and its dataset, by the type of its steps.
#define TANDEM_STEPS_OF(...)                       \
  TANDEM_INSTANCE class StepStream<__VA_ARGS__>;   \
  TANDEM_INSTANCE class WorkerGroup<__VA_ARGS__>;  \
  TANDEM_INSTANCE class Replicas<__VA_ARGS__>;     \
  TANDEM_INSTANCE class StepQueue<__VA_ARGS__>;    \
  TANDEM_INSTANCE class SavedWorkers<__VA_ARGS__>; \
  TANDEM_INSTANCE class EpochLoop<__VA_ARGS__>;    \
  TANDEM_INSTANCE class TrainerCore<__VA_ARGS__>;

namespace tandem {

// ---- part 2: memory, ranks and steps -----------------------------------------------------------

#if TANDEM_IMPL_HAS(2)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
TANDEM_RANKS_OF(Portable, Fp32)
TANDEM_RANKS_OF(Portable, Fp64)
TANDEM_WEIGHTS_OF(float)
TANDEM_WEIGHTS_OF(double)
TANDEM_MEMORY_OF(float, float)
TANDEM_MEMORY_OF(double, double)
TANDEM_INSTANCE class BasicIdxFolder<Inflate>;
TANDEM_INSTANCE class BatchLoader<float, std::int32_t>;
TANDEM_INSTANCE class BatchLoader<float, float>;
TANDEM_INSTANCE class BatchLoader<double, std::int32_t>;
TANDEM_INSTANCE class BatchLoader<double, float>;
TANDEM_INSTANCE class BatchLoader<std::int32_t, std::int32_t>;
TANDEM_STEPS_OF(StepBatch<float, std::int32_t, float>)
TANDEM_STEPS_OF(StepBatch<float, std::int32_t, std::int32_t>)
TANDEM_STEPS_OF(StepBatch<float, float, float>)
TANDEM_STEPS_OF(StepBatch<double, std::int32_t, double>)
TANDEM_STEPS_OF(StepBatch<double, std::int32_t, std::int32_t>)
TANDEM_STEPS_OF(StepBatch<double, float, double>)
#if defined(TANDEM_ONEDNN)
TANDEM_RANKS_OF(OneDnn, Fp32)
TANDEM_RANKS_OF(OneDnn, Bf16)
TANDEM_MEMORY_OF(BFloat16, float)
#endif
#undef TANDEM_INSTANCE

// ---- part 3: portable kernels and their ops ----------------------------------------------------

#if TANDEM_IMPL_HAS(3)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
TANDEM_KERNELS_OF(float)
TANDEM_KERNELS_OF(double)
TANDEM_INSTANCE_OF(host::channels_last::sum<float>)
TANDEM_OPS_OF(float)
TANDEM_OPS_OF(double)
#undef TANDEM_INSTANCE

// ---- part 4: those of oneDNN -------------------------------------------------------------------

#if defined(TANDEM_ONEDNN)
#if TANDEM_IMPL_HAS(4)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif
TANDEM_ONEDNN_OPS_OF(float)
TANDEM_ONEDNN_OPS_OF(BFloat16)
TANDEM_CHANNELS_OF(float)
TANDEM_CHANNELS_OF(BFloat16)
TANDEM_INSTANCE_OF(host::channels_last::sum<BFloat16>)
#undef TANDEM_INSTANCE
#endif

}  // namespace tandem

#undef TANDEM_STEPS_OF
#undef TANDEM_RANK_OF
#undef TANDEM_RANKS_OF
#undef TANDEM_ONEDNN_OPS_OF
#undef TANDEM_OPS_OF
#undef TANDEM_CHANNELS_OF
#undef TANDEM_MEMORY_OF
#undef TANDEM_WEIGHTS_OF
#undef TANDEM_KERNELS_OF
#undef TANDEM_INSTANCE_OF
#undef TANDEM_IMPL_HAS
