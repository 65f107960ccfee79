// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ProfiledTrainer: devices that train a network on noise and say what each step took.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/measure/profile/backend.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/plan/cost/profile.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/train/trainer.hpp>

namespace tandem {

/// What is measured.
struct ProfileOptions {
  std::vector<int> samples{8, 16, 32};  ///< microbatches, ascending
  int rounds = 5;                       ///< of profile(); medians are taken over them
  int threads = 1;                      ///< of a device
  Optimizer optimizer = Sgd{.learning_rate = 0.001F, .momentum = 0.9F};
  std::size_t message_bytes = std::size_t{1} << 24;  ///< the larger of two that are sent
};

/// What a step took, of one device.
struct StepTimes {
  PassClock clock{};
  double seconds = 0;  ///< of the whole step, by the caller's clock

  /// Of all nodes.
  TANDEM_ONCE [[nodiscard]] double passes() const;
};

/// Of all devices, of which there is one or more, in seconds: they wait for each other before the
/// update and at the end.
struct StepParts {
  double passes = 0;  ///< of the slowest device
  double update = 0;
  double rest = 0;  ///< what is neither

  TANDEM_ONCE explicit StepParts(std::span<StepTimes const> devices);
};

namespace detail {

/// What a profile says of node @p n of a network whatever the device.
TANDEM_ONCE ProfiledNode profiled_node(GraphView graph, int n, std::size_t scalar_bytes,
                                       std::size_t master_bytes);

}  // namespace detail

/// Trains in steps of two microbatches a device, so that the second one's gradients are added to
/// the first one's.
/// @tparam Strategy  of Microbatches<2>, each device with the whole network
template <class Net, class Strategy, class Backend, class LossType>
class ProfiledTrainer {
  using TrainerType = Trainer<Net, Strategy, Profiled<Backend>, LossType>;
  using In = typename TrainerType::In;
  using Target = typename TrainerType::Target;
  using Workers = typename TrainerType::Workers;

 public:
  static constexpr int devices = TrainerType::ProgramType::ranks;

  /// @param samples  of a microbatch
  ProfiledTrainer(int samples, ProfileOptions const& options)
      : trainer_{{.batch = 2 * devices * samples,
                  .optimizer = options.optimizer,
                  .threads_per_device = options.threads}},
        x_(static_cast<std::size_t>(2 * devices * samples * TrainerType::input.elements())),
        y_(static_cast<std::size_t>(2 * devices * samples *
                                    LossType::targets(TrainerType::output))) {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      std::uint32_t const random = philox(1, RandomUse::user, i, 0).word[0];
      if constexpr (std::is_integral_v<In>) {  // indices
        x_[i] = static_cast<In>(random % static_cast<std::uint32_t>(graph<Net>.node[0].limit));
      } else {
        x_[i] = static_cast<In>(uniform(random) - 0.5F);
      }
    }
    if constexpr (std::is_integral_v<Target>) {  // labels
      Node const& last = graph<Net>.output();
      std::int64_t const classes = last.criterion ? last.limit : last.out.elements();
      for (std::size_t i = 0; i < y_.size(); ++i) {
        y_[i] = static_cast<Target>(static_cast<std::int64_t>(i) % classes);
      }
    }
  }

  std::array<StepTimes, static_cast<std::size_t>(devices)> step() {
    for (int device = 0; device < devices; ++device) {
      clock(device).clear();
    }
    double const seconds = detail::seconds_of([&] { trainer_.step(x_, y_); });
    std::array<StepTimes, static_cast<std::size_t>(devices)> times;
    for (int device = 0; device < devices; ++device) {
      times[static_cast<std::size_t>(device)] = {clock(device), seconds};
    }
    return times;
  }

 private:
  PassClock& clock(int device) {
    using Rank = typename Workers::template RankOf<0>;
    return static_cast<Rank&>(trainer_.workers().rank(device)).device().clock;
  }

  TrainerType trainer_;
  std::vector<In> x_;
  std::vector<Target> y_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE ProfiledNode profiled_node(GraphView graph, int n, std::size_t scalar_bytes,
                                       std::size_t master_bytes) {
  Node const& node = graph.node[n];
  ProfiledNode result{
      .name = node.kind == NodeKind::input ? std::string{"input"}
                                           : to_string(node.path) + " " + std::string{node.name},
      .part = node.top,
      .output_bytes = node.out.elements() * static_cast<std::int64_t>(scalar_bytes)};
  for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
    result.parameter_bytes +=
        graph.parameter[p].parameter.shape.elements() * static_cast<std::int64_t>(master_bytes);
  }
  int const* const sources = graph.source + node.first_edge;
  result.inputs.assign(sources, sources + node.edges);
  std::sort(result.inputs.begin(), result.inputs.end());
  result.inputs.erase(std::unique(result.inputs.begin(), result.inputs.end()), result.inputs.end());
  return result;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double StepTimes::passes() const {
  double sum = 0;
  for (NodeSeconds const& node : clock.node) {
    sum += node.forward + node.input_gradient + node.weight_gradient + node.added_gradient;
  }
  return sum;
}

TANDEM_ONCE StepParts::StepParts(std::span<StepTimes const> devices) {
  for (StepTimes const& device : devices) {
    passes = std::max(passes, device.passes());
    update = std::max(update, device.clock.update);
  }
  rest = std::max(devices.front().seconds - passes - update, 0.0);
}

}  // namespace tandem

#endif
