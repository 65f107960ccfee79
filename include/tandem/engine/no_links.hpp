// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NoLinks: RankLinks where a replica is one device, which sends nothing to another one.

namespace tandem {

/// Nothing of links is compiled for such a strategy.
struct NoLinks {
  template <class Task, class Device, class Connect, class Tracer>
  NoLinks(Task const& /*task*/, Device& /*device*/, Connect const& /*connect*/,
          Tracer& /*tracer*/) {}

  template <class Device>
  void await_forward(Device& /*device*/, int /*stage*/, bool /*training*/) {}
  template <class Device>
  void await_backward(Device& /*device*/, int /*stage*/) {}
  template <class Device>
  void await_all(Device& /*device*/) {}
  template <class Device>
  void settle(Device& /*device*/) {}
};

}  // namespace tandem
