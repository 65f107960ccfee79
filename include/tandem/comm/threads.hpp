// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ThreadsCommunicator: collectives between ranks that are threads of one process.
///
/// Every rank works on its share of the elements of all ranks' buffers, in place and without copies
/// through a third buffer; sums have the order of comm/fixed_tree.hpp, whoever comes first.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/threads_call.hpp>
#include <tandem/comm/threads_group.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/runtime/host/queue.hpp>

namespace tandem {

namespace detail {

/// A rank's share of @p count elements: whole cache lines, so that no two ranks write to one.
struct Share {
  std::size_t begin;
  std::size_t end;
};

constexpr Share share_of(int rank, int ranks, std::size_t count, std::size_t element_bytes) {
  std::size_t const line = element_bytes < 64 ? 64 / element_bytes : 1;
  auto const n = static_cast<std::size_t>(ranks);
  std::size_t const size = ((count + n - 1) / n + line - 1) / line * line;
  std::size_t const begin = std::min(count, size * static_cast<std::size_t>(rank));
  return {begin, std::min(count, begin + size)};
}

}  // namespace detail

/// One rank's end of a ThreadsGroup; a small value, copies of it are the same end.
///
/// Models AllReduces, Broadcasts and Barriers. Each rank needs a stream of its own, used by one
/// thread. A collective's errors come out of that stream's wait() or synchronize(): AbortedError
/// when the group was aborted, TimeoutError when a rank did not come, and ContractError, on every
/// rank and leaving the group usable, when the ranks' calls do not match.
class ThreadsCommunicator {
 public:
  using Stream = host::Queue;

  /// out[i] = op over the ranks' in[i]; the label is for messages. See AllReduces.
  ///
  /// Order:  a tree fixed by rank, see reduce_in_tree(); all ranks get the same bits in every run.
  /// Cost:   reads and writes 2 (n - 1) / n * bytes(in) of the other ranks' memory; no allocation.
  /// @throws ContractError  the sizes of in and out differ, or they overlap in part
  template <class T, class Op>
    requires Reduction<Op, T>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                  Stream& stream, Label label = {}) {
    expects(in.size() == out.size(),
            "all_reduce: in and out must have the same number of elements");
    auto const from = reinterpret_cast<std::uintptr_t>(in.data());
    auto const to = reinterpret_cast<std::uintptr_t>(out.data());
    expects(from == to || from + in.size_bytes() <= to || to + out.size_bytes() <= from,
            "all_reduce: in and out must be the same elements or not overlap at all");
    stream.post([group = group_, rank = rank_, op, first = in.data(), result = out.data(),
                 count = out.size(), label] {
      group->meet(rank, {.operation = Operation::all_reduce,
                         .label = label,
                         .type = &detail::type_mark<T, Op>,
                         .count = count,
                         .in = first,
                         .out = result});
      reduce_share<T>(*group, rank, count, op);
      group->leave(rank);
    });
  }

  /// data = root's data; the label is for messages. See Broadcasts.
  ///
  /// Cost:   every rank but the root copies bytes(data); no allocation.
  /// @throws ContractError  @p root is not in [0, size())
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    expects(root >= 0 && root < size(), "broadcast: the root must be a rank of the group");
    stream.post(
        [group = group_, rank = rank_, root, first = data.data(), count = data.size(), label] {
          group->meet(rank, {.operation = Operation::broadcast,
                             .label = label,
                             .type = &detail::type_mark<T, void>,
                             .count = count,
                             .root = root,
                             .in = first,
                             .out = first});
          if (rank != root && count > 0) {
            std::memcpy(first, group->call_of(root).in, count * sizeof(T));
          }
          group->leave(rank);
        });
  }

  /// No rank's stream passes before every rank's stream has come; the label is for messages.
  template <class = void>  // compiled where it is called, not by every include
  void barrier(Stream& stream, Label label = {}) {
    stream.post([group = group_, rank = rank_, label] {
      group->meet(rank, {.operation = Operation::barrier, .label = label});
      group->leave(rank);
    });
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return group_->size(); }

 private:
  friend class ThreadsGroup;

  ThreadsCommunicator(ThreadsGroup& group, int rank) : group_{&group}, rank_{rank} {}

  template <class T, class Op>
  static void reduce_share(ThreadsGroup const& group, int rank, std::size_t count, Op op) {
    std::array<T const*, max_tree_ranks> inputs;
    std::array<T*, max_tree_ranks> outputs;
    auto const ranks = static_cast<std::size_t>(group.size());
    for (std::size_t r = 0; r < ranks; ++r) {
      detail::Call const& call = group.call_of(static_cast<int>(r));
      inputs[r] = static_cast<T const*>(call.in);
      outputs[r] = static_cast<T*>(call.out);
    }
    auto const [begin, end] = detail::share_of(rank, group.size(), count, sizeof(T));
    reduce_in_tree(std::span<T const* const>{inputs.data(), ranks}, begin, end,
                   std::span<T* const>{outputs.data(), ranks}, op);
  }

  ThreadsGroup* group_;
  int rank_;
};

inline ThreadsCommunicator ThreadsGroup::communicator(int rank) {
  expects(rank >= 0 && rank < ranks_, "ThreadsGroup::communicator: no such rank in this group");
  return {*this, rank};
}

}  // namespace tandem
