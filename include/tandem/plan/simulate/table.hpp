// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TableJobs: the rows of one worker as jobs of the simulator.
///
/// Each device does its row in order. The k-th receive of a link and direction takes its k-th
/// message; a message is sent when no more than `depth` - 1 of those before it are still to be
/// taken; at depth 0 its send ends when it is taken.

#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/plan/simulate/jobs.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/effects.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

class TableJobs {
 public:
  /// @param first_device  of the machine, that the worker has
  TableJobs(SimulatorJobs& jobs, ActionRows const& table, StageMapView const& map,
            SimulatedCosts const& costs, int depth, int first_device)
      : jobs_{jobs},
        map_{map},
        edges_{map},
        costs_{costs},
        depth_{depth},
        first_device_{first_device},
        channel_(static_cast<std::size_t>(map.channels())),
        last_job_(table.size()) {
    for (std::size_t d = 0; d < table.size(); ++d) {
      previous_ = jobs_.add(0);
      for (Action const& action : table[d]) {
        add(action);
        last_job_[d].push_back(previous_);
      }
    }
    for (Channel const& channel : channel_) {
      connect(channel);
    }
  }

  /// Adds when everything ran to a step whose devices are those of the machine.
  void note(ActionRows const& table, std::vector<PlacementSpan> const& span,
            SimulatedStep& step) const {
    for (std::size_t d = 0; d < table.size(); ++d) {
      SimulatedDevice& device = step.device[static_cast<std::size_t>(first_device_) + d];
      for (std::size_t i = 0; i < table[d].size(); ++i) {
        Action const& action = table[d][i];
        PlacementSpan time = span[static_cast<std::size_t>(last_job_[d][i])];
        if (time.end < 0) {
          fail(action);
        }
        time.begin = is_message(action.kind) ? time.end : time.begin;
        device.action.push_back({action, time});
      }
    }
    for (Channel const& channel : channel_) {
      for (Message const& message : channel.message) {
        SimulatorJob const& job = jobs_[message.job];
        step.message.push_back({message.send, job.from, job.to, job.amount,
                                span[static_cast<std::size_t>(message.job)]});
      }
    }
  }

 private:
  struct Message {
    Action send;
    int offer;  // waits for a place
    int job;
    int handed;  // what follows the send
  };
  struct Channel {
    std::vector<Message> message{};
    std::vector<int> taken{};  // jobs
  };

  [[noreturn]] static void fail(Action const& action) {
    throw ContractError{"simulate_on: " + to_string(action) +
                        " waits forever; verify() the table, and lower() it on this map"};
  }

  void add(Action const& action) {
    if (known_part({&action, 1}, map_).size == 0) {
      fail(action);
    }
    if (!is_message(action.kind)) {
      bool const updates = action.kind == ActionKind::update || action.kind == ActionKind::exchange;
      StageLoad const& stage = costs_.stage[static_cast<std::size_t>(action.stage)];
      follow(jobs_.add(updates ? costs_.update : stage.seconds(action.kind)));
      return;
    }
    edges_.each_message(action, [&](int e, bool forward) {
      Channel& channel = channel_[static_cast<std::size_t>(map_.channel(e, forward))];
      if (is_send(action.kind)) {
        send(channel, action, e, !forward);
      } else {
        follow(jobs_.add(0));
        channel.taken.push_back(previous_);
      }
    });
  }

  void follow(int job) {
    jobs_.order(previous_, job);
    previous_ = job;
  }

  void send(Channel& channel, Action const& action, int e, bool gradient) {
    int const lower = first_device_ + map_.device[map_.edge[e].from];
    int const upper = first_device_ + map_.device[map_.edge[e].to];
    follow(jobs_.add(0));
    int const offer = previous_;
    int const job = jobs_.add_message(gradient ? upper : lower, gradient ? lower : upper,
                                      costs_.message_bytes[static_cast<std::size_t>(e)]);
    jobs_.order(offer, job);
    if (depth_ == 0) {
      follow(jobs_.add(0));
    }
    channel.message.push_back({action, offer, job, previous_});
  }

  void connect(Channel const& channel) {
    std::size_t const count = channel.taken.size();
    if (channel.message.size() != count) {
      throw ContractError{"simulate_on: a link has " + std::to_string(channel.message.size()) +
                          " messages one way and " + std::to_string(count) +
                          " receives; verify() the table, and lower() it on this map"};
    }
    auto const depth = static_cast<std::size_t>(depth_);
    for (std::size_t k = 0; k < count; ++k) {
      jobs_.order(channel.message[k].job, channel.taken[k]);
      if (depth == 0) {
        jobs_.order(channel.taken[k], channel.message[k].handed);
      } else if (k + depth < count) {
        jobs_.order(channel.taken[k], channel.message[k + depth].offer);
      }
    }
  }

  SimulatorJobs& jobs_;
  StageMapView map_;
  StageEdges edges_;
  SimulatedCosts const& costs_;
  int depth_;
  int first_device_;
  int previous_ = 0;  // last job of the row at work
  std::vector<Channel> channel_;
  std::vector<std::vector<int>> last_job_;  // of each action
};

}  // namespace tandem::detail

#endif
