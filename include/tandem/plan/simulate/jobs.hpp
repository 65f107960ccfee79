// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SimulatorJobs: what happens in a step as jobs that wait for others, and JobRun, the clock that
/// runs them. It knows neither schedules nor placements: both are made into jobs.
///
/// A job begins as soon as all that it waits for has ended. It takes its own time, or it is a
/// message, which takes what its bytes need in the ports that it shares and then its link's
/// latency.

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/place/timeline.hpp>
#include <tandem/plan/simulate/flows.hpp>
#include <tandem/plan/simulate/ports.hpp>

namespace tandem::detail {

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
