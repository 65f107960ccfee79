// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MessageAccounts: the tensors that a device sends and receives, and what puts them there.

#include <algorithm>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/measure/account/account.hpp>
#include <tandem/measure/account/account_device.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/strategy/memory/buffer_sizes.hpp>
#include <tandem/strategy/memory/gradient_arena.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// As RankLinks does it.
class MessageAccounts {
 public:
  MessageAccounts(StepAccount& to, AccountDevice const& device, AccountPrecision const& precision)
      : to_{to},
        graph_{device.graph},
        apart_{device.plan.batching.reproducible},
        sizes_{device.graph, 1, precision.scalar},
        nowhere_{device.graph.nodes},
        arena_{device.graph,
               {.element_bytes = precision.scalar, .in_place = nowhere_.data(), .apart = apart_}} {}

  /// A message of @p batch samples.
  void run(Action action, int batch) {
    switch (action.kind) {
      case ActionKind::send_forward:
        each(NodeKind::send, action.stage, [&](int n) { send(n, action, "send forward", batch); });
        break;
      case ActionKind::receive_forward:
        each(NodeKind::receive, action.stage,
             [&](int n) { receive(n, action, "receive forward", batch); });
        break;
      case ActionKind::send_backward:
        each(NodeKind::receive, action.stage, [&](int n) {
          for (int r = 0; graph_.node[n].needs_gradient && r < (adds(n) ? 1 : readers(n)); ++r) {
            send(n, action, "send backward", batch);
          }
        });
        break;
      default:
        each(NodeKind::send, action.stage, [&](int n) {
          for (int e = 0; graph_.node[n].needs_gradient && e < graph_.node[n].edges; ++e) {
            receive(n, action, "receive backward", batch);
          }
        });
    }
  }

  /// The gradient of a received node goes to where it is sent from.
  void gather(int n, int batch) {
    double const size = bytes(n, batch);
    std::string const place =
        to_string(graph_.node[n].path) + " " + std::string{graph_.node[n].name};
    if (int const count = readers(n); adds(n) && count > 1) {
      to_.add(place, "fork", "map_kernel:SumBody", count * size, size);
      return;
    }
    int reader = 0;
    for (int e = 0; e < graph_.edges; ++e) {
      if (graph_.source[e] == n &&
          arena_.edge[e] != arena_.outgoing[n] + reader++ * sizes_.bytes(n)) {
        to_.add(place, "fork", "copy", size, size);
      }
    }
  }

 private:
  template <class F>
  void each(NodeKind kind, int stage, F const& f) const {
    for (int n = 0; n < graph_.nodes; ++n) {
      if (graph_.node[n].kind == kind && graph_.node[n].stage == stage) {
        f(n);
      }
    }
  }
  [[nodiscard]] int readers(int n) const {
    return static_cast<int>(std::count(graph_.source, graph_.source + graph_.edges, n));
  }
  // Whether the sum of several gradients is sent, not each of them.
  [[nodiscard]] bool adds(int n) const { return !apart_ || graph_.node[n].named; }
  [[nodiscard]] double bytes(int n, int batch) const {
    return static_cast<double>(graph_.node[n].out.elements() * batch * sizes_.element_bytes);
  }
  static std::string place(Action action) { return "stage " + std::to_string(action.stage); }
  void send(int n, Action action, std::string_view pass, int batch) {
    to_.add(place(action), pass, "ncclSend", bytes(n, batch), 0);
  }
  void receive(int n, Action action, std::string_view pass, int batch) {
    to_.add(place(action), pass, "ncclRecv", 0, bytes(n, batch));
  }

  StepAccount& to_;
  GraphView graph_;
  bool apart_;
  BufferSizes sizes_;
  Scratch<bool> nowhere_;  // no op on Cuda works in place
  GradientArena arena_;
};

}  // namespace tandem::detail

#endif
