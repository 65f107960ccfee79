// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Verdict: what is wrong with an action table, and where; sentence.hpp says it.

#include <cstdint>

#include <tandem/schedule/table/action.hpp>

namespace tandem {

enum class Flaw : std::uint8_t {
  none,
  unsound_map,           ///< stages or edges that cannot be, or rows of other devices
  uneven_copies,         ///< the copies of the model cannot have equal runs of the microbatches
  foreign_action,        ///< neither a pass nor a message of synchronous training
  unknown_stage,         ///< `action` is of a stage that the map does not have
  wrong_device,          ///< `action` stands in the row of `rank`, its stage is on `other_rank`
  unknown_microbatch,    ///< `action` is of none of its copy's microbatches
  missing,               ///< `action` is nowhere in its row; `other` needs it, if it has an index
  doubled,               ///< `action` was done before
  out_of_order,          ///< `action` stands before `other`, of an earlier microbatch
  retired_out_of_order,  ///< the same, of the backward (or W) that ends a microbatch
  before_its_input,      ///< `action` stands before `other`, whose result it needs
  nothing_to_send,       ///< all that `action` could send stays on its device
  nothing_to_receive,    ///< all that `action` could receive is made on its device
  unmatched_send,        ///< `action` sends, and `other` of `other_rank`, its receive, is not there
  unmatched_receive,     ///< `action` receives, and `other` of `other_rank` is not there
  out_of_fifo_order,     ///< `action` receives, but the next of its link is from `other`
  foreign_update,        ///< as foreign_action, in a table with updates
  wrong_version,         ///< `action` reads another version of the weights than `count`, its own
  version_to_come,       ///< … one that its stage, after `count` updates, does not have yet
  version_gone,          ///< … one that its stage, after `count` updates, has overwritten
  exchanged_otherwise,   ///< where `action` stands, `other_rank` exchanges `other`
  unsound_rules,         ///< buckets of `rank` are of other stages, or others than a copy's
  foreign_tail,          ///< `action` is none of the step's sums, updates and exchanges
  reduced_out_of_order,  ///< `action` stands before `other`, an earlier bucket
  deadlock,              ///< `action` waits for `other`, which is behind what `other_rank` waits at
  queues_shared,         ///< `action` waits forever, since streams share `count` hardware queues
};

struct Verdict {
  Flaw flaw = Flaw::none;
  int rank = 0;
  int position = 0;  ///< of `action` in its row; where it is missing, of what needs it, or the end
  Action action = {};
  Action other = {.index = -1};
  int other_rank = -1;
  Action waiting = {};  ///< of a deadlock: what `other_rank` waits at
  int first = 0;        ///< of what the flaw is about, the numbers allowed: stages, microbatches
  int count = 0;
  int depth = 1;

  /// Whether the table is valid.
  constexpr explicit operator bool() const { return flaw == Flaw::none; }
};

}  // namespace tandem
