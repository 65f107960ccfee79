// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankTransport: how the ranks of this process get their communicators, and end each other's
/// waiting.

#include <atomic>
#include <concepts>
#include <cstdint>
#include <string_view>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/complete.hpp>

namespace tandem {

/// A transport for a number of ranks, which a template `Transport<Ranks>` names; a process makes
/// one from its TransportOptions, and it outlives the ranks. `rank` is always the rank among those
/// of all processes, `local` among those of this one.
///
/// first_rank(), local_ranks(): the ranks that live here are local_ranks() from first_rank() on;
///           they agree with what the other processes say.
/// device_of(local): which of the devices that this process sees is that rank's.
/// communicator(rank): its end of the group of all ranks. Called by the rank's thread, all of them
///           in one order.
/// communicator(rank, group): its end of options.groups[group], which numbers its members anew; for
///           members only. A strategy of one rank has no groups.
/// progress(rank): a word where the rank notes what it is doing, for the transport's messages; null
///           where they say nothing of it.
/// abort(rank, reason): makes every rank that waits for others, in any group and process, throw,
///           now or later. By any thread.
/// poll(rank, waited): what whoever waits for the rank's device calls again and again, and once
///           more when the device has come: throws if the wait is in vain. By the rank's thread.
/// at_step(step), enter(), leave(): where it has them, that the ranks here begin a step, counted
///           from 1, and from when to when they have work at all; in pairs, by one thread. Where
///           ranks with work do not return after another process has failed it ends this one.
/// begin_work(): where it has it, that the ranks here begin what the ranks of all processes do
///           together, so that each process begins as many; by the same thread.
/// one_process: where it has it and it is true, a world of several processes is refused, and a
///           program has no code for one.
/// Communicator: its streams are those of the backend's device. It sums the losses of all ranks,
///           which are doubles; what else a strategy asks of it is in
///           engine/links/concepts.hpp.
/// Cost:     progress() and poll() are called in every step, all others at the start or the end.
template <class T>
concept RankTransport = Complete<T> && std::constructible_from<T, TransportOptions> &&
    std::move_constructible<typename T::Communicator> &&
    AllReduces<typename T::Communicator, double, Sum> &&
    requires(T& transport, T const& same, int rank, std::string_view reason,
             std::chrono::steady_clock::duration waited) {
  { same.first_rank() } -> std::same_as<int>;
  { same.local_ranks() } -> std::same_as<int>;
  { same.device_of(rank) } -> std::same_as<int>;
  { transport.communicator(rank) } -> std::same_as<typename T::Communicator>;
  { transport.communicator(rank, rank) } -> std::same_as<typename T::Communicator>;
  { transport.progress(rank) } -> std::same_as<std::atomic<std::uint64_t>*>;
  transport.abort(rank, reason);
  transport.poll(rank, waited);
};

template <class T>
inline constexpr bool in_one_process = requires {
  requires T::one_process;
};

}  // namespace tandem
