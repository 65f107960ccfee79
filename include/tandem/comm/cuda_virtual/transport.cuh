// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VirtualTransport: all ranks on one GPU, as threads of this process.
///
/// A call waits on the host until all ranks have made theirs; then each rank's stream waits for the
/// others' and works on its share of everybody's buffers, as ranks on the host do.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/comm/cuda/copy.hpp>
#include <tandem/comm/cuda_virtual/group.hpp>
#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/message.hpp>
#include <tandem/comm/one_rank_transport.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/share.hpp>
#include <tandem/comm/threads/call.hpp>
#include <tandem/comm/threads/options.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/kernels/cuda/pointers.hpp>
#include <tandem/kernels/cuda/tree_sum.cuh>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {

/// One rank's end of a VirtualGroup; a small value, copies of it are the same end. Models every
/// concept of comm/concepts.hpp. Buffers are memory of the group's GPU; nothing can be captured.
///
/// Each rank needs a thread and a stream of its own. A call itself throws AbortedError when the
/// group was aborted, TimeoutError when a rank did not come, and ContractError, on every rank and
/// leaving the group usable, when the ranks' calls do not match. Integers are moved but not
/// reduced.
class VirtualCommunicator {
 public:
  using Stream = cuda::Stream;

  /// Messages of a pair of ranks and a direction that may be sent before the receiver comes; more
  /// if the group's options say so.
  static constexpr int messages_in_flight = 1;

  /// Whether all_reduce() and reduce_scatter() join the ranks in the order of comm/fixed_tree.hpp.
  static constexpr bool ordered = true;

  /// out[i] = op over the ranks' in[i]. See AllReduces.
  ///
  /// Order:  a tree fixed by rank, see cuda::tree_sum(): for float and double the bits of
  ///         ThreadsCommunicator.
  /// Cost:   each rank reads bytes(in) and writes bytes(out) in all; no allocation.
  /// @throws ContractError  the sizes of in and out differ, or they overlap in part
  template <class T, class Op>
    requires(!std::is_integral_v<T>)
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                  Stream& stream, Label label = {}) {
    detail::check_all_reduce<T>(in, out);
    auto const call =
        detail::collective<T, Op>(Operation::all_reduce, label, in.size(), in.data(), out.data());
    together(call, stream, [&] {
      auto const [begin, end] = detail::share_of(rank_, size(), in.size(), sizeof(T));
      cuda::Pointers<T> results;
      for (results.count = 0; results.count < size(); ++results.count) {
        results.at[results.count] = static_cast<T*>(call_of(results.count).out);
      }
      cuda::tree_sum(stream, inputs<T>(0), static_cast<std::int64_t>(begin),
                     static_cast<std::int64_t>(end), results, op);
    });
  }

  /// This rank's part of op over the ranks' in. See ReduceScatters.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T, class Op>
    requires(!std::is_integral_v<T>)
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      Stream& stream, Label label = {}) {
    detail::check_reduce_scatter<T>(rank_, size(), in, out);
    auto const call = detail::collective<T, Op>(Operation::reduce_scatter, label, out.size(),
                                                in.data(), out.data());
    together(call, stream, [&] {
      cuda::Pointers<T> result;
      result.count = 1;
      result.at[0] = out.data();
      cuda::tree_sum(stream, inputs<T>(static_cast<std::size_t>(rank_) * out.size()), 0,
                     static_cast<std::int64_t>(out.size()), result, op);
    });
  }

  /// Every rank's in, in the order of ranks. See AllGathers.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    detail::check_all_gather<T>(rank_, size(), in, out);
    auto const call =
        detail::collective<T, void>(Operation::all_gather, label, in.size(), in.data(), out.data());
    together(call, stream, [&] {
      for (int r = 0; r < size(); ++r) {
        copy(call_of(r).in, out.data() + static_cast<std::size_t>(r) * in.size(), in.size_bytes(),
             stream);
      }
    });
  }

  /// data = root's data. See Broadcasts.
  /// @throws ContractError  @p root is not in [0, size())
  template <class T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    expects(root >= 0 && root < size(), "broadcast: the root must be a rank of the group");
    auto const call = detail::collective<T, void>(Operation::broadcast, label, data.size(),
                                                  data.data(), data.data(), nullptr, root);
    together(call, stream, [&] { copy(call_of(root).in, data.data(), data.size_bytes(), stream); });
  }

  /// A message to @p peer. See SendsAndReceives. Waits, on the host, while as many
  /// as may be in flight have not been received.
  ///
  /// Cost:   copies bytes(data) once; allocates where the message is larger than all of its pair
  ///         and direction before it.
  /// @throws ContractError  @p peer is no other rank
  template <class T>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    expects(is_peer(peer), "send: the peer must be another rank of the group");
    detail::Call const call{.operation = Operation::send,
                            .label = label,
                            .type = &detail::type_mark<std::remove_const_t<T>, void>,
                            .count = data.size()};
    group_->group_.send(rank_, peer, call, [&](detail::MailBox& box) {
      auto& place = group_->box(rank_, peer, box.place);
      if (place == nullptr) {
        place = std::make_unique<detail::VirtualBox>(group_->device());
      }
      stream.wait_for(place->taken);
      make_room(*place, data.size_bytes(), stream);
      copy(data.data(), place->memory.get(), data.size_bytes(), stream);
      stream.record(place->full);
    });
  }

  /// A message from @p peer. See SendsAndReceives. Waits, on the host, until it has been sent.
  /// @throws ContractError  @p peer is no other rank, or the message has another size or type
  template <class T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    expects(is_peer(peer), "receive: the peer must be another rank of the group");
    detail::Call const call{.operation = Operation::receive,
                            .label = label,
                            .type = &detail::type_mark<T, void>,
                            .count = data.size()};
    group_->group_.receive(rank_, peer, call, [&](detail::MailBox& box) {
      detail::VirtualBox& place = *group_->box(peer, rank_, box.place);
      stream.wait_for(place.full);
      copy(place.memory.get(), data.data(), data.size_bytes(), stream);
      stream.record(place.taken);
    });
  }

  /// The sends, which wait for nobody if earlier messages have been received, then the receives.
  /// See Exchanges.
  /// @throws ContractError  a peer is no other rank
  template <class T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& stream, Label label = {}) {
    for (auto const& message : sends) {
      send(message.data, message.peer, stream, label);
    }
    for (auto const& message : receives) {
      receive(message.data, message.peer, stream, label);
    }
  }

  /// No rank's stream passes before every rank's stream has come.
  void barrier(Stream& stream, Label label = {}) {
    together({.operation = Operation::barrier, .label = label}, stream, [] {});
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return group_->size(); }

 private:
  friend class VirtualGroup;

  VirtualCommunicator(VirtualGroup& group, int rank) : group_{&group}, rank_{rank} {}

  /// work() queues this rank's part on @p stream, when all have come; behind it the stream waits
  /// until all parts are done.
  template <class Work>
  void together(detail::Call const& call, Stream& stream, Work const& work) {
    stream.record(group_->end(rank_).arrived);
    group_->group_.meet(rank_, call);
    std::exception_ptr error;  // the others count on this rank to come to the second meeting
    try {
      wait_for_others(stream, &detail::VirtualEnd::arrived);
      work();
      stream.record(group_->end(rank_).done);
    } catch (...) {
      error = std::current_exception();
    }
    group_->group_.leave(rank_);
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
    wait_for_others(stream, &detail::VirtualEnd::done);
  }

  void wait_for_others(Stream& stream, cuda::Event detail::VirtualEnd::*point) {
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) {
        stream.wait_for(group_->end(r).*point);
      }
    }
  }

  /// @pre between the meetings
  [[nodiscard]] detail::Call const& call_of(int rank) const { return group_->group_.call_of(rank); }
  template <class T>
  [[nodiscard]] cuda::Pointers<T const> inputs(std::size_t offset) const {
    cuda::Pointers<T const> result;
    for (result.count = 0; result.count < size(); ++result.count) {
      auto const* const in = static_cast<T const*>(call_of(result.count).in);
      result.at[result.count] = in == nullptr ? nullptr : in + offset;
    }
    return result;
  }

  static void copy(void const* from, void* to, std::size_t bytes, Stream& stream) {
    if (from != to && bytes > 0) {
      cuda::copy_bytes(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
    }
  }

  /// @pre the stream has waited for the box's last reader
  static void make_room(detail::VirtualBox& place, std::size_t bytes, Stream& stream) {
    if (bytes <= place.capacity) {
      return;
    }
    if (void* const old = place.memory.release(); old != nullptr) {
      place.capacity = 0;
      cuda::check(cudaFreeAsync(old, stream.get()));
    }
    cuda::ScopedDevice const scope{stream.device()};
    void* memory = nullptr;
    cuda::check(cudaMallocAsync(&memory, bytes, stream.get()));
    place.memory = UniqueHandle<void*, cudaFree>{memory};
    place.capacity = bytes;
  }

  [[nodiscard]] bool is_peer(int peer) const noexcept {
    return peer >= 0 && peer < size() && peer != rank_;
  }
  VirtualGroup* group_;
  int rank_;
};

inline VirtualCommunicator VirtualGroup::communicator(int rank) {
  expects(rank >= 0 && rank < size(), "VirtualGroup::communicator: no such rank in this group");
  return {*this, rank};
}

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
