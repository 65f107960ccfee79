// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankLinks: the ends of all links of a rank, each a LinkEnd, and which tensors go over them.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/insertion_sort.hpp>
#include <tandem/engine/memory/rank_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/operand_table.hpp>
#include <tandem/runtime/host/queue.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>

namespace tandem {

/// Has a stream of its own, so that a message waits for nothing but its buffer and its other end,
/// and what is computed meanwhile goes on. Not copyable, not movable.
template <class Backend, class Communicator>
class LinkEnd {
 public:
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using Mark = typename Device::Mark;
  using Stream = typename Communicator::Stream;

  /// @param communicator  of two ranks, of which the sender is rank 0
  /// @param tracer        outlives this
  LinkEnd(Device& device, Communicator communicator, Tracer<Device>& tracer)
      : communicator_{std::move(communicator)},
        tracer_{&tracer},
        stream_{device.make_stream()},
        mark_{device.make_mark()} {}

  LinkEnd(LinkEnd const&) = delete;
  LinkEnd& operator=(LinkEnd const&) = delete;

  /// Makes the connection where the first message would: one end alone may not, since in a step the
  /// other may be sending on another link. Both ends call it, and all ranks for their links in one
  /// order.
  void connect() {
    if constexpr (requires { communicator_.warm_up(*stream_, {Operation::send}); }) {
      communicator_.warm_up(*stream_, {Operation::send});
    }
  }

  /// Sends what has been computed so far; it must not change until await().
  void send(Device& device, T const* data, std::int64_t count, Label label) {
    transfer(device, label, [&] {
      communicator_.send(std::span<T const>{data, static_cast<std::size_t>(count)}, 1, *stream_,
                         label);
    });
  }

  /// What is computed from now on comes after the message's arrival in @p data.
  void receive(Device& device, T* data, std::int64_t count, Label label) {
    transfer(device, label, [&] {
      communicator_.receive(std::span<T>{data, static_cast<std::size_t>(count)}, 0, *stream_,
                            label);
    });
    await(device);
  }

  /// What is computed from now on comes after all messages so far.
  void await(Device& device) {
    if (std::exchange(pending_, false)) {  // a capture may not wait for another step's mark
      device.await_on(*stream_, mark_);
    }
  }

  /// Of chunks of time: sets @p sent behind all messages so far, for the other one to wait for.
  void mark(Device& device, Mark& sent) { device.mark_on(*stream_, sent); }
  void await(Device& device, Mark& sent) { device.await_on(*stream_, sent); }

  /// After an error: nothing queued reads or writes memory any more.
  void settle(Device& device) { device.settle(*stream_); }

  [[nodiscard]] Communicator& communicator() { return communicator_; }

 private:
  template <class F>
  void transfer(Device& device, Label label, F const& f) {
    device.begin_on(*stream_);
    tracer_->on_stream(device, *stream_, label, f);
    device.mark_on(*stream_, mark_);
    pending_ = true;
  }

  Communicator communicator_;
  Tracer<Device>* tracer_;
  std::unique_ptr<Stream> stream_;
  Mark mark_;
  bool pending_ = false;  // messages that nobody has awaited
};

/// Sends and receives what the nodes of kind `send` and `receive` stand for. Made once; a message
/// allocates nothing here. Compiled for a backend and not for each device of each strategy.
template <class Backend, class Communicator>
class RankLinks {
 public:
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using Table = OperandTable<T, typename Backend::Master>;
  using End = LinkEnd<Backend, Communicator>;

  /// @param tables   outlive this
  /// @param waits    those of the device's MemoryPlan
  /// @param connect  connect(link, forward): this rank's end of the link's group
  /// @param largest  samples of a microbatch at most
  template <class Connect>
  TANDEM_COLD RankLinks(DeviceTables const& tables, std::span<SendWait const> waits, Device& device,
                        Connect const& connect, Tracer<Device>& tracer, std::int64_t largest)
      : tables_{tables}, largest_{largest} {
    std::vector<Transfer> const all = find_transfers();
    for (Transfer const& t : all) {
      for (bool const forward : {true, false}) {
        std::unique_ptr<End>& own = end(t.link, forward);
        if (own == nullptr && (forward || tables_.graph.node[t.node].needs_gradient)) {
          own = std::make_unique<End>(device, connect(t.link, forward), tracer);
        }
      }
    }
    for (auto const& own : ends_) {  // in the order of the links, which is the same on all ranks
      if (own != nullptr) {
        own->connect();
      }
    }
    for (SendWait const& wait : waits) {
      auto const at = std::find_if(all.begin(), all.end(),
                                   [&](Transfer const& t) { return t.node == wait.node; });
      waits_.push_back(
          {wait, end(at->link, tables_.graph.node[wait.node].kind == NodeKind::send).get(), {}});
      for (int chunk = 0; tables_.batching.chunks > 1 && chunk < tables_.batching.chunks; ++chunk) {
        waits_.back().sent.push_back({device.make_mark()});
      }
    }
  }

  /// What holds the messages that this rank sends until they are received, where threads send them:
  /// the largest of each link and direction.
  [[nodiscard]] TANDEM_COLD std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (int link = 0;
         std::same_as<typename Communicator::Stream, host::Queue> && link < tables_.map.links;
         ++link) {
      sum += largest_of(sends_, link, false) + largest_of(receives_, link, true);
    }
    return sum;
  }

  /// A message of microbatch @p own.
  void run(Device& device, RankMemory<Backend> const& memory, Table const& table, Action action,
           Microbatch const& own, bool training) {
    switch (action.kind) {
      case ActionKind::send_forward:
        send_forward(device, table, action.stage, action.index, own);
        break;
      case ActionKind::receive_forward:
        await(device, action.kind, action.stage, training, own.chunk);
        receive_forward(device, table, action.stage, action.index, own);
        break;
      case ActionKind::send_backward:
        send_backward(device, memory, action.stage, action.index, own);
        break;
      default:
        receive_backward(device, table, action.stage, action.index, own);
    }
  }

  /// Before action @p before of stage @p id: what was sent from memory that it writes has left; of
  /// chunks of time what was sent for the same one, @p chunk, of another microbatch.
  void await(Device& device, ActionKind before, int id, bool training, int chunk) {
    for (Wait& wait : waits_) {
      if (wait.rule.stage == id && wait.rule.before == before &&
          !(training && wait.rule.answered)) {
        if (wait.sent.empty()) {
          wait.end->await(device);
        } else if (Sent& own = wait.sent[static_cast<std::size_t>(chunk)];
                   std::exchange(own.pending, false)) {  // as of LinkEnd
          wait.end->await(device, own.mark);
        }
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
    for (Wait& wait : waits_) {
      for (Sent& own : wait.sent) {
        own.pending = false;
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
  // Of a chunk's message.
  struct Sent {
    typename Device::Mark mark;  // behind it
    bool pending = false;        // and nobody has awaited it
  };
  struct Wait {
    SendWait rule;
    End* end;
    std::vector<Sent> sent;  // of each chunk; none: of all
  };

  void mark_sent(Device& device, int node, int chunk) {
    for (Wait& wait : waits_) {
      if (wait.rule.node == node && !wait.sent.empty()) {
        Sent& own = wait.sent[static_cast<std::size_t>(chunk)];
        wait.end->mark(device, own.mark);
        own.pending = true;
      }
    }
  }

  // What stage @p id has made of microbatch @p own leaves; of a source that is there already,
  // nothing.
  void send_forward(Device& device, Table const& table, int id, int m, Microbatch const& own) {
    for (Transfer const& t : sends_) {
      if (std::int64_t const n = elements(t, own); t.stage == id && n > 0) {
        // As the edge has it: a view of the network's input has no memory of its own.
        end(t.link, true)->send(device, table.operands[t.node].x[0], n, label(id, 0, m));
        mark_sent(device, t.node, own.chunk);
      }
    }
  }
  void receive_forward(Device& device, Table const& table, int id, int m, Microbatch const& own) {
    for (Transfer const& t : receives_) {
      if (std::int64_t const n = elements(t, own); t.stage == id && n > 0) {
        end(t.link, true)->receive(device, table.operands[t.node].y, n, label(id, 1, m));
      }
    }
  }
  // The gradients of what stage @p id received.
  void send_backward(Device& device, RankMemory<Backend> const& memory, int id, int m,
                     Microbatch const& own) {
    for (Transfer const& t : receives_) {
      for (int r = 0; t.stage == id && r < messages(t); ++r) {
        end(t.link, false)
            ->send(device, memory.outgoing(m, t.node, r), elements(t, own), label(id, 2, m));
        mark_sent(device, t.node, own.chunk);
      }
    }
  }
  void receive_backward(Device& device, Table const& table, int id, int m, Microbatch const& own) {
    for (Transfer const& t : gradients_) {
      Node const& node = tables_.graph.node[t.node];
      for (int e = 0; t.stage == id && node.needs_gradient && e < node.edges; ++e) {
        end(t.link, false)
            ->receive(device, table.operands[t.node].dx[e], elements(t, own), label(id, 3, m));
      }
    }
  }

  // In the order of the graph; fills sends_, receives_ and gradients_ on the way.
  TANDEM_COLD std::vector<Transfer> find_transfers() {
    ends_.resize(2 * static_cast<std::size_t>(tables_.map.links));
    std::vector<Transfer> all;
    for (LocalStage const& stage : tables_.stages) {
      for (int n = stage.first; n < stage.last; ++n) {
        Node const& node = tables_.graph.node[n];
        if (node.kind == NodeKind::send || node.kind == NodeKind::receive) {
          bool const sends = node.kind == NodeKind::send;
          int const link =
              sends ? link_between(stage.id, node.peer) : link_between(node.peer, stage.id);
          all.push_back({.node = n, .stage = stage.id, .link = link});
          (sends ? sends_ : receives_).push_back(all.back());
        }
      }
      for (char const* const verb : {"SEND_F", "RECV_F", "SEND_B", "RECV_B"}) {
        names_.push_back(std::to_string(stage.id) + verb);
      }
    }
    // Their gradients come in the order in which later stages go backward.
    gradients_ = sends_;
    insertion_sort(gradients_, [&](Transfer const& a, Transfer const& b) {
      return tables_.graph.node[a.node].peer > tables_.graph.node[b.node].peer;
    });
    return all;
  }

  [[nodiscard]] int link_between(int from, int to) const {
    for (int e = 0; e < tables_.map.edges; ++e) {
      StageEdge const& edge = tables_.map.edge[e];
      if (edge.from == from && edge.to == to) {
        return edge.link;
      }
    }
    return 0;
  }
  std::unique_ptr<End>& end(int link, bool forward) {
    return ends_[2 * static_cast<std::size_t>(link) + (forward ? 0 : 1)];
  }
  [[nodiscard]] std::int64_t elements(Transfer const& t, Microbatch const& own) const {
    Shape const& shape = tables_.graph.node[t.node].out;
    return own.size * shape.elements(own.time[shape]);
  }
  // Bytes of the largest tensor of the list on a link; of those alone that have a gradient.
  [[nodiscard]] TANDEM_COLD std::int64_t largest_of(std::vector<Transfer> const& list, int link,
                                                    bool gradients) const {
    std::int64_t most = 0;
    for (Transfer const& t : list) {
      if (Node const& node = tables_.graph.node[t.node];
          t.link == link && (!gradients || node.needs_gradient)) {
        most = std::max(most, node.out.elements());
      }
    }
    return largest_ * most * static_cast<std::int64_t>(sizeof(T));
  }
  // Gradients of one received tensor.
  [[nodiscard]] int messages(Transfer const& t) const {
    if (!tables_.graph.node[t.node].needs_gradient) {
      return 0;
    }
    int readers = 0;
    for (int e = 0; e < tables_.graph.edges; ++e) {
      readers += tables_.graph.source[e] == t.node ? 1 : 0;
    }
    return tables_.batching.reproducible && !tables_.graph.node[t.node].named ? readers : 1;
  }
  Label label(int id, int verb, int microbatch) const {
    std::size_t local = 0;
    while (tables_.stages[local].id != id) {
      ++local;
    }
    return {names_[4 * local + static_cast<std::size_t>(verb)].c_str(), microbatch};
  }

  DeviceTables const& tables_;
  std::int64_t largest_;
  std::vector<std::unique_ptr<End>> ends_;  // of each link and direction, if it is the rank's
  std::vector<Transfer> sends_;
  std::vector<Transfer> receives_;
  std::vector<Transfer> gradients_;
  std::vector<Wait> waits_;
  std::vector<std::string> names_;  // of each local stage, its four kinds of messages
};

}  // namespace tandem
