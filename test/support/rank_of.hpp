// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// rank_of: a trainer's rank as what it is, below the interface that all its ranks have.

namespace tandem::test {

/// Rank number @p local of the process, which is device @p Device of its replica.
template <int Device = 0, class Trainer>
auto& rank_of(Trainer& trainer, int local = Device) {
  using Own = typename Trainer::Workers::template RankOf<Device>;
  return static_cast<Own&>(trainer.workers().rank(local));
}

/// What device @p Device of each replica does.
template <class Trainer, int Device = 0>
using DeviceOf = typename Trainer::ProgramType::template Device<Device>;

}  // namespace tandem::test
