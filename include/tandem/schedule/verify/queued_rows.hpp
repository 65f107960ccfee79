// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// QueuedRows: what the ranks of a step queue on the streams of their GPUs.

#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/table/row_order.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/time/message_clocks.hpp>
#include <tandem/schedule/time/timeline.hpp>
#include <tandem/schedule/verify/step.hpp>

namespace tandem {

/// Streams of a rank besides those of its links: compute, communication, copy.
inline constexpr int common_streams = 3;

namespace detail {

/// What a rank's thread queues of a row, stream by stream, as Rank does.
struct QueuedWork {
  enum class Kind : std::uint8_t { local, send, receive, collective };

  Kind kind = Kind::local;
  int stream = 0;
  int depends = -1;  ///< what must have ended first, of the same device, on another stream
  int meets = -1;    ///< a message's channel, or a collective
  int turn = 0;      ///< of a message in its channel
  int place = 0;     ///< of its action in the row
  bool there = false;
  bool done = false;
};

/// Of every device, in the order in which its thread queues it.
template <class Table>
class QueuedRows {
  using Kind = QueuedWork::Kind;

 public:
  constexpr QueuedRows(Table const& table, StageMapView const& map, StepRules const& rules)
      : table_{table},
        map_{map},
        rules_{rules},
        reduces_early_{row_order(without_tail(table), map, rules).reduces_early},
        edges_{map},
        most_{longest()},
        work_{std::int64_t{most_} * map.devices},
        size_{map.devices} {
    for (int d = 0; d < map.devices; ++d) {
      queue_row(d);
    }
  }

  [[nodiscard]] constexpr int size(int d) const { return size_[d]; }
  /// Of a device at most.
  [[nodiscard]] constexpr int most() const { return most_; }
  constexpr QueuedWork& work(int d, int i) { return work_[std::int64_t{d} * most_ + i]; }
  [[nodiscard]] constexpr QueuedWork const& work(int d, int i) const {
    return work_[std::int64_t{d} * most_ + i];
  }

  /// How many there are.
  [[nodiscard]] constexpr std::int64_t collectives() const {
    return 2 + std::int64_t{map_.parts()} * (most_ + 1);
  }

  /// How many devices come to one. Replicas queue the same: where one has come, all have.
  [[nodiscard]] constexpr int members(int collective) const {
    if (collective < 2) {
      return map_.devices;
    }
    bool const averages = collective >= average(0);
    if (rules_.keeps_two() && !averages) {
      return 1;
    }
    int const part = averages ? collective - average(0) : (collective - 2) / most_;
    int count = 0;
    for (int d = 0; d < map_.devices; ++d) {
      bool has = false;
      for (int s = part; s < map_.stages; s += map_.parts()) {
        has = has || map_.device[s] == d;
      }
      count += has ? 1 : 0;
    }
    return count;
  }

 private:
  static constexpr int compute = 0;
  static constexpr int communication = 1;

  // Collectives: losses, norms, then each bucket of a part's gradients, then each part's average.
  static constexpr int losses = 0;
  static constexpr int norms = 1;
  constexpr int gradients(int part, int bucket) const { return 2 + part * most_ + bucket; }
  constexpr int average(int part) const { return 2 + map_.parts() * most_ + part; }

  // More than a device ever queues: an action queues four at most, and each of its messages three.
  constexpr int longest() const {
    int most = 0;
    for (int d = 0; d < map_.devices; ++d) {
      int count = 4 * map_.stages;
      for (Action const& action : row_of(table_, d)) {
        count += 4;
        for (int e = 0; is_message(action.kind) && e < map_.edges; ++e) {
          bool const own = map_.edge[e].from == action.stage || map_.edge[e].to == action.stage;
          count += own ? 3 : 0;
        }
      }
      most = count > most ? count : most;
    }
    return most;
  }

  constexpr int add(int d, QueuedWork const& w) {
    work(d, size_[d]) = w;
    return size_[d]++;
  }

  constexpr void queue_row(int d) {
    ActionSpan const row = row_of(table_, d);
    RowEnds const ends{row, map_};
    bool const early = begins_gradients_early(map_, rules_, reduces_early_, d);
    Scratch<int> bucket{row.size + 1, -1};  // where its sum was queued
    // The last message from each place in memory: of a link; of chunks of time, of an edge's each.
    bool const in_chunks = rules_.chunks > 1;
    Scratch<int> sent{2 * std::int64_t{in_chunks ? map_.edges * rules_.chunks : map_.links}, -1};
    Scratch<int> passed{2 * std::int64_t{map_.edges}};
    Scratch<int> turns{4 * std::int64_t{map_.links}};
    Scratch<int> averages{map_.stages, -1};
    int sums = -1;
    int last = -1;  // of the compute stream
    auto const compute_after = [&](int place, int depends) {
      last = add(d, {.kind = Kind::local, .depends = depends, .place = place});
    };
    auto const begin = [&](int place, int collective) {
      return add(d, {.kind = Kind::collective,
                     .stream = communication,
                     .depends = last,
                     .meets = collective,
                     .place = place});
    };
    auto const begin_buckets = [&](int place, int stage) {
      int of_part = 0;
      rules_.each_bucket(map_, d, [&](int of, int index) {
        if (of == stage) {
          bucket[index] = begin(place, gradients(stage % map_.parts(), of_part++));
        }
      });
    };
    for (int p = map_.parts() - 1; rules_.averaging.overlapped && p >= 0; --p) {
      for (int s = p; s < map_.stages; s += map_.parts()) {
        if (map_.device[s] == d) {
          averages[s] = begin(0, average(p));
        }
      }
    }
    for (int i = 0; i < row.size; ++i) {
      Action const& action = row.data[i];
      switch (action.kind) {
        case ActionKind::send_forward:
        case ActionKind::receive_forward:
        case ActionKind::send_backward:
        case ActionKind::receive_backward:
          each_message(action, [&](int edge, bool forward) {
            int const channel = 2 * map_.edge[edge].link + (forward ? 0 : 1);
            bool const sends = is_send(action.kind);
            int const of_edge = 2 * edge + (forward ? 0 : 1);
            int const memory =
                in_chunks ? of_edge * rules_.chunks + passed[of_edge]++ % rules_.chunks : channel;
            if (sends && sent[memory] >= 0) {
              compute_after(i, sent[memory]);  // it is written again from here, at most
            }
            int const message = add(d, {.kind = sends ? Kind::send : Kind::receive,
                                        .stream = common_streams + channel,
                                        .depends = last,
                                        .meets = channel,
                                        .turn = turns[2 * channel + (sends ? 0 : 1)]++,
                                        .place = i});
            if (sends) {
              sent[memory] = message;
            } else {
              compute_after(i, message);
            }
          });
          break;
        case ActionKind::reduce_gradient:
          for (int p = map_.parts() - 1; !early && action.index == 0 && p >= 0; --p) {
            for (int s = p; s < map_.stages; s += map_.parts()) {
              if (map_.device[s] == d) {
                begin_buckets(i, s);
                break;  // of two copies on one device the first has the sum
              }
            }
          }
          compute_after(i, bucket[action.index]);
          break;
        case ActionKind::begin_loss:
          sums = begin(i, losses);
          break;
        case ActionKind::await_loss:
          compute_after(i, sums);
          break;
        case ActionKind::reduce_norm:
          compute_after(i, begin(i, norms));
          break;
        case ActionKind::exchange:
          compute_after(i, averages[action.stage]);
          break;
        case ActionKind::update:
          compute_after(i, -1);
          if (rules_.keeps_two() && !rules_.averaging.overlapped) {
            averages[action.stage] = begin(i, average(action.stage % map_.parts()));
          }
          break;
        default:
          compute_after(i, -1);
          if (early && rules_.sums_gradients(map_) && ends.last(action.stage) == i) {
            begin_buckets(i, action.stage);
          }
      }
    }
  }

  template <class F>
  constexpr void each_message(Action const& action, F const& f) const {
    bool const forward =
        action.kind == ActionKind::send_forward || action.kind == ActionKind::receive_forward;
    bool const outwards = forward == is_send(action.kind);
    int edge = (outwards ? edges_.crossing_out : edges_.crossing_in)[action.stage];
    for (; edge >= 0; edge = (outwards ? edges_.next_out : edges_.next_in)[edge]) {
      f(edge, forward);
    }
  }

  Table const& table_;
  StageMapView map_;
  StepRules const& rules_;
  bool reduces_early_;
  StageEdges edges_;
  int most_;
  Scratch<QueuedWork> work_;
  Scratch<int> size_;
};

}  // namespace detail
}  // namespace tandem
