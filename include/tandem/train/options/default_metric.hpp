// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DefaultMetric: what a trainer counts unless it is told otherwise.

#include <type_traits>

#include <tandem/layers/loss.hpp>
#include <tandem/ops/host/user_layer.hpp>

namespace tandem {

/// Accuracy where targets are labels, nothing otherwise.
template <class LossType>
using DefaultMetric =
    std::conditional_t<std::is_integral_v<typename LossType::Target>, Accuracy, NoMetric>;

}  // namespace tandem
