// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// lower(): puts the messages between the passes of an action table.
///
/// RECV_F stands directly before the forward that needs it and SEND_F directly behind the one that
/// made it; RECV_B and SEND_B stand likewise around B (or I). An action of a stage sends, or
/// receives, all that the stage has for other devices, in ascending order of edges.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

namespace detail {

/// Whether some link carries the messages of several edges, so that their order matters.
constexpr bool shares_links(StageMapView const& map) {
  Scratch<int> edges_of_link{map.links};
  for (int e = 0; e < map.edges; ++e) {
    if (map.crosses(e) && ++edges_of_link[map.edge[e].link] > 1) {
      return true;
    }
  }
  return false;
}

constexpr bool is_backward_pass(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::input_gradient;
}

/// Lowers one table. Where links are shared, the messages of each link and direction are listed in
/// the order in which they are sent; a receive that is not the next is put behind the receives of
/// those before it.
template <class Table, class Sink>
class TableLowering {
 public:
  constexpr TableLowering(Table const& table, StageMapView const& map, Sink& sink)
      : table_{table},
        map_{map},
        sink_{sink},
        edges_{map},
        shared_{shares_links(map)},
        microbatches_{shared_ ? count_microbatches() : 0},
        channels_{shared_ ? 2 * map.links : 0},
        received_{std::int64_t{2} * map.stages * microbatches_},
        taken_{2 * map.edges},
        message_{std::int64_t{2} * map.edges * microbatches_},
        next_{channels_},
        end_{channels_},
        limit_{channels_} {
    for (int e = 0; shared_ && e < map.edges; ++e) {
      for (int way = 0; map.crosses(e) && way < 2; ++way) {
        limit_[2 * map.edge[e].link + way] += microbatches_;
      }
    }
    for (int c = 0, begin = 0; c < channels_; ++c) {
      next_[c] = end_[c] = begin;
      begin = limit_[c] += begin;
    }
  }

  constexpr void run() {
    for (int d = 0; shared_ && d < devices_of(table_); ++d) {
      list_messages(d);
    }
    for (int d = 0; d < devices_of(table_); ++d) {
      for (Action const& action : row_of(table_, d)) {
        lower(d, action);
      }
    }
  }

 private:
  struct Message {
    int edge;
    int microbatch;
  };

  constexpr bool known(Action const& action) const {
    return action.stage >= 0 && action.stage < map_.stages && action.index >= 0;
  }

  constexpr int count_microbatches() const {
    int last = -1;
    std::int64_t actions = 0;
    for (int d = 0; d < devices_of(table_); ++d) {
      ActionSpan const row = row_of(table_, d);
      actions += row.size;
      for (Action const& action : row) {
        last = std::max(last, known(action) ? action.index : -1);
      }
    }
    expects(last < actions,
            "lower(table, map): a microbatch has a higher number than there are actions; number "
            "microbatches from 0 on");
    return last + 1;
  }

  constexpr void list_messages(int device) {
    for (Action const& action : row_of(table_, device)) {
      bool const forward = action.kind == ActionKind::forward;
      if (!known(action) || (!forward && !is_backward_pass(action.kind))) {
        continue;
      }
      int e = forward ? edges_.crossing_out[action.stage] : edges_.crossing_in[action.stage];
      for (; e >= 0; e = forward ? edges_.next_out[e] : edges_.next_in[e]) {
        int const channel = 2 * map_.edge[e].link + (forward ? 0 : 1);
        if (end_[channel] < limit_[channel]) {  // else some pass stands there twice
          message_[end_[channel]++] = {e, action.index};
        }
      }
    }
  }

  constexpr void lower(int device, Action const& action) {
    bool const forward = action.kind == ActionKind::forward;
    if (!known(action) || (!forward && !is_backward_pass(action.kind))) {
      sink_(device, action);
      return;
    }
    receive(device, forward, action.stage, action.index);
    sink_(device, action);
    if ((forward ? edges_.crossing_out : edges_.crossing_in)[action.stage] >= 0) {
      sink_(device, {.kind = forward ? ActionKind::send_forward : ActionKind::send_backward,
                     .stage = action.stage,
                     .index = action.index});
    }
  }

  constexpr void receive(int device, bool forward, int stage, int microbatch) {
    int const first = (forward ? edges_.crossing_in : edges_.crossing_out)[stage];
    if (first < 0) {
      return;
    }
    if (shared_) {
      std::int64_t const pass = 2 * stage + (forward ? 0 : 1);
      int& received = received_[pass * microbatches_ + microbatch];
      if (received != 0) {
        return;
      }
      received = 1;
      for (int e = first; e >= 0; e = forward ? edges_.next_in[e] : edges_.next_out[e]) {
        receive_up_to(device, forward, e, microbatch);
      }
    }
    sink_(device, {.kind = forward ? ActionKind::receive_forward : ActionKind::receive_backward,
                   .stage = static_cast<std::int16_t>(stage),
                   .index = microbatch});
  }

  constexpr void receive_up_to(int device, bool forward, int edge, int microbatch) {
    int const channel = 2 * map_.edge[edge].link + (forward ? 0 : 1);
    while (taken_[2 * edge + (forward ? 0 : 1)] <= microbatch - first_of(edge) &&
           next_[channel] < end_[channel]) {
      Message const next = message_[next_[channel]++];
      ++taken_[2 * next.edge + (forward ? 0 : 1)];
      StageEdge const of = map_.edge[next.edge];
      receive(device, forward, forward ? of.to : of.from, next.microbatch);
    }
  }

  // A copy's microbatches begin at a multiple of the replica's share.
  constexpr int first_of(int edge) const {
    return map_.first_microbatch(map_.edge[edge].from, microbatches_);
  }

  Table const& table_;
  StageMapView map_;
  Sink& sink_;
  StageEdges edges_;
  bool shared_;
  int microbatches_;
  int channels_;  // links and directions
  Scratch<int> received_;
  Scratch<int> taken_;        // messages of each edge and direction
  Scratch<Message> message_;  // of one channel after another
  Scratch<int> next_;         // of each channel, the next to receive
  Scratch<int> end_;
  Scratch<int> limit_;
};

template <class Table, class Sink>
constexpr void lower_table(Table const& table, StageMapView const& map, Sink& sink) {
  expects(is_sound(map) && map.devices == devices_of(table),
          "lower(table, map): give a map with as many devices as the table has rows, in which "
          "every edge leads from a lower stage to a higher one of the same copy");
  TableLowering<Table, Sink>{table, map, sink}.run();
}

}  // namespace detail

/// The rows with messages; passes keep their order.
template <int Devices, int Length>
constexpr auto lower(ActionTable<Devices, Length> const& table, StageMapView const& map) {
  ActionTable<Devices, 3 * Length> lowered;  // a receive, a pass and a send each
  auto sink = [&lowered](int device, Action action) { lowered.add(device, action); };
  detail::lower_table(table, map, sink);
  return lowered;
}

/// @throws ContractError  the map is not one, or not of this table
TANDEM_ONCE ActionRows lower(ActionRows const& table, StageMapView const& map);

/// The rows without their messages; lower() puts them back.
TANDEM_ONCE ActionRows without_messages(ActionRows const& table);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ActionRows lower(ActionRows const& table, StageMapView const& map) {
  ActionRows lowered(table.size());
  auto sink = [&lowered](int device, Action action) {
    lowered[static_cast<std::size_t>(device)].push_back(action);
  };
  detail::lower_table(table, map, sink);
  return lowered;
}

TANDEM_ONCE ActionRows without_messages(ActionRows const& table) {
  ActionRows rows(table.size());
  for (std::size_t d = 0; d < table.size(); ++d) {
    std::copy_if(table[d].begin(), table[d].end(), std::back_inserter(rows[d]),
                 [](Action const& action) { return !is_message(action.kind); });
  }
  return rows;
}

}  // namespace tandem

#endif
