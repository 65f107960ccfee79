// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// verify_queues(): whether a step ends on GPUs whose streams share hardware queues, while a
/// message and a collective occupy theirs until the other side has come.

#include <cstdint>

#include <tandem/core/contract.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/effects.hpp>
#include <tandem/schedule/table/row_order.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/verify/step.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem {

/// Streams of a rank besides those of its links: compute, communication, copy.
inline constexpr int common_streams = 3;

/// Streams that a device's rank makes: a link has one in each direction at each of its ends.
///
/// Where its GPU has as many hardware queues (CUDA_DEVICE_MAX_CONNECTIONS), no stream waits for
/// another but by events.
constexpr int streams_of(StageMapView const& map, int device) {
  detail::Scratch<bool> link{map.links};
  int streams = common_streams;
  for (int e = 0; e < map.edges; ++e) {
    StageEdge const& edge = map.edge[e];
    bool const ends = map.device[edge.from] == device || map.device[edge.to] == device;
    if (map.crosses(e) && ends && !link[edge.link]) {
      link[edge.link] = true;
      streams += 2;
    }
  }
  return streams;
}

namespace detail {

/// What a rank's thread queues on a stream.
struct QueuedWork {
  EffectKind kind = EffectKind::work;  ///< work on the compute stream, a message or a collective
  int stream = 0;
  int depends = -1;  ///< what must have ended first, of the same device, on another stream
  int meets = -1;    ///< a message's channel, or a collective
  int turn = 0;      ///< of a message in its channel
  int place = 0;     ///< of its action in the row
  bool there = false;
  bool done = false;
};

/// The effects of every device's row as its thread queues them.
template <class Table>
class QueuedRows {
 public:
  constexpr QueuedRows(Table const& table, StageMapView const& map, StepRules const& rules)
      : map_{map},
        rules_{rules},
        effects_{table, map, row_order(without_tail(table), map, rules).reduces_early},
        most_{most()},
        work_{std::int64_t{most_} * map.devices},
        size_{map.devices} {
    for (int d = 0; d < map.devices; ++d) {
      queue_row(d);
    }
  }

  [[nodiscard]] constexpr StepEffects const& effects() const { return effects_; }
  [[nodiscard]] constexpr int size(int d) const { return size_[d]; }
  constexpr QueuedWork& work(int d, int i) { return work_[std::int64_t{d} * most_ + i]; }

  /// More than a device ever queues: an effect queues two at most.
  [[nodiscard]] constexpr int most() const {
    int effects = 0;
    for (int d = 0; d < map_.devices; ++d) {
      effects = effects_.size(d) > effects ? effects_.size(d) : effects;
    }
    return 2 * effects;
  }

 private:
  static constexpr int communication = 1;

  constexpr int add(int d, QueuedWork const& w) {
    work(d, size_[d]) = w;
    return size_[d]++;
  }

  constexpr void queue_row(int d) {
    // The last message from each place in memory: of a link; of chunks of time, of an edge's each.
    bool const in_chunks = rules_.chunks > 1;
    Scratch<int> sent{in_chunks ? std::int64_t{2} * map_.edges * rules_.chunks : map_.channels(),
                      -1};
    Scratch<int> passed{2 * std::int64_t{map_.edges}};
    Scratch<int> turns{2 * std::int64_t{map_.channels()}};
    Scratch<int> begun{effects_.collectives(), -1};
    int last = -1;  // of the compute stream
    for (int i = 0; i < effects_.size(d); ++i) {
      Effect const& effect = effects_.at(d, i);
      bool const sends = effect.kind == EffectKind::send;
      QueuedWork work{
          .kind = effect.kind, .depends = last, .meets = effect.meets, .place = effect.place};
      int awaited = -1;
      if (effect.kind == EffectKind::begin) {
        work.stream = communication;
        begun[effect.meets] = add(d, work);
        continue;
      }
      if (effect.edge >= 0) {
        int const of_edge = 2 * effect.edge + effect.meets % 2;
        int& before = sent[in_chunks ? of_edge * rules_.chunks + passed[of_edge]++ % rules_.chunks
                                     : effect.meets];
        if (sends && before >= 0) {  // it is written again from here, at most
          work.depends = last = add(d, {.depends = before, .place = effect.place});
        }
        work.stream = common_streams + effect.meets;
        work.turn = turns[2 * effect.meets + (sends ? 0 : 1)]++;
        awaited = add(d, work);
        if (sends) {
          before = awaited;
          continue;
        }
      } else if (effect.kind == EffectKind::await) {
        awaited = begun[effect.meets];
      }
      last = add(d, {.depends = awaited, .place = effect.place});
    }
  }

  StageMapView map_;
  StepRules const& rules_;
  StepEffects effects_;
  int most_;
  Scratch<QueuedWork> work_;
  Scratch<int> size_;
};

/// A queue hands out its work in the order in which it was queued, and waits at its first; so what
/// can go on does not depend on the order in which it is looked at, and one run is a proof.
template <class Table>
class QueueRun {
 public:
  constexpr QueueRun(Table const& table, StageMapView const& map, StepRules const& rules,
                     int queues)
      : table_{table},
        map_{map},
        queues_{queues},
        rows_{table, map, rules},
        next_{std::int64_t{rows_.most()} * map.devices},
        head_{std::int64_t{queues} * map.devices, -1},
        came_{2 * std::int64_t{map.channels()}},
        met_{rows_.effects().collectives()} {
    for (int d = 0; d < map.devices; ++d) {
      deal(d);
    }
  }

  constexpr Verdict run() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (int d = 0; d < map_.devices; ++d) {
        for (int q = 0; q < queues_; ++q) {
          goes_on = run_queue(d, q) || goes_on;
        }
      }
    }
    Verdict verdict;
    for (int d = 0; d < map_.devices; ++d) {
      for (int q = 0; q < queues_; ++q) {
        // Of all that wait, a message or a collective says more than what waits for it.
        if (int const at = head(d, q); at >= 0 && (verdict || rows_.work(d, at).there)) {
          verdict = stuck(d, at);
        }
      }
    }
    return verdict;
  }

 private:
  constexpr int& head(int d, int q) { return head_[std::int64_t{d} * queues_ + q]; }
  constexpr int& next(int d, int i) { return next_[std::int64_t{d} * rows_.most() + i]; }

  // Streams to hardware queues: in turn, as they are made.
  constexpr void deal(int d) {
    Scratch<int> number{common_streams + 2 * std::int64_t{map_.links}, -1};
    for (int s = 0; s < common_streams; ++s) {
      number[s] = s;
    }
    int streams = common_streams;
    for (int e = 0; e < map_.edges; ++e) {
      bool const own = map_.device[map_.edge[e].from] == d || map_.device[map_.edge[e].to] == d;
      int const first = common_streams + 2 * map_.edge[e].link;
      if (map_.crosses(e) && own && number[first] < 0) {
        number[first] = streams++;
        number[first + 1] = streams++;
      }
    }
    Scratch<int> tail{queues_, -1};
    for (int i = 0; i < rows_.size(d); ++i) {
      int const queue = number[rows_.work(d, i).stream] % queues_;
      (tail[queue] < 0 ? head(d, queue) : next(d, tail[queue])) = i;
      next(d, i) = -1;
      tail[queue] = i;
    }
  }

  constexpr bool run_queue(int d, int queue) {
    bool goes_on = false;
    for (int& at = head(d, queue); at >= 0; at = next(d, at)) {
      QueuedWork& mine = rows_.work(d, at);
      if (mine.depends >= 0 && !rows_.work(d, mine.depends).done) {
        break;
      }
      if (!mine.there) {
        come(mine);
        mine.there = true;
        goes_on = true;
      }
      if (!is_complete(mine)) {
        break;
      }
      mine.done = true;
      goes_on = true;
    }
    return goes_on;
  }

  constexpr void come(QueuedWork const& mine) {
    if (mine.kind == EffectKind::begin) {
      ++met_[mine.meets];
    } else if (mine.kind != EffectKind::work) {
      ++came_[2 * mine.meets + (mine.kind == EffectKind::send ? 0 : 1)];
    }
  }
  constexpr bool is_complete(QueuedWork const& mine) const {
    switch (mine.kind) {
      case EffectKind::work:
        return true;
      case EffectKind::begin:
        return met_[mine.meets] >= rows_.effects().members(mine.meets);
      default:
        return came_[2 * mine.meets] > mine.turn && came_[2 * mine.meets + 1] > mine.turn;
    }
  }

  constexpr Verdict stuck(int d, int at) {
    QueuedWork const& mine = rows_.work(d, at);
    return {.flaw = Flaw::queues_shared,
            .rank = d,
            .position = mine.place,
            .action = row_of(table_, d)[mine.place],
            .count = queues_};
  }

  Table const& table_;
  StageMapView map_;
  int queues_;
  QueuedRows<Table> rows_;
  Scratch<int> next_;  // in the same hardware queue
  Scratch<int> head_;  // of each device's queues
  Scratch<int> came_;  // to each channel: sends, then receives
  Scratch<int> met_;   // to each collective
};

}  // namespace detail

/// Whether a step ends on GPUs with @p queues hardware queues each, to which the streams of a rank
/// are dealt in turn: a queue waits at its first piece of work, whatever stands behind it. A
/// message occupies its queue until both ends have come, a collective until all ranks have.
///
/// With as many queues as streams_of() on every device, what passes verify() ends. What multi-
/// processors such work occupies while it waits is not looked at: few enough, if all that may wait
/// at once fit together.
///
/// Cost: linear in the actions, times the queues.
/// @param table  complete(): passes, messages and the tail; @pre it passes verify()
/// @throws ContractError  queues < 1
template <class Table>
constexpr Verdict verify_queues(Table const& table, StageMapView const& map, StepRules const& rules,
                                int queues) {
  expects(queues >= 1, "verify_queues(table, map, rules, queues): give 1 queue or more");
  return detail::QueueRun<Table>{table, map, rules, queues}.run();
}

}  // namespace tandem
