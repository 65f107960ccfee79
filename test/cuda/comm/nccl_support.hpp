// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Ranks that talk through NCCL, as threads of this process; for the tests of NcclCommunicator.

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/nccl/transport.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include "support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include "emulator/control.hpp"
#include "emulator/nccl_control.hpp"
#endif

namespace tandem::nccl_test {

/// The ranks of one or more processes, each with a group of its own; here all are threads of one.
class Ranks {
 public:
  explicit Ranks(int ranks, TransportOptions const& options = {}, int processes = 1)
      : groups_(static_cast<std::size_t>(processes)), local_{ranks / processes} {
    for (int rank = 0; rank < ranks; ++rank) {
      devices_.push_back(std::make_unique<cuda::RankDevice>(cuda::Device{rank}));
    }
    ncclUniqueId const id = make_unique_id({}, options.timeout);
    errors_ = test::on_threads(processes, [&](int process) {
      std::vector<cuda::Device> own;
      for (int i = 0; i < local_; ++i) {
        own.push_back(cuda::Device{process * local_ + i});
      }
      groups_[static_cast<std::size_t>(process)] =
          std::make_unique<NcclGroup>(ranks, process * local_, own, id, options);
    });
  }

  ~Ranks() {
    test::on_threads(static_cast<int>(groups_.size()),
                     [this](int process) { groups_[static_cast<std::size_t>(process)].reset(); });
  }

  template <class F>
  test::Errors run(F const& f) {
    return test::on_threads(static_cast<int>(devices_.size()), [&](int rank) {
      NcclCommunicator comm = group(rank).communicator(rank);
      f(comm, device(rank));
      wait(rank);
    });
  }

  /// Polling, and once more behind it: an abort lets the GPU go on, with wrong numbers.
  void wait(int rank) {
    cuda::Event end{device(rank).device};
    device(rank).communication.record(end);
    auto const begin = std::chrono::steady_clock::now();
    device(rank).wait(
        end, [&] { group(rank).poll(rank, std::chrono::steady_clock::now() - begin); },
        std::chrono::hours{1});
    group(rank).poll(rank);
  }

  [[nodiscard]] NcclGroup& group(int rank) {
    return *groups_[static_cast<std::size_t>(rank / local_)];
  }
  [[nodiscard]] cuda::RankDevice& device(int rank) {
    return *devices_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] test::Errors const& errors() const { return errors_; }

 private:
  std::vector<std::unique_ptr<cuda::RankDevice>> devices_;
  std::vector<std::unique_ptr<NcclGroup>> groups_;
  test::Errors errors_;
  int local_;
};

/// The `run` of the checks in support.hpp.
struct Run {
  int processes = 1;

  template <class F>
  test::Errors operator()(int ranks, F const& f) const {
    Ranks all{ranks, {}, processes};
    CHECK(test::first_message(all.errors()) == "");
    return all.run(f);
  }
};

/// Numbers of ranks for which there are GPUs.
inline std::vector<int> sizes(int least = 1) {
  std::vector<int> result;
  for (int ranks = least; ranks <= 4 && ranks <= cuda::device_count(); ++ranks) {
    result.push_back(ranks);
  }
  if (result.empty()) {
    MESSAGE("skipped: this needs ", least, " GPUs");
  }
  return result;
}

#if defined(TANDEM_CUDA_EMULATED)

namespace emu = cuda_emulator;

/// Whether no communicator was misused or is left over during its life.
struct Tidy {
  ~Tidy() {
    CHECK(emu::nccl_misuses() == misuses);
    CHECK(emu::live_nccl_communicators() == 0);
    CHECK(emu::ending_nccl_communicators() == 0);
  }
  std::size_t misuses = emu::nccl_misuses();
};

#endif  // TANDEM_CUDA_EMULATED

}  // namespace tandem::nccl_test
