// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operation: the collectives and messages by name; Label: what a caller calls one of its
/// collectives.
///
/// Both only identify: they stand in time-out messages and in records, and change no number.

#include <string>

#include <tandem/core/config.hpp>

namespace tandem {

/// A collective operation, or one end of a message.
enum class Operation { all_reduce, broadcast, barrier, reduce_scatter, all_gather, send, receive };

/// "all-reduce", "broadcast", …: as they stand in messages.
constexpr char const* name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::broadcast:
      return "broadcast";
    case Operation::barrier:
      return "barrier";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::all_gather:
      return "all-gather";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
  }
  return "unknown";
}

/// A text and a number for messages: Label{"bucket", 2} prints "bucket 2". The text is not copied;
/// it must live as long as the group, as a literal does. It need not agree on all ranks.
struct Label {
  char const* text = nullptr;
  int index = -1;
};

/// "bucket 2", "loss", or "" for the empty label.
TANDEM_ONCE TANDEM_COLD std::string to_string(Label label);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string to_string(Label label) {
  std::string text = label.text != nullptr ? label.text : "";
  if (label.index >= 0) {
    text += text.empty() ? "" : " ";
    text += std::to_string(label.index);
  }
  return text;
}

}  // namespace tandem

#endif
