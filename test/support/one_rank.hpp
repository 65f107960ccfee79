// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One rank for all strategies of a unit, which has many.

#include <tandem/cuda.cuh>

namespace tandem {

template <class Kernels, class Precision, class Communicator, class Batch>
inline constexpr bool rank_is_shared<BasicCuda<Kernels, Precision>, Communicator, Batch> = true;
template <class Kernels, class Precision, class Communicator, class Batch>
inline constexpr bool rank_is_shared<BasicHost<Kernels, Precision>, Communicator, Batch> = true;

}  // namespace tandem
