// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// checked(): TrainerOptions that are within their bounds.

#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/train/options/check_asynchrony.hpp>
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
  DeviceTables const& tables = facts.tables();
  bool const asynchronous = facts.asynchrony.on();
  expects(options.batch >= 1, "TrainerOptions: batch must be 1 or more");
  expects(options.threads_per_device >= 0,
          "TrainerOptions: threads_per_device must be 0 (shared out) or more");
  expects(options.loader_threads >= 1 && options.loader_threads <= 256,
          "TrainerOptions: loader_threads must be from 1 to 256");
  bool const clips = options.clip_norm != 0.0 || clips_apart(options.groups);
  expects(!clips || !tables.averaging.keeps_two(),
          "TrainerOptions: clip_norm is for the one gradient of a batch, but with this averaging "
          "rule each of two models has its own; leave clip_norm at 0, or take AverageGradients");
  expects(!clips || !asynchronous,
          "TrainerOptions: clip_norm needs the whole gradient before any update, but an "
          "asynchronous pipeline updates each stage as soon as it can; leave clip_norm at 0, or "
          "take a synchronous schedule");
  check_loss_scaling(options.loss_scaling.value_or(LossScaling::off()));
  bool const scales = options.loss_scaling.has_value() && options.loss_scaling->on();
  expects(!scales || !tables.averaging.keeps_two(),
          "TrainerOptions: loss_scaling skips the step of a gradient that is not finite, but with "
          "this averaging rule each of two models has its own; give LossScaling::off(), with Bf16 "
          "in place of Fp16, or take AverageGradients");
  expects(!scales || !asynchronous,
          "TrainerOptions: loss_scaling skips the step of a gradient that is not finite, but an "
          "asynchronous pipeline updates each stage before it has seen the others' gradients; "
          "leave loss_scaling out, or take a synchronous schedule");
  expects(options.timeout.count() >= 0, "TrainerOptions: timeout must be 0 (no limit) or more");
  expects(options.cuda.branches >= 1 && options.cuda.branches <= 8,
          "TrainerOptions: cuda.branches must be from 1 (branches run one after another) to 8");
  check_checkpoints(options.checkpoints);
  check_rates(options);
  check_groups(tables.network, options.groups);
  check_average(tables.network, options.groups, options.average);
  expects(!options.average.on() || !tables.averaging.keeps_two(),
          "TrainerOptions: average is of the weights of one model, but with this averaging rule "
          "each of two has its own; leave average out, or take AverageGradients");
  expects(
      !options.average.on() || !asynchronous,
      "TrainerOptions: average is of the weights after each step, but an asynchronous pipeline "
      "has weights of several steps at once; leave average out, or take a synchronous schedule");
  check_asynchrony(facts.asynchrony, options);
  expects(!tables.post_validated || options.world.processes == 1,
          "TrainerOptions: a PostValidated schedule runs in one process, which says whether a step "
          "follows another at once: start the program as one, or leave PostValidated out");
  expects(!tables.sharded_state || !is_by_tensor(options.optimizer),
          "TrainerOptions: this optimizer, as Lamb, takes norms of whole parameters, but with "
          "ShardedState each rank updates a part of them; take AdamW, or leave ShardedState out");
  expects(!tables.sharded_gradients || !tables.batching.reproducible || options.rows.empty(),
          "TrainerOptions: .rows may have several microbatches, which ShardedGradients adds up in "
          "another order than Reproducible<>; leave .rows out, or take ShardedState");
  expects(tables.layer_slices == 1 || !is_by_tensor(options.optimizer),
          "TrainerOptions: this optimizer, as Lamb, takes norms of whole parameters, but with "
          "TensorParallel each device has a slice of some, and with Slices several; take AdamW, or "
          "another strategy");
  if (facts.check_row_gradients != nullptr) {
    facts.check_row_gradients(tables.network, options);
  }
  return options;
}

TANDEM_ONCE TrainerOptions with_optimizer(TrainerOptions options, Optimizer optimizer) {
  options.optimizer = std::move(optimizer);
  return options;
}

}  // namespace tandem

#endif
