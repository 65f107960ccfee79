// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A Verdict as a sentence.

#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem {

namespace detail {

/// What a flaw is called; what stands in braces is a number or an action of the verdict.
TANDEM_COLD constexpr std::string_view sentence_of(Flaw flaw) {
  switch (flaw) {
    case Flaw::none:
      return "the action table is valid";
    case Flaw::unsound_map:
      return "the table has {rank} rows and the map {count} devices; give as many rows as devices, "
             "and a map whose edges lead from a lower stage to a higher one of the same copy, "
             "those of a link from one device to one other";
    case Flaw::uneven_copies:
      return "{first} microbatches cannot be dealt evenly to {count} copies of the model; give a "
             "multiple of the copies";
    case Flaw::foreign_action:
      return "{action} is neither a pass nor a message of weight version 0; leave reductions and "
             "updates out of the table";
    case Flaw::foreign_update:
      return "{action} is neither a pass, a message nor an update of this table; leave reductions "
             "out, exchanges where no weights are averaged, and versions of anything but passes";
    case Flaw::unknown_stage:
      return "{action} is of a stage that does not exist; stages are 0 to {count-1}";
    case Flaw::wrong_device:
      return "{action} belongs to {peer}, which has its stage";
    case Flaw::unknown_microbatch:
      return "{action} is of a microbatch that its stage does not have; it has {first} to {last}";
    case Flaw::missing:
      return "{action} is missing{before}";
    case Flaw::doubled:
      return "{action} stands there although it was done before";
    case Flaw::out_of_order:
      return "{action} stands before {other}; the microbatches of a stage must come in ascending "
             "order";
    case Flaw::retired_out_of_order:
      return "{action} stands before {other}; the microbatches of a stage must be retired in "
             "ascending order";
    case Flaw::before_its_input:
      return "{action} stands before {other}, which it needs";
    case Flaw::nothing_to_send:
      return "{action} has nothing to send: no other device needs what it names";
    case Flaw::nothing_to_receive:
      return "{action} has nothing to receive: no other device makes what it names";
    case Flaw::unmatched_send:
      return "{action} waits for a free place, but {peer} has no {other} that would make one";
    case Flaw::unmatched_receive:
      return "{action} waits for a message, but {peer} has no {other} that would send it";
    case Flaw::out_of_fifo_order:
      return "{action} is not the next message of its link, which is that of {other}; receive in "
             "the order of the sends";
    case Flaw::wrong_version:
      return "{action} must read version {count} of the weights; so the schedule says";
    case Flaw::version_to_come:
      return "{action} reads weights that are not there yet: its stage has had {updates}";
    case Flaw::version_gone:
      return "{action} reads weights that are overwritten: its stage has had {updates}";
    case Flaw::exchanged_otherwise:
      return "{action} stands where {peer} has {other}; two devices must exchange their stages in "
             "one order";
    case Flaw::unsound_rules:
      return "the buckets of rank {rank} are of stages that it does not have, or as many as "
             "another "
             "copy has not; give for each device the stages of its own";
    case Flaw::foreign_tail:
      return "{action} is no sum, update or exchange of this step; leave it out, and write sums of "
             "all a rank has, and the update of one model, with its lowest stage";
    case Flaw::reduced_out_of_order:
      return "{action} stands before {other}; await a rank's buckets in ascending order";
    case Flaw::deadlock:
      return "{action} waits for {other}, but {peer} waits at {waiting}: a deadlock with {depth} "
             "in flight for each link and direction";
    case Flaw::queues_shared:
      return "{action} waits forever, since the streams of its GPU share {queues}; "
             "raise CUDA_DEVICE_MAX_CONNECTIONS, to 32 at most";
  }
  return "{action}";
}

inline std::string counted(int count, char const* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// What stands for @p name in a sentence.
TANDEM_ONCE TANDEM_COLD std::string value_of(std::string_view name, Verdict const& v);

}  // namespace detail

/// "rank 1: 2B3 stands before 2RECV_B3, which it needs".
TANDEM_ONCE TANDEM_COLD std::string to_string(Verdict const& v);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string value_of(std::string_view name, Verdict const& v) {
  if (name == "action" || name == "other" || name == "waiting") {
    return to_string(name == "action" ? v.action : name == "other" ? v.other : v.waiting);
  }
  if (name == "before") {
    return v.other.index >= 0 ? " before " + to_string(v.other) : "";
  }
  if (name == "peer") {
    return "rank " + std::to_string(v.other_rank);
  }
  if (name == "updates" || name == "depth" || name == "queues") {
    return name == "depth" ? counted(v.depth, "message")
                           : counted(v.count, name == "queues" ? "hardware queue" : "update");
  }
  return std::to_string(name == "rank"      ? v.rank
                        : name == "first"   ? v.first
                        : name == "last"    ? v.first + v.count - 1
                        : name == "count-1" ? v.count - 1
                                            : v.count);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string to_string(Verdict const& v) {
  std::string_view rest = detail::sentence_of(v.flaw);
  std::string sentence;
  if (rest.substr(0, 8) == "{action}") {
    sentence = "rank " + std::to_string(v.rank) + ": ";
  }
  for (auto open = rest.find('{'); open != rest.npos; open = rest.find('{')) {
    auto const close = rest.find('}');
    sentence.append(rest.substr(0, open));
    sentence += detail::value_of(rest.substr(open + 1, close - open - 1), v);
    rest.remove_prefix(close + 1);
  }
  return sentence.append(rest);
}

}  // namespace tandem

#endif
