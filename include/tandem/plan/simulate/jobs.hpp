// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SimulatorJobs: what happens in a step as jobs that wait for others, and JobRun, the clock that
/// runs them. It knows neither schedules nor placements: both are made into jobs.
///
/// A job begins as soon as all that it waits for has ended. It takes its own time, or it is a
/// message, which takes what its bytes need in the ports that it shares and then its link's
/// latency.
///
/// Rates are max-min fair: no flow can have more but by taking from one that has no more than it.
/// Source: Bertsekas, Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2 (filling all
/// flows at the same pace until a port is full).

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/place/timeline.hpp>
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

struct SimulatorJob {
  double amount = 0;  ///< seconds; bytes of a message
  int from = -1;      ///< device; below 0: no message
  int to = -1;
  int waits = 0;  ///< for how many jobs
  int first = -1;
};

class SimulatorJobs {
 public:
  int add(double seconds) {
    job_.push_back({.amount = seconds});
    return count() - 1;
  }

  int add_message(int from, int to, double bytes) {
    job_.push_back({.amount = bytes, .from = from, .to = to});
    return count() - 1;
  }

  /// @p after begins when @p before has ended, or later.
  TANDEM_ONCE void order(int before, int after);

  [[nodiscard]] int count() const { return static_cast<int>(job_.size()); }
  [[nodiscard]] SimulatorJob const& operator[](int job) const {
    return job_[static_cast<std::size_t>(job)];
  }

  /// Calls visit(job) for each that waits for @p job.
  template <class Visit>
  void for_each_behind(int job, Visit const& visit) const {
    for (int i = (*this)[job].first; i >= 0; i = behind_[static_cast<std::size_t>(i)].next) {
      visit(behind_[static_cast<std::size_t>(i)].job);
    }
  }

 private:
  struct Behind {
    int job;
    int next;  // of the same list
  };

  std::vector<SimulatorJob> job_{};
  std::vector<Behind> behind_{};
};

/// Begin and end of a job that never begins.
inline constexpr PlacementSpan never_begun{-1, -1};

/// Cost: O(log jobs) a job, and O(messages on their way) for each instant at which one begins or
/// ends.
class JobRun {
 public:
  /// @param shares  else each message has all ports of its way for itself
  TANDEM_ONCE JobRun(SimulatorJobs const& jobs, MachinePorts const& ports, bool shares);

  /// When each job runs; `never_begun` where it waits forever.
  TANDEM_ONCE std::vector<PlacementSpan> run();

 private:
  using Timed = std::pair<double, int>;  // end, job

  [[nodiscard]] PortRoute route_of(int job) const {
    return ports_.route(jobs_[job].from, jobs_[job].to);
  }

  TANDEM_ONCE void begin_ready();

  TANDEM_ONCE void end_in(int job, double seconds);

  TANDEM_ONCE void end(int job);

  SimulatorJobs const& jobs_;
  MachinePorts const& ports_;
  bool shares_;
  FluidFlows flows_;
  std::vector<PlacementSpan> span_;
  std::vector<int> waits_{};
  std::vector<int> ready_{};
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> timed_{};
  double now_ = 0;
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

TANDEM_ONCE void SimulatorJobs::order(int before, int after) {
  SimulatorJob& job = job_[static_cast<std::size_t>(before)];
  ++job_[static_cast<std::size_t>(after)].waits;
  behind_.push_back({after, job.first});
  job.first = static_cast<int>(behind_.size()) - 1;
}

TANDEM_ONCE JobRun::JobRun(SimulatorJobs const& jobs, MachinePorts const& ports, bool shares)
    : jobs_{jobs},
      ports_{ports},
      shares_{shares},
      flows_{ports.capacity()},
      span_(static_cast<std::size_t>(jobs.count()), never_begun) {
  for (int j = 0; j < jobs.count(); ++j) {
    waits_.push_back(jobs[j].waits);
    if (jobs[j].waits == 0) {
      ready_.push_back(j);
    }
  }
}

TANDEM_ONCE std::vector<PlacementSpan> JobRun::run() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  while (true) {
    begin_ready();
    double const next =
        std::min(timed_.empty() ? infinity : timed_.top().first, flows_.next_end(now_));
    if (next == infinity) {
      return std::move(span_);
    }
    now_ = next;
    flows_.end_until(now_, [&](int job) { end_in(job, route_of(job).alone.latency); });
    while (!timed_.empty() && timed_.top().first <= now_) {
      int const job = timed_.top().second;
      timed_.pop();
      end(job);
    }
  }
}

TANDEM_ONCE void JobRun::begin_ready() {
  while (!ready_.empty()) {
    int const job = ready_.back();
    ready_.pop_back();
    span_[static_cast<std::size_t>(job)].begin = now_;
    double const amount = jobs_[job].amount;
    if (jobs_[job].from < 0) {
      end_in(job, amount);
      continue;
    }
    PortRoute const route = route_of(job);
    if (shares_ && amount > 0 && route.ports > 0) {
      flows_.begin(job, route, amount, now_);
    } else {
      end_in(job, route.alone.seconds(amount));
    }
  }
}

TANDEM_ONCE void JobRun::end_in(int job, double seconds) {
  if (seconds > 0) {
    timed_.emplace(now_ + seconds, job);
  } else {
    end(job);
  }
}

TANDEM_ONCE void JobRun::end(int job) {
  span_[static_cast<std::size_t>(job)].end = now_;
  jobs_.for_each_behind(job, [&](int behind) {
    if (--waits_[static_cast<std::size_t>(behind)] == 0) {
      ready_.push_back(behind);
    }
  });
}

}  // namespace tandem::detail

#endif
