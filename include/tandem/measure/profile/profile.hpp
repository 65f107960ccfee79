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
#include <tandem/measure/profile/fit.hpp>
#include <tandem/measure/profile/links.hpp>
#include <tandem/plan/cost/profile.hpp>
#include <tandem/plan/cost/profile_json.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace tandem {

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

namespace tandem {

TANDEM_ONCE void write_profile(NetworkProfile const& profile, std::string const& path) {
  std::string const text = profile_json(profile);
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{text}));
  file.commit();
}

}  // namespace tandem

#endif
