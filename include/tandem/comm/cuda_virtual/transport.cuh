// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VirtualTransport: all ranks on one GPU, as threads of this process.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <tandem/comm/cuda/copy.hpp>
#include <tandem/comm/cuda_virtual/communicator.cuh>
#include <tandem/comm/cuda_virtual/group.hpp>
#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/one_rank_transport.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/threads/options.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/runtime/cuda/device.hpp>

namespace tandem {

/// Members as in ThreadsTransport, comm/threads/transport.hpp. The GPU is the first that the
/// process sees.
template <int Ranks>
class VirtualTransport {
  static_assert(detail::OneProcessHolds<Ranks>::value);

 public:
  using Communicator = VirtualCommunicator;

  /// @throws ContractError  the time-out is not positive, or there are several processes
  /// @throws ContractError  a group names a rank twice, or one that there is not
  explicit VirtualTransport(TransportOptions const& options)
      : group_{ranks_of<Ranks>(options), cuda::Device{0}, with_places(threads_options(options))},
        sets_{options.groups} {
    detail::check_groups(sets_, group_.size());
    for (RankSet const& set : sets_) {
      groups_.push_back(std::make_unique<VirtualGroup>(group_, set));
    }
  }

  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] int local_ranks() const noexcept { return group_.size(); }
  [[nodiscard]] static int device_of(int /*local*/) noexcept { return 0; }
  [[nodiscard]] Communicator communicator(int rank) { return group_.communicator(rank); }
  [[nodiscard]] Communicator communicator(int rank, int group) {
    int const position = detail::member_of(sets_, rank, group);
    return groups_[static_cast<std::size_t>(group)]->communicator(position);
  }
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) { return &group_.progress(rank); }
  void abort(int rank, std::string_view reason) { group_.abort(rank, reason); }
  void poll(int rank, std::chrono::steady_clock::duration waited = {}) {
    group_.poll(rank, waited);
  }

 private:
  // A rank's thread that waits to send receives nothing meanwhile, and pipelines send a few
  // microbatches both ways before they receive.
  static ThreadsOptions with_places(ThreadsOptions options) {
    options.messages_in_flight = 16;
    return options;
  }

  VirtualGroup group_;  // of all
  std::vector<RankSet> sets_;
  std::vector<std::unique_ptr<VirtualGroup>> groups_;
};

/// A strategy of one device starts no group, and queues nothing that could not be captured.
template <>
class VirtualTransport<1> : public OneRankTransport<cuda::Stream> {
 public:
  using OneRankTransport::OneRankTransport;
};

}  // namespace tandem
