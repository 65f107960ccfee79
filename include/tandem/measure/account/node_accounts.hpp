// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NodeAccounts: what the nodes of a device's graph queue in their passes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/measure/account/account.hpp>
#include <tandem/measure/account/account_device.hpp>
#include <tandem/measure/account/slot_accounts.hpp>
#include <tandem/ops/cuda/launch_table.hpp>
#include <tandem/ops/tile_routes.hpp>
#include <tandem/runtime/cuda/cast_queue.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// What of a backward pass is computed.
struct AccountPart {
  bool inputs = true;
  bool weights = true;

  /// Whether the other half is another action of the row.
  [[nodiscard]] bool apart() const { return !inputs || !weights; }
};

/// Adds what the nodes of a device's graph queue for its microbatches.
class NodeAccounts {
 public:
  /// @param slots  where parameters come and go, as passes read them; outlives this
  NodeAccounts(StepAccount& to, AccountDevice const& device, AccountPrecision const& precision,
               SlotAccounts& slots)
      : to_{to}, device_{device}, graph_{device.graph}, precision_{precision}, slots_{slots} {
    std::int64_t most = 0;
    std::int64_t all = 0;
    for (int n = 0; n < graph_.nodes; ++n) {
      most = std::max(most, waiting_bytes(n));
      all += waiting_bytes(n);
    }
    casts_.bytes = std::max(most, std::min(all, std::int64_t{32} << 20));
  }

  /// Of nodes [first, last).
  void forward(int first, int last, Microbatch const& own, std::string_view name = "forward") {
    for (int n = first; n < last; ++n) {
      slots_.use(n, PassDirection::forward);
      add(n, sizes(n, own, false, false), cuda::KernelPass::forward, name);
      exchange(n, own.size, name);
    }
  }
  /// Of a stage's nodes, where what was not kept is computed again, run by run.
  /// @param host  gathered(n, batch): a received node's gradient goes to where it is sent from;
  ///              closed(bucket): it is whole
  template <class Host>
  void backward(LocalStage const& stage, Microbatch const& own, AccountPart part,
                Host const& host) {
    for (int end = stage.last; end > stage.first;) {
      int begin = stage.first;
      if (device_.segment[stage.first] >= 0) {
        for (begin = end - 1; begin > stage.first;) {
          if (device_.segment[begin - 1] != device_.segment[end - 1]) {
            break;
          }
          --begin;
        }
        forward(begin, end, own, "again");
      }
      for (int n = end - 1; n >= begin; --n) {
        backward_node(n, own, part, host);
      }
      end = begin;
    }
  }

  /// After the update the weights of siblings are put side by side.
  void pack(int first, int last) {
    cuda::CastQueue packing;
    double elements = 0;
    auto const flush = [&] {
      if (packing.entries > 0) {
        double const bytes = elements * precision_.scalar;
        to_.add("update", "", "cast_many_kernel", bytes, bytes);
      }
      packing.clear();
      elements = 0;
    };
    for (int n = first; n < last; ++n) {
      if (!is_convolution(n) || graph_.node[n].fusion.width == 0) {
        continue;
      }
      int count = 0;
      each_sibling(n, [&](int) { ++count; });
      if (!packing.fits(count, 0, false)) {
        flush();
      }
      each_sibling(n, [&](int s) {
        packing.put(nullptr, nullptr, weights_of(s), false);
        elements += static_cast<double>(weights_of(s));
      });
    }
    flush();
  }

  [[nodiscard]] double activation(int n, int batch) const {
    return static_cast<double>(graph_.node[n].out.elements()) * batch * precision_.scalar;
  }

 private:
  static std::string place(Node const& node) {
    return to_string(node.path) + " " + std::string{node.name};
  }
  [[nodiscard]] int uses(int node) const {
    int count = 0;
    for (int n = 0; n < graph_.nodes; ++n) {
      for (int e = 0; e < graph_.node[n].edges && !graph_.node[n].fusion.merged; ++e) {
        count += graph_.source[graph_.node[n].first_edge + e] == node ? 1 : 0;
      }
    }
    return count;
  }

  /// f(node) for a convolution and those that it computes beside its own (a rewrite).
  template <class F>
  void each_sibling(int leader, F const& f) const {
    f(leader);
    for (int n = leader + 1; n < graph_.nodes && graph_.node[leader].fusion.width > 0; ++n) {
      if (graph_.node[n].fusion.merged && graph_.node[n].fusion.home == leader) {
        f(n);
      }
    }
  }
  [[nodiscard]] std::int64_t weights_of(int n) const {
    return graph_.parameter[graph_.node[n].first_parameter].parameter.shape.elements();
  }
  [[nodiscard]] bool is_convolution(int n) const {
    return graph_.node[n].computes() && tandem::is_convolution(graph_.node[n].layer);
  }

  // Gradients of convolutions in 16 bits wait until they are cast together: see CastQueue.
  [[nodiscard]] std::int64_t waiting_bytes(int n) const {
    std::int64_t elements = 0;
    if (precision_.mixed() && is_convolution(n)) {
      each_sibling(n, [&](int s) { elements += weights_of(s); });
    }
    return cuda::CastQueue::bytes_for(elements, static_cast<std::size_t>(precision_.scalar));
  }
  void let_wait(int n, bool adds) {
    std::int64_t const bytes = waiting_bytes(n);
    if (bytes > 0) {
      int count = 0;
      each_sibling(n, [&](int) { ++count; });
      if (!casts_.fits(count, bytes, adds)) {
        cast();
      }
      casts_.used += bytes;
      each_sibling(n, [&](int s) { casts_.put(nullptr, nullptr, weights_of(s), adds); });
    }
  }
  void cast() {
    double elements = 0;
    for (int i = 0; i < casts_.entries; ++i) {
      elements += static_cast<double>(casts_.entry[i].count);
    }
    if (casts_.entries > 0) {
      double const kept = elements * precision_.master;
      to_.add("gradients", "", "cast_many_kernel",
              elements * precision_.scalar + (casts_.adds ? kept : 0), kept);
    }
    casts_.clear();
  }

  template <class Host>
  void backward_node(int n, Microbatch const& own, AccountPart part, Host const& host) {
    slots_.use(n, PassDirection::backward);
    Node const& node = graph_.node[n];
    if (!node.needs_gradient) {
      return;
    }
    cuda::LaunchSizes const s = sizes(n, own, own.adds, part.apart());
    if (part.inputs) {
      int const forks = uses(n);
      if (node.kind == NodeKind::receive) {
        host.gathered(n, own.size);
      } else if (forks > 1 && !node.fusion.joined) {
        to_.row.push_back(
            {node.origin, place(node), "fork", {"map_kernel:SumBody", 1, forks * s.y, s.y, 0}});
      }
      exchange_back(n, own.size);
      if (device_.gives_input_gradient[n]) {
        add(n, s, cuda::KernelPass::input_gradient, "input gradient");
      }
    }
    if (part.weights && node.parameters > 0 && !node.frozen) {
      if (node.computes()) {
        let_wait(n, own.adds);
        add(n, s, cuda::KernelPass::weight_gradient, "weight gradient");
      }
      if (device_.closes[n] >= 0) {
        cast();
        host.closed(device_.closes[n]);
      }
    }
  }

  // What the ranks that have its slices do where a collective node stands: see SliceExchange.
  void exchange(int n, int batch, std::string_view name) {
    switch (graph_.node[n].kind) {
      case NodeKind::reduce:
        exchange(n, batch, name, "ncclAllReduce");
        break;
      case NodeKind::enter:
      case NodeKind::collect:
        exchange(n, batch, name, "ncclAllGather");
        break;
      case NodeKind::leave:
        exchange(n, batch, name, "ncclReduceScatter");
        break;
      case NodeKind::deal:
        exchange(n, batch, name, "copy");
        break;
      default:
        break;
    }
  }
  void exchange_back(int n, int batch) {
    NodeKind const kind = graph_.node[n].kind;
    if (kind == NodeKind::copy) {
      exchange(n, batch, "input gradient", "ncclAllReduce");
    } else if (kind == NodeKind::enter) {
      exchange(n, batch, "input gradient", "ncclReduceScatter");
    } else if (graph_.node[n].exchanges_rows() && device_.gives_input_gradient[n]) {
      exchange(n, batch, "input gradient", kind == NodeKind::collect ? "copy" : "ncclAllGather");
    }
  }
  // Of all rows, or of those of a rank and of all.
  void exchange(int n, int batch, std::string_view name, std::string_view kernel) {
    if (kernel == "ncclAllReduce") {
      add_slices(n, batch, name);
      return;
    }
    Node const& node = graph_.node[n];
    Shape const& all = node.in[0] > node.out[0] ? node.in : node.out;
    double const bytes = static_cast<double>(all.elements()) * batch * precision_.scalar;
    double const own = node.exchanges_rows() ? bytes / node.sharing.slices : bytes;
    to_.row.push_back({node.origin,
                       place(node),
                       name,
                       {kernel, 1, kernel == "ncclReduceScatter" ? bytes : own,
                        kernel == "ncclAllGather" ? bytes : own, 0}});
  }

  // What ranks that have tiles send each other, and what is made of it: see TileRoutes.
  void exchange_pixels(int n, int batch, bool backward, std::string_view name) {
    Node const& node = graph_.node[n];
    TileRoutes const routes{node, device_.slice, backward};
    auto const bytes = [&](std::int64_t pixels) {
      return static_cast<double>(pixels * batch * node.in[0] * precision_.scalar);
    };
    auto const push = [&](cuda::Launch const& launch) {
      to_.row.push_back({node.origin, place(node), name, launch});
    };
    int packs = 0;
    int sources = 1;
    double packed = 0;
    double sent = 0;
    double received = 0;
    for (TileRoute const& route : routes.routes()) {
      packs += route.packs ? 1 : 0;
      packed += route.packs ? bytes(route.out.pixels()) : 0;
      sources += route.in.empty() ? 0 : 1;
      sent += bytes(route.out.pixels());
      received += bytes(route.in.pixels());
    }
    if (packs > 0) {
      int const launches = cuda::pack_boxes_launches(packs);
      push({"pack_boxes_kernel", static_cast<double>(launches), packed, packed, 0});
    }
    if (!routes.routes().empty()) {
      push({"ncclGroup", 1, sent, received, 0});
    }
    double const own = bytes(common_box(routes.here(), routes.there()).pixels());
    push({"join_boxes_kernel", static_cast<double>(cuda::join_boxes_launches(sources)),
          own + received, bytes(routes.there().pixels()), 0});
  }

  // The ranks that have its slices add what a collective node has; each a share, where the order is
  // fixed by rank.
  void add_slices(int n, int batch, std::string_view name) {
    Node const& node = graph_.node[n];
    double const bytes = activation(n, batch);
    auto const push = [&](cuda::Launch const& launch) {
      to_.row.push_back({node.origin, place(node), name, launch});
    };
    if (device_.slices > 1 && device_.plan.batching.reproducible) {
      double const own = bytes / device_.slices;
      push({"ncclGroup", 2, 2 * (bytes - own), 2 * (bytes - own), 0});
      push({"map_kernel:TreeBody", 1, bytes, own, 0});
    } else if (device_.slices > 1) {
      push({"ncclAllReduce", 1, bytes, bytes, 0});
    }
  }

  void add(int n, cuda::LaunchSizes const& s, cuda::KernelPass pass, std::string_view name) {
    Node const& node = graph_.node[n];
    if (!node.computes() || node.exchanges_rows()) {
      return;
    }
    if (node.kind == NodeKind::exchange) {
      exchange_pixels(n, s.batch, pass == cuda::KernelPass::input_gradient, name);
      return;
    }
    if (!cuda::has_launches(node.name)) {
      to_.leave_out(std::string{node.name} +
                    ", whose kernels ops/cuda/launch_table.hpp does not list");
      return;
    }
    cuda::each_launch(s, pass, [&](cuda::Launch const& launch) {
      to_.row.push_back({node.origin, place(node), name, launch});
    });
  }

  [[nodiscard]] cuda::LaunchSizes sizes(int n, Microbatch const& own, bool accumulates,
                                        bool apart) const {
    Node const& node = graph_.node[n];
    int const batch = own.size;
    auto const elements = [&](int p) {
      return p < node.parameters
                 ? static_cast<double>(
                       graph_.parameter[node.first_parameter + p].parameter.shape.elements())
                 : 0.0;
    };
    cuda::LaunchSizes s{.node = node,
                        .traits = device_.traits[static_cast<std::size_t>(n)],
                        .scalar = precision_.scalar,
                        .master = precision_.master,
                        .fp32 = precision_.fp32,
                        .accumulates = accumulates,
                        .gives_input_gradient = device_.gives_input_gradient[n],
                        .apart = apart,
                        .joins = node.synchronizes && device_.plan.batching.replicas > 1,
                        .joins_tiles = node.joins_tiles(),
                        .chunk = own.chunk,
                        .batch = batch,
                        .microbatches = device_.plan.batching.passes(),
                        .largest = device_.largest,
                        .y = activation(n, batch),
                        .weights = elements(0),
                        .biases = elements(1)};
    for (int e = 0; e < node.edges; ++e) {
      double const bytes = activation(graph_.source[node.first_edge + e], batch);
      s.x += e == 0 ? bytes : 0;
      s.inputs += bytes;
    }
    if (is_convolution(n) && node.fusion.width > 0) {
      s.siblings = 0;
      s.y = s.weights = s.biases = 0;
      s.node.macs = 0;
      each_sibling(n, [&](int other) {
        Node const& sibling = graph_.node[other];
        ++s.siblings;
        s.y += activation(other, batch);
        s.weights += static_cast<double>(weights_of(other));
        s.biases += sibling.parameters > 1 ? sibling.out[0] : 0;
        s.node.macs += sibling.macs;
      });
    }
    // A norm that computes the sum before it reads that one's summands.
    if (node.fusion.sums >= 0) {
      s.node.fusion.joined = graph_.node[node.fusion.sums].fusion.joined;
    }
    for (int p = 0; p < node.parameters; ++p) {
      s.numbers += elements(p);
    }
    return s;
  }

  StepAccount& to_;
  AccountDevice const& device_;
  GraphView graph_;
  AccountPrecision precision_;
  SlotAccounts& slots_;
  cuda::CastQueue casts_{};
};

}  // namespace tandem::detail

#endif
