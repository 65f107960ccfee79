// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What an asynchronous pipeline asks of its backend and of a trainer's options.

#include <type_traits>
#include <variant>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/optim/optimizer.hpp>
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

/// @throws ContractError  an option that asynchronous training cannot have
TANDEM_ONCE void check_asynchrony(Asynchrony const& asynchrony, TrainerOptions const& options);

/// @throws ContractError  steps are not apart from each other
TANDEM_ONCE void check_traceable(Asynchrony const& asynchrony);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_asynchrony(Asynchrony const& asynchrony, TrainerOptions const& options) {
  if (!asynchrony.on()) {
    return;
  }
  expects(options.rows.empty(),
          "TrainerOptions: .rows cannot be given for an asynchronous pipeline, which has no table "
          "of one step; leave them out");
  expects(options.world.processes == 1,
          "TrainerOptions: an asynchronous pipeline runs in one process, which says when a step is "
          "done: start the program as one, or take a synchronous schedule such as OneFOneB");
  Sgd const* const sgd = std::get_if<Sgd>(&options.optimizer);
  expects(asynchrony.weights != WeightRule::predicted || (sgd != nullptr && sgd->states() > 0),
          "TrainerOptions: WeightPrediction predicts with the momentum of Sgd: take .optimizer = "
          "Sgd{.momentum = 0.9F}, or another schedule");
}

TANDEM_ONCE void check_traceable(Asynchrony const& asynchrony) {
  expects(!asynchrony.on(),
          "trace_step(x, targets): an asynchronous pipeline has no step of its own to trace, since "
          "each device is at another one; take a synchronous schedule");
}

}  // namespace tandem

#endif
