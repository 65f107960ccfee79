// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NoLinks: RankLinks where a replica is one device, which sends nothing to another one.

#include <tandem/engine/step/microbatches.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// Nothing of links is compiled for such a strategy.
struct NoLinks {
  template <class Task, class Waits, class Device, class Connect, class Tracer>
  NoLinks(Task const& /*task*/, Waits const& /*waits*/, Device& /*device*/,
          Connect const& /*connect*/, Tracer& /*tracer*/, int /*largest*/) {}

  template <class Device, class Memory, class Table>
  void run(Device& /*device*/, Memory const& /*memory*/, Table const& /*table*/, Action /*action*/,
           Microbatch const& /*own*/, bool /*training*/) {}
  template <class Device>
  void await(Device& /*device*/, ActionKind /*before*/, int /*stage*/, bool /*training*/,
             int /*chunk*/) {}
  template <class Device>
  void await_all(Device& /*device*/) {}
  [[nodiscard]] static constexpr int bytes() { return 0; }
  template <class Device>
  void settle(Device& /*device*/) {}
};

}  // namespace tandem
