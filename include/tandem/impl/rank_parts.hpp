// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a rank has of its backend alone, compiled in the unit of bodies for ranks whose
/// communicators that unit does not know: tandem/mpi.hpp's.

#include <tandem/core/config.hpp>

#if defined(TANDEM_IMPL_UNIT)
#define TANDEM_INSTANCE template
#else
#define TANDEM_INSTANCE extern template
#endif

#define TANDEM_RANK_PARTS_OF(...)                                                                 \
  TANDEM_INSTANCE class CarriedChunks<__VA_ARGS__>;                                               \
  TANDEM_INSTANCE class CarriedRows<__VA_ARGS__>;                                                 \
  TANDEM_INSTANCE class CarriedStates<__VA_ARGS__>;                                               \
  TANDEM_INSTANCE class Feed<__VA_ARGS__, StepBatch<typename __VA_ARGS__::Master, std::int32_t>>; \
  TANDEM_INSTANCE class ModelExchange<__VA_ARGS__>;                                               \
  TANDEM_INSTANCE class NodePasses<__VA_ARGS__>;                                                  \
  TANDEM_INSTANCE class ParameterMemory<__VA_ARGS__>;                                             \
  TANDEM_INSTANCE class PartialSums<__VA_ARGS__>;                                                 \
  TANDEM_INSTANCE class RankMemory<__VA_ARGS__>;                                                  \
  TANDEM_INSTANCE class RowGradients<__VA_ARGS__>;                                                \
  TANDEM_INSTANCE class StepAverage<__VA_ARGS__>;                                                 \
  TANDEM_INSTANCE class StepRunner<__VA_ARGS__>;                                                  \
  TANDEM_INSTANCE class StepSums<__VA_ARGS__>;                                                    \
  TANDEM_INSTANCE class TwinSums<__VA_ARGS__>;                                                    \
  TANDEM_INSTANCE class UndoCopy<__VA_ARGS__>;                                                    \
  TANDEM_INSTANCE class Update<__VA_ARGS__>;                                                      \
  TANDEM_INSTANCE class VersionUpdate<__VA_ARGS__>;                                               \
  TANDEM_INSTANCE decltype(make_ops<__VA_ARGS__>) make_ops<__VA_ARGS__>;                          \
  TANDEM_INSTANCE decltype(op_needs<__VA_ARGS__>) op_needs<__VA_ARGS__>;

namespace tandem {

TANDEM_RANK_PARTS_OF(BasicHost<Portable, Fp32>)
TANDEM_RANK_PARTS_OF(BasicHost<Portable, Fp64>)
#if defined(TANDEM_ONEDNN)
TANDEM_RANK_PARTS_OF(BasicHost<OneDnn, Fp32>)
TANDEM_RANK_PARTS_OF(BasicHost<OneDnn, Bf16>)
#endif

}  // namespace tandem

#undef TANDEM_RANK_PARTS_OF
#undef TANDEM_INSTANCE
