// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What collectives cost on a Machine: the α–β model. A message of b bytes takes α + b / β, its
/// link's latency and bandwidth; a collective is the messages of its algorithm, the faster one if
/// there are several. Reductions themselves and the start of a collective cost nothing here.
///
/// Groups of the same shape share links: N workers of M devices reduce in M groups {0, M, 2M, …},
/// {1, M + 1, …}, … at once. So a device never has more of its node's adapters than its own share,
/// Machine::between, whatever their number; k devices of a group in a node have k shares. Within a
/// node each device has its whole link. Where the network has leaf switches (Fabric), nodes of a
/// group that are far apart share the ways up with those between them, which are in other groups.
///
/// Sources: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
/// MPICH", 2005 (ring); Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast,
/// reduction and scan", 2009, which NCCL's trees are.

#include <algorithm>
#include <bit>

#include <tandem/core/contract.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// Devices 0, stride, 2 stride, …; other groups of the same shape begin at devices 1, 2, ….
/// Workers of M devices: {N, M} is what reduces gradients, {M, 1} is a worker.
struct DeviceGroup {
  int ranks = 1;
  int stride = 1;
};

/// How a group lies on the nodes of a machine.
struct GroupSpan {
  int nodes = 1;
  int most = 1;   ///< ranks that a node has
  int least = 1;  ///< the same, of those nodes that have any
};

/// Cost: O(1) where the stride divides a node's devices or has more; else O(ranks).
/// @throws ContractError  the group is empty or the machine has not so many devices
constexpr GroupSpan span_of(Machine const& machine, DeviceGroup const& group) {
  expects(group.ranks > 0 && group.stride > 0,
          "span_of(machine, group): give the group a rank or more and a stride of at least 1");
  expects(machine.has((group.ranks - 1) * group.stride + 1),
          "span_of(machine, group): the machine has fewer devices than the group needs; give it "
          "more nodes, or 0 nodes for as many as are asked for");
  if (machine.devices_per_node % group.stride == 0) {
    int const of_node = machine.devices_per_node / group.stride;
    int const full = group.ranks / of_node;
    int const rest = group.ranks % of_node;
    return {.nodes = full + (rest > 0 ? 1 : 0),
            .most = full > 0 ? of_node : rest,
            .least = rest > 0 ? rest : of_node};
  }
  if (group.stride > machine.devices_per_node) {
    return {.nodes = group.ranks};
  }
  GroupSpan span{.nodes = 0, .most = 0, .least = group.ranks};
  int first = 0;
  for (int rank = 1; rank <= group.ranks; ++rank) {
    bool const more = rank < group.ranks && rank * group.stride / machine.devices_per_node ==
                                                first * group.stride / machine.devices_per_node;
    if (!more) {
      ++span.nodes;
      span.most = std::max(span.most, rank - first);
      span.least = std::min(span.least, rank - first);
      first = rank;
    }
  }
  return span;
}

namespace detail {

/// The time model of one group and size.
struct Collective {
  Machine const& machine;
  GroupSpan span;
  int ranks;
  double bytes;
  LinkSpeed between = machine.between;  // as much of it as the group's distances leave

  constexpr Collective(Machine const& of, DeviceGroup const& group, double size)
      : machine{of}, span{span_of(of, group)}, ranks{group.ranks}, bytes{size} {
    expects(size >= 0, "collectives: give a number of bytes that is not negative");
    double const apart = static_cast<double>(group.stride) / of.devices_per_node;
    bool const one_leaf = (ranks - 1) * apart < of.fabric.leaf_nodes;
    between.bandwidth /= one_leaf ? 1 : of.fabric.slowdown(apart < 1 ? 1 : apart);
  }

  /// ⌈log2 n⌉
  static constexpr int rounds(int n) {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1)));
  }

  /// n ranks pass on an n-th of the bytes each, n - 1 times: a reduce-scatter or an all-gather.
  static constexpr double ring(LinkSpeed const& link, int n, double size) {
    return (n - 1) * link.seconds(size / n);
  }

  /// The same over all ranks, and as many rings at once as a node has ranks, each of which leaves
  /// the node by another device. A step takes as long as its slowest hop.
  [[nodiscard]] constexpr double flat_ring() const {
    double const part = bytes / ranks;
    double const inside = span.most > 1 ? machine.inside.seconds(part) : 0;
    double const outside = span.nodes > 1 ? between.seconds(part / span.least) : 0;
    return (ranks - 1) * std::max(inside, outside);
  }

  /// A ring in each node, then a ring over the nodes for each part that a rank of a node has.
  [[nodiscard]] constexpr double nested_ring() const {
    return ring(machine.inside, span.most, bytes) + ring(between, span.nodes, bytes / span.least);
  }

  /// Way from the leaves of a tree to its root, over nodes and in them.
  [[nodiscard]] constexpr double depth() const {
    return rounds(span.nodes) * between.latency + rounds(span.most) * machine.inside.latency;
  }

  /// A device passes on all bytes once: in each of two trees of half the bytes it has two children
  /// or none.
  [[nodiscard]] constexpr double pass_once() const {
    double const inside = span.most > 1 ? bytes / machine.inside.bandwidth : 0;
    double const outside = span.nodes > 1 ? bytes / span.least / between.bandwidth : 0;
    return std::max(inside, outside);
  }

  /// Up two trees and down again, over all ranks.
  [[nodiscard]] constexpr double trees() const { return 2 * (depth() + pass_once()); }
};

}  // namespace detail

/// Seconds of the sum of @p bytes of each rank, for every rank: the fastest of a ring, rings
/// within nodes and over them, and two trees. Within a node, n ranks:
/// min(2 (n - 1) α + 2 (n - 1) / n · bytes / β, 2 ⌈log2 n⌉ α + 2 bytes / β). One rank: 0.
/// A node with few of the ranks is a bottleneck: 9 ranks on nodes of 8 take longer than 16.
/// @throws ContractError  as span_of(), or @p bytes is negative
constexpr double all_reduce_seconds(Machine const& machine, DeviceGroup const& group,
                                    double bytes) {
  detail::Collective const c{machine, group, bytes};
  return std::min({2 * c.flat_ring(), 2 * c.nested_ring(), c.trees()});
}

/// Seconds until each rank has its part of the sum of @p bytes of each rank: the faster of a ring
/// and rings within nodes and over them. Within a node: (n - 1) α + (n - 1) / n · bytes / β.
/// @throws ContractError  as all_reduce_seconds()
constexpr double reduce_scatter_seconds(Machine const& machine, DeviceGroup const& group,
                                        double bytes) {
  detail::Collective const c{machine, group, bytes};
  return std::min(c.flat_ring(), c.nested_ring());
}

/// Seconds until each rank has all @p bytes, of which each had its part: a reduce-scatter
/// backwards.
/// @throws ContractError  as all_reduce_seconds()
constexpr double all_gather_seconds(Machine const& machine, DeviceGroup const& group,
                                    double bytes) {
  return reduce_scatter_seconds(machine, group, bytes);
}

/// Seconds of the sum of gradients for every rank: of @p bytes of each, and of GradientRows, whose
/// @p row_bytes of each rank all ranks gather and add by themselves.
/// @throws ContractError  as all_reduce_seconds()
constexpr double gradient_seconds(Machine const& machine, DeviceGroup const& group, double bytes,
                                  double row_bytes) {
  double const rows =
      row_bytes > 0 ? all_gather_seconds(machine, group, row_bytes * group.ranks) : 0;
  return rows > 0 && bytes == 0 ? rows : all_reduce_seconds(machine, group, bytes) + rows;
}

/// Seconds until each rank has the @p bytes of one, down two trees. Within a node:
/// ⌈log2 n⌉ α + bytes / β.
/// @throws ContractError  as all_reduce_seconds()
constexpr double broadcast_seconds(Machine const& machine, DeviceGroup const& group, double bytes) {
  detail::Collective const c{machine, group, bytes};
  return c.depth() + c.pass_once();
}

/// Seconds of a message from one device to another; nothing from a device to itself.
/// @throws ContractError  the machine has not so many devices, or @p bytes is negative
constexpr double send_seconds(Machine const& machine, int from, int to, double bytes) {
  expects(from >= 0 && to >= 0 && machine.has(std::max(from, to) + 1),
          "send_seconds(machine, from, to, bytes): give devices that the machine has");
  expects(bytes >= 0, "send_seconds(…): give a number of bytes that is not negative");
  bool const near = from / machine.devices_per_node == to / machine.devices_per_node;
  return from == to ? 0 : (near ? machine.inside : machine.between).seconds(bytes);
}

/// Seconds in which every device sends @p bytes to the one @p stride devices on, all at once.
/// @throws ContractError  @p bytes is negative, or @p stride not positive
constexpr double neighbour_seconds(Machine const& machine, int stride, double bytes) {
  expects(stride > 0 && bytes >= 0,
          "neighbour_seconds(machine, stride, bytes): give a positive stride, and bytes that are "
          "not negative");
  LinkSpeed const& link = stride < machine.devices_per_node ? machine.inside : machine.between;
  double const apart = static_cast<double>(stride) / machine.devices_per_node;
  return link.seconds(bytes * (apart < 1 ? 1 : machine.fabric.slowdown(apart)));
}

/// Seconds in which pairs of ranks swap @p bytes, both ways at once. If the group lies in several
/// nodes, one pair does, and it is the last.
/// @throws ContractError  as all_reduce_seconds()
constexpr double exchange_seconds(Machine const& machine, DeviceGroup const& group, double bytes) {
  detail::Collective const c{machine, group, bytes};
  double const inside = c.span.most > 1 ? machine.inside.seconds(bytes) : 0;
  double const between = c.span.nodes > 1 ? machine.between.seconds(bytes) : 0;
  return std::max(inside, between);
}

}  // namespace tandem
