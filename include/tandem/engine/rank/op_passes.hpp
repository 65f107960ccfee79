// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How an op's passes are run: as one call each, or phase by phase with the other ranks.

#include <cstdint>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/ops/phases.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// One call each.
/// @tparam MayBeEmpty  whether its stage is called for microbatches without samples, too
template <bool MayBeEmpty>
struct WholePasses {
  template <class Pass>
  static bool is_empty(Pass const& pass) {
    return MayBeEmpty && pass.batch == 0;
  }

  template <class Host, class O, class Operands, class Pass>
  TANDEM_INLINE static void forward(Host& /*host*/, O& op, Operands const& operands,
                                    Pass const& pass) {
    if (!is_empty(pass)) {
      op.forward(operands, pass);
    }
  }
  template <class Host, class O, class Operands, class Pass>
  TANDEM_INLINE static void input_gradient(Host& /*host*/, O& op, Operands const& operands,
                                           Pass const& pass) {
    if (!is_empty(pass)) {
      op.input_gradient(operands, pass);
    }
  }
  template <class Host, class O, class Operands, class Pass>
  TANDEM_INLINE static void weight_gradient(Host& /*host*/, O& op, Operands const& operands,
                                            Pass const& pass) {
    if (!is_empty(pass)) {
      op.weight_gradient(operands, pass);
    }
  }

  /// Of an op that computes both gradients of a microbatch with less work than one by one.
  template <class Host, class O, class Operands, class Pass>
  TANDEM_INLINE static void both_gradients(Host& /*host*/, O& op, Operands const& operands,
                                           Pass const& pass) requires requires {
    op.both_gradients(operands, pass);
  }
  {
    if (!is_empty(pass)) {
      op.both_gradients(operands, pass);
    }
  }
};

/// Of an exchange of pixels, in halves between which the engine sends what there is to send.
template <bool MayBeEmpty>
struct ExchangePasses {
  template <class Host, class O, class Operands, class Pass>
  static void forward(Host& host, O& op, Operands const& operands, Pass const& pass) {
    if (!WholePasses<MayBeEmpty>::is_empty(pass)) {
      op.begin_forward(operands, pass);
      host.exchange_tiles(op.messages());
      op.finish_forward(operands, pass);
    }
  }
  template <class Host, class O, class Operands, class Pass>
  static void input_gradient(Host& host, O& op, Operands const& operands, Pass const& pass) {
    if (!WholePasses<MayBeEmpty>::is_empty(pass)) {
      op.begin_input_gradient(operands, pass);
      host.exchange_tiles(op.messages());
      op.finish_input_gradient(operands, pass);
    }
  }
};

/// Of an op whose node joins something with other ranks: its phases, also of a microbatch without
/// samples, which takes part in every collective in the order of the others.
/// @tparam LocalStage    of the node
/// @tparam Always        also in an evaluation; else that joins nothing
/// @tparam OverReplicas  sums are of those that share this rank's part of the model
/// @tparam OverTiles     and of those that have the other tiles of its images
template <class Backend, int LocalStage, bool Always, bool OverReplicas, bool OverTiles>
struct PhasedPasses {
  template <class Host, PhasedOp<Backend> O, class Pass>
  static void forward(Host& host, O& op, OperandsOf<Backend> const& operands, Pass const& pass) {
    if (Always || pass.training) {
      run(typename O::ForwardPhases{}, host, op, operands, pass);
    } else {
      WholePasses<true>::forward(host, op, operands, pass);
    }
  }
  template <class Host, PhasedOp<Backend> O, class Pass>
  static void input_gradient(Host& host, O& op, OperandsOf<Backend> const& operands,
                             Pass const& pass) {
    run(typename O::InputGradientPhases{}, host, op, operands, pass);
  }
  template <class Host, PhasedOp<Backend> O, class Pass>
  static void weight_gradient(Host& host, O& op, OperandsOf<Backend> const& operands,
                              Pass const& pass) {
    run(typename O::WeightGradientPhases{}, host, op, operands, pass);
  }

 private:
  template <class... Phase, class... Rest>
  static void run(Phases<Phase...> /*phases*/, Rest&... rest) {
    (phase(Phase{}, rest...), ...);
  }

  template <auto Run, class Host, class O, class Operands, class Pass>
  static void phase(Compute<Run> /*phase*/, Host& /*host*/, O& op, Operands const& operands,
                    Pass const& pass) {
    if (pass.batch > 0) {
      (op.*Run)(operands, pass);
    }
  }
  template <Axis A, Joined How, auto Data, class Host, class O, class Operands, class Pass>
  static void phase(Collective<A, How, Data> /*phase*/, Host& host, O& op, Operands const& operands,
                    Pass const& pass) {
    std::span<double> const data = (op.*Data)(operands);
    if (pass.batch == 0) {
      Verbs<Backend>::zero(pass.device, data.data(), static_cast<std::int64_t>(data.size()));
    }
    if constexpr (OverTiles) {
      host.join_tiles(data);
    }
    if constexpr (OverReplicas) {
      host.template join<A, How>(data, LocalStage);
    }
  }
  template <Axis A, auto Data, class Host, class O, class Operands, class Pass>
  static void phase(Gather<A, Data> /*phase*/, Host& host, O& op, Operands const& operands,
                    Pass const& pass) {
    host.template gather<A>((op.*Data)(operands, pass));
  }
};

}  // namespace tandem
