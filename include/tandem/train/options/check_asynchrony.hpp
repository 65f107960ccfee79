// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What asynchronous pipelines, and strategies that deal out parameters or layers, ask of their
/// backend and of a trainer's options.

#include <string>
#include <type_traits>
#include <variant>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/runtime/host/host.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

namespace detail {

template <class Backend>
constexpr bool is_host() {
  if constexpr (requires { typename Backend::Device; }) {
    return std::is_same_v<typename Backend::Device, host::Device>;
  } else {
    return false;
  }
}

/// Whether a backend's ops take OpSetup::slice, and sum over slices what a graph says; others than
/// Host say so themselves.
template <class Backend>
constexpr bool shares_layers() {
  if constexpr (requires { Backend::shares_layers; }) {
    return bool{Backend::shares_layers};
  } else {
    return is_host<Backend>();
  }
}

/// Whether a backend's convolutions and pools take tiles with their halos, as own_geometry() says,
/// and it has an op for TileExchange; likewise.
template <class Backend>
constexpr bool computes_tiles() {
  if constexpr (requires { Backend::deals_tiles; }) {
    return bool{Backend::deals_tiles};
  } else {
    return is_host<Backend>();
  }
}

/// Whether such a backend's ops take a rank's rows of all samples as one sample's; likewise.
template <class Backend>
constexpr bool computes_rows() {
  if constexpr (requires { Backend::deals_rows; }) {
    return bool{Backend::deals_rows} && shares_layers<Backend>();
  } else {
    return is_host<Backend>();
  }
}

/// Whether a backend's Update and mirror take a part of the optimizer's states; likewise.
template <class Backend>
constexpr bool deals_states() {
  if constexpr (requires { Backend::deals_states; }) {
    return bool{Backend::deals_states};
  } else {
    return is_host<Backend>();
  }
}

/// Whether they take a part of the gradients, too; likewise.
template <class Backend>
constexpr bool deals_gradients() {
  if constexpr (requires { Backend::deals_gradients; }) {
    return bool{Backend::deals_gradients};
  } else {
    return is_host<Backend>();
  }
}

/// Whether such a backend's ops go through chunks of time, see SequencePass::rows_in_all; likewise.
template <class Backend>
constexpr bool computes_chunks() {
  if constexpr (requires { Backend::takes_chunks; }) {
    return bool{Backend::takes_chunks};
  } else {
    return is_host<Backend>();
  }
}

template <bool Asynchronous, class Backend>
struct AsynchronyRuns {
  static constexpr bool value = true;
  static_assert(!Asynchronous || is_host<Backend>(),
                "Trainer: asynchronous pipelines (PipeDream and its kin) run on Host; take Host, "
                "or a synchronous schedule such as OneFOneB");
};

template <bool Sharded, class Backend>
struct ShardedStateRuns {
  static constexpr bool value = true;
  static_assert(!Sharded || deals_states<Backend>(),
                "Trainer: ShardedState runs on Host and Cuda, and on a backend that says `static "
                "constexpr bool deals_states = true`; take one of these, or leave it out");
};

template <bool Sharded, class Backend>
struct ShardedGradientsRun {
  static constexpr bool value = true;
  static_assert(!Sharded || deals_gradients<Backend>(),
                "Trainer: ShardedGradients runs on Host and Cuda, and on a backend that says "
                "`static constexpr bool deals_gradients = true`; take one of these, or leave "
                "ShardedGradients out");
};

/// Whether they take a part of the parameters, too; likewise, and Host where products read these in
/// the type in which they are kept.
template <class Backend>
constexpr bool deals_parameters() {
  if constexpr (requires { Backend::deals_parameters; }) {
    return bool{Backend::deals_parameters};
  } else if constexpr (is_host<Backend>()) {
    return std::is_same_v<typename Backend::Scalar, typename Backend::Master>;
  } else {
    return false;
  }
}

template <bool Sharded, class Backend>
struct ShardedParametersRun {
  static constexpr bool value = true;
  static_assert(!Sharded || deals_parameters<Backend>(),
                "Trainer: ShardedParameters runs on Cuda, on Host with Fp32 or Fp64, and on a "
                "backend that says `static constexpr bool deals_parameters = true`; take one of "
                "these, or ShardedState");
};

template <bool DealsRows, class Backend>
struct SequenceRowsRun {
  static constexpr bool value = true;
  static_assert(
      !DealsRows || computes_rows<Backend>(),
      "Trainer: SequenceRows runs on Host and Cuda, and on a backend that says `static constexpr "
      "bool deals_rows = true` and shares_layers; take one of these, or leave SequenceRows out");
};

template <bool Sliced, class Backend>
struct SlicesRun {
  static constexpr bool value = true;
  static_assert(
      !Sliced || shares_layers<Backend>(),
      "Trainer: TensorParallel and Slices run on Host and Cuda, and on a backend that says `static "
      "constexpr bool shares_layers = true`; take one of these, or another strategy");
};

template <bool InChunks, class Backend>
struct ChunksRun {
  static constexpr bool value = true;
  static_assert(
      !InChunks || computes_chunks<Backend>(),
      "Trainer: Chunks run on Host and Cuda, and on a backend that says `static constexpr "
      "bool takes_chunks = true`; take one of these, or leave Chunks out");
};

template <bool Tiled, class Backend>
struct TilesRun {
  static constexpr bool value = true;
  static_assert(
      !Tiled || computes_tiles<Backend>(),
      "Trainer: SpatialParallel runs on Host and Cuda, and on a backend that says `static "
      "constexpr "
      "bool deals_tiles = true`; take one of these, or DataParallel, ModelParallel or Pipeline");
};

/// In place of a backend for which one of these has said no: of it nothing more is asked, and it
/// computes nothing.
struct RefusedBackend {};

template <bool Runs, class Backend>
using AskedBackend = std::conditional_t<Runs, Backend, RefusedBackend>;

}  // namespace detail

/// Rows that a step does not touch are left alone: which a dense update must do, too.
/// @throws ContractError  it would change them
TANDEM_ONCE TANDEM_COLD void check_row_gradients(GraphView network, TrainerOptions const& options);

/// What the strategy of @p device asks of a trainer's options, where it trains more than one model
/// of one version, or devices have parts of parameters, or of their states or gradients.
/// @throws ContractError  an option that it cannot have
TANDEM_ONCE TANDEM_COLD void check_strategy(DeviceTables const& device,
                                            Asynchrony const& asynchrony,
                                            TrainerOptions const& options);

/// @throws ContractError  steps are not apart from each other
TANDEM_ONCE void check_traceable(Asynchrony const& asynchrony);

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

TANDEM_ONCE void check_strategy(DeviceTables const& device, Asynchrony const& asynchrony,
                                TrainerOptions const& options) {
  bool const keeps_two = device.averaging.keeps_two();
  bool const clips = options.clip_norm != 0.0 || clips_apart(options.groups);
  expects(!clips || !keeps_two,
          "TrainerOptions: clip_norm is for the one gradient of a batch, but with this averaging "
          "rule each of two models has its own; leave clip_norm at 0, or take AverageGradients");
  expects(!clips || !asynchrony.on(),
          "TrainerOptions: clip_norm needs the whole gradient before any update, but an "
          "asynchronous pipeline updates each stage as soon as it can; leave clip_norm at 0, or "
          "take a synchronous schedule");
  bool const scales = options.loss_scaling.has_value() && options.loss_scaling->on();
  expects(!scales || !keeps_two,
          "TrainerOptions: loss_scaling skips the step of a gradient that is not finite, but with "
          "this averaging rule each of two models has its own; give LossScaling::off(), with Bf16 "
          "in place of Fp16, or take AverageGradients");
  expects(!scales || !asynchrony.on(),
          "TrainerOptions: loss_scaling skips the step of a gradient that is not finite, but an "
          "asynchronous pipeline updates each stage before it has seen the others' gradients; "
          "leave loss_scaling out, or take a synchronous schedule");
  expects(!options.average.on() || !keeps_two,
          "TrainerOptions: average is of the weights of one model, but with this averaging rule "
          "each of two has its own; leave average out, or take AverageGradients");
  expects(
      !options.average.on() || !asynchrony.on(),
      "TrainerOptions: average is of the weights after each step, but an asynchronous pipeline "
      "has weights of several steps at once; leave average out, or take a synchronous schedule");
  expects(!asynchrony.on() || options.rows.empty(),
          "TrainerOptions: .rows cannot be given for an asynchronous pipeline, which has no table "
          "of one step; leave them out");
  expects(!asynchrony.on() || options.world.processes == 1,
          "TrainerOptions: an asynchronous pipeline runs in one process, which says when a step is "
          "done: start the program as one, or take a synchronous schedule such as OneFOneB");
  bool const predicts = asynchrony.on() && asynchrony.weights == WeightRule::predicted;
  Sgd const* const sgd = std::get_if<Sgd>(&options.optimizer);
  expects(!predicts || (sgd != nullptr && sgd->states() > 0),
          "TrainerOptions: WeightPrediction predicts with the momentum of Sgd: take .optimizer = "
          "Sgd{.momentum = 0.9F}, or another schedule");
  expects(!device.post_validated || options.world.processes == 1,
          "TrainerOptions: a PostValidated schedule runs in one process, which says whether a step "
          "follows another at once: start the program as one, or leave PostValidated out");
  expects(!device.sharded_state || !is_by_tensor(options.optimizer),
          "TrainerOptions: this optimizer, as Lamb, takes norms of whole parameters, but with "
          "ShardedState each rank updates a part of them; take AdamW, or leave ShardedState out");
  expects(!device.sharded_gradients || !device.batching.reproducible || options.rows.empty(),
          "TrainerOptions: .rows may have several microbatches, which ShardedGradients adds up in "
          "another order than Reproducible<>; leave .rows out, or take ShardedState");
  expects(device.layer_slices == 1 || !is_by_tensor(options.optimizer),
          "TrainerOptions: this optimizer, as Lamb, takes norms of whole parameters, but with "
          "TensorParallel each device has a slice of some, and with Slices several; take AdamW, or "
          "another strategy");
  check_row_gradients(device.network, options);
}

TANDEM_ONCE void check_traceable(Asynchrony const& asynchrony) {
  expects(!asynchrony.on(),
          "trace_step(x, targets): an asynchronous pipeline has no step of its own to trace, since "
          "each device is at another one; take a synchronous schedule");
}

}  // namespace tandem

#endif
