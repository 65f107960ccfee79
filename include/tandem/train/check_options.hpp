// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// checked(): TrainerOptions that are within their bounds.

#include <tandem/core/contract.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/train/options.hpp>

namespace tandem {

/// @throws ContractError  an option is out of range, or a parameter group matches nothing
template <GraphSize Size>
TrainerOptions checked(TrainerOptions options, Graph<Size> const& graph) {
  expects(options.batch >= 1, "TrainerOptions: batch must be 1 or more");
  expects(options.clip_norm >= 0.0, "TrainerOptions: clip_norm must be 0 (off) or more");
  expects(options.threads_per_device >= 0,
          "TrainerOptions: threads_per_device must be 0 (shared out) or more");
  check_groups(graph, options.groups);
  return options;
}

}  // namespace tandem
