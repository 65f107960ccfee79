// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Transports: the communicators of all ranks of one process, chosen by type.
///
/// One rank has a SelfCommunicator and no group, so that a strategy of one device makes no
/// communication call at all.

#include <atomic>
#include <cstdint>
#include <string>

#include <tandem/comm/recording.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/comm/threads.hpp>

namespace tandem {

/// Ranks are threads of this process.
template <int Ranks>
class ThreadsTransport {
 public:
  using Communicator = ThreadsCommunicator;

  explicit ThreadsTransport(ThreadsOptions const& options) : group_{Ranks, options} {}

  [[nodiscard]] Communicator communicator(int rank) { return group_.communicator(rank); }
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) { return &group_.progress(rank); }
  void abort(int rank, std::string_view reason) { group_.abort(rank, reason); }

 private:
  ThreadsGroup group_;
};

template <>
class ThreadsTransport<1> {
 public:
  using Communicator = SelfCommunicator;

  explicit ThreadsTransport(ThreadsOptions const& /*options*/) {}

  [[nodiscard]] static Communicator communicator(int /*rank*/) { return {}; }
  [[nodiscard]] static std::atomic<std::uint64_t>* progress(int /*rank*/) { return nullptr; }
  static void abort(int /*rank*/, std::string_view /*reason*/) {}
};

/// Another transport whose communicators log every call: how tests and planners count bytes.
template <int Ranks>
class RecordingTransport : public ThreadsTransport<Ranks> {
  using Base = ThreadsTransport<Ranks>;

 public:
  using Communicator = Recording<typename Base::Communicator>;
  using Base::Base;

  [[nodiscard]] Communicator communicator(int rank) {
    return Communicator{Base::communicator(rank)};
  }
};

}  // namespace tandem
