// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Profiler: measures a NetworkProfile on devices of this machine, by training steps.
///
/// Nodes are timed where they stand in a step, not one by one in loops, so that caches are as warm
/// as they are when it counts.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/plan/profile.hpp>
#include <tandem/plan/profile_json.hpp>
#include <tandem/train/atomic_file.hpp>
#include <tandem/train/launch.hpp>
#include <tandem/train/profile_backend.hpp>
#include <tandem/train/profile_device.hpp>
#include <tandem/train/profile_links.hpp>

namespace tandem {

/// Trains @p Net on noise, alone and beside a second device that does the same, in steps of two
/// microbatches of each size.
///
/// Not copyable, not movable.
template <class Net, class Backend = Host, Loss LossType = SoftmaxCrossEntropy<>>
class Profiler {
  using Clocked = Profiled<Backend>;
  using Device = ProfiledDevice<Net, Backend, LossType>;
  static constexpr auto const& graph = tandem::graph<Net>;

 public:
  /// Warms up with a step each.
  /// @throws ContractError  there are no sizes, or they are not positive and ascending
  explicit Profiler(ProfileOptions options = {}) : options_{std::move(options)} {
    bool sound = !options_.samples.empty() && options_.samples.front() >= 1;
    for (std::size_t i = 1; i < options_.samples.size(); ++i) {
      sound = sound && options_.samples[i] > options_.samples[i - 1];
    }
    expects(
        sound,
        "ProfileOptions: give samples one size of a microbatch or more, positive and ascending");
    for (int const samples : options_.samples) {
      sizes_.push_back(std::make_unique<Size>(samples, options_));
      static_cast<void>(both(*sizes_.back()));
    }
  }

  Profiler(Profiler const&) = delete;
  Profiler& operator=(Profiler const&) = delete;

  /// A step of each size, alone and together; every second time in the reverse order.
  void round() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      Size& size = *sizes_[round_ % 2 == 0 ? i : sizes_.size() - 1 - i];
      size.alone.push_back(size.first.step());
      std::array<StepTimes, 2> const times = both(size);
      size.together.insert(size.together.end(), times.begin(), times.end());
      size.slower.push_back(std::max(times[0].passes(), times[1].passes()));
    }
    ++round_;
  }

  /// Of the medians of all rounds so far.
  /// @pre there was a round
  [[nodiscard]] NetworkProfile profile() const {
    expects(round_ > 0, "Profiler::profile(): call round() before");
    MeasuredLinks const links = measure_links(21, options_.message_bytes);
    NetworkProfile profile{.backend = std::string{Clocked::name} + "-" + Clocked::KernelsType::name,
                           .precision = Clocked::PrecisionType::name,
                           .threads = options_.threads,
                           .samples = options_.samples,
                           .alone = times(&Size::alone),
                           .together = times(&Size::together),
                           .message = links.message,
                           .reduction = links.reduction};
    for (int n = 0; n < graph.nodes; ++n) {
      profile.node.push_back(node(n));
    }
    return profile;
  }

 private:
  struct Size {
    Size(int size, ProfileOptions const& options)
        : samples{size}, first{2 * size, options}, second{2 * size, options} {}

    int samples;
    Device first;
    Device second;
    std::vector<StepTimes> alone{};
    std::vector<StepTimes> together{};  // two each time
    std::vector<double> slower{};       // passes of the device that took longer
  };
  using List = std::vector<StepTimes> Size::*;

  // A step of two devices at once.
  std::array<StepTimes, 2> both(Size& size) {
    std::array<StepTimes, 2> times;
    threads_.run([&](int rank) {
      times[static_cast<std::size_t>(rank)] = (rank == 0 ? size.first : size.second).step();
    });
    return times;
  }

  template <class F>
  static double median_of(std::vector<StepTimes> const& steps, F const& value) {
    std::vector<double> values;
    for (StepTimes const& step : steps) {
      values.push_back(value(step));
    }
    return detail::median(std::move(values));
  }

  static double median_of(std::vector<StepTimes> const& steps, int n, double NodeSeconds::*pass) {
    return median_of(steps, [&](StepTimes const& step) {
      auto const place = static_cast<std::size_t>(n);
      return place < step.clock.node.size() ? step.clock.node[place].*pass : 0.0;
    });
  }

  // The line of medians; a step has @p count passes of the kind.
  [[nodiscard]] AffineTime line(List list, int n, double NodeSeconds::*pass, int count) const {
    std::vector<SampleTime> points;
    for (auto const& size : sizes_) {
      double const seconds = median_of(*size.*list, n, pass);
      points.push_back({static_cast<double>(size->samples), seconds / count});
    }
    return fit_affine(points);
  }

  // What a step's passes have taken, over what the lines of their nodes say. Devices that work
  // together wait for the slower one.
  [[nodiscard]] static double scale_of(Size const& size, List list, DeviceTimes const& times) {
    double fitted = 0;
    for (PassTimes const& node : times.node) {
      fitted += 2 * node.forward.of(size.samples) + 2 * node.input_gradient.of(size.samples) +
                node.weight_gradient.of(size.samples) + node.added_gradient.of(size.samples);
    }
    double const measured =
        list == &Size::together
            ? detail::median(size.slower)
            : median_of(size.*list, [](StepTimes const& step) { return step.passes(); });
    return fitted > 0 ? measured / fitted : 1;
  }

  [[nodiscard]] DeviceTimes times(List list) const {
    DeviceTimes times;
    for (int n = 0; n < graph.nodes; ++n) {
      times.node.push_back({.forward = line(list, n, &NodeSeconds::forward, 2),
                            .input_gradient = line(list, n, &NodeSeconds::input_gradient, 2),
                            .weight_gradient = line(list, n, &NodeSeconds::weight_gradient, 1),
                            .added_gradient = line(list, n, &NodeSeconds::added_gradient, 1)});
    }
    for (auto const& size : sizes_) {
      times.scale.push_back(scale_of(*size, list, times));
    }
    std::vector<SampleTime> rests;
    std::vector<double> updates;
    for (auto const& size : sizes_) {
      rests.push_back({2.0 * size->samples,
                       median_of(*size.*list, [](StepTimes const& step) { return step.rest(); })});
      updates.push_back(
          median_of(*size.*list, [](StepTimes const& step) { return step.clock.update; }));
    }
    std::int64_t bytes = 0;
    for (int n = 0; n < graph.nodes; ++n) {
      bytes += node(n).parameter_bytes;
    }
    times.rest = fit_affine(rests);
    times.update = bytes > 0 ? detail::median(updates) / static_cast<double>(bytes) : 0.0;
    return times;
  }

  [[nodiscard]] static ProfiledNode node(int n) {
    return detail::profiled_node(graph, n, sizeof(typename Clocked::Scalar),
                                 sizeof(typename Clocked::Master));
  }

  ProfileOptions options_;
  std::vector<std::unique_ptr<Size>> sizes_;
  RankThreads threads_{2};
  int round_ = 0;
};

/// Measures the times of @p Net on Backend, a BasicHost: of each node as the engine runs it, of the
/// update, and of what devices tell each other.
/// @throws ContractError  as Profiler, or options.rounds < 1
template <class Net, class Backend = Host, Loss LossType = SoftmaxCrossEntropy<>>
[[nodiscard]] NetworkProfile profile(ProfileOptions const& options = {}) {
  expects(options.rounds >= 1, "profile<Net, Backend>(options): give 1 round or more");
  Profiler<Net, Backend, LossType> profiler{options};
  for (int round = 0; round < options.rounds; ++round) {
    profiler.round();
  }
  return profiler.profile();
}

/// Writes a profile for read_profile().
/// @throws FileError  @p path cannot be written
template <class = void>  // compiled where it is called, not by every include
void write_profile(NetworkProfile const& profile, std::string const& path) {
  std::string const text = profile_json(profile);
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{text}));
  file.commit();
}

}  // namespace tandem
