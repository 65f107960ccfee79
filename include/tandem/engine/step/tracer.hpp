// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tracer: when each action and each collective of one step of a rank began and ended.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// What runs side by side on one rank.
enum class Lane { compute, communication };

/// One bar of a trace, in microseconds since the step began.
struct TraceEvent {
  std::string name{};
  int rank = 0;
  Lane lane = Lane::compute;
  double begin_us = 0.0;
  double end_us = 0.0;
};

/// Sets stamps around what a rank queues; where they are is the device's business, so that a GPU
/// stamps its own streams. Off at first, and then it costs one test a collective.
template <class Device>
class Tracer {
 public:
  using Stamp = typename Device::Stamp;

  [[nodiscard]] bool on() const { return on_; }

  void begin(Device& device) {
    entries_.clear();
    on_ = true;
    device.stamp(origin_.emplace(device.make_stamp()));
  }

  template <class F>
  void action(Device& device, Action action, F const& f) {
    Entry& entry = open(device, to_string(action), Lane::compute);
    device.stamp(entry.begin);
    f();
    device.stamp(entry.end);
  }

  template <class F>
  void collective(Device& device, Label label, F const& f) {
    on_stream(device, device.communication, label, f);
  }

  /// The same for what @p f queues on a stream of communication.
  template <class Stream, class F>
  void on_stream(Device& device, Stream& stream, Label label, F const& f) {
    if (!on_) {
      f();
      return;
    }
    Entry& entry = open(device, to_string(label), Lane::communication);
    device.stamp_on(stream, entry.begin);
    f();
    device.stamp_on(stream, entry.end);
  }

  /// Turns it off again; what has been stamped stays for events().
  void end() { on_ = false; }

  /// @pre everything that was queued is done
  TANDEM_COLD std::vector<TraceEvent> events(Device& device, int rank) {
    std::vector<TraceEvent> events;
    for (Entry const& entry : entries_) {
      events.push_back({.name = entry.name,
                        .rank = rank,
                        .lane = entry.lane,
                        .begin_us = device.microseconds(*origin_, entry.begin),
                        .end_us = device.microseconds(*origin_, entry.end)});
    }
    entries_.clear();
    return events;
  }

 private:
  struct Entry {
    std::string name;
    Lane lane;
    Stamp begin;
    Stamp end;
  };

  Entry& open(Device& device, std::string name, Lane lane) {
    entries_.push_back({std::move(name), lane, device.make_stamp(), device.make_stamp()});
    return entries_.back();
  }

  bool on_ = false;
  std::optional<Stamp> origin_;
  std::deque<Entry> entries_;  // stamps keep their addresses
};

}  // namespace tandem
