// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MemoryCheck: plays a row of actions on a rank's tables of pointers, byte by byte of its arenas.
/// checks_memory: every rank that a program makes is checked so.
///
/// Every write marks its bytes with the buffer and the microbatch, every read must find the marks
/// of what it wants, and nothing may write where a message is sent from that may not have left: so
/// buffers whose lives meet cannot overlap but as views and in place. It knows the graph and what a
/// pass reads and writes, and of the plan only the pointers that came of it and its waits.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <memory_check/checked_memory.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/memory/rank_memory.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/asynchronous_run.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>

namespace tandem::test {

/// T: of activations; P: of parameters.
template <class T, class P>
class MemoryCheck : CheckedMemory<T, P> {
  using Base = CheckedMemory<T, P>;

 public:
  explicit MemoryCheck(RankMemoryView<T, P> const& task) : Base{task} {}

  /// The first fault in a sentence; "" if there is none.
  /// @param row       passes and messages; what else stands there touches no activation
  /// @param table_of  table_of(m): the number of microbatch m's table
  /// @param stride    microbatches that it does not divide have no samples: nothing is done for
  ///                  them, nor waited for
  template <class TableOf>
  std::string play(std::vector<Action> const& row, bool training, TableOf const& table_of,
                   int stride = 1) {
    this->begin(training);
    for (Action const& action : row) {
      if (action.kind <= ActionKind::receive_backward && action.index % stride == 0 &&
          fault_.empty()) {
        this->begin(action, table_of(action.index));
        play();
      }
    }
    return fault_;
  }

 private:
  using Base::action_;
  using Base::await;
  using Base::fault_;
  using Base::graph_;
  using Base::memory_;
  using Base::names_;
  using Base::needs;
  using Base::operands;
  using Base::read;
  using Base::read_inputs;
  using Base::read_value;
  using Base::saved;
  using Base::send;
  using Base::table_;
  using Base::tables_;
  using Base::task_;
  using Base::whole;
  using Base::write;

  void play() {
    switch (action_.kind) {
      case ActionKind::forward:
        await(ActionKind::forward);
        each([&](int n) { forward(n); });
        each([&](int n) { read_result(n); });
        break;
      case ActionKind::send_forward:
        each([&](int n) { send_value(n); });
        break;
      case ActionKind::receive_forward:
        await(ActionKind::receive_forward);
        each([&](int n) { receive_value(n); });
        break;
      case ActionKind::send_backward:
        each([&](int n) { send_gradients(n); });
        break;
      case ActionKind::receive_backward:
        each([&](int n) { receive_gradients(n); });
        break;
      case ActionKind::weight_gradient:
        each_back([&](int n) { weight_gradient(n); });
        break;
      default:
        await(ActionKind::backward);
        each([&](int n) { write_loss_gradient(n); });
        backward();
    }
  }

  // The nodes of the action's stage.
  template <class F>
  void each(F const& f) {
    for (StageLife const& stage : task_.stages) {
      for (int n = stage.first; n < stage.last; ++n) {
        if (graph_.node[n].stage == action_.stage) {
          f(n);
        }
      }
    }
  }
  template <class F>
  void each_back(F const& f) {
    std::vector<int> nodes;
    each([&](int n) { nodes.push_back(n); });
    for (std::size_t i = nodes.size(); i-- > 0;) {
      f(nodes[i]);
    }
  }

  void send_value(int n) {
    if (graph_.node[n].kind != NodeKind::send) {
      return;
    }
    int const source = graph_.source[graph_.node[n].first_edge];
    if (T const* const from = operands(n).x[0]; from != nullptr) {
      read_value(from, source);
      send(from, source, n, names_.value(source));
    }
  }
  void receive_value(int n) {
    if (graph_.node[n].kind == NodeKind::receive) {
      write(whole(operands(n).y, n), names_.value(n));
    }
  }
  void send_gradients(int n) {
    for (int r = 0; r < outgoing(n); ++r) {
      T* const from = tables_.outgoing(action_.index, n, r);
      read(whole(from, n), names_.outgoing(n, r));
      send(from, n, n, names_.outgoing(n, r));
    }
  }
  // What was sent has arrived, or there were no gradient of it.
  void receive_gradients(int n) {
    Node const& node = graph_.node[n];
    if (node.kind == NodeKind::send && node.needs_gradient) {
      memory_.sent(n, action_.index);
    }
    for (int i = 0; node.kind == NodeKind::send && node.needs_gradient && i < node.edges; ++i) {
      int const e = node.first_edge + i;
      write(whole(operands(n).dx[i], graph_.source[e]), names_.edge_gradient(e));
    }
  }
  // Gradients of a received node that are sent.
  [[nodiscard]] int outgoing(int n) const {
    Node const& node = graph_.node[n];
    bool const sends = node.kind == NodeKind::receive && node.needs_gradient;
    return !sends ? 0 : task_.apart && !node.named ? static_cast<int>(names_.readers(n).size()) : 1;
  }

  void forward(int n) {
    if (!graph_.node[n].computes()) {
      return;
    }
    read_inputs(n);
    if (graph_.node[n].fusion.sums >= 0) {
      read_inputs(graph_.node[n].fusion.sums);
    }
    if (names_.is_continued_by(n)) {
      read(whole(operands(n).y, n), names_.value(n));
    }
    write(whole(operands(n).y, n), names_.value(n));
    if (needs(n).saved_bytes > 0) {
      write(saved(n), names_.saved(n));
    }
    if (!needs(n).in_place) {
      read_inputs(n);  // y overlaps no x
    }
    if (graph_.node[n].fusion.sums >= 0) {
      read_inputs(graph_.node[n].fusion.sums);
    }
  }
  void read_result(int n) {
    if (n == graph_.result) {
      read_value(table_->output, n);
    }
  }
  void write_loss_gradient(int n) {
    if (n == graph_.result && graph_.node[n].needs_gradient) {
      read_result(n);
      write(whole(table_->loss_gradient, n), names_.node_gradient(n));
    }
  }

  // What is computed again runs forward before it goes back.
  void backward() {
    bool goes_back = false;
    each([&](int n) { goes_back = goes_back || graph_.node[n].needs_gradient; });
    int again = -1;
    each_back([&](int n) {
      if (int const own = task_.segment != nullptr ? task_.segment[n] : -1;
          goes_back && own >= 0 && own != again) {
        again = own;
        each([&](int other) {
          if (task_.segment[other] == own) {
            forward(other);
          }
        });
      }
      input_gradient(n);
      if (action_.kind == ActionKind::backward) {
        weight_gradient(n);
      }
    });
  }

  void input_gradient(int n) {
    Node const& node = graph_.node[n];
    if (!node.needs_gradient) {
      return;
    }
    add_gradients(n);
    bool wanted = false;
    for (int i = 0; i < node.edges; ++i) {
      wanted = wanted || graph_.node[graph_.source[node.first_edge + i]].needs_gradient;
    }
    if (!wanted || !node.computes() || names_.passes_on(node)) {
      return;
    }
    read_for_backward(n);
    read_other(n);
    if (node.fusion.activated_by >= 0 && needs(node.fusion.activated_by).saved_bytes > 0) {
      read(saved(node.fusion.activated_by), names_.saved(node.fusion.activated_by));
    }
    for (int i = 0; i < node.edges; ++i) {
      int const e = node.first_edge + i;
      if (operands(n).dx[i] != nullptr || graph_.node[graph_.source[e]].needs_gradient) {
        write(whole(operands(n).dx[i], graph_.source[e]), names_.edge_gradient(e));
      }
    }
    if (!needs(n).in_place) {
      read_for_backward(n);  // dx overlaps nothing of it
      read_other(n);
    }
  }
  void weight_gradient(int n) {
    Node const& node = graph_.node[n];
    if (node.needs_gradient && node.computes() && node.parameters > 0 && !node.frozen) {
      read_for_backward(n);
    }
  }
  void read_for_backward(int n) {
    read(whole(operands(n).dy, n), names_.node_gradient(n));
    if (needs(n).input) {
      read_inputs(n);
    }
    if (needs(n).output) {
      read_value(operands(n).y, n);
    }
    if (needs(n).saved_bytes > 0) {
      read(saved(n), names_.saved(n));
    }
  }

  // What the other reader gave the sum that node n joins.
  void read_other(int n) {
    Node const& node = graph_.node[n];
    for (int const e : names_.joins(node) ? names_.readers(node.fusion.sums) : std::vector<int>{}) {
      if (e != node.first_edge) {
        read(whole(operands(n).fused.also, node.fusion.sums), names_.edge_gradient(e));
      }
    }
  }

  // The gradient of a node's output from those that its readers gave it.
  void add_gradients(int n) {
    if (graph_.node[n].fusion.joined) {
      return;
    }
    std::vector<int> const& edges = names_.readers(n);
    auto const read_summand = [&](std::size_t r) {
      read(whole(table_->forks[table_->first_fork[n] + r], n), names_.edge_gradient(edges[r]));
    };
    bool const sends = graph_.node[n].kind == NodeKind::receive;
    bool const copies = sends && ((task_.apart && !graph_.node[n].named) || edges.size() == 1);
    for (std::size_t r = 0; r < edges.size(); ++r) {
      read_summand(r);
      if (copies) {
        write_outgoing(n, static_cast<int>(r));
      }
    }
    if (!copies && edges.size() > 1) {
      sends ? write_outgoing(n, 0) : write(whole(table_->gradient[n], n), names_.node_gradient(n));
      for (std::size_t r = 0; r < edges.size(); ++r) {
        read_summand(r);  // the sum overlaps no summand
      }
    }
  }
  void write_outgoing(int n, int reader) {
    write(whole(tables_.outgoing(action_.index, n, reader), n), names_.outgoing(n, reader));
  }
};

/// Plays a rank's rows, with samples in all microbatches and in every other one; those of an
/// asynchronous pipeline's rank are some rounds, and an evaluation.
/// @throws ContractError  the first fault
template <class T, class P>
void check_memory(RankMemoryView<T, P> const& planned) {
  MemoryCheck<T, P> check{planned};
  auto const play = [&](std::vector<Action> const& row, bool training, int tables) {
    for (int const stride : {1, 2}) {
      auto const table_of = [tables](std::int64_t m) { return static_cast<int>(m % tables); };
      if (std::string const fault = check.play(row, training, table_of, stride); !fault.empty()) {
        throw ContractError{fault};
      }
    }
  };
  if (planned.places == nullptr) {
    constexpr int each = std::numeric_limits<int>::max();  // microbatch has its own
    play(planned.rows.training, true, each);
    play(planned.rows.forward, false, each);
    return;
  }
  WeightPlaces const& places = *planned.places;
  std::int64_t const all = std::int64_t{unrolled_steps(places.rule)} * places.rule.microbatches;
  std::vector<Action> rounds;
  for (std::int64_t g = 0; g < all + places.rule.delay(places.stage); ++g) {
    each_action(
        places.rule, places.stage, g, all,
        [&](Action const& action, std::int64_t /*microbatch*/) { rounds.push_back(action); });
  }
  play(rounds, true, places.tables());
  play(planned.rows.forward, false, places.tables());
}

/// True; from now on each rank of these element types that is made is checked.
inline bool const checks_memory = [] {
  on_rank_memory<float, float> = check_memory<float, float>;
  on_rank_memory<double, double> = check_memory<double, double>;
  on_rank_memory<BFloat16, float> = check_memory<BFloat16, float>;
  on_rank_memory<Float16, float> = check_memory<Float16, float>;
  return true;
}();

}  // namespace tandem::test
