// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankLinks: the ends of all links of a rank, and which tensors go over them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tandem/engine/link.hpp>
#include <tandem/engine/rank_groups.hpp>
#include <tandem/engine/rank_memory.hpp>
#include <tandem/strategy/local_stage.hpp>

namespace tandem {

/// Sends and receives what the nodes of kind `send` and `receive` stand for. Made once; a message
/// allocates nothing here.
template <class Program, class Backend, class Communicator>
class RankLinks {
 public:
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using Memory = RankMemory<Program, Backend>;
  using Table = typename Memory::Table;
  using End = LinkEnd<Backend, Communicator>;
  using Whole = typename Program::Program;
  static constexpr auto const& graph = Program::graph;

  /// @param connect  connect(group): this rank's end of a group of RankGroups
  template <class Connect>
  RankLinks(Device& device, int replica, Connect const& connect, Tracer<Device>& tracer) {
    ends_.resize(2 * static_cast<std::size_t>(Whole::map.links));
    for (int s = 0; s < Program::stages.count; ++s) {
      LocalStage const& stage = Program::stages.stage[s];
      for (int n = stage.first; n < stage.last; ++n) {
        Node const& node = graph.node[n];
        if (node.kind != NodeKind::send && node.kind != NodeKind::receive) {
          continue;
        }
        bool const sends = node.kind == NodeKind::send;
        int const link =
            sends ? link_between(stage.id, node.peer) : link_between(node.peer, stage.id);
        for (bool const forward : {true, false}) {
          std::unique_ptr<End>& own = end(link, forward);
          if (own == nullptr && (forward || node.needs_gradient)) {
            own = std::make_unique<End>(
                device, connect(RankGroups<Whole>::of_link(replica, link, forward)), tracer);
          }
        }
        (sends ? sends_ : receives_).push_back({.node = n, .stage = stage.id, .link = link});
      }
    }
    for (auto const& own : ends_) {  // in the order of the links, which is the same on all ranks
      if (own != nullptr) {
        own->connect();
      }
    }
    // Their gradients come in the order in which later stages go backward.
    gradients_ = sends_;
    std::stable_sort(gradients_.begin(), gradients_.end(),
                     [](Transfer const& a, Transfer const& b) {
                       return graph.node[a.node].peer > graph.node[b.node].peer;
                     });
    for (LocalStage const& stage : Program::stages.stage) {
      for (char const* const verb : {"SEND_F", "RECV_F", "SEND_B", "RECV_B"}) {
        names_.push_back(std::to_string(stage.id) + verb);
      }
    }
  }

  /// What stage @p id has made of a microbatch of @p batch samples leaves.
  void send_forward(Device& device, Table const& table, int id, int m, std::int64_t batch) {
    for (Transfer const& t : sends_) {
      if (t.stage == id) {
        int const source = graph.source[graph.node[t.node].first_edge];
        end(t.link, true)
            ->send(device, table.operands[source].y, batch * elements(t), label(id, 0, m));
      }
    }
  }
  void receive_forward(Device& device, Table const& table, int id, int m, std::int64_t batch) {
    for (Transfer const& t : receives_) {
      if (t.stage == id) {
        end(t.link, true)
            ->receive(device, table.operands[t.node].y, batch * elements(t), label(id, 1, m));
      }
    }
  }
  /// The gradients of what stage @p id received.
  void send_backward(Device& device, Memory const& memory, int id, int m, std::int64_t batch) {
    for (Transfer const& t : receives_) {
      for (int r = 0; t.stage == id && r < messages(t); ++r) {
        end(t.link, false)
            ->send(device, memory.outgoing(t.node, r), batch * elements(t), label(id, 2, m));
      }
    }
  }
  void receive_backward(Device& device, Table const& table, int id, int m, std::int64_t batch) {
    for (Transfer const& t : gradients_) {
      Node const& node = graph.node[t.node];
      for (int e = 0; t.stage == id && node.needs_gradient && e < node.edges; ++e) {
        end(t.link, false)
            ->receive(device, table.operands[t.node].dx[e], batch * elements(t), label(id, 3, m));
      }
    }
  }

  /// What stage @p id sent forward, or its gradients, may be overwritten by what is computed next.
  /// In training a gradient that came back says so, where there is one.
  void await_forward(Device& device, int id, bool training) {
    for (Transfer const& t : sends_) {
      if (t.stage == id && !(training && graph.node[t.node].needs_gradient)) {
        end(t.link, true)->await(device);
      }
    }
  }
  void await_backward(Device& device, int id) {
    for (Transfer const& t : receives_) {
      if (t.stage == id && end(t.link, false) != nullptr) {
        end(t.link, false)->await(device);
      }
    }
  }

  /// All messages are behind what is computed next.
  void await_all(Device& device) {
    for (auto const& own : ends_) {
      if (own != nullptr) {
        own->await(device);
      }
    }
  }
  void settle(Device& device) {
    for (auto const& own : ends_) {
      if (own != nullptr) {
        own->settle(device);
      }
    }
  }

 private:
  struct Transfer {
    int node;
    int stage;
    int link;
  };

  static int link_between(int from, int to) {
    for (StageEdge const& edge : Whole::map.edge) {
      if (edge.from == from && edge.to == to) {
        return edge.link;
      }
    }
    return 0;
  }
  std::unique_ptr<End>& end(int link, bool forward) {
    return ends_[2 * static_cast<std::size_t>(link) + (forward ? 0 : 1)];
  }
  static std::int64_t elements(Transfer const& t) { return graph.node[t.node].out.elements(); }
  // Gradients of one received tensor.
  static int messages(Transfer const& t) {
    if (!graph.node[t.node].needs_gradient) {
      return 0;
    }
    int readers = 0;
    for (int e = 0; e < graph.edges; ++e) {
      readers += graph.source[e] == t.node ? 1 : 0;
    }
    return Whole::batching.reproducible ? readers : 1;
  }
  Label label(int id, int verb, int microbatch) const {
    int const local = local_stage(Program::stages, id);
    return {names_[static_cast<std::size_t>(4 * local + verb)].c_str(), microbatch};
  }

  std::vector<std::unique_ptr<End>> ends_;  // of each link and direction, if it is the rank's
  std::vector<Transfer> sends_;
  std::vector<Transfer> receives_;
  std::vector<Transfer> gradients_;
  std::vector<std::string> names_;  // of each local stage, its four kinds of messages
};

}  // namespace tandem
