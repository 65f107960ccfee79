// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Profiler: measures a NetworkProfile on devices of this machine, by training steps.
///
/// Nodes are timed where they stand in a step, not one by one in loops, so that caches are as warm
/// as they are when it counts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/measure/profile/backend.hpp>
#include <tandem/measure/profile/device.hpp>
#include <tandem/measure/profile/links.hpp>
#include <tandem/plan/cost/profile.hpp>
#include <tandem/plan/cost/profile_json.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace tandem {

/// What steps of two microbatches of @p samples samples a device have taken.
struct ProfiledSteps {
  int samples = 1;
  std::vector<StepTimes> device{};  ///< each device's, of all steps
  std::vector<StepParts> step{};

  /// A step of a ProfiledTrainer, behind one that does not count and leaves in the caches what
  /// steps leave there.
  template <class Devices>
  void add(Devices& devices) {
    devices.step();
    auto const times = devices.step();
    device.insert(device.end(), times.begin(), times.end());
    step.emplace_back(times);
  }
};

namespace detail {

template <class Steps, class F>
double median_of(Steps const& steps, F const& value) {
  std::vector<double> values;
  for (auto const& step : steps) {
    values.push_back(value(step));
  }
  return median(std::move(values));
}

/// The times of devices that train @p nodes nodes with @p bytes of parameters.
/// @pre each size has a step or more
TANDEM_ONCE DeviceTimes fit_times(std::span<ProfiledSteps const> sizes, int nodes,
                                  std::int64_t bytes);

/// What the sum of gradients adds to the end of a step: how much more of it is neither passes nor
/// update where two devices train data parallel than on one.
TANDEM_ONCE double fit_reduction(std::span<ProfiledSteps const> alone,
                                 std::span<ProfiledSteps const> together);

}  // namespace detail

/// Trains @p Net on noise, be it numbers or tokens, on one device and data parallel on two, in
/// steps of two microbatches a device of each size.
///
/// Not copyable, not movable.
template <class Net, class Backend = Host, Loss LossType = DefaultLoss<Net>>
class Profiler {
  using Clocked = Profiled<Backend>;
  static constexpr auto const& graph = tandem::graph<Net>;

 public:
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
      alone_.push_back({.samples = samples});
      together_.push_back({.samples = samples});
    }
  }

  Profiler(Profiler const&) = delete;
  Profiler& operator=(Profiler const&) = delete;

  /// A step of each size, alone and together; every second time in the reverse order.
  void round() {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      std::size_t const size = round_ % 2 == 0 ? i : sizes_.size() - 1 - i;
      alone_[size].add(sizes_[size]->one);
      together_[size].add(sizes_[size]->two);
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
                           .message = links.message,
                           .reduction = links.reduction};
    std::int64_t bytes = 0;
    for (int n = 0; n < graph.nodes; ++n) {
      profile.node.push_back(detail::profiled_node(graph, n, sizeof(typename Clocked::Scalar),
                                                   sizeof(typename Clocked::Master)));
      bytes += profile.node.back().parameter_bytes;
    }
    profile.alone = detail::fit_times(alone_, graph.nodes, bytes);
    profile.together = detail::fit_times(together_, graph.nodes, bytes);
    profile.together.rest = profile.alone.rest;
    double const reduction = detail::fit_reduction(alone_, together_);
    if (bytes > 0 && reduction > 0) {  // no faster than where nothing else is done
      profile.reduction.bandwidth =
          std::min(links.reduction.bandwidth, static_cast<double>(bytes) / reduction);
    }
    return profile;
  }

 private:
  template <class Strategy>
  using Devices = ProfiledTrainer<Net, Strategy, Backend, LossType>;

  struct Size {
    Size(int samples, ProfileOptions const& options)
        : one{samples, options}, two{samples, options} {}

    Devices<SingleDevice<Microbatches<2>>> one;
    Devices<DataParallel<2, Microbatches<2>>> two;
  };

  ProfileOptions options_;
  std::vector<std::unique_ptr<Size>> sizes_;
  std::vector<ProfiledSteps> alone_;  // of each size
  std::vector<ProfiledSteps> together_;
  int round_ = 0;
};

/// Measures the times of @p Net on Backend, a BasicHost: of each node as the engine runs it, of the
/// update, and of what devices tell each other.
/// @throws ContractError  as Profiler, or options.rounds < 1
template <class Net, class Backend = Host, Loss LossType = DefaultLoss<Net>>
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
TANDEM_ONCE void write_profile(NetworkProfile const& profile, std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// The line of a node's medians; a step has @p count passes of the kind.
TANDEM_ONCE AffineTime fit_pass(std::span<ProfiledSteps const> sizes, std::size_t node,
                                double NodeSeconds::*pass, int count) {
  std::vector<SampleTime> points;
  for (ProfiledSteps const& size : sizes) {
    double const seconds = median_of(size.device, [&](StepTimes const& times) {
      return node < times.clock.node.size() ? times.clock.node[node].*pass : 0.0;
    });
    points.push_back({static_cast<double>(size.samples), seconds / count});
  }
  return fit_affine(points);
}

/// What a step's passes have taken, over what the lines of their nodes say. The device counts that
/// took longest, since the others wait for it.
TANDEM_ONCE double fit_scale(ProfiledSteps const& size, std::vector<PassTimes> const& nodes) {
  double fitted = 0;
  for (PassTimes const& node : nodes) {
    fitted += 2 * node.forward.of(size.samples) + 2 * node.input_gradient.of(size.samples) +
              node.weight_gradient.of(size.samples) + node.added_gradient.of(size.samples);
  }
  double const measured = median_of(size.step, [](StepParts const& step) { return step.passes; });
  return fitted > 0 ? measured / fitted : 1;
}

TANDEM_ONCE DeviceTimes fit_times(std::span<ProfiledSteps const> sizes, int nodes,
                                  std::int64_t bytes) {
  DeviceTimes times;
  for (std::size_t n = 0; n < static_cast<std::size_t>(nodes); ++n) {
    times.node.push_back({.forward = fit_pass(sizes, n, &NodeSeconds::forward, 2),
                          .input_gradient = fit_pass(sizes, n, &NodeSeconds::input_gradient, 2),
                          .weight_gradient = fit_pass(sizes, n, &NodeSeconds::weight_gradient, 1),
                          .added_gradient = fit_pass(sizes, n, &NodeSeconds::added_gradient, 1)});
  }
  std::vector<SampleTime> rests;
  std::vector<double> updates;
  for (ProfiledSteps const& size : sizes) {
    times.scale.push_back(fit_scale(size, times.node));
    rests.push_back(
        {2.0 * size.samples, median_of(size.step, [](StepParts const& s) { return s.rest; })});
    updates.push_back(median_of(size.step, [](StepParts const& s) { return s.update; }));
  }
  times.rest = fit_affine(rests);
  times.update = bytes > 0 ? median(std::move(updates)) / static_cast<double>(bytes) : 0.0;
  return times;
}

TANDEM_ONCE double fit_reduction(std::span<ProfiledSteps const> alone,
                                 std::span<ProfiledSteps const> together) {
  auto const rest = [](ProfiledSteps const& size) {
    return median_of(size.step, [](StepParts const& step) { return step.rest; });
  };
  std::vector<double> seconds;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    seconds.push_back(rest(together[i]) - rest(alone[i]));
  }
  return median(std::move(seconds));
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE void write_profile(NetworkProfile const& profile, std::string const& path) {
  std::string const text = profile_json(profile);
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{text}));
  file.commit();
}

}  // namespace tandem

#endif
