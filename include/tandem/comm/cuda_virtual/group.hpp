// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VirtualGroup: several ranks, threads of this process, on one GPU.
///
/// The ranks' threads meet as those of a ThreadsGroup do, and their streams by events. It exists to
/// run strategies of many devices where there is one: for tests, and for trying a program out.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/threads/group.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {

class VirtualCommunicator;

namespace detail {

/// Two points of a rank's stream: it has come to a collective, and has done its part of it.
struct VirtualEnd {
  explicit VirtualEnd(cuda::Device device) : arrived{device}, done{device} {}

  cuda::Event arrived;
  cuda::Event done;
};

/// The device's side of a MailBox: where a message lies, when it is whole, and when it has been
/// read.
struct VirtualBox {
  explicit VirtualBox(cuda::Device device) : full{device}, taken{device} {}

  cuda::Event full;
  cuda::Event taken;
  UniqueHandle<void*, cudaFree> memory{};
  std::size_t capacity = 0;
};

}  // namespace detail

/// The shared state of n ranks on one GPU. Made by the thread that starts them, and outlives them
/// and what they have queued; each rank uses its communicator(rank). Not copyable, not movable.
class VirtualGroup {
 public:
  /// @throws ContractError  ranks is not in [1, 64], or the time-out is not positive
  VirtualGroup(int ranks, cuda::Device device, ThreadsOptions const& options = {})
      : group_{ranks, options},
        device_{device},
        timeout_{options.timeout},
        places_{options.messages_in_flight} {
    make_ends();
  }

  /// Some of the ranks of @p all, as a group of their own that fails with it. See ThreadsGroup.
  /// @param all  outlives this, and is no such group itself
  VirtualGroup(VirtualGroup& all, RankSet const& set)
      : group_{all.group_, set},
        device_{all.device_},
        timeout_{all.timeout_},
        places_{all.places_} {
    make_ends();
  }

  VirtualGroup(VirtualGroup const&) = delete;
  VirtualGroup& operator=(VirtualGroup const&) = delete;

  /// @throws ContractError  @p rank is not in [0, size())
  [[nodiscard]] VirtualCommunicator communicator(int rank);

  /// Makes every rank that waits for others, or will, throw AbortedError with @p reason, at once.
  void abort(int rank, std::string_view reason) { group_.abort(rank, reason); }

  /// To be called again and again by whoever waits for @p rank's stream.
  /// @param waited  for how long already
  /// @throws AbortedError  the group was aborted
  /// @throws TimeoutError  @p waited is longer than the time-out
  void poll(int rank, std::chrono::steady_clock::duration waited = {}) {
    group_.poll();
    if (waited > timeout_) {
      throw TimeoutError{"rank " + std::to_string(rank) + " waited " +
                         std::to_string(timeout_.count()) + " ms for GPU " +
                         std::to_string(device_.ordinal)};
    }
  }

  /// Makes the group usable again after a failure. See ThreadsGroup.
  void reset() { group_.reset(); }

  /// Where @p rank notes what it is doing, for time-out messages; see describe_progress.
  [[nodiscard]] std::atomic<std::uint64_t>& progress(int rank) noexcept {
    return group_.progress(rank);
  }

  [[nodiscard]] int size() const noexcept { return group_.size(); }
  [[nodiscard]] cuda::Device device() const noexcept { return device_; }

 private:
  friend class VirtualCommunicator;

  void make_ends() {
    expects(size() <= 64, "VirtualGroup: the number of ranks must be between 1 and 64");
    for (int rank = 0; rank < size(); ++rank) {
      ends_.emplace_back(device_);
    }
    boxes_.resize(static_cast<std::size_t>(size() * size() * places_));
  }

  [[nodiscard]] detail::VirtualEnd& end(int rank) noexcept {
    return ends_[static_cast<std::size_t>(rank)];
  }

  /// Made by the sender before the receiver sees the message.
  [[nodiscard]] std::unique_ptr<detail::VirtualBox>& box(int from, int to, int place) noexcept {
    return boxes_[static_cast<std::size_t>((from * size() + to) * places_ + place)];
  }

  ThreadsGroup group_;
  cuda::Device device_;
  std::chrono::milliseconds timeout_;
  int places_;  // of a pair's messages
  std::vector<detail::VirtualEnd> ends_;
  std::vector<std::unique_ptr<detail::VirtualBox>> boxes_;
};

}  // namespace tandem
