// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ProfiledDevice: a device that trains a network on noise and says what each step took.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/core/philox.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/plan/profile.hpp>
#include <tandem/strategy/data_parallel.hpp>
#include <tandem/train/profile_backend.hpp>
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

/// What a step took.
struct StepTimes {
  PassClock clock{};
  double seconds = 0;  ///< by the caller's clock

  /// Of all nodes.
  [[nodiscard]] double passes() const {
    double sum = 0;
    for (NodeSeconds const& node : clock.node) {
      sum += node.forward + node.input_gradient + node.weight_gradient + node.added_gradient;
    }
    return sum;
  }
  /// What is neither a node's nor the update's.
  [[nodiscard]] double rest() const {
    return std::max(seconds - clock.update - clock.forks - passes(), 0.0);
  }
};

namespace detail {

/// What a profile says of node @p n of a network whatever the device.
template <class = void>  // compiled where it is called, not by every include
ProfiledNode profiled_node(GraphView graph, int n, std::size_t scalar_bytes,
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

}  // namespace detail

/// Trains in steps of two microbatches, so that the second one's gradients are added to the first
/// one's.
template <class Net, class Backend, Loss LossType>
class ProfiledDevice {
  using TrainerType = Trainer<Net, SingleDevice<Microbatches<2>>, Profiled<Backend>, LossType>;
  using P = typename TrainerType::T;
  using Target = typename TrainerType::Target;

 public:
  /// @param batch  samples of a step
  ProfiledDevice(int batch, ProfileOptions const& options)
      : trainer_{{.batch = batch,
                  .optimizer = options.optimizer,
                  .threads_per_device = options.threads}},
        x_(static_cast<std::size_t>(batch * TrainerType::input.elements())),
        y_(static_cast<std::size_t>(batch * LossType::targets(TrainerType::output))) {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] = static_cast<P>(uniform(philox(1, RandomUse::user, i, 0).word[0]) - 0.5F);
    }
    if constexpr (std::is_integral_v<Target>) {  // labels
      for (std::size_t i = 0; i < y_.size(); ++i) {
        y_[i] = static_cast<Target>(static_cast<std::int64_t>(i) % TrainerType::output.elements());
      }
    }
  }

  StepTimes step() {
    using Rank = typename TrainerType::Workers::template RankOf<0>;
    PassClock& clock = static_cast<Rank&>(trainer_.workers().rank(0)).device().clock;
    clock.clear();
    double const seconds = detail::seconds_of([&] { trainer_.step(x_, y_); });
    return {clock, seconds};
  }

 private:
  TrainerType trainer_;
  std::vector<P> x_;
  std::vector<Target> y_;
};

}  // namespace tandem
