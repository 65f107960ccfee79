// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// EpochCursor: which epoch of the whole run a call of train(data, epoch) is.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// Counts the epochs of a run in the order in which the program asks for them.
///
/// A caller counts within its loop, and a program may have several of them, or train on two
/// datasets in turn: an epoch that does not come behind the last one begins a new loop, which is
/// counted on from there. So every call trains; and as the count depends on nothing but the calls,
/// a program that begins anew after load() finds out how far it had come.
class EpochCursor {
 public:
  /// The epoch of the run, from 0.
  /// @throws ContractError  @p epoch is out of range
  TANDEM_ONCE std::int64_t place(Epoch epoch);

  /// Until done(), the loop may begin again: an error has come between.
  void begin() { at_work_ = true; }
  void done(Epoch epoch) {
    next_ = epoch.index + 1;
    at_work_ = false;
  }
  /// It ended early, as its caller wanted: whatever comes next goes on with it.
  void stop(Epoch epoch) {
    next_ = epoch.index;
    at_work_ = false;
  }
  /// It was done before load(), or before the error.
  void skip(Epoch epoch) { next_ = std::max(next_, epoch.index + 1); }

 private:
  static constexpr std::int64_t most = std::int64_t{1} << 32;

  std::int64_t first_ = 0;  // epoch of the run that is 0 in this loop
  std::int64_t next_ = 0;   // of this loop, the first that is not done
  bool at_work_ = false;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::int64_t EpochCursor::place(Epoch epoch) {
  expects(epoch.index >= 0 && epoch.index < most,
          "train(data, epoch): epoch must be 0 or more, and less than 2^32");
  if (epoch.index < next_ && !at_work_) {
    first_ += next_ - epoch.index;
    next_ = epoch.index;
  }
  expects(first_ + epoch.index < most,
          "train(data, epoch): a run may have at most 2^32 epochs; make a new Trainer");
  return first_ + epoch.index;
}

}  // namespace tandem

#endif
