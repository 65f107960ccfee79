// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VirtualTransport: all ranks on one GPU, as threads of this process.

#include <atomic>
#include <cstdint>
#include <string_view>

#include <tandem/comm/cuda_copy.hpp>
#include <tandem/comm/cuda_virtual/communicator.cuh>
#include <tandem/comm/cuda_virtual/group.hpp>
#include <tandem/comm/threads_group.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/runtime/cuda/device.hpp>

namespace tandem {

/// Members as in ThreadsTransport, comm/transport.hpp. The GPU is the first that the process sees.
template <int Ranks>
class VirtualTransport {
 public:
  using Communicator = VirtualCommunicator;
  static constexpr bool capturable = false;

  /// @throws ContractError  the time-out is not positive, or there are several processes
  explicit VirtualTransport(TransportOptions const& options)
      : group_{Ranks, cuda::Device{0}, threads_options(options)} {}

  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] static int local_ranks() noexcept { return Ranks; }
  [[nodiscard]] static int device_of(int /*local*/) noexcept { return 0; }
  [[nodiscard]] Communicator communicator(int rank) { return group_.communicator(rank); }
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) { return &group_.progress(rank); }
  void abort(int rank, std::string_view reason) { group_.abort(rank, reason); }
  void poll(int rank, std::chrono::steady_clock::duration waited = {}) {
    group_.poll(rank, waited);
  }

 private:
  VirtualGroup group_;
};

/// A strategy of one device: nobody to wait for, and nothing that could not be captured.
template <>
class VirtualTransport<1> {
 public:
  using Communicator = CudaSelfCommunicator;
  static constexpr bool capturable = true;

  explicit VirtualTransport(TransportOptions const& options) {
    static_cast<void>(threads_options(options));
  }

  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] static int local_ranks() noexcept { return 1; }
  [[nodiscard]] static int device_of(int /*local*/) noexcept { return 0; }
  [[nodiscard]] static Communicator communicator(int /*rank*/) { return {}; }
  [[nodiscard]] static std::atomic<std::uint64_t>* progress(int /*rank*/) { return nullptr; }
  static void abort(int /*rank*/, std::string_view /*reason*/) {}
  static void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) {}
};

}  // namespace tandem
