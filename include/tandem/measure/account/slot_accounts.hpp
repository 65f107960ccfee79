// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SlotAccounts: how a replica that keeps a part of the parameters gathers them as passes read
/// them.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/measure/account/account.hpp>
#include <tandem/measure/account/account_device.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// As ParameterSlots does it; of all other replicas nothing.
class SlotAccounts {
 public:
  SlotAccounts(StepAccount& to, AccountDevice const& device, AccountPrecision const& precision)
      : to_{to}, device_{device}, precision_{precision}, turns_{device.turns} {}

  void begin_pass() { turns_.begin_pass(); }

  /// The parameters of node @p n are read next.
  void use(int n, PassDirection direction) {
    if (!device_.deals_parameters) {
      return;
    }
    turns_.use(
        n, direction,
        [&](int bucket) { gather(device_.buckets[static_cast<std::size_t>(bucket)].elements); },
        [](int /*bucket*/) {});
  }

 private:
  void gather(std::int64_t count) {
    auto const all = static_cast<double>(count * precision_.master);
    to_.add("parameters", "", "ncclAllGather", all / device_.shares, all);
    if (precision_.mixed()) {
      bool const is_bulk = count * precision_.master >= (1 << 20);
      to_.add("parameters", "", is_bulk ? "cub::DeviceTransform::Transform" : "map_kernel:AsItIs",
              all, static_cast<double>(count * precision_.scalar));
    }
  }

  StepAccount& to_;
  AccountDevice const& device_;
  AccountPrecision precision_;
  SlotTurns turns_;
};

}  // namespace tandem::detail

#endif
