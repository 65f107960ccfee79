// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_table: whether a table that was read from a file can run, with errors that say where.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/orders/all.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/time/timeline.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/step.hpp>
#include <tandem/schedule/verify/updates.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem {

/// A table that can run. Stages are a chain (of each copy), on the ranks in whose rows they stand.
struct CheckedTable {
  ActionRows passes;
  ActionRows lowered;  ///< with messages: as read, or as lower() puts them
  RuntimeMap map;
  int microbatches = 0;  ///< of all steps
  Asynchrony asynchrony;
  bool descends = false;  ///< backward begins with the last microbatch, as no rank of an engine can
};

/// Lowers a table of passes (and updates) only, and verifies it; a table with messages is verified
/// as it is. The backward passes of all stages may come in descending order of microbatches, as in
/// PyTorch's LoopedBFS. U and X of a synchronous table are verified as those of one step, whose
/// tail must be whole if it has any sum.
/// @param copies    of the pipeline in the table: 2 for Chimera, DualPipe and CrossModel
/// @param depth     messages of a link and direction that may be on their way
/// @param name      of the file, for messages
/// @param schedule  the name of an asynchronous schedule, whose versions the passes then read
/// @throws TableError  the table cannot run: why, and at which action
TANDEM_ONCE CheckedTable check_table(ReadTable const& table, int copies, int depth,
                                     std::string const& name, std::string_view schedule = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

class TableCheck {
 public:
  TableCheck(ReadTable const& read, int copies, std::string_view schedule, std::string const& name)
      : read_{read}, copies_{copies}, schedule_{schedule}, name_{name} {}

  CheckedTable run(int depth) {
    CheckedTable table;
    count();
    if (last_microbatch_ < 0) {
      throw TableError{name_, {}, std::string{"there is no pass here; "} + action_examples};
    }
    make_map(table.map);
    limit_microbatches();
    table.microbatches = last_microbatch_ + 1;
    table.passes = without_messages(read_.rows);
    table.lowered = has_messages_ ? read_.rows : lower(read_.rows, table.map);
    table.asynchrony = asynchrony(table.microbatches);
    table.descends = !table.asynchrony.on() && descends(table.map.device.size());
    Verdict verdict = judge(table, depth);
    if (!verdict) {
      TextPlace const place = place_of(verdict, table.lowered);
      name_passes(verdict);
      std::string what = to_string(verdict);
      if (std::size_t const at = what.find("ascending");
          at != what.npos && table.descends && goes_back(verdict.action.kind)) {
        what.replace(at, 9, "descending");
      }
      throw TableError{name_, place, what};
    }
    return table;
  }

 private:
  static bool goes_back(ActionKind kind) {
    return kind == ActionKind::backward || kind == ActionKind::input_gradient ||
           kind == ActionKind::weight_gradient || kind == ActionKind::send_backward ||
           kind == ActionKind::receive_backward;
  }

  // Whether most backward passes stand behind one of a later microbatch of their stage.
  [[nodiscard]] bool descends(std::size_t stages) const {
    std::vector<int> last(stages, -1);
    long long surplus = 0;  // of those that do over the others
    for (std::vector<Action> const& row : read_.rows) {
      for (Action const& action : row) {
        if (is_backward_pass(action.kind)) {
          int& before = last[static_cast<std::size_t>(action.stage)];
          surplus += before < 0 ? 0 : action.index < before ? 1 : -1;
          before = action.index;
        }
      }
    }
    return surplus > 0 && first_update_ == ActionKind::end && !completed_;
  }

  static bool is_sum(ActionKind kind) {
    return kind >= ActionKind::reduce_gradient && kind <= ActionKind::reduce_norm;
  }

  // Finds the largest stage and microbatch, and where they stand.
  void count() {
    for (std::size_t rank = 0; rank < read_.rows.size(); ++rank) {
      for (std::size_t i = 0; i < read_.rows[rank].size(); ++i) {
        Action const& action = read_.rows[rank][i];
        ++actions_;
        has_messages_ = has_messages_ || is_message(action.kind);
        exchanges_ = exchanges_ || action.kind == ActionKind::exchange;
        completed_ = completed_ || is_sum(action.kind);
        bool const updates =
            action.kind == ActionKind::update || action.kind == ActionKind::exchange;
        first_update_ = updates && first_update_ == ActionKind::end ? action.kind : first_update_;
        if (action.stage > last_stage_) {
          last_stage_ = action.stage;
          last_stage_at_ = read_.place[rank][i];
        }
        if (action.index > last_microbatch_ && action.kind != ActionKind::reduce_gradient) {
          last_microbatch_ = action.index;
          last_microbatch_at_ = read_.place[rank][i];
        }
      }
    }
  }

  void make_map(RuntimeMap& map) const {
    int const stages = last_stage_ + 1;
    if (stages % copies_ != 0) {
      throw TableError{name_, last_stage_at_,
                       "stages go to " + std::to_string(last_stage_) + ", but " +
                           std::to_string(stages) + " stages cannot be " + std::to_string(copies_) +
                           " copies of a pipeline; number those of the second copy on from the "
                           "last of the first"};
    }
    map.devices = static_cast<int>(read_.rows.size());
    map.copies = copies_;
    map.device.assign(static_cast<std::size_t>(stages), -1);
    for (std::size_t rank = 0; rank < read_.rows.size(); ++rank) {
      for (Action const& action : read_.rows[rank]) {
        std::int16_t& device = map.device[static_cast<std::size_t>(action.stage)];
        device = device < 0 ? static_cast<std::int16_t>(rank) : device;
      }
    }
    for (int s = 0; s < stages; ++s) {
      if (map.device[static_cast<std::size_t>(s)] < 0) {
        throw TableError{name_, last_stage_at_,
                         "stages go to " + std::to_string(last_stage_) + ", but stage " +
                             std::to_string(s) + " is in no row; number stages from 0 on"};
      }
      if (s % (stages / copies_) != 0) {
        map.edge.push_back({.from = static_cast<std::int16_t>(s - 1),
                            .to = static_cast<std::int16_t>(s),
                            .link = static_cast<std::int16_t>(map.links++)});
      }
    }
  }

  // Each stage needs a forward of each microbatch of its copy: refuses before memory is taken for
  // more of them than there can be.
  void limit_microbatches() const {
    long long const forwards =
        (last_microbatch_ + 1LL) / copies_ * static_cast<long long>(last_stage_ + 1);
    if (forwards > actions_) {
      throw TableError{name_, last_microbatch_at_,
                       "microbatch " + std::to_string(last_microbatch_) +
                           " cannot be: with those before it there would be " +
                           std::to_string(forwards) +
                           " forwards, more than all actions here; number microbatches from 0 on"};
    }
  }

  // Of an asynchronous table: a step has as many microbatches as stand in a row for each update.
  [[nodiscard]] Asynchrony asynchrony(int microbatches) const {
    int updates = 0;
    for (Action const& action : read_.rows.front()) {
      updates += action.kind == ActionKind::update ? 1 : 0;
    }
    int const of_step = updates > 0 ? (microbatches + updates - 1) / updates : 1;
    Asynchrony const found =
        asynchrony_named(schedule_, static_cast<int>(read_.rows.size()), of_step);
    if (found.on() && microbatches % of_step != 0) {
      throw TableError{name_, last_microbatch_at_,
                       std::to_string(microbatches) + " microbatches are no whole steps of " +
                           std::to_string(of_step) +
                           ", as many as there are for each update in the first row"};
    }
    return found;
  }

  [[nodiscard]] Verdict judge(CheckedTable const& table, int depth) const {
    if (table.asynchrony.on()) {
      return verify(table.lowered, table.map, table.microbatches, table.asynchrony, depth);
    }
    if (table.descends) {
      return judge_descending(table, depth);
    }
    if (first_update_ == ActionKind::end && !completed_) {
      return verify(table.lowered, table.map, table.microbatches, depth);
    }
    Averaging averaging;
    averaging.what = exchanges_ ? Averaged::weights : Averaged::gradients;
    averaging.overlapped = first_update_ == ActionKind::exchange;
    if (completed_) {
      return judge_step(table, averaging, depth);
    }
    return verify(table.lowered, table.map, table.microbatches, averaging, depth);
  }

  // The backward passes are numbered from the last microbatch on, so that verify() finds them in
  // ascending order. It then takes another forward for theirs: all of a stage must stand before.
  [[nodiscard]] Verdict judge_descending(CheckedTable const& table, int depth) const {
    StageMapView const& map = table.map;
    int const share = table.microbatches / map.copies;
    auto const mirror = [&](Action& action) {
      if (goes_back(action.kind)) {
        int const first = map.first_microbatch(action.stage, table.microbatches);
        action.index = 2 * first + share - 1 - action.index;
      }
    };
    ActionRows mirrored = table.lowered;
    std::vector<int> forwards(table.map.device.size());
    Verdict early;
    for (std::size_t rank = 0; rank < mirrored.size(); ++rank) {
      for (std::size_t i = 0; i < mirrored[rank].size(); ++i) {
        Action const action = mirrored[rank][i];
        int& done = forwards[static_cast<std::size_t>(action.stage)];
        done += action.kind == ActionKind::forward ? 1 : 0;
        if (early && is_backward_pass(action.kind) && done < share) {
          early = {.flaw = Flaw::before_its_input,
                   .rank = static_cast<int>(rank),
                   .position = static_cast<int>(i),
                   .action = action,
                   .other = {ActionKind::forward, 0, action.stage, action.index}};
        }
        mirror(mirrored[rank][i]);
      }
    }
    Verdict found = verify(mirrored, table.map, table.microbatches, depth);
    mirror(found.action);
    mirror(found.other);
    mirror(found.waiting);
    return found ? early : found;
  }

  // With the buckets that are there, and replicas if something is summed that a replica alone would
  // not.
  [[nodiscard]] Verdict judge_step(CheckedTable const& table, Averaging const& averaging,
                                   int depth) const {
    std::vector<std::vector<int>> stages(read_.rows.size());
    bool sums = false;
    for (std::size_t rank = 0; rank < read_.rows.size(); ++rank) {
      for (Action const& action : read_.rows[rank]) {
        bool const bucket = action.kind == ActionKind::reduce_gradient;
        if (bucket && action.index == static_cast<int>(stages[rank].size())) {
          stages[rank].push_back(action.stage);
        }
        sums = sums || bucket || (read_.rows.size() == 1 && action.kind == ActionKind::begin_loss);
      }
    }
    std::vector<std::span<int const>> const buckets(stages.begin(), stages.end());
    bool const of_replicas = sums && (averaging.keeps_two() || copies_ == 1);
    StepRules const rules{
        .replicas = of_replicas ? 2 : 1, .averaging = averaging, .buckets = buckets.data()};
    return verify(table.lowered, table.map, table.microbatches, rules, depth);
  }

  // Where lower() put the messages, the sentence is about the passes that are in the file, unless
  // it is about who waits for whom.
  void name_passes(Verdict& verdict) const {
    bool const waits = verdict.flaw == Flaw::deadlock || verdict.flaw == Flaw::unmatched_send ||
                       verdict.flaw == Flaw::unmatched_receive ||
                       verdict.flaw == Flaw::out_of_fifo_order;
    if (!has_messages_ && !waits) {
      verdict.action = pass_of(verdict.action, verdict.rank);
      verdict.other = pass_of(verdict.other, verdict.rank);
    }
  }

  Action pass_of(Action action, int rank) const {
    if (action.kind == ActionKind::receive_forward || action.kind == ActionKind::send_forward) {
      action.kind = ActionKind::forward;
    } else if (is_message(action.kind)) {
      action.kind = ActionKind::backward;
      for (Action const& one : row_of(read_.rows, rank)) {
        if (one.stage == action.stage && one.kind == ActionKind::input_gradient) {
          action.kind = ActionKind::input_gradient;
        }
      }
    }
    return action;
  }

  // A message that lower() put there is traced to its pass.
  TextPlace place_of(Verdict const& verdict, ActionRows const& lowered) const {
    auto const rank = static_cast<std::size_t>(verdict.rank);
    auto position = static_cast<std::size_t>(verdict.position);
    if (verdict.flaw == Flaw::uneven_copies) {
      return last_microbatch_at_;
    }
    if (!has_messages_) {
      std::size_t passes = 0;
      for (std::size_t i = 0; i < position && i < lowered[rank].size(); ++i) {
        passes += is_message(lowered[rank][i].kind) ? 0U : 1U;
      }
      bool const sends = position < lowered[rank].size() &&
                         (lowered[rank][position].kind == ActionKind::send_forward ||
                          lowered[rank][position].kind == ActionKind::send_backward);
      position = sends && passes > 0 ? passes - 1 : passes;
    }
    return position < read_.place[rank].size() ? read_.place[rank][position] : read_.end[rank];
  }

  ReadTable const& read_;
  int copies_;
  std::string_view schedule_;
  std::string const& name_;
  long long actions_ = 0;
  bool has_messages_ = false;
  bool exchanges_ = false;
  bool completed_ = false;                     // has sums, as complete() writes them
  ActionKind first_update_ = ActionKind::end;  // of U and X, in the first row that has either
  int last_stage_ = -1;
  TextPlace last_stage_at_;
  int last_microbatch_ = -1;
  TextPlace last_microbatch_at_;
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE CheckedTable check_table(ReadTable const& table, int copies, int depth,
                                     std::string const& name, std::string_view schedule) {
  return detail::TableCheck{table, copies, schedule, name}.run(depth);
}

}  // namespace tandem

#endif
