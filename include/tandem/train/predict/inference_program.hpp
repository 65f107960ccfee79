// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// InferenceProgram: a network lowered for one device that never goes back, so that the engine's
/// plan has no gradients, no optimizer states, and values for as long as they are read.

#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tandem/graph/network.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/ops/null.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/options/default_metric.hpp>

namespace tandem {

namespace detail {

template <bool IsNetwork>
struct PredictorArguments {
  static constexpr bool value = true;
  static_assert(IsNetwork,
                "Predictor<Net, Backend>: the first is a network, such as struct Net : "
                "Network<Image<3, 32, 32>, Sequential<...>> {}; the backend, Host or Cuda, comes "
                "second, and there is no strategy");
};

template <bool IsSame>
struct TakesFrom {
  static constexpr bool value = true;
  static_assert(IsSame,
                "Predictor::take(trainer): the trainer's network has other parameters than this "
                "one; give the Predictor the trainer's Net");
};

/// The loss of what has no targets.
struct NoLoss {
  using Target = std::int32_t;
  static constexpr std::string_view name = "";
  static constexpr int targets(Shape /*output*/) { return 1; }
};

/// Nothing of it is trained: its parameters have the same names, and its layers are the same types.
template <class Net>
struct InferenceNetwork : Network<typename Net::input, Frozen<typename Net::body>> {};

template <class Net, class Backend>
using InferenceProgram =
    Program<InferenceNetwork<Net>, SingleDevice<>,
            static_cast<int>(sizeof(typename Backend::Master)), rewrites_of<Backend>()>;

/// A layer that gives losses asks for its own.
template <class Net>
using InferenceLoss =
    std::conditional_t<unchecked_graph<Net>.output().criterion, DefaultLoss<Net>, NoLoss>;

}  // namespace detail

template <class Backend>
  requires(!std::is_same_v<Backend, Null>)
struct LossOp<detail::NoLoss, Backend> : detail::NoOp {
  using detail::NoOp::NoOp;
};

}  // namespace tandem
