// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Machine: what the planner knows of the hardware, in bytes, seconds and operations a second.
///
/// Nodes of equal devices; within a node each device has a link of its own to the others, to other
/// nodes all share the node's adapters. Known machines are in machines.hpp; other ones are read
/// from a file by json.hpp.

#include <cmath>
#include <cstdint>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/machine/kernel_curve.hpp>

namespace tandem {

/// In what a device multiplies.
enum class MathPrecision { fp64, fp32, tf32, bf16, fp16 };

/// Of a device: the vendor's peak, in operations (a multiply-add is two) a second.
struct PeakMath {
  double fp64 = 0;
  double fp32 = 0;
  double tf32 = 0;  ///< fp32's on devices without it
  double bf16 = 0;  ///< and fp16's

  [[nodiscard]] constexpr double of(MathPrecision precision) const {
    switch (precision) {
      case MathPrecision::fp64:
        return fp64;
      case MathPrecision::fp32:
        return fp32;
      case MathPrecision::tf32:
        return tf32;
      case MathPrecision::bf16:
      case MathPrecision::fp16:
        return bf16;
    }
    return 0;
  }

  friend constexpr bool operator==(PeakMath const&, PeakMath const&) = default;
};

/// A message of b bytes takes latency + b / bandwidth.
struct LinkSpeed {
  double bandwidth = 0;  ///< bytes a second, in each direction, both at once
  double latency = 0;    ///< seconds

  [[nodiscard]] constexpr double seconds(double bytes) const { return latency + bytes / bandwidth; }

  friend constexpr bool operator==(LinkSpeed const&, LinkSpeed const&) = default;
};

/// The network between nodes: leaf switches of nodes that are neighbours, and a tree above them.
struct Fabric {
  int leaf_nodes = 0;           ///< nodes at a leaf switch; 0: all
  double oversubscription = 1;  ///< a leaf's bandwidth to its nodes, over that upwards

  /// How much longer a transfer takes where all nodes send to the one @p distance nodes on: those
  /// at the end of a leaf send upwards.
  [[nodiscard]] constexpr double slowdown(double distance) const {
    double const share = leaf_nodes == 0 || distance <= 0 ? 0
                         : distance < leaf_nodes          ? distance / leaf_nodes
                                                          : 1;
    return share * oversubscription > 1 ? share * oversubscription : 1;
  }

  friend constexpr bool operator==(Fabric const&, Fabric const&) = default;
};

/// Nodes that compute slower than the others, by chance: a step waits for them.
struct SlowNodes {
  double share = 0;  ///< of all nodes
  double by = 0;     ///< by which share of their time they take longer

  /// By which share of it a step on so many nodes is expected to take longer: that of one slow node
  /// as soon as there is any.
  [[nodiscard]] double expected(int nodes) const { return by * (1 - std::pow(1 - share, nodes)); }

  friend constexpr bool operator==(SlowNodes const&, SlowNodes const&) = default;
};

/// Nodes at a leaf switch of so many ports to nodes: with rails each adapter of a node has a switch
/// of its own, which it shares with the same adapter of other nodes, and devices that are not on
/// one rail meet within a node; without, all adapters of a node are at one switch.
constexpr int leaf_nodes(int ports, int adapters, bool rails) {
  return rails ? ports : ports / adapters;
}

/// The share of its peak at which a device multiplies in large convolutions and products, unless a
/// measurement says another. Eight V100 train ResNet-50 v1.5 in fp32 at 2,858 images a second, 24.6
/// Gop each: 8.8 Top/s a device, 0.56 of 15.7, and that counts its layers that are bound by memory.
/// Source: NVIDIA/DeepLearningExamples, PyTorch/Classification/RN50v1.5/README.md.
inline constexpr double default_efficiency = 0.6;

/// Equal devices in equal nodes. Device d is in node d / devices_per_node.
struct Machine {
  std::string name{};
  int devices_per_node = 1;
  int nodes = 0;     ///< 0: as many as are asked for
  int adapters = 1;  ///< of a node, to other nodes; a message goes through one of them

  PeakMath peak{};
  double efficiency = default_efficiency;  ///< share of the peak in work that is bound by math
  double memory_bandwidth = 0;             ///< of a device, bytes a second
  std::int64_t memory = 0;                 ///< of a device, bytes
  double launch_overhead = 0;              ///< of an operation on a device, seconds
  KernelCurve kernels{};  ///< of products in bf16 and fp16, by size; not known of most machines

  LinkSpeed inside{};  ///< of a device, to the others of its node together
  /// Of a device, to other nodes, when all devices of its node send at once: its share of the
  /// adapters, whatever their number. Alone it has a whole adapter, devices_per_node / adapters
  /// times as much.
  LinkSpeed between{};
  Fabric fabric{};   ///< of the adapters
  SlowNodes slow{};  ///< none in the presets; plans wait for them
  /// Devices are those of Host, which has Chunks and ShardedParameters, too; else GPUs.
  bool cpus = false;

  /// Operations a second in work that is bound by math.
  [[nodiscard]] constexpr double math(MathPrecision precision) const {
    return efficiency * peak.of(precision);
  }

  /// Whether so many devices are there.
  [[nodiscard]] constexpr bool has(int devices) const {
    return devices > 0 && (nodes == 0 || (devices - 1) / devices_per_node < nodes);
  }

  [[nodiscard]] constexpr int node_of(int device) const { return device / devices_per_node; }

  /// Of a message between two devices of different nodes that shares nothing: an adapter's.
  [[nodiscard]] constexpr LinkSpeed adapter() const {
    return {between.bandwidth * devices_per_node / adapters, between.latency};
  }

  /// Of a message from device to device that shares nothing.
  [[nodiscard]] constexpr LinkSpeed link(int from, int to) const {
    return node_of(from) == node_of(to) ? inside : adapter();
  }

  friend bool operator==(Machine const&, Machine const&) = default;
};

/// Checks what a caller made; read_machine() and find_machine() give what passes.
/// @throws ContractError  a number is not positive (the latencies, the overhead and `nodes` may be
///                        0), the efficiency is more than 1, or a node has more adapters than
///                        devices
TANDEM_ONCE void check_machine(Machine const& machine);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_machine(Machine const& machine) {
  expects(machine.devices_per_node > 0 && machine.nodes >= 0,
          "Machine: give at least one device a node, and nodes that are not negative");
  expects(machine.adapters > 0 && machine.adapters <= machine.devices_per_node,
          "Machine: give a node one adapter or more, and no more than it has devices; those of one "
          "device count as one");
  expects(machine.peak.fp64 > 0 && machine.peak.fp32 > 0 && machine.peak.tf32 > 0 &&
              machine.peak.bf16 > 0 && machine.memory_bandwidth > 0 && machine.memory > 0,
          "Machine: give each peak, memory_bandwidth and memory a positive number");
  expects(machine.efficiency > 0 && machine.efficiency <= 1,
          "Machine: give an efficiency above 0 and not above 1");
  expects(
      machine.launch_overhead >= 0 && machine.inside.latency >= 0 && machine.between.latency >= 0,
      "Machine: give latencies and a launch_overhead that are not negative");
  expects(machine.fabric.leaf_nodes >= 0 && machine.fabric.oversubscription >= 1,
          "Machine: give a fabric leaf_nodes that are not negative and an oversubscription of 1 or "
          "more");
  expects(machine.slow.share >= 0 && machine.slow.share <= 1 && machine.slow.by >= 0,
          "Machine: give slow nodes a share from 0 to 1, and a time that is not negative");
  expects(machine.inside.bandwidth > 0 && machine.between.bandwidth > 0,
          "Machine: give the links inside and between nodes a positive bandwidth");
}

}  // namespace tandem

#endif
