// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NcclTransport: a GPU a rank, in one process or many.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/comm/cuda/copy.hpp>
#include <tandem/comm/lifeline/guard.hpp>
#include <tandem/comm/nccl/communicator.hpp>
#include <tandem/comm/nccl/group.hpp>
#include <tandem/comm/nccl/unique_id.hpp>
#include <tandem/comm/one_rank_transport.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/environment.hpp>

namespace tandem {

namespace detail {

/// The first GPU of this process's ranks, which take @p local in a row. A process that sees as many
/// as it needs was given its own by the launcher; else the machine's processes take theirs in turn.
/// @throws Error  there are too few
inline int first_device(World const& world, int local, int visible) {
  int const first = visible == local ? 0 : world.local_process * local;
  if (first + local > visible && world.processes == 1) {
    throw Error{"a strategy of " + std::to_string(local) + " ranks needs " + std::to_string(local) +
                " GPUs, but this process sees " + std::to_string(visible) +
                "; use a strategy with fewer ranks, or look at CUDA_VISIBLE_DEVICES"};
  }
  if (first + local > visible) {
    throw Error{"process " + std::to_string(world.process) + " has " + std::to_string(local) +
                (local == 1 ? " rank" : " ranks") + " and is number " +
                std::to_string(world.local_process) + " on its machine, so there must be " +
                std::to_string(first + local) + " GPUs, but it sees " + std::to_string(visible) +
                "; use a strategy with fewer ranks, more machines, or look at "
                "CUDA_VISIBLE_DEVICES"};
  }
  return first;
}

}  // namespace detail

/// Members as in ThreadsTransport, comm/threads/transport.hpp. Each rank has a GPU of its own.
template <int Ranks>
class NcclTransport {
 public:
  using Communicator = NcclCommunicator;

  /// Connects all ranks of all processes, which all make theirs, and then the groups, in order.
  /// @throws ContractError  the ranks cannot be dealt to the processes, the time-out is not
  /// positive, or a group names a rank twice or one that there is not
  /// @throws Error          there are too few GPUs, or a process did not come
  explicit NcclTransport(TransportOptions const& options)
      : NcclTransport{options, visible_devices()} {}

  NcclTransport(NcclTransport const&) = delete;
  NcclTransport& operator=(NcclTransport const&) = delete;

  ~NcclTransport() {
    lifeline_.enter();  // NCCL may not return from what ends it
    lifeline_.release();
  }

  /// An exception that all processes throw is about to end it: none is told.
  void leave_in_order() noexcept { lifeline_.leave_in_order(); }

  /// The ranks here begin a step, counted from 1, or any work of all processes; they are at work
  /// from enter() to leave().
  void at_step(std::int64_t step) noexcept { lifeline_.at_step(step); }
  void begin_work() noexcept { lifeline_.begin_work(); }
  void enter() noexcept { lifeline_.enter(); }
  void leave() noexcept { lifeline_.leave(); }

  [[nodiscard]] int first_rank() const noexcept { return group_.first(); }
  [[nodiscard]] int local_ranks() const noexcept { return group_.local(); }
  [[nodiscard]] int device_of(int local) const noexcept {
    return devices_[static_cast<std::size_t>(local)].ordinal;
  }
  [[nodiscard]] Communicator communicator(int rank) { return group_.communicator(rank); }
  [[nodiscard]] Communicator communicator(int rank, int group) {
    return group_.communicator(rank, group);
  }
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) { return &group_.progress(rank); }
  void abort(int rank, std::string_view reason) {
    group_.abort(rank, reason);
    lifeline_.report(rank, reason);
  }
  void poll(int rank, std::chrono::steady_clock::duration waited = {}) {
    group_.poll(rank, waited);
  }

 private:
  /// Returns when the lifeline has said who is to blame.
  void tell_time_out(int rank, std::string const& text) {
    lifeline_.report_time_out(rank, text);
    detail::Patience patience{std::chrono::seconds{5}, 0};
    while (!group_.failed() && patience.pause()) {
    }
  }

  static int visible_devices() {
    cuda::prepare_environment();  // before what may be the first call of CUDA
    return cuda::device_count();
  }

  NcclTransport(TransportOptions const& options, int visible)
      : devices_{devices(options, visible)},
        lifeline_{options.world, static_cast<int>(devices_.size()), options.timeout,
                  options.on_stall},
        group_{ranks_of<Ranks>(options),
               tandem::first_rank(options.world, ranks_of<Ranks>(options)),
               devices_,
               make_unique_ids(options.world, ranks_of<Ranks>(options), options.timeout),
               options,
               [this] { return lifeline_.failure(); }} {
    if (options.world.processes > 1) {
      group_.escalate_by([this](int rank, std::string const& text) { tell_time_out(rank, text); });
    }
    lifeline_.guard(group_, [this, words = options.describe_progress](int rank) {
      return words != nullptr ? words(rank, group_.progress(rank).load()) : std::string{};
    });
  }

  static std::vector<cuda::Device> devices(TransportOptions const& options, int visible) {
    int const local = tandem::local_ranks(options.world, ranks_of<Ranks>(options));
    int const first = detail::first_device(options.world, local, visible);
    std::vector<cuda::Device> result;
    for (int i = 0; i < local; ++i) {
      result.push_back(cuda::Device{first + i});
    }
    return result;
  }

  std::vector<cuda::Device> devices_;
  LifelineGuard<NcclGroup> lifeline_;
  NcclGroup group_;
};

/// A strategy of one device makes no NCCL call.
template <>
class NcclTransport<1> : public OneRankTransport<cuda::Stream> {
 public:
  using OneRankTransport::OneRankTransport;
};

}  // namespace tandem
