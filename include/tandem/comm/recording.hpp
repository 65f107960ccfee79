// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Recording: any communicator, with a log of what went through it.
///
/// Tests compare the log with what the planner predicts; nothing is timed, nothing is changed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/ordered.hpp>
#include <tandem/comm/volume.hpp>
#include <tandem/core/config.hpp>

namespace tandem {

/// One collective or message that a rank has queued. Elements and bytes are those of the whole: of
/// a reduce-scatter's input, of an all-gather's output.
struct Record {
  Operation operation = Operation::barrier;
  int ranks = 1;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  Label label{};
  int peer = -1;  ///< of a send or a receive; the root of a broadcast
};

/// Bytes that this rank had to send, in a collective on average over the ranks: see
/// comm/volume.hpp.
constexpr std::int64_t bytes_sent(Record const& record) {
  return bytes_sent(record.operation, record.ranks, record.bytes);
}

/// The same for a whole log.
constexpr std::int64_t bytes_sent(std::span<Record const> log) {
  std::int64_t sum = 0;
  for (Record const& record : log) {
    sum += bytes_sent(record);
  }
  return sum;
}

/// "all-reduce (bucket 2): 1000 elements, 4000 bytes, 4 ranks, 6000 bytes sent"
TANDEM_ONCE TANDEM_COLD std::string to_string(Record const& record);

/// A communicator that logs. The primary template is the error path: C is no communicator.
template <class C>
class Recording {
  static_assert(RankGroup<C>,
                "Recording<C>: C must be a communicator, such as ThreadsCommunicator or "
                "SelfCommunicator");
};

/// Does what C does and logs each call, before it is queued and on the caller's thread. A log that
/// is full takes no more and counts what it missed, so that steps do not allocate.
template <class C>
  requires RankGroup<C>
class Recording<C> {
 public:
  using Stream = typename C::Stream;
  static constexpr bool ordered = sums_in_order<C>;

  /// @param capacity  records that the log has room for
  explicit Recording(C communicator, std::size_t capacity = 4096)
      : communicator_{std::move(communicator)} {
    log_.reserve(capacity);
  }

  /// See AllReduces.
  template <class T, class Op>
    requires AllReduces<C, T, Op>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                  Stream& stream, Label label = {}) {
    record(Operation::all_reduce, in.size(), in.size_bytes(), label);
    communicator_.all_reduce(in, out, op, stream, label);
  }

  /// See ReduceScatters.
  template <class T, class Op>
    requires ReduceScatters<C, T, Op>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      Stream& stream, Label label = {}) {
    record(Operation::reduce_scatter, in.size(), in.size_bytes(), label);
    communicator_.reduce_scatter(in, out, op, stream, label);
  }

  /// See AllGathers.
  template <class T>
    requires AllGathers<C, T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    record(Operation::all_gather, out.size(), out.size_bytes(), label);
    communicator_.all_gather(in, out, stream, label);
  }

  /// See Broadcasts.
  template <class T>
    requires Broadcasts<C, T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    record(Operation::broadcast, data.size(), data.size_bytes(), label, root);
    communicator_.broadcast(data, root, stream, label);
  }

  /// See SendsAndReceives.
  template <class T>
    requires SendsAndReceives<C, std::remove_const_t<T>>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    record(Operation::send, data.size(), data.size_bytes(), label, peer);
    communicator_.send(std::span<T const>{data}, peer, stream, label);
  }

  /// See SendsAndReceives.
  template <class T>
    requires SendsAndReceives<C, T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    record(Operation::receive, data.size(), data.size_bytes(), label, peer);
    communicator_.receive(data, peer, stream, label);
  }

  /// See Exchanges; it is recorded as its messages, sends first.
  template <class T>
    requires Exchanges<C, T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& stream, Label label = {}) {
    for (auto const& message : sends) {
      record(Operation::send, message.data.size(), message.data.size_bytes(), label, message.peer);
    }
    for (auto const& message : receives) {
      record(Operation::receive, message.data.size(), message.data.size_bytes(), label,
             message.peer);
    }
    communicator_.exchange(sends, receives, stream, label);
  }

  /// See Barriers.
  void barrier(Stream& stream, Label label = {}) requires Barriers<C> {
    record(Operation::barrier, 0, 0, label);
    communicator_.barrier(stream, label);
  }

  [[nodiscard]] int rank() const noexcept { return communicator_.rank(); }
  [[nodiscard]] int size() const noexcept { return communicator_.size(); }

  /// The calls so far, oldest first; valid until this object changes.
  [[nodiscard]] std::span<Record const> log() const noexcept { return {log_.data(), log_.size()}; }

  /// Calls that the log had no room for.
  [[nodiscard]] std::size_t missed() const noexcept { return missed_; }

  /// Empties the log.
  void clear() noexcept {
    log_.clear();
    missed_ = 0;
  }

 private:
  void record(Operation operation, std::size_t elements, std::size_t bytes, Label label,
              int peer = -1) {
    if (log_.size() == log_.capacity()) {
      ++missed_;
      return;
    }
    log_.push_back({operation, size(), static_cast<std::int64_t>(elements),
                    static_cast<std::int64_t>(bytes), label, peer});
  }

  C communicator_;
  std::vector<Record> log_;
  std::size_t missed_ = 0;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string to_string(Record const& record) {
  std::string const label = to_string(record.label);
  return std::string{name(record.operation)} + (label.empty() ? "" : " (" + label + ")") + ": " +
         std::to_string(record.elements) + " elements, " + std::to_string(record.bytes) +
         " bytes, " + std::to_string(record.ranks) + (record.ranks == 1 ? " rank, " : " ranks, ") +
         std::to_string(bytes_sent(record)) + " bytes sent";
}

}  // namespace tandem

#endif
