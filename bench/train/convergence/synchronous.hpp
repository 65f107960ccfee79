// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ModelParallel and CrossModelParallel under each rule.

#include "training.hpp"

namespace tandem::bench {

template <class Net, class Rule>
using Cross = CrossModelParallel<Rule, typename Net::First, typename Net::Second>;

template <class Net>
std::vector<Method> synchronous_methods() {
  return {method<Net, ModelParallel<typename Net::First, typename Net::Second>>("model_parallel",
                                                                                "ModelParallel"),
          method<Net, Cross<Net, AverageGradients>>("average_gradients", "AverageGradients", true),
          method<Net, Cross<Net, AverageWeights<>>>("average_weights", "AverageWeights<>", true),
          method<Net, Cross<Net, AverageWeightsAndState<>>>("average_weights_and_state",
                                                            "AverageWeightsAndState<>", true),
          method<Net, Cross<Net, AverageWeights<8>>>("average_weights_8", "AverageWeights<8>"),
          method<Net, Cross<Net, Overlapped<AverageWeights<>>>>(
              "overlapped", "Overlapped<AverageWeights<>>", true)};
}

}  // namespace tandem::bench
