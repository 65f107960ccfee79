// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckedMemory: reads and writes of a rank's arenas by name, for MemoryCheck.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <memory_check/buffer_names.hpp>
#include <tandem/engine/memory/operand_tables.hpp>
#include <tandem/engine/memory/rank_memory.hpp>
#include <tandem/engine/prepare/arenas.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/strategy/memory/buffer_sizes.hpp>

namespace tandem::test {

/// The arenas, during one action at a time; the first fault is kept. T: of activations; P: of
/// parameters.
template <class T, class P>
class CheckedMemory {
 protected:
  using Buffer = MarkedBuffer;

  /// All of @p task outlives this.
  explicit CheckedMemory(RankMemoryView<T, P> const& task)
      : graph_{task.graph},
        needs_{task.needs},
        task_{task.task},
        plan_{task.plan},
        tables_{task.tables},
        sizes_{task.graph, task.task.batch, task.task.element_bytes},
        names_{task.graph} {
    Arenas const arenas{plan_, task_};
    add_arena(task.bases.kept, arenas.kept_bytes());
    add_arena(task.bases.recomputed, plan_.recomputed_bytes);
    add_arena(task.bases.transient, arenas.transient_bytes());
  }

  void begin(bool training) {
    memory_ = {};
    fault_.clear();
    training_ = training;
  }
  void begin(Action action, int table) {
    action_ = action;
    table_ = &tables_.forward(table);
  }

  // Messages from memory that the action is to write have left, as the plan says; of chunks of
  // time those of its own chunk.
  void await(ActionKind before) {
    for (SendWait const& wait : plan_.waits) {
      if (wait.before == before && wait.stage == action_.stage && !(training_ && wait.answered)) {
        memory_.left(wait.node, action_.index % task_.chunks, task_.chunks);
      }
    }
  }
  // From now on node @p node sends the buffer, which is as large as the output of node @p n.
  void send(void const* from, int n, int node, Buffer const& buffer) {
    auto const bytes = static_cast<std::uintptr_t>(sizes_.bytes(n));
    memory_.send({{address(from), address(from) + bytes}, node, now(buffer), action_});
  }

  [[nodiscard]] OpNeeds const& needs(int n) const { return needs_[static_cast<std::size_t>(n)]; }
  [[nodiscard]] Operands<T, P> const& operands(int n) const { return table_->operands[n]; }
  [[nodiscard]] Buffer now(Buffer buffer) const {
    buffer.microbatch = action_.index;
    return buffer;
  }

  // All of the memory of which node n's output, or a gradient of it, is a slice.
  [[nodiscard]] Stretch whole(void const* p, int n) const {
    std::int64_t const before = first_channel_of(graph_, n) * task_.element_bytes;
    std::uintptr_t const begin = address(p) - static_cast<std::uintptr_t>(before);
    return {begin, begin + static_cast<std::uintptr_t>(sizes_.stored_bytes(root_of(graph_, n)))};
  }
  [[nodiscard]] Stretch saved(int n) const {
    std::uintptr_t const begin = address(operands(n).saved);
    return {begin, begin + static_cast<std::uintptr_t>(detail::aligned(needs(n).saved_bytes))};
  }

  void read_value(T const* p, int n) {
    if (p != nullptr) {  // else the network's input, which is the caller's
      read(whole(p, n), names_.value(n));
    }
  }
  void read_inputs(int n) {
    for (int i = 0; i < graph_.node[n].edges; ++i) {
      read_value(operands(n).x[i], graph_.source[graph_.node[n].first_edge + i]);
    }
  }

  void read(Stretch where, Buffer const& buffer) {
    Content const* other = nullptr;
    if (in_arena(where, buffer) && !memory_.has(where, now(buffer), other)) {
      fail("reads " + names_.text(now(buffer)) + ", where " +
           (other == nullptr
                ? "nothing has been written"
                : to_string(other->writer) + " has written " + names_.text(other->buffer)));
    }
  }
  void write(Stretch where, Buffer const& buffer) {
    if (!in_arena(where, buffer)) {
      return;
    }
    if (auto const* const message = memory_.leaving(where); message != nullptr) {
      fail("writes " + names_.text(now(buffer)) + ", where " + to_string(message->sender) +
           " may still be sending " + names_.text(message->buffer));
    }
    memory_.write(where, now(buffer), action_);
  }
  GraphView graph_;
  std::vector<OpNeeds> const& needs_;
  PlanTask const& task_;
  MemoryPlan const& plan_;
  OperandTables<T, P> const& tables_;
  detail::BufferSizes sizes_;
  BufferNames names_;
  MarkedMemory memory_;
  OperandTable<T, P> const* table_ = nullptr;
  Action action_{};
  std::string fault_;

 private:
  static std::uintptr_t address(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }

  void add_arena(std::byte const* base, std::int64_t bytes) {
    arenas_.push_back({address(base), address(base) + static_cast<std::uintptr_t>(bytes)});
  }
  bool in_arena(Stretch where, Buffer const& buffer) {
    for (Stretch const& arena : arenas_) {
      if (where.begin >= arena.begin && where.end <= arena.end) {
        return true;
      }
    }
    fail("has " + names_.text(now(buffer)) + " outside of the rank's memory");
    return false;
  }
  void fail(std::string const& what) {
    if (fault_.empty()) {
      fault_ = "memory plan: " + to_string(action_) + " " + what;
    }
  }

  std::vector<Stretch> arenas_;
  bool training_ = true;
};

}  // namespace tandem::test
