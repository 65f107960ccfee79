// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BranchStreams: runs the branches of a device's graph at the same time, on streams that are
/// forked from the compute stream and joined to it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/branches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// Whether something in a graph joins branches.
inline bool has_joins(GraphView const& graph) {
  bool any = false;
  for (int n = 0; n < graph.nodes; ++n) {
    any = any || graph.node[n].edges > 1;
  }
  return any;
}

/// What a device has that computes on several streams: `sides` beside its compute stream, each with
/// scratch memory and waiting gradients; turn_to(s) makes those of side s - 1 the device's own, and
/// 0 its own again, and turned() is which; fork(n) has n sides wait for what is queued, join(n) has
/// the compute stream wait for them.
template <class Device>
concept HasSides = requires(Device& device, int s) {
  device.sides.size();
  device.add_side();
  device.turn_to(s);
  device.turned();
  device.fork(s);
  device.join(s);
};

/// Stage tells it of each node; between a region's first and last one a node's kernels go to the
/// stream of its branch. The device's `compute`, `scratch` and `casts` are that stream's meanwhile,
/// so that ops know of nothing.
template <class Backend>
  requires HasSides<typename Backend::Device>
class BranchStreams {
 public:
  using Device = typename Backend::Device;

  /// Brings a device back to the stream on which a pass began, also where that throws.
  struct Return {
    Device& device;
    int side;
    explicit Return(Device& from) : device{from}, side{from.turned()} {}
    Return(Return const&) = delete;
    Return& operator=(Return const&) = delete;
    ~Return() { device.turn_to(side); }
  };

  TANDEM_COLD BranchStreams(GraphView graph, int streams, int const* segment) {
    if (streams > 1) {
      branches_.emplace(graph, streams, segment);
      nodes_ = graph.nodes;
      on_ = branches_->count > 0;
    }
  }

  /// What the memory must be planned for; null: branches run one after another.
  [[nodiscard]] Branches const* plan() const { return on_ ? &*branches_ : nullptr; }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.bytes()); }

  /// Makes the streams, with memory for what the ops of their nodes @p needs.
  TANDEM_COLD void open(Device& device, std::vector<OpNeeds> const& needs) {
    if (!on_) {
      return;
    }
    std::vector<Room> rooms;
    for (int n = 0; n < nodes_; ++n) {
      auto const s = static_cast<std::size_t>(branches_->stream[n]);
      rooms.resize(std::max(rooms.size(), s));
      if (s > 0) {
        OpNeeds const& need = needs[static_cast<std::size_t>(n)];
        rooms[s - 1].scratch = std::max(rooms[s - 1].scratch, need.scratch_bytes);
        rooms[s - 1].staged = std::max(rooms[s - 1].staged, need.staged_bytes);
      }
    }
    std::int64_t bytes = 0;
    for (Room const& room : rooms) {
      bytes += whole(room.scratch) + whole(room.staged);
    }
    memory_ = typename Backend::Buffer{device, static_cast<std::size_t>(bytes)};
    std::byte* next = memory_.data();
    for (Room const& room : rooms) {
      auto& side = device.add_side();
      side.scratch = next;
      side.scratch_bytes = room.scratch;
      next += whole(room.scratch);
      side.casts.memory = room.staged > 0 ? next : nullptr;
      side.casts.bytes = room.staged;
      next += whole(room.staged);
    }
  }

  // Around node n of a pass.
  void begin_forward(Device& device, int n) const {
    if (on_) {
      begin(device, n, branches_->begins(n));
    }
  }
  void end_forward(Device& device, int n) const {
    if (on_ && branches_->ends(n)) {
      join(device, n);
    }
  }
  void begin_backward(Device& device, int n) const {
    if (on_) {
      begin(device, n, branches_->ends(n));
    }
  }
  /// Whether the region is over, and all of its gradients are whole: those of buckets, which nobody
  /// reduces in between, too.
  bool end_backward(Device& device, int n) const {
    bool const over = on_ && branches_->begins(n);
    if (over) {
      join(device, n);
    }
    return over;
  }
  [[nodiscard]] bool inside(int n) const { return on_ && branches_->inside(n); }
  /// @pre inside(n)
  [[nodiscard]] int last(int n) const { return branches_->last[n]; }

  /// After an error.
  void settle(Device& device) {
    device.turn_to(0);
    for (auto& side : device.sides) {
      device.settle(side->stream);
    }
  }

 private:
  // As memory that was allocated alone.
  static constexpr std::int64_t whole(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

  struct Room {
    std::int64_t scratch = 0;
    std::int64_t staged = 0;
  };

  TANDEM_NOINLINE void begin(Device& device, int n, bool forks) const {
    if (forks) {
      device.fork(static_cast<int>(device.sides.size()));
    }
    device.turn_to(branches_->stream[n]);
  }
  TANDEM_NOINLINE static void join(Device& device, int /*n*/) {
    int const sides = static_cast<int>(device.sides.size());
    for (int s = 1; s <= sides; ++s) {
      device.turn_to(s);
      if constexpr (requires { Verbs<Backend>::finish_gradients(device); }) {
        Verbs<Backend>::finish_gradients(device);
      }
    }
    device.turn_to(0);
    device.join(sides);
  }

  std::optional<Branches> branches_;
  typename Backend::Buffer memory_;
  int nodes_ = 0;
  bool on_ = false;
};

/// Its type is not named where a device has no sides.
template <class Backend>
struct BranchesOn {
  using type = BranchStreams<Backend>;
};

}  // namespace tandem
