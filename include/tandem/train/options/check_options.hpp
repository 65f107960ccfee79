// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// checked(): TrainerOptions that are within their bounds.

#include <type_traits>
#include <utility>
#include <variant>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/train/options/check_rates.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/ranks/program_facts.hpp>

namespace tandem {

/// @throws ContractError  an option is out of range, or there is no folder to save in
TANDEM_ONCE void check_checkpoints(Checkpoints const& when);

/// @throws ContractError  an option is out of range, or the strategy cannot do it, or a parameter
/// group matches nothing
TANDEM_ONCE TANDEM_COLD TrainerOptions checked(ProgramFacts const& facts, TrainerOptions options);

/// The same, with what depends on the backend.
/// @throws ContractError  the optimizer was made for another backend
template <class Backend>
TANDEM_COLD TrainerOptions bound(TrainerOptions options) {
  if (!options.loss_scaling.has_value()) {
    bool const narrow = std::is_same_v<typename Backend::Scalar, Float16>;
    options.loss_scaling = narrow ? LossScaling{} : LossScaling::off();
  }
  if (auto const* const own = std::get_if<OwnOptimizer>(&options.optimizer)) {
    static_cast<void>(bound_to<Backend>(*own));
  }
  return options;
}

TANDEM_ONCE TANDEM_COLD TrainerOptions with_optimizer(TrainerOptions options, Optimizer optimizer);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_checkpoints(Checkpoints const& when) {
  expects(when.every_steps >= 0,
          "TrainerOptions: checkpoints.every_steps must be 0 (none) or more");
  expects(when.every_seconds >= 0.0 && is_finite(when.every_seconds),
          "TrainerOptions: checkpoints.every_seconds must be 0 (none) or a finite number above");
  expects(when.keep >= 1, "TrainerOptions: checkpoints.keep must be 1 or more");
  expects(when.on() || (when.every_steps == 0 && when.every_seconds == 0.0 && !when.on_signals),
          "TrainerOptions: checkpoints say when to save, but not where; give checkpoints.folder");
  expects(!when.on() || when.folder.obey() != nullptr,
          "TrainerOptions: give checkpoints.folder a whole path, not letters one by one");
}

TANDEM_ONCE TrainerOptions checked(ProgramFacts const& facts, TrainerOptions options) {
  GraphView const network = facts.tables().network;
  expects(options.batch >= 1, "TrainerOptions: batch must be 1 or more");
  expects(options.threads_per_device >= 0,
          "TrainerOptions: threads_per_device must be 0 (shared out) or more");
  expects(options.loader_threads >= 1 && options.loader_threads <= 256,
          "TrainerOptions: loader_threads must be from 1 to 256");
  check_loss_scaling(options.loss_scaling.value_or(LossScaling::off()));
  expects(options.timeout.count() >= 0, "TrainerOptions: timeout must be 0 (no limit) or more");
  expects(options.cuda.branches >= 1 && options.cuda.branches <= 8,
          "TrainerOptions: cuda.branches must be from 1 (branches run one after another) to 8");
  check_checkpoints(options.checkpoints);
  check_rates(options);
  check_groups(network, options.groups);
  check_average(network, options.groups, options.average);
  if (facts.check_strategy != nullptr) {
    facts.check_strategy(facts.tables(), facts.asynchrony, options);
  }
  return options;
}

TANDEM_ONCE TrainerOptions with_optimizer(TrainerOptions options, Optimizer optimizer) {
  options.optimizer = std::move(optimizer);
  return options;
}

}  // namespace tandem

#endif
