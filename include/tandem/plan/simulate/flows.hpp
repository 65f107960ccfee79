// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// FluidFlows: messages on their way at the same time, as flows that share ports fairly.
///
/// Rates are max-min fair: no flow can have more but by taking from one that has no more than it.
/// Source: Bertsekas, Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2 (filling all
/// flows at the same pace until a port is full).

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/simulate/ports.hpp>

namespace tandem::detail {

/// Keeps its memory from call to call.
class FairShares {
 public:
  /// @param capacity  of each port, positive
  explicit FairShares(std::vector<double> capacity)
      : capacity_{std::move(capacity)}, left_(capacity_.size()), users_(capacity_.size()) {}

  /// rate[i] is that of the flow on routes[i], each of which has a port or more.
  ///
  /// Cost: O(rounds · flows), where a round fixes all flows of the ports that are full next.
  TANDEM_ONCE void share(std::span<PortRoute const> routes, std::vector<double>& rate);

 private:
  static std::size_t at(int port) { return static_cast<std::size_t>(port); }

  /// If what is left of each of its ports is shared equally.
  TANDEM_ONCE [[nodiscard]] double share_of(PortRoute const& route) const;

  std::vector<double> capacity_;
  std::vector<double> left_;  // of each port, for flows without a rate yet
  std::vector<int> users_;    // such flows
  std::vector<std::size_t> open_{};
};

/// A flow whose rate does not change ends at begin + bytes / rate, without any other rounding.
class FluidFlows {
 public:
  explicit FluidFlows(std::vector<double> capacity) : shares_{std::move(capacity)} {}

  /// @pre  the route has a port
  void begin(int job, PortRoute const& route, double bytes, double now) {
    flow_.push_back({.job = job, .left = bytes, .since = now});
    route_.push_back(route);
    changed_ = true;
  }

  /// When the next flow ends, if none begins from now on; infinity if there is none.
  TANDEM_ONCE [[nodiscard]] double next_end(double now);

  /// Takes out those that have ended and calls note(job) for each.
  template <class Note>
  void end_until(double now, Note const& note) {
    for (std::size_t i = 0; i < flow_.size();) {
      if (flow_[i].end > now) {
        ++i;
        continue;
      }
      note(flow_[i].job);
      flow_[i] = flow_.back();
      flow_.pop_back();
      route_[i] = route_.back();
      route_.pop_back();
      changed_ = true;
    }
  }

 private:
  struct Flow {
    int job = 0;
    double left = 0;  // bytes, at `since`
    double since = 0;
    double rate = 0;
    double end = 0;
  };

  TANDEM_ONCE static void set_rate(Flow& flow, double rate, double now);

  FairShares shares_;
  std::vector<Flow> flow_{};
  std::vector<PortRoute> route_{};  // of each flow
  std::vector<double> rate_{};
  bool changed_ = false;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void FairShares::share(std::span<PortRoute const> routes, std::vector<double>& rate) {
  for (PortRoute const& route : routes) {
    for (int const p : route) {
      left_[at(p)] = capacity_[at(p)];
      users_[at(p)] = 0;
    }
  }
  for (PortRoute const& route : routes) {
    for (int const p : route) {
      ++users_[at(p)];
    }
  }
  rate.assign(routes.size(), 0);
  open_.resize(routes.size());
  std::iota(open_.begin(), open_.end(), std::size_t{0});
  while (!open_.empty()) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t const i : open_) {
      least = std::min(least, share_of(routes[i]));
    }
    auto const full = std::partition(open_.begin(), open_.end(),
                                     [&](std::size_t i) { return share_of(routes[i]) > least; });
    for (auto i = full; i != open_.end(); ++i) {
      rate[*i] = least;
      for (int const p : routes[*i]) {
        left_[at(p)] -= least;
        --users_[at(p)];
      }
    }
    open_.erase(full, open_.end());
  }
}

TANDEM_ONCE double FairShares::share_of(PortRoute const& route) const {
  double least = std::numeric_limits<double>::infinity();
  for (int const p : route) {
    least = std::min(least, left_[at(p)] / users_[at(p)]);
  }
  return least;
}

TANDEM_ONCE double FluidFlows::next_end(double now) {
  if (changed_) {
    shares_.share(route_, rate_);
    for (std::size_t i = 0; i < flow_.size(); ++i) {
      set_rate(flow_[i], rate_[i], now);
    }
    changed_ = false;
  }
  double next = std::numeric_limits<double>::infinity();
  for (Flow const& flow : flow_) {
    next = std::min(next, flow.end);
  }
  return next;
}

TANDEM_ONCE void FluidFlows::set_rate(Flow& flow, double rate, double now) {
  if (rate != flow.rate) {
    flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
    flow.since = now;
    flow.rate = rate;
    flow.end = now + flow.left / rate;
  }
}

}  // namespace tandem::detail

#endif
