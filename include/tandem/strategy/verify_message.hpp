// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A Verdict as a sentence.

#include <string>

#include <tandem/strategy/verdict.hpp>

namespace tandem {

/// "rank 1: 2B3 stands before 2RECV_B3, which it needs".
template <class = void>  // compiled where it is called, not by every include
std::string to_string(Verdict const& v) {
  std::string const at = "rank " + std::to_string(v.rank) + ": ";
  std::string const action = to_string(v.action);
  std::string const other = to_string(v.other);
  std::string const peer = "rank " + std::to_string(v.other_rank);
  switch (v.flaw) {
    case Flaw::none:
      return "the action table is valid";
    case Flaw::unsound_map:
      return "the table has " + std::to_string(v.rank) + " rows and the map " +
             std::to_string(v.count) +
             " devices; give as many rows as devices, and a map whose edges lead from a lower "
             "stage "
             "to a higher one of the same copy, those of a link from one device to one other";
    case Flaw::uneven_copies:
      return std::to_string(v.first) + " microbatches cannot be dealt evenly to " +
             std::to_string(v.count) + " copies of the model; give a multiple of the copies";
    case Flaw::foreign_action:
      return at + action +
             " is neither a pass nor a message of weight version 0; leave reductions and updates "
             "out of the table";
    case Flaw::foreign_update:
      return at + action +
             " is neither a pass, a message nor an update of this table; leave reductions out, "
             "exchanges where no weights are averaged, and versions of anything but passes";
    case Flaw::unknown_stage:
      return at + action + " is of a stage that does not exist; stages are 0 to " +
             std::to_string(v.count - 1);
    case Flaw::wrong_device:
      return at + action + " belongs to " + peer + ", which has its stage";
    case Flaw::unknown_microbatch:
      return at + action + " is of a microbatch that its stage does not have; it has " +
             std::to_string(v.first) + " to " + std::to_string(v.first + v.count - 1);
    case Flaw::missing:
      return at + action + " is missing" + (v.other.index >= 0 ? " before " + other : "");
    case Flaw::doubled:
      return at + action + " stands there although it was done before";
    case Flaw::out_of_order:
      return at + action + " stands before " + other +
             "; the microbatches of a stage must come in ascending order";
    case Flaw::retired_out_of_order:
      return at + action + " stands before " + other +
             "; the microbatches of a stage must be retired in ascending order";
    case Flaw::before_its_input:
      return at + action + " stands before " + other + ", which it needs";
    case Flaw::nothing_to_send:
      return at + action + " has nothing to send: no other device needs what it names";
    case Flaw::nothing_to_receive:
      return at + action + " has nothing to receive: no other device makes what it names";
    case Flaw::unmatched_send:
      return at + action + " waits for a free place, but " + peer + " has no " + other +
             " that would make one";
    case Flaw::unmatched_receive:
      return at + action + " waits for a message, but " + peer + " has no " + other +
             " that would send it";
    case Flaw::out_of_fifo_order:
      return at + action + " is not the next message of its link, which is that of " + other +
             "; receive in the order of the sends";
    case Flaw::wrong_version:
      return at + action + " must read version " + std::to_string(v.count) +
             " of the weights; so the schedule says";
    case Flaw::version_to_come:
      return at + action + " reads weights that are not there yet: its stage has had " +
             std::to_string(v.count) + (v.count == 1 ? " update" : " updates");
    case Flaw::version_gone:
      return at + action + " reads weights that are overwritten: its stage has had " +
             std::to_string(v.count) + (v.count == 1 ? " update" : " updates");
    case Flaw::exchanged_otherwise:
      return at + action + " stands where " + peer + " has " + other +
             "; two devices must exchange their stages in one order";
    case Flaw::deadlock:
      return at + action + " waits for " + other + ", but " + peer + " waits at " +
             to_string(v.waiting) + ": a deadlock with " + std::to_string(v.depth) +
             (v.depth == 1 ? " message" : " messages") + " in flight for each link and direction";
  }
  return at + action;
}

}  // namespace tandem
