// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MachinePorts: what the messages of a simulated step share of a Machine.
///
/// Within a node each device has a port out and a port in, of Machine::inside. To other nodes its
/// devices share the node's adapters: all of them together are devices_per_node shares of
/// Machine::between each way, one device has no more than an adapter. Which adapter it has is not
/// modelled. Each port takes what goes one way, and both ways at once.

#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem::detail {

/// The way of a message from device to device. Ports without a limit are left out.
struct PortRoute {
  int port[4] = {};
  int ports = 0;
  LinkSpeed alone{};  ///< of a message that shares nothing

  [[nodiscard]] int const* begin() const { return port; }
  [[nodiscard]] int const* end() const { return port + ports; }
};

class MachinePorts {
 public:
  /// @param machine  outlives this
  /// @param devices  0 to devices - 1 are used
  /// @throws ContractError  the machine is none, or has not so many devices
  TANDEM_ONCE MachinePorts(Machine const& machine, int devices);

  /// Bytes a second of each port.
  [[nodiscard]] std::vector<double> const& capacity() const { return capacity_; }

  TANDEM_ONCE [[nodiscard]] PortRoute route(int from, int to) const;

 private:
  void add(PortRoute& route, int port) const {
    if (is_finite(capacity_[static_cast<std::size_t>(port)])) {
      route.port[route.ports++] = port;
    }
  }

  Machine const& machine_;
  int devices_;
  std::vector<double> capacity_{};  // of each device: out, in; to other nodes out, in; of each node
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE MachinePorts::MachinePorts(Machine const& machine, int devices)
    : machine_{machine}, devices_{devices} {
  check_machine(machine);
  expects(machine.has(devices),
          "simulate: the machine has fewer devices than all workers need; give it more nodes, or "
          "0 nodes for as many as are asked for");
  double const adapter = machine.adapter().bandwidth;
  for (int d = 0; d < devices; ++d) {
    capacity_.insert(capacity_.end(),
                     {machine.inside.bandwidth, machine.inside.bandwidth, adapter, adapter});
  }
  capacity_.resize(
      capacity_.size() + 2 * static_cast<std::size_t>(machine.node_of(devices - 1) + 1),
      adapter * machine.adapters);
}

TANDEM_ONCE PortRoute MachinePorts::route(int from, int to) const {
  PortRoute route{.alone = machine_.link(from, to)};
  int const node = machine_.node_of(from);
  int const other = machine_.node_of(to);
  if (node == other) {
    add(route, 4 * from);
    add(route, 4 * to + 1);
  } else {
    add(route, 4 * from + 2);
    add(route, 4 * devices_ + 2 * node);
    add(route, 4 * devices_ + 2 * other + 1);
    add(route, 4 * to + 3);
  }
  return route;
}

}  // namespace tandem::detail

#endif
