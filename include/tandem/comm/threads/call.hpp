// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::Call: what one thread-rank brings to a collective, and the words for it.
///
/// Ranks compare their calls before any of them touches a buffer.

#include <cstddef>
#include <cstdint>
#include <string>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/runtime/host/queue.hpp>

namespace tandem::detail {

/// One rank's arguments. `type` identifies the element type and the reduction.
struct Call {
  Operation operation = Operation::barrier;
  Label label{};
  void const* type = nullptr;
  std::size_t count = 0;
  int root = 0;
  void const* in = nullptr;
  void* out = nullptr;
  host::Queue const* queue = nullptr;  ///< that makes the call; null: the rank's own thread

  /// Whether what must agree on all ranks does.
  [[nodiscard]] bool matches(Call const& other) const noexcept {
    return operation == other.operation && type == other.type && count == other.count &&
           root == other.root;
  }
};

/// Its address identifies an element type and a reduction at run time.
template <class T, class Op>
inline constexpr char type_mark = 0;

/// A collective's call; @p in and @p out are its first elements.
template <class T, class Op>
constexpr Call collective(Operation operation, Label label, std::size_t count, void const* in,
                          void* out, host::Queue const* queue = nullptr, int root = 0) {
  return {operation, label, &type_mark<T, Op>, count, root, in, out, queue};
}

/// " (bucket 2)", or "".
TANDEM_ONCE TANDEM_COLD std::string in_brackets(Label label);

/// "all-reduce #17 (bucket 2)"
TANDEM_ONCE TANDEM_COLD std::string numbered(Call const& call, std::uint64_t number);

/// "all-reduce (bucket 2) of 10 elements"
TANDEM_ONCE TANDEM_COLD std::string to_string(Call const& call);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string to_string(Call const& call) {
  std::string text = name(call.operation) + in_brackets(call.label);
  if (call.operation != Operation::barrier) {
    text.append(" of ").append(std::to_string(call.count)).append(" elements");
  }
  if (call.operation == Operation::broadcast) {
    text.append(" from rank ").append(std::to_string(call.root));
  }
  return text;
}

TANDEM_ONCE std::string in_brackets(Label label) {
  std::string const text = to_string(label);
  return text.empty() ? text : " (" + text + ")";
}

TANDEM_ONCE std::string numbered(Call const& call, std::uint64_t number) {
  return std::string{name(call.operation)} + " #" + std::to_string(number) +
         in_brackets(call.label);
}

}  // namespace tandem::detail

#endif
