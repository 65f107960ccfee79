// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What gradients of rows ask of a trainer's options.

#include <string>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// Rows that a step does not touch are left alone: which a dense update must do, too.
/// @throws ContractError  it would change them
TANDEM_ONCE TANDEM_COLD void check_row_gradients(GraphView network, TrainerOptions const& options);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_row_gradients(GraphView network, TrainerOptions const& options) {
  auto const averaged = averaged_parameters(network, options.groups, options.average);
  for (int p = 0; p < network.parameters; ++p) {
    GraphParameter const& own = network.parameter[p];
    if (own.frozen || !own.parameter.touched.sparse()) {
      continue;
    }
    auto const refuse = [&](std::string const& why) {
      throw ContractError{"TrainerOptions: the gradient of '" + parameter_name(network, p) +
                          "' is of the rows that a step touches (RowGradient), but " + why +
                          " changes the other rows, too; take it out, or leave RowGradient out of "
                          "the layer"};
    };
    int const g = group_of(network, p, options.groups);
    ParameterGroup const group =
        g >= 0 ? options.groups[static_cast<std::size_t>(g)] : ParameterGroup{};
    if (group.frozen) {
      continue;
    }
    double const decay = std::visit(
        [&](auto const& o) { return double{group.weight_decay.value_or(o.weight_decay)}; },
        options.optimizer);
    if (Sgd const* const sgd = std::get_if<Sgd>(&options.optimizer)) {
      if (sgd->states() > 0) {
        refuse("the momentum of Sgd");
      }
    } else if (auto const* const any = std::get_if<OwnOptimizer>(&options.optimizer)) {
      if (!any->type->keeps_untouched) {
        refuse(optimizer_name(options.optimizer) + ", which does not say `keeps_untouched`,");
      }
    } else {
      refuse(optimizer_name(options.optimizer));
    }
    if (decay != 0.0) {
      refuse("weight decay");
    }
    if (averaged[static_cast<std::size_t>(p)]) {
      refuse("an average of the weights, whose average.pattern it matches,");
    }
  }
}

}  // namespace tandem

#endif
