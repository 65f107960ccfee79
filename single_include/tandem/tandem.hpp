// SPDX-License-Identifier: Apache-2.0
#pragma once

// tandem in one file, written by single_include/amalgamate.py from include/tandem/. Do not edit.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

// ---- tandem/tandem.hpp

/// @file
/// The whole library for plain C++: networks, strategies, the Host backend, data and training.

// ---- tandem/comm/transport.hpp

/// @file
/// Transports: the communicators of the ranks of one process, chosen by type.
///
/// One rank has a SelfCommunicator and no group, so that a strategy of one device makes no
/// communication call at all. All transports have the members of ThreadsTransport; `rank` is always
/// the rank among those of all processes.

// ---- tandem/comm/rank_set.hpp

/// @file
/// RankSet: some of the ranks of a program, which a transport makes a group of their own for.
///
/// A list of them is known when the transport is made and is the same, in the same order, on every
/// rank and process: groups between processes are made one after the other, by all.

// ---- tandem/core/contract.hpp

/// @file
/// Checks of preconditions: expects() at the public door, TANDEM_ASSERT inside.

// ---- tandem/core/error.hpp

/// @file
/// The exceptions that tandem throws; all derive from Error.
///
/// A broken contract (the program is wrong) is a ContractError; a broken world (files, ranks,
/// numbers that overflow) has a type of its own. Every message is one sentence that says what to
/// do.

namespace tandem {

/// Base of every exception that tandem throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller broke a stated precondition.
class ContractError : public Error {
 public:
  using Error::Error;
};

/// A file is missing, unreadable, truncated or not what it claims to be.
class FileError : public Error {
 public:
  FileError(std::string const& path, std::string const& what)
      : Error{"'" + path + "': " + what}, path_{path} {}

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The loss of a step is not a finite number; the parameters are those of before the step.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

/// Some rank did not reach a collective in time.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// Another rank of the group failed first; its error is the one worth reading.
class AbortedError : public Error {
 public:
  using Error::Error;
};

/// The first error of a group of ranks, with the rank that threw it.
class RankError : public Error {
 public:
  RankError(int rank, std::string const& what)
      : Error{"rank " + std::to_string(rank) + ": " + what}, rank_{rank} {}

  [[nodiscard]] int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

}  // namespace tandem

namespace tandem {

namespace detail {

[[noreturn]] inline void fail_contract(char const* message, char const* file, int line) {
  throw ContractError{std::string{message} + " (" + file + ":" + std::to_string(line) + ")"};
}

}  // namespace detail

/// Always on, O(1), at the public door. The message says what is wrong and what to do.
/// @throws ContractError  @p condition is false
constexpr void expects(bool condition, char const* message, char const* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  if (!condition) {
    detail::fail_contract(message, file, line);
  }
}

}  // namespace tandem

/// A check inside the library, on in debug builds only; the body of no type depends on it.
#if defined(NDEBUG)
#define TANDEM_ASSERT(condition) static_cast<void>(0)
#else
#define TANDEM_ASSERT(condition) ::tandem::expects((condition), "internal check: " #condition)
#endif

namespace tandem {

/// Some of the ranks of a program, in the order in which the group numbers them.
struct RankSet {
  std::vector<int> ranks;  ///< among those of the program, each once
  std::string name{};      ///< for messages: "stage 2", "boundary 1-2, forward"
};

namespace detail {

/// The number that @p set gives to @p rank, or -1.
inline int position_of(RankSet const& set, int rank) noexcept {
  for (std::size_t i = 0; i < set.ranks.size(); ++i) {
    if (set.ranks[i] == rank) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// "group 3 (boundary 1-2, forward)"
template <class = void>  // compiled where it is called, not by every include
std::string name_of_group(std::vector<RankSet> const& groups, int group) {
  std::string const& name = groups[static_cast<std::size_t>(group)].name;
  return "group " + std::to_string(group) + (name.empty() ? "" : " (" + name + ")");
}

/// @throws ContractError  a group is empty, or names a rank twice or one that there is not
template <class = void>
void check_groups(std::vector<RankSet> const& groups, int ranks) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::string const name = name_of_group(groups, static_cast<int>(g));
    if (groups[g].ranks.empty()) {
      throw ContractError{"transport: " + name + " has no ranks; leave it out, or name some"};
    }
    for (std::size_t i = 0; i < groups[g].ranks.size(); ++i) {
      int const rank = groups[g].ranks[i];
      if (rank < 0 || rank >= ranks) {
        throw ContractError{"transport: " + name + " names rank " + std::to_string(rank) +
                            ", but the ranks are 0 to " + std::to_string(ranks - 1)};
      }
      if (position_of(groups[g], rank) != static_cast<int>(i)) {
        throw ContractError{"transport: " + name + " names rank " + std::to_string(rank) +
                            " twice; each rank is in a group once at most"};
      }
    }
  }
}

/// The number that @p rank has in @p group.
/// @throws ContractError  there is no such group, or the rank is no member of it
template <class = void>
int member_of(std::vector<RankSet> const& groups, int rank, int group) {
  if (group < 0 || group >= static_cast<int>(groups.size())) {
    throw ContractError{"communicator: there is no group " + std::to_string(group) +
                        "; the transport was made with " + std::to_string(groups.size()) +
                        ", numbered from 0 up"};
  }
  int const position = position_of(groups[static_cast<std::size_t>(group)], rank);
  if (position < 0) {
    std::string members;
    for (int const member : groups[static_cast<std::size_t>(group)].ranks) {
      members.append(members.empty() ? "" : ", ").append(std::to_string(member));
    }
    throw ContractError{"communicator: rank " + std::to_string(rank) + " is no member of " +
                        name_of_group(groups, group) + ", which has: " + members};
  }
  return position;
}

}  // namespace detail

}  // namespace tandem

// ---- tandem/comm/recording.hpp

/// @file
/// Recording: any communicator, with a log of what went through it.
///
/// Tests compare the log with what the planner predicts; nothing is timed, nothing is changed.

// ---- tandem/comm/concepts.hpp

/// @file
/// What a communicator can do: one small concept an operation, composed by those who need several.
///
/// A collective is queued on a stream and returns; its errors come out of that stream. All ranks of
/// a group must queue the same collectives in the same order, each rank on one stream of its own.

// ---- tandem/comm/message.hpp

/// @file
/// Outgoing and Incoming: the messages of an exchange(), each between two ranks.

namespace tandem {

/// What a rank sends to the rank @p peer.
template <class T>
struct Outgoing {
  std::span<T const> data{};
  int peer = 0;
};

/// Where a rank puts what the rank @p peer sends to it.
template <class T>
struct Incoming {
  std::span<T> data{};
  int peer = 0;
};

}  // namespace tandem

namespace tandem {

/// One rank's end of a group of ranks. rank() is in [0, size()); size() is the same on every rank.
template <class C>
concept RankGroup = requires(C const& comm) {
  typename C::Stream;
  { comm.rank() }
  noexcept->std::same_as<int>;
  { comm.size() }
  noexcept->std::same_as<int>;
};

/// all_reduce(in, out, op, stream): out[i] becomes op over all the ranks' in[i], on every rank.
///
/// in:     its size agrees on all ranks, its values need not; read by all ranks, so it must not
/// change
///         until the stream has passed the call.
/// out:    its size agrees on all ranks; written by the communicator until then.
/// op:     agrees on all ranks.
/// stream: this rank's own; a place on it is where the buffers change hands, before and after.
/// Cost:   at least 2 (n - 1) / n * bytes(in), sent and received by each of n ranks.
/// @pre    in.size() == out.size(); in and out are equal or do not overlap
template <class C, class T, class Op>
concept AllReduces = RankGroup<C> &&
    requires(C& comm, std::span<T const> in, std::span<T> out, Op op, typename C::Stream& stream) {
  { comm.all_reduce(in, out, op, stream) } -> std::same_as<void>;
};

/// broadcast(data, root, stream): data becomes root's data on every rank.
///
/// data:   its size agrees on all ranks; until the stream has passed the call it is read on the
/// root,
///         where it must not change, and written elsewhere.
/// root:   agrees on all ranks.
/// stream: this rank's own.
/// Cost:   bytes(data) received by each rank but the root.
/// @pre    root is in [0, size())
template <class C, class T>
concept Broadcasts = RankGroup<C> &&
    requires(C& comm, std::span<T> data, int root, typename C::Stream& stream) {
  { comm.broadcast(data, root, stream) } -> std::same_as<void>;
};

/// reduce_scatter(in, out, op, stream): out[i] becomes op over all the ranks' in[k n + i], where k
/// is this rank and n = out.size(): rank k keeps the k-th of size() equal parts of the result.
///
/// in:     its size agrees on all ranks; read by all ranks until the stream has passed the call.
/// out:    its size agrees on all ranks; written by the communicator until then.
/// op:     agrees on all ranks.
/// stream: this rank's own.
/// Cost:   at least (n - 1) / n * bytes(in), sent and received by each of n ranks.
/// @pre    in.size() == size() * out.size(); out is this rank's part of in or overlaps none of it
template <class C, class T, class Op>
concept ReduceScatters = RankGroup<C> &&
    requires(C& comm, std::span<T const> in, std::span<T> out, Op op, typename C::Stream& stream) {
  { comm.reduce_scatter(in, out, op, stream) } -> std::same_as<void>;
};

/// all_gather(in, out, stream): out[k n + i] becomes rank k's in[i], for every rank k, where
/// n = in.size().
///
/// in:     its size agrees on all ranks; read by all ranks until the stream has passed the call.
/// out:    its size agrees on all ranks; written by the communicator until then.
/// stream: this rank's own.
/// Cost:   at least (n - 1) / n * bytes(out), sent and received by each of n ranks.
/// @pre    out.size() == size() * in.size(); in is this rank's part of out or overlaps none of it
template <class C, class T>
concept AllGathers = RankGroup<C> &&
    requires(C& comm, std::span<T const> in, std::span<T> out, typename C::Stream& stream) {
  { comm.all_gather(in, out, stream) } -> std::same_as<void>;
};

/// send(data, peer, stream) on one rank and receive(data, peer, stream) on the other: the
/// receiver's data becomes the sender's. The messages from one rank to another arrive in the order
/// in which they were sent; every send has one receive.
///
/// data:   its size agrees on both ranks; until the stream has passed the call it is read on the
///         sender, where it must not change, and written on the receiver.
/// peer:   the other rank.
/// stream: this rank's own. A send may hold it up until the receiver comes. A communicator that
///         says `messages_in_flight` = n lets n messages of a pair and direction pass before that.
/// Cost:   bytes(data), sent and received.
/// @pre    peer is in [0, size()) and is not this rank
template <class C, class T>
concept SendsAndReceives = RankGroup<C> &&
    requires(C& comm, std::span<T const> in, std::span<T> out, int peer,
             typename C::Stream& stream) {
  { comm.send(in, peer, stream) } -> std::same_as<void>;
  { comm.receive(out, peer, stream) } -> std::same_as<void>;
};

/// exchange(sends, receives, stream): all these messages at once, so that ranks may send to each
/// other without thinking of an order. Each end of a message may be in an exchange or alone.
///
/// sends, receives: need not agree; their buffers are as in send() and receive(). The two lists
///                  themselves are read before the call returns.
/// @pre    at most one message to and one from each other rank
template <class C, class T>
concept Exchanges = RankGroup<C> &&
    requires(C& comm, std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
             typename C::Stream& stream) {
  { comm.exchange(sends, receives, stream) } -> std::same_as<void>;
};

/// barrier(stream): no rank's stream passes the call before every rank's stream has reached it. The
/// caller goes on; to hold it back too, wait for the stream.
///
/// stream: this rank's own.
template <class C>
concept Barriers = RankGroup<C> && requires(C& comm, typename C::Stream& stream) {
  { comm.barrier(stream) } -> std::same_as<void>;
};

}  // namespace tandem

// ---- tandem/comm/operation.hpp

/// @file
/// Operation: the collectives and messages by name; Label: what a caller calls one of its
/// collectives.
///
/// Both only identify: they stand in time-out messages and in records, and change no number.

namespace tandem {

/// A collective operation, or one end of a message.
enum class Operation { all_reduce, broadcast, barrier, reduce_scatter, all_gather, send, receive };

/// "all-reduce", "broadcast", …: as they stand in messages.
constexpr char const* name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::broadcast:
      return "broadcast";
    case Operation::barrier:
      return "barrier";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::all_gather:
      return "all-gather";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
  }
  return "unknown";
}

/// A text and a number for messages: Label{"bucket", 2} prints "bucket 2". The text is not copied;
/// it must live as long as the group, as a literal does. It need not agree on all ranks.
struct Label {
  char const* text = nullptr;
  int index = -1;
};

/// "bucket 2", "loss", or "" for the empty label.
inline std::string to_string(Label label) {
  std::string text = label.text != nullptr ? label.text : "";
  if (label.index >= 0) {
    text += text.empty() ? "" : " ";
    text += std::to_string(label.index);
  }
  return text;
}

}  // namespace tandem

// ---- tandem/comm/volume.hpp

/// @file
/// Bytes that a collective must send, for the planner's predictions and for the records' check.
///
/// These are the least possible, which rings reach and shared memory too; not what a library sends.

namespace tandem {

/// Bytes each of @p ranks sends, on average and rounded up, when @p bytes are reduced onto all:
/// 2 (n - 1) / n * bytes. As many are received.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
constexpr std::int64_t all_reduce_bytes(int ranks, std::int64_t bytes) {
  return (2 * (ranks - std::int64_t{1}) * bytes + ranks - 1) / ranks;
}

/// Bytes each of @p ranks sends, on average and rounded up, when @p bytes go from one to all:
/// (n - 1) / n * bytes.
constexpr std::int64_t broadcast_bytes(int ranks, std::int64_t bytes) {
  return ((ranks - std::int64_t{1}) * bytes + ranks - 1) / ranks;
}

/// Bytes each of @p ranks sends, on average and rounded up, when @p bytes that all hold are reduced
/// and each keeps its part: (n - 1) / n * bytes.
constexpr std::int64_t reduce_scatter_bytes(int ranks, std::int64_t bytes) {
  return broadcast_bytes(ranks, bytes);
}

/// Bytes each of @p ranks sends, on average and rounded up, when the parts of all make @p bytes:
/// (n - 1) / n * bytes.
constexpr std::int64_t all_gather_bytes(int ranks, std::int64_t bytes) {
  return broadcast_bytes(ranks, bytes);
}

/// Of any, by name. @p bytes are those of the whole: of a reduce-scatter's input, of an
/// all-gather's output. A barrier sends nothing that counts, and a receive nothing at all.
constexpr std::int64_t bytes_sent(Operation operation, int ranks, std::int64_t bytes) {
  switch (operation) {
    case Operation::all_reduce:
      return all_reduce_bytes(ranks, bytes);
    case Operation::broadcast:
      return broadcast_bytes(ranks, bytes);
    case Operation::reduce_scatter:
      return reduce_scatter_bytes(ranks, bytes);
    case Operation::all_gather:
      return all_gather_bytes(ranks, bytes);
    case Operation::send:
      return bytes;
    case Operation::receive:
    case Operation::barrier:
      break;
  }
  return 0;
}

}  // namespace tandem

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
inline std::string to_string(Record const& record) {
  std::string const label = to_string(record.label);
  return std::string{name(record.operation)} + (label.empty() ? "" : " (" + label + ")") + ": " +
         std::to_string(record.elements) + " elements, " + std::to_string(record.bytes) +
         " bytes, " + std::to_string(record.ranks) + (record.ranks == 1 ? " rank, " : " ranks, ") +
         std::to_string(bytes_sent(record)) + " bytes sent";
}

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
    if constexpr (requires { communicator_.all_reduce(in, out, op, stream, label); }) {
      communicator_.all_reduce(in, out, op, stream, label);
    } else {
      communicator_.all_reduce(in, out, op, stream);
    }
  }

  /// See ReduceScatters.
  template <class T, class Op>
    requires ReduceScatters<C, T, Op>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      Stream& stream, Label label = {}) {
    record(Operation::reduce_scatter, in.size(), in.size_bytes(), label);
    if constexpr (requires { communicator_.reduce_scatter(in, out, op, stream, label); }) {
      communicator_.reduce_scatter(in, out, op, stream, label);
    } else {
      communicator_.reduce_scatter(in, out, op, stream);
    }
  }

  /// See AllGathers.
  template <class T>
    requires AllGathers<C, T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    record(Operation::all_gather, out.size(), out.size_bytes(), label);
    if constexpr (requires { communicator_.all_gather(in, out, stream, label); }) {
      communicator_.all_gather(in, out, stream, label);
    } else {
      communicator_.all_gather(in, out, stream);
    }
  }

  /// See Broadcasts.
  template <class T>
    requires Broadcasts<C, T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    record(Operation::broadcast, data.size(), data.size_bytes(), label, root);
    if constexpr (requires { communicator_.broadcast(data, root, stream, label); }) {
      communicator_.broadcast(data, root, stream, label);
    } else {
      communicator_.broadcast(data, root, stream);
    }
  }

  /// See SendsAndReceives.
  template <class T>
    requires SendsAndReceives<C, std::remove_const_t<T>>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    record(Operation::send, data.size(), data.size_bytes(), label, peer);
    if constexpr (requires { communicator_.send(std::span<T const>{data}, peer, stream, label); }) {
      communicator_.send(std::span<T const>{data}, peer, stream, label);
    } else {
      communicator_.send(std::span<T const>{data}, peer, stream);
    }
  }

  /// See SendsAndReceives.
  template <class T>
    requires SendsAndReceives<C, T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    record(Operation::receive, data.size(), data.size_bytes(), label, peer);
    if constexpr (requires { communicator_.receive(data, peer, stream, label); }) {
      communicator_.receive(data, peer, stream, label);
    } else {
      communicator_.receive(data, peer, stream);
    }
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
    if constexpr (requires { communicator_.exchange(sends, receives, stream, label); }) {
      communicator_.exchange(sends, receives, stream, label);
    } else {
      communicator_.exchange(sends, receives, stream);
    }
  }

  /// See Barriers.
  void barrier(Stream& stream, Label label = {}) requires Barriers<C> {
    record(Operation::barrier, 0, 0, label);
    if constexpr (requires { communicator_.barrier(stream, label); }) {
      communicator_.barrier(stream, label);
    } else {
      communicator_.barrier(stream);
    }
  }

  [[nodiscard]] int rank() const noexcept { return communicator_.rank(); }
  [[nodiscard]] int size() const noexcept { return communicator_.size(); }

  /// The calls so far, oldest first; valid until this object changes.
  [[nodiscard]] std::span<Record const> log() const noexcept { return log_; }

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

// ---- tandem/comm/self.hpp

/// @file
/// SelfCommunicator: a group of one, so that a program for many ranks also runs on one.
///
/// Its collectives exchange nothing. Where input and output are the same buffer, as the engine has
/// them, nothing is queued either.

// ---- tandem/comm/reduction.hpp

/// @file
/// Sum and Max: how a collective joins two ranks' elements; Reduction: what such an operation is.
///
/// They are element-wise functors, written once for host and device. The order in which ranks are
/// joined is the communicator's affair (comm/fixed_tree.hpp for the host).

// ---- tandem/core/config.hpp

/// @file
/// Version and the three compiler attributes that the rest of the library spells as macros.
///
/// Macros are defined here and in contract.hpp only. None of them changes the body of a type or of
/// a function, so that two translation units of one program may be compiled by different compilers.

#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 1
#define TANDEM_VERSION_PATCH 0

/// Marks what device code may call: nothing to a plain C++ compiler.
#if defined(__CUDACC__)
#define TANDEM_HOST_DEVICE __host__ __device__
#else
#define TANDEM_HOST_DEVICE
#endif

/// Marks a kernel: `template <class T> TANDEM_KERNEL void scale_kernel(...)`. Hidden, so that two
/// shared libraries that instantiate one kernel each launch their own. Nothing to plain C++. Not
/// for kernels in unnamed namespaces, which are hidden anyway.
#if defined(__CUDACC__)
#define TANDEM_KERNEL __attribute__((visibility("hidden"))) __global__
#else
#define TANDEM_KERNEL
#endif

/// A function of its own even where the optimiser would inline it: one for each stage and pass, and
/// kernels whose bits must not depend on their caller. TANDEM_INLINE is the opposite: a rank's
/// switch over its actions.
#if defined(__GNUC__) || defined(__clang__)
#define TANDEM_NOINLINE __attribute__((noinline))
#define TANDEM_INLINE __attribute__((always_inline)) inline
#else
#define TANDEM_NOINLINE
#define TANDEM_INLINE inline
#endif

namespace tandem {

/// A trivially copyable functor that joins two T into one and never throws. It must be associative
/// up to rounding; it need not be commutative on the host, where the left argument has the lower
/// ranks.
template <class Op, class T>
concept Reduction = std::is_trivially_copyable_v<Op> && requires(Op const& op, T const& a) {
  { op(a, a) }
  noexcept->std::same_as<T>;
};

/// a + b.
struct Sum {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T a, T b) const noexcept {
    return static_cast<T>(a + b);
  }
};

/// The larger of the two; a NaN on either side wins, so that it is not lost on the way.
struct Max {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T a, T b) const noexcept {
    return (b > a || b != b) ? b : a;
  }
};

}  // namespace tandem

// ---- tandem/runtime/host/queue.hpp

/// @file
/// Queue: tasks that one thread of its own runs in order, the second stream of a Host device.
///
/// Kernels run on the device's own thread; what is posted here, communication above all, overlaps
/// them. A task is a small value that points at what it works on; it owns nothing.

namespace tandem::host {

/// A first-in first-out queue of tasks with its own thread, which the first post() starts; a queue
/// that is never used costs no thread, and nothing is allocated after that start.
///
/// After a task has thrown, the tasks behind it are skipped until synchronize(), wait() or
/// discard() has taken the exception; then the queue is usable again. Not copyable, not movable.
class Queue {
 public:
  /// The place of a task in the order of posting, from 1; 0 is before every task.
  using Ticket = std::uint64_t;

  /// Tasks that may be waiting at a time; one more, and post() blocks.
  static constexpr std::size_t places = 256;

  /// The largest task.
  static constexpr std::size_t task_bytes = 64;

  Queue() = default;
  Queue(Queue const&) = delete;
  Queue& operator=(Queue const&) = delete;

  /// Runs what is still waiting, or skips it after an error, and drops that error. So that it need
  /// not wait for other ranks, let a queue outlive the code that may throw, and abort the group.
  ~Queue() {
    {
      std::lock_guard const lock{mutex_};
      stop_ = true;
    }
    work_.notify_one();
    if (worker_.joinable()) {
      worker_.join();
    }
  }

  /// Puts @p task behind the others; its ticket is for wait(). Blocks while all places are taken.
  /// @pre not called by a task of this queue
  template <class Task>
  Ticket post(Task const& task) {
    static_assert(sizeof(Task) <= task_bytes && alignof(Task) <= alignof(std::max_align_t),
                  "Queue::post: a task may have 64 bytes at most; capture a pointer to its data");
    static_assert(
        std::is_trivially_copyable_v<Task>,
        "Queue::post: a task must be trivially copyable; capture pointers and numbers, no "
        "owners such as std::vector");
    std::unique_lock lock{mutex_};
    if (!worker_.joinable()) {
      worker_ = std::thread{[this] { serve(); }};
    }
    progress_.wait(lock, [this] { return posted_ - done_ < places; });
    Place& place = ring_[posted_ % places];
    ::new (static_cast<void*>(place.storage)) Task(task);
    place.call = [](void* storage) { (*std::launder(static_cast<Task*>(storage)))(); };
    Ticket const ticket = ++posted_;
    lock.unlock();
    work_.notify_one();
    return ticket;
  }

  /// The ticket of the task that was posted last; 0 if there was none.
  [[nodiscard]] Ticket last() const {
    std::lock_guard const lock{mutex_};
    return posted_;
  }

  /// Blocks until the task with this @p ticket is done, or some task has thrown.
  /// @pre ticket <= last()
  /// Throws what the first failed task threw; of the tasks posted so far none runs any more.
  template <class = void>  // compiled where it is called, not by every include
  void wait(Ticket ticket) {
    std::unique_lock lock{mutex_};
    progress_.wait(lock, [this, ticket] { return done_ >= ticket || error_ != nullptr; });
    if (error_ != nullptr) {
      skip_until_ = posted_;
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
  }

  /// Blocks until every task posted so far is done. Throws as wait() does.
  void synchronize() { wait(last()); }

  /// Skips what has not started, waits for the task that runs, and drops any error.
  template <class = void>
  void discard() {
    std::unique_lock lock{mutex_};
    skip_until_ = posted_;
    progress_.wait(lock, [this] { return done_ >= skip_until_; });
    error_ = nullptr;
  }

 private:
  struct Place {
    void (*call)(void*) = nullptr;
    alignas(std::max_align_t) std::byte storage[task_bytes];
  };

  template <class = void>
  void serve() {
    std::unique_lock lock{mutex_};
    for (;;) {
      work_.wait(lock, [this] { return done_ != posted_ || stop_; });
      if (done_ == posted_) {
        return;
      }
      if (error_ == nullptr && done_ >= skip_until_) {
        Place& place = ring_[done_ % places];  // stays taken until done_ passes it
        std::exception_ptr error;
        lock.unlock();
        try {
          place.call(place.storage);
        } catch (...) {
          error = std::current_exception();
        }
        lock.lock();
        error_ = std::move(error);
      }
      ++done_;
      progress_.notify_all();
    }
  }

  mutable std::mutex mutex_;  // guards everything but the places that are taken
  std::condition_variable work_;
  std::condition_variable progress_;
  Ticket posted_ = 0;
  Ticket done_ = 0;
  Ticket skip_until_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  std::array<Place, places> ring_;
  std::thread worker_;
};

}  // namespace tandem::host

namespace tandem {

/// How bytes are copied in the order of a stream: `queue(stream, from, to, bytes)`. Specialised for
/// each backend's Stream; comm/cuda_copy.hpp has that of CUDA.
template <class Stream>
struct StreamCopy;

template <>
struct StreamCopy<host::Queue> {
  static void queue(host::Queue& stream, void const* from, void* to, std::size_t bytes) {
    stream.post([from, to, bytes] { std::memcpy(to, from, bytes); });
  }
};

/// The only rank of a group of one. Models every concept of comm/concepts.hpp.
template <class StreamType>
class BasicSelfCommunicator {
 public:
  using Stream = StreamType;
  static constexpr bool ordered = true;

  /// Nothing in place; else a copy of @p in to @p out, on @p stream.
  /// @throws ContractError  the sizes differ
  template <class T, class Op>
    requires Reduction<Op, T>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op /*op*/,
                  Stream& stream, Label /*label*/ = {}) {
    expects(in.size() == out.size(),
            "all_reduce: in and out must have the same number of elements");
    copy(in, out, stream);
  }

  /// As all_reduce(): this rank's part is the whole.
  /// @throws ContractError  the sizes differ
  template <class T, class Op>
    requires Reduction<Op, T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op /*op*/,
                      Stream& stream, Label /*label*/ = {}) {
    expects(in.size() == out.size(),
            "reduce_scatter: in must have as many elements as the ranks' outs together");
    copy(in, out, stream);
  }

  /// As all_reduce(): this rank's part is the whole.
  /// @throws ContractError  the sizes differ
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label /*label*/ = {}) {
    expects(in.size() == out.size(),
            "all_gather: out must have as many elements as the ranks' ins together");
    copy(in, out, stream);
  }

  /// @throws ContractError  @p root is not 0
  template <class T>
  void broadcast(std::span<T> /*data*/, int root, Stream& /*stream*/, Label /*label*/ = {}) {
    expects(root == 0, "broadcast: the root must be a rank of the group, which has rank 0 only");
  }

  /// @throws ContractError  always: there is no other rank
  template <class T>
  void send(std::span<T> /*data*/, int /*peer*/, Stream& /*stream*/, Label /*label*/ = {}) {
    expects(false, "send: the peer must be another rank, and this group has rank 0 only");
  }

  /// @throws ContractError  always: there is no other rank
  template <class T>
  void receive(std::span<T> /*data*/, int /*peer*/, Stream& /*stream*/, Label /*label*/ = {}) {
    expects(false, "receive: the peer must be another rank, and this group has rank 0 only");
  }

  /// @throws ContractError  there are messages: there is no other rank
  template <class T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& /*stream*/, Label /*label*/ = {}) {
    expects(sends.empty() && receives.empty(),
            "exchange: the peers must be other ranks, and this group has rank 0 only");
  }

  void barrier(Stream& /*stream*/, Label /*label*/ = {}) {}

  [[nodiscard]] int rank() const noexcept { return 0; }
  [[nodiscard]] int size() const noexcept { return 1; }

 private:
  template <class T>
  static void copy(std::span<T const> in, std::span<T> out, Stream& stream) {
    if (in.data() != out.data() && !in.empty()) {
      StreamCopy<Stream>::queue(stream, in.data(), out.data(), out.size_bytes());
    }
  }
};

/// The group of one on the host.
using SelfCommunicator = BasicSelfCommunicator<host::Queue>;

}  // namespace tandem

// ---- tandem/comm/threads.hpp

/// @file
/// ThreadsCommunicator: collectives and messages between ranks that are threads of one process.
///
/// Every rank works on its share of the elements of all ranks' buffers, in place and without copies
/// through a third buffer; sums have the order of comm/fixed_tree.hpp, whoever comes first.

// ---- tandem/comm/fixed_tree.hpp

/// @file
/// reduce_in_tree: several ranks' arrays joined element by element, in an order fixed by rank.
///
/// The order does not depend on who arrives first nor on how the elements are cut into chunks, so
/// the result has the same bits on every rank and in every run.

namespace tandem {

/// The largest group of ranks that reduce_in_tree joins.
inline constexpr int max_tree_ranks = 256;

namespace detail {

/// Elements of a block of 4 KiB: those that a tree of 16 ranks works on stay in a first-level
/// cache.
template <class T>
inline constexpr std::size_t tree_block = sizeof(T) < 4096 ? 4096 / sizeof(T) : 1;

/// out = op(left, right); out overlaps neither.
template <class T, class Op>
void join(T const* left, T const* right, T* __restrict out, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = op(left[i], right[i]);
  }
}

/// left = op(left, right); they do not overlap.
template <class T, class Op>
void join_onto(T* __restrict left, T const* __restrict right, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i) {
    left[i] = op(left[i], right[i]);
  }
}

/// Joins @p ranks >= 2 inputs into *block; the blocks before it are scratch, log2(ranks) in all.
template <class T, class Op>
void join_block(T const* const* inputs, int ranks, std::size_t begin, std::size_t count, Op op,
                T (*block)[tree_block<T>]) {
  int const half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)) / 2);
  if (half == 1) {
    join(inputs[0] + begin, inputs[1] + begin, *block, count, op);
    return;
  }
  join_block(inputs, half, begin, count, op, block);
  if (ranks - half == 1) {
    join_onto(*block, inputs[half] + begin, count, op);
  } else {
    join_block(inputs + half, ranks - half, begin, count, op, block - 1);
    join_onto(*block, *(block - 1), count, op);
  }
}

}  // namespace detail

/// outputs[r][i] = op over inputs[0][i], inputs[1][i], … for every r and every i in [begin, end).
///
/// Order:  tree(n) = op(tree(the first p), tree(the rest)), p the largest power of two below n; for
///         n = 3, 5, 6: (0 1) 2, ((0 1)(2 3)) 4, ((0 1)(2 3))(4 5). A binary counter gives the
///         same.
/// Cost:   reads n and writes outputs.size() elements for each i; bound by memory; no allocation.
/// @pre    1 <= inputs.size() <= max_tree_ranks; an output is one of the inputs or overlaps none
/// @throws ContractError  too few or too many inputs
template <class T, class Op>
  requires Reduction<Op, T> && std::is_trivially_copyable_v<T>
void reduce_in_tree(std::span<T const* const> inputs, std::size_t begin, std::size_t end,
                    std::span<T* const> outputs, Op op) {
  expects(!inputs.empty() && inputs.size() <= max_tree_ranks,
          "reduce_in_tree: the number of ranks must be between 1 and 256");
  constexpr std::size_t depth = std::bit_width(static_cast<unsigned>(max_tree_ranks) - 1);
  alignas(64) T blocks[depth][detail::tree_block<T>];
  for (std::size_t i = begin; i < end; i += detail::tree_block<T>) {
    std::size_t const count = std::min(detail::tree_block<T>, end - i);
    T const* joined = blocks[depth - 1];
    if (inputs.size() == 1) {
      joined = inputs[0] + i;
    } else {
      detail::join_block(inputs.data(), static_cast<int>(inputs.size()), i, count, op,
                         &blocks[depth - 1]);
    }
    for (T* const output : outputs) {
      if (output + i != joined) {
        std::memcpy(output + i, joined, count * sizeof(T));
      }
    }
  }
}

}  // namespace tandem

// ---- tandem/comm/share.hpp

/// @file
/// detail::share_of: the part of an array that one rank works on for all.

namespace tandem::detail {

/// A rank's share of @p count elements: whole cache lines, so that no two ranks write to one.
struct Share {
  std::size_t begin;
  std::size_t end;
};

/// The size of all shares but those at the end, which may be smaller or empty.
constexpr std::size_t share_size(int ranks, std::size_t count, std::size_t element_bytes) {
  std::size_t const line = element_bytes < 64 ? 64 / element_bytes : 1;
  auto const n = static_cast<std::size_t>(ranks);
  return ((count + n - 1) / n + line - 1) / line * line;
}

constexpr Share share_of(int rank, int ranks, std::size_t count, std::size_t element_bytes) {
  std::size_t const size = share_size(ranks, count, element_bytes);
  std::size_t const begin = std::min(count, size * static_cast<std::size_t>(rank));
  return {begin, std::min(count, begin + size)};
}

/// Whether two buffers have no byte in common.
template <class T>
bool disjoint(std::span<T const> a, std::span<T const> b) {
  auto const from = reinterpret_cast<std::uintptr_t>(a.data());
  auto const to = reinterpret_cast<std::uintptr_t>(b.data());
  return from + a.size_bytes() <= to || to + b.size_bytes() <= from;
}

/// Whether two buffers of one size are the same elements or have none in common.
template <class T>
bool equal_or_disjoint(std::span<T const> a, std::span<T const> b) {
  return a.data() == b.data() || disjoint(a, b);
}

/// Whether @p part is the @p rank -th of @p whole's equal parts, or not in it at all.
template <class T>
bool part_or_disjoint(int rank, std::span<T const> whole, std::span<T const> part) {
  return part.data() == whole.data() + static_cast<std::size_t>(rank) * part.size() ||
         disjoint(whole, part);
}

}  // namespace tandem::detail

// ---- tandem/comm/threads_call.hpp

/// @file
/// detail::Call: what one thread-rank brings to a collective, and the words for it.
///
/// Ranks compare their calls before any of them touches a buffer.

namespace tandem::detail {

/// One rank's arguments. `type` identifies the element type and the reduction.
struct Call {
  Operation operation = Operation::barrier;
  Label label{};
  void const* type = nullptr;
  std::size_t count = 0;
  int root = 0;
  void const* in = nullptr;
  void* out = nullptr;

  /// Whether what must agree on all ranks does.
  [[nodiscard]] bool matches(Call const& other) const noexcept {
    return operation == other.operation && type == other.type && count == other.count &&
           root == other.root;
  }
};

/// Its address identifies an element type and a reduction at run time.
template <class T, class Op>
inline constexpr char type_mark = 0;

/// " (bucket 2)", or "".
inline std::string in_brackets(Label label) {
  std::string const text = to_string(label);
  return text.empty() ? text : " (" + text + ")";
}

/// "all-reduce #17 (bucket 2)"
inline std::string numbered(Call const& call, std::uint64_t number) {
  return std::string{name(call.operation)} + " #" + std::to_string(number) +
         in_brackets(call.label);
}

/// "all-reduce (bucket 2) of 10 elements"
inline std::string to_string(Call const& call) {
  std::string text = name(call.operation) + in_brackets(call.label);
  if (call.operation != Operation::barrier) {
    text.append(" of ").append(std::to_string(call.count)).append(" elements");
  }
  if (call.operation == Operation::broadcast) {
    text.append(" from rank ").append(std::to_string(call.root));
  }
  return text;
}

}  // namespace tandem::detail

// ---- tandem/comm/threads_group.hpp

/// @file
/// ThreadsGroup: where the ranks that are threads of one process meet.
///
/// A collective has two meetings. At the first all ranks have brought their buffers, and it can
/// fail: by abort(), by time-out, by calls that do not match. Between the meetings each rank works
/// on all ranks' buffers; nothing fails there, so nobody frees a buffer that another rank still
/// reads.
///
/// Ranks that are some of a larger group's may have a group of their own. It fails with the larger
/// one, and the larger one with it, so that nobody waits for a rank that has gone.

// ---- tandem/comm/threads_mail.hpp

/// @file
/// detail::Mail: the messages between ranks that are threads of one process.
///
/// Each pair of ranks has boxes for each direction, with room for one message each, which they take
/// in turns: a sender waits only until the next box is free, a receiver until it is full.

// ---- tandem/comm/threads_wait.hpp

/// @file
/// detail::GroupWait: how ranks that are threads wait for each other; detail::SharedFailure: what
/// ends all their waiting.
///
/// Each group has a mutex and a condition of its own, so that no rank is woken by what happens in
/// another group; only a failure is common to all groups of a program.

// ---- tandem/core/clock.hpp

/// @file
/// The durations and clocks of std::chrono, for less compile time than <chrono> costs.
///
/// <chrono> also brings the calendar, and <sstream> for it. <condition_variable> has the rest,
/// since its waits take durations; a library in which it has not will not compile this header.

namespace tandem::detail {

using ClockCheck = std::chrono::time_point<std::chrono::steady_clock, std::chrono::milliseconds>;

}  // namespace tandem::detail

namespace tandem::detail {

class GroupWait;

/// The failure of all groups that share it. The first one counts, later ones change nothing.
/// Where a group's lock and this one's are both taken, the group's is taken first.
class SharedFailure {
 public:
  enum class Kind { none, aborted, timed_out };

  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

  /// Tells nobody: wake() does.
  void set(Kind kind, std::string const& message) {
    std::lock_guard const lock{mutex_};
    if (kind_ == Kind::none) {
      kind_ = kind;
      message_ = message;
      failed_.store(true, std::memory_order_release);
    }
  }

  /// Makes every rank that waits look again. @pre the caller has no group's lock
  inline void wake() const;

  /// @throws TimeoutError  the failure is a time-out; or AbortedError: see @p as_aborted
  /// @param as_aborted  for ranks that did not wait when it happened: always AbortedError
  [[noreturn]] void raise(bool as_aborted) const {
    std::lock_guard const lock{mutex_};
    if (kind_ == Kind::timed_out && !as_aborted) {
      throw TimeoutError{message_};
    }
    throw AbortedError{message_};
  }

  void reset() {
    std::lock_guard const lock{mutex_};
    kind_ = Kind::none;
    failed_.store(false, std::memory_order_release);
  }

  /// Groups come and go while no rank is at work.
  void add(GroupWait& group) { groups_.push_back(&group); }
  void remove(GroupWait& group) noexcept {
    groups_.erase(std::remove(groups_.begin(), groups_.end(), &group), groups_.end());
  }
  [[nodiscard]] bool shared() const noexcept { return groups_.size() > 1; }

 private:
  mutable std::mutex mutex_;  // guards kind_ and message_
  std::atomic<bool> failed_{false};
  Kind kind_ = Kind::none;
  std::string message_;
  std::vector<GroupWait*> groups_;
};

/// How the ranks of one group wait: until it is so, a failure, or time is up.
class GroupWait {
 public:
  using Lock = std::unique_lock<std::mutex>;

  GroupWait(std::chrono::milliseconds timeout, std::shared_ptr<SharedFailure> failure)
      : timeout_{timeout}, failure_{std::move(failure)} {
    failure_->add(*this);
  }
  GroupWait(GroupWait const&) = delete;
  GroupWait& operator=(GroupWait const&) = delete;
  ~GroupWait() { failure_->remove(*this); }

  [[nodiscard]] Lock lock() { return Lock{mutex_}; }
  void notify() { changed_.notify_all(); }
  [[nodiscard]] std::shared_ptr<SharedFailure> const& failure() const { return failure_; }

  /// Ends all waiting, here and in the groups that share the failure.
  /// @pre the caller has no group's lock
  void abort(std::string const& message) {
    failure_->set(SharedFailure::Kind::aborted, message);
    failure_->wake();
  }

  // All below: @pre the caller has the lock.

  /// @throws AbortedError  there is a failure
  void check() const {
    if (failure_->failed()) {
      failure_->raise(true);
    }
  }

  /// Blocks until done(), which the caller's lock guards. If time is up first, it fails with
  /// text(), for every rank that waits.
  /// @throws AbortedError  the group was aborted
  /// @throws TimeoutError  time is up, for this rank or another one that waited
  template <class Done, class Text>
  void wait(Lock& lock, Done const& done, Text const& text) {
    auto const limit = std::min<std::chrono::milliseconds>(timeout_, std::chrono::hours{8760});
    bool const woken = changed_.wait_until(lock, std::chrono::steady_clock::now() + limit,
                                           [&] { return done() || failure_->failed(); });
    if (done()) {
      return;
    }
    if (!woken) {
      failure_->set(SharedFailure::Kind::timed_out, text());
      lock.unlock();  // nobody comes any more: who enters from now on sees the failure
      failure_->wake();
      lock.lock();
    }
    failure_->raise(false);
  }

  /// Blocks until done(), whatever else happens.
  template <class Done>
  void wait_without_limit(Lock& lock, Done const& done) {
    changed_.wait(lock, done);
  }

 private:
  std::chrono::milliseconds timeout_;
  std::shared_ptr<SharedFailure> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

void SharedFailure::wake() const {
  for (GroupWait* const group : groups_) {
    { auto const lock = group->lock(); }  // who saw no failure is asleep now, and hears
    group->notify();
  }
}

}  // namespace tandem::detail

namespace tandem::detail {

/// Where one message at a time lies between its sender and its receiver.
struct Box {
  enum class State { free, filling, full, draining };

  State state = State::free;
  Call call{};
  int place = 0;  ///< among the boxes of its pair
  std::unique_ptr<std::byte[]> bytes{};
  std::size_t capacity = 0;

  /// Room for @p wanted bytes; allocates when a message is larger than all before it.
  std::byte* room(std::size_t wanted) {
    if (wanted > capacity) {
      bytes = std::unique_ptr<std::byte[]>{new std::byte[wanted]};
      capacity = wanted;
    }
    return bytes.get();
  }
};

/// All boxes of a group. What fill and drain do to a box is the communicator's affair.
class Mail {
 public:
  /// @param places  messages that may wait for a receiver
  Mail(GroupWait& wait, int ranks, int places = 1)
      : wait_{wait},
        ranks_{ranks},
        places_{places},
        lines_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

  /// Waits until the box from @p rank to @p peer is free, and calls fill(box).
  /// @param where  the group's words for its ranks; it is told of each message; all under the lock
  template <class Fill, class Where>
  void send(int rank, int peer, Call const& call, Fill const& fill, Where const& where) {
    GroupWait::Lock lock = wait_.lock();
    wait_.check();
    Inside const inside{ranks_inside_};
    Line& line = line_of(rank, peer);
    Box& box = line.box(line.sent);
    wait_.wait(
        lock, [&box] { return box.state == Box::State::free; },
        [&] {
          return where.prefix() + where.who(peer) + " did not receive message #" +
                 std::to_string(line.received + 1) + in_brackets(box.call.label) + " from " +
                 where.who(rank) + ", which waits to send the next one" + in_brackets(call.label) +
                 where.within() + where.last_seen(peer);
        });
    run(lock, box, Box::State::filling, fill, Box::State::free, Box::State::full);
    box.call = call;
    where.note(rank, call, ++line.sent);
  }

  /// Waits until the box from @p peer to @p rank is full, and calls drain(box).
  /// @throws ContractError  the message has another type or number of elements; it is lost
  template <class Drain, class Where>
  void receive(int rank, int peer, Call const& call, Drain const& drain, Where const& where) {
    GroupWait::Lock lock = wait_.lock();
    wait_.check();
    Inside const inside{ranks_inside_};
    Line& line = line_of(peer, rank);
    Box& box = line.box(line.received);
    wait_.wait(
        lock, [&box] { return box.state == Box::State::full; },
        [&] {
          return where.prefix() + where.who(peer) + " did not send message #" +
                 std::to_string(line.sent + 1) + ", which " + where.who(rank) +
                 " waits to receive" + in_brackets(call.label) + where.within() +
                 where.last_seen(peer);
        });
    ++line.received;
    if (box.call.type != call.type || box.call.count != call.count) {
      box.state = Box::State::free;
      wait_.notify();
      throw ContractError{where.prefix() + where.who(peer) + " sent message #" +
                          std::to_string(line.received) + in_brackets(box.call.label) + " of " +
                          std::to_string(box.call.count) + " elements, but " + where.who(rank) +
                          " receives" + in_brackets(call.label) + " " + std::to_string(call.count) +
                          " elements" + (box.call.count == call.count ? " of another type" : "") +
                          "; both ends must name the same"};
    }
    run(lock, box, Box::State::draining, drain, Box::State::free, Box::State::free);
    where.note(rank, call, line.received);
  }

  /// Whether no rank sends or receives. @pre the caller has the lock
  [[nodiscard]] bool idle() const { return ranks_inside_ == 0; }

  /// Drops what lies in the boxes. @pre idle(), and the caller has the lock
  void clear() {
    for (Line& line : lines_) {
      for (Box& box : line.boxes) {
        box.state = Box::State::free;
      }
      line.sent = line.received;
    }
  }

 private:
  /// The boxes of a pair and direction.
  struct Line {
    std::vector<Box> boxes;  // none before the first message
    std::uint64_t sent = 0;
    std::uint64_t received = 0;

    Box& box(std::uint64_t number) { return boxes[number % boxes.size()]; }
  };

  /// Counts a rank for the length of a call; made and destroyed under the lock.
  class [[nodiscard]] Inside {
   public:
    [[nodiscard]] explicit Inside(int& count) : count_{count} { ++count_; }
    Inside(Inside const&) = delete;
    Inside& operator=(Inside const&) = delete;
    ~Inside() { --count_; }

   private:
    int& count_;
  };

  /// work(box) without the lock.
  template <class Work>
  void run(GroupWait::Lock& lock, Box& box, Box::State meanwhile, Work const& work,
           Box::State failed, Box::State done) {
    box.state = meanwhile;
    lock.unlock();
    try {
      work(box);
    } catch (...) {
      lock.lock();
      box.state = failed;
      wait_.notify();
      throw;
    }
    lock.lock();
    box.state = done;
    wait_.notify();
  }

  Line& line_of(int from, int to) {
    Line& line = lines_[static_cast<std::size_t>(from * ranks_ + to)];
    if (line.boxes.empty()) {
      line.boxes.resize(static_cast<std::size_t>(places_));
      for (int place = 0; place < places_; ++place) {
        line.boxes[static_cast<std::size_t>(place)].place = place;
      }
    }
    return line;
  }

  GroupWait& wait_;
  int ranks_;
  int places_;
  int ranks_inside_ = 0;
  std::vector<Line> lines_;
};

}  // namespace tandem::detail

// ---- tandem/comm/threads_options.hpp

/// @file
/// ThreadsOptions: how ranks that are threads of one process wait for each other.

// ---- tandem/comm/transport_options.hpp

/// @file
/// TransportOptions: what every transport is made with.

// ---- tandem/comm/world.hpp

/// @file
/// World: the processes of one program, and which ranks live in each.
///
/// A plain value; train/world.hpp reads it from what mpirun, srun or torchrun leaves in the
/// environment, and a program may fill it in itself.

namespace tandem {

/// Where the processes of a world meet for the first time; see rendezvous() in comm/rendezvous.hpp.
struct Rendezvous {
  /// "host:port", at which process 0 listens, or "file:PATH", where all processes may make files.
  std::string address{};

  /// Tells one start of the program from another; agrees on all processes. May be empty.
  std::string token{};

  /// If not null it is used and no address is needed: makes process 0's @p bytes those of every
  /// process, as MPI_Bcast does.
  void (*broadcast)(void* context, void* data, std::size_t bytes) = nullptr;
  void* context = nullptr;
};

/// The processes of one program, this one among them. The ranks are dealt to them in order: with 8
/// ranks and 2 processes, ranks 4 to 7 live in process 1.
struct World {
  int processes = 1;
  int process = 0;

  /// This process among those on its machine: which of the machine's devices are its own.
  int local_process = 0;

  Rendezvous rendezvous{};
};

/// @throws ContractError  the numbers of @p world contradict each other
template <class = void>  // compiled where it is called, not by every include
void check_world(World const& world) {
  auto const fail = [&world](std::string const& what) {
    throw ContractError{"World: " + what + " (process " + std::to_string(world.process) + " of " +
                        std::to_string(world.processes) + ", number " +
                        std::to_string(world.local_process) + " on its machine)"};
  };
  if (world.processes < 1) {
    fail("there must be at least one process");
  }
  if (world.process < 0 || world.process >= world.processes) {
    fail("the processes are numbered from 0 up");
  }
  if (world.local_process < 0 || world.local_process > world.process) {
    fail("a machine's processes are numbered from 0 up, in the order of all processes");
  }
}

/// How many of @p ranks live in each process.
/// @throws ContractError  check_world() fails, or @p ranks is no multiple of the processes
template <class = void>
int local_ranks(World const& world, int ranks) {
  check_world(world);
  if (ranks % world.processes != 0) {
    throw ContractError{"World: a strategy of " + std::to_string(ranks) +
                        " ranks cannot be dealt to " + std::to_string(world.processes) +
                        " processes: start as many as divide the ranks"};
  }
  return ranks / world.processes;
}

/// The first rank that lives in this process. @throws ContractError  as local_ranks() does
template <class = void>
int first_rank(World const& world, int ranks) {
  return world.process * local_ranks(world, ranks);
}

}  // namespace tandem

namespace tandem {

/// How a transport's ranks wait for each other, what its messages say, and where its ranks live.
struct TransportOptions {
  /// How long a rank waits for the others before it gives up, for itself and the whole group.
  std::chrono::milliseconds timeout = std::chrono::seconds{600};

  /// Words for what a rank stored in progress(rank), such as "at action 1F3"; null: say nothing.
  std::string (*describe_progress)(int rank, std::uint64_t progress) = nullptr;

  /// Begins the group's messages if not null: with several groups, ranks alone are ambiguous.
  char const* name = nullptr;

  /// The processes that the ranks are dealt to. Only transports between processes take several.
  World world{};

  /// Groups of some of the ranks, beside that of all; agrees on all processes. What one rank fails
  /// in or waits for too long ends the waiting of all, in whichever group.
  std::vector<RankSet> groups{};
};

}  // namespace tandem

namespace tandem {

/// How a ThreadsGroup waits, and what its messages say.
struct ThreadsOptions {
  /// How long a rank waits for the others before it gives up, for itself and the whole group.
  std::chrono::milliseconds timeout = std::chrono::seconds{600};

  /// Words for what a rank stored in progress(rank), such as "at action 1F3"; null: say nothing.
  std::string (*describe_progress)(int rank, std::uint64_t progress) = nullptr;

  /// Begins the group's messages if not null: with several groups, ranks alone are ambiguous.
  char const* name = nullptr;

  /// Messages of a pair of ranks and a direction that may be sent before the receiver comes.
  int messages_in_flight = 1;
};

/// The same for a transport whose ranks are all threads of this process.
/// @throws ContractError  there are several processes, or the time-out is not positive
inline ThreadsOptions threads_options(TransportOptions const& options) {
  check_world(options.world);
  expects(options.world.processes == 1,
          "this transport's ranks are threads of one process, and the program was started as "
          "several: start it once, or use a transport between processes");
  expects(options.timeout.count() > 0, "the timeout must be positive");
  return {.timeout = options.timeout,
          .describe_progress = options.describe_progress,
          .name = options.name};
}

}  // namespace tandem

// ---- tandem/comm/threads_words.hpp

/// @file
/// detail::ThreadsSlot and detail::ThreadsWords: what a ThreadsGroup knows of each of its ranks,
/// and how its messages say it.

namespace tandem::detail {

/// One rank's place in a group.
struct alignas(64) ThreadsSlot {
  Call call{};
  bool inside = false;   // between meet() and leave()
  bool waiting = false;  // in the first meeting
  bool used = false;
  Call message{};                    // the last one that it has sent or received,
  std::uint64_t message_number = 0;  // or 0 if it has come to a collective since
  std::atomic<std::uint64_t> progress{0};
};

/// How the messages of a group name it and its ranks. A rank that is one of a larger group's has
/// its number there.
class ThreadsWords {
 public:
  explicit ThreadsWords(ThreadsOptions const& options)
      : options_{options},
        prefix_{options.name != nullptr ? std::string{options.name} + ": " : std::string{}} {}

  /// Of some of the ranks.
  ThreadsWords(ThreadsWords const& all, RankSet const& set)
      : options_{all.options_},
        prefix_{all.prefix_ + (set.name.empty() ? "" : set.name + ": ")},
        members_{set.ranks} {}

  [[nodiscard]] ThreadsOptions const& options() const noexcept { return options_; }

  /// Begins each message.
  [[nodiscard]] std::string const& prefix() const noexcept { return prefix_; }

  [[nodiscard]] int number_of(int rank) const noexcept {
    return members_.empty() ? rank : members_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::string name_of(int rank) const {
    return "rank " + std::to_string(number_of(rank));
  }

  /// The call with its root so named.
  [[nodiscard]] std::string in_words(Call call) const {
    call.root = number_of(call.root);
    return to_string(call);
  }

  /// " within 50 ms"
  [[nodiscard]] std::string within() const {
    auto const ms = options_.timeout.count();
    return " within " +
           (ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms");
  }

  /// "; it was last in all-reduce #1 (bucket 1), at action 1F3"
  /// @param collectives  of the group so far
  [[nodiscard]] std::string last_seen(int rank, ThreadsSlot const& slot, std::uint64_t collectives,
                                      std::uint64_t progress) const {
    std::string text = "; it was last in ";
    if (slot.message_number > 0) {
      text += numbered(slot.message, slot.message_number);
    } else if (slot.used) {
      text += numbered(slot.call, collectives);
    } else {
      text += members_.empty() ? "no collective" : "no call of this group";
    }
    if (options_.describe_progress != nullptr) {
      text.append(", ").append(options_.describe_progress(number_of(rank), progress));
    }
    return text;
  }

 private:
  ThreadsOptions options_;
  std::string prefix_;
  std::vector<int> members_{};  // numbers among all ranks; empty: the group is of all
};

}  // namespace tandem::detail

namespace tandem {

class ThreadsCommunicator;
class VirtualCommunicator;

/// The shared state of n ranks. Made by the thread that starts them, and outlives them; each rank
/// uses its communicator(rank). Not copyable, not movable.
class ThreadsGroup {
 public:
  /// @throws ContractError  ranks is not in [1, 256], or the time-out is not positive
  template <class = void>  // compiled where it is called, not by every include
  explicit ThreadsGroup(int ranks, ThreadsOptions options = {})
      : ranks_{ranks},
        words_{options},
        slots_{make_slots(ranks)},
        wait_{options.timeout, std::make_shared<detail::SharedFailure>()},
        mail_{wait_, ranks, options.messages_in_flight} {
    expects(options.timeout.count() > 0, "ThreadsGroup: the timeout must be positive");
  }

  /// Some of the ranks of @p all, as a group of their own: messages name them as @p all does, a
  /// failure of one group is one of the other, and what a rank notes in progress() is the same.
  /// @param all  outlives this, and is no such group itself
  /// @throws ContractError  the set is empty, or names a rank twice or one that there is not
  template <class = void>
  ThreadsGroup(ThreadsGroup& all, RankSet const& set)
      : ranks_{static_cast<int>(set.ranks.size())},
        words_{all.words_, set},
        all_{&all},
        slots_{make_slots(ranks_)},
        wait_{words_.options().timeout, all.wait_.failure()},
        mail_{wait_, ranks_, words_.options().messages_in_flight} {
    detail::check_groups<>({set}, all.size());
  }

  ThreadsGroup(ThreadsGroup const&) = delete;
  ThreadsGroup& operator=(ThreadsGroup const&) = delete;

  /// @throws ContractError  @p rank is not in [0, size())
  [[nodiscard]] ThreadsCommunicator communicator(int rank);

  /// Makes every rank that waits in a collective or for a message, or enters one later, throw
  /// AbortedError with @p reason, at once. The first failure of a group counts, later ones change
  /// nothing.
  template <class = void>
  void abort(int rank, std::string_view reason) {
    wait_.abort(words_.prefix() + words_.name_of(rank) + " failed: " + std::string{reason});
  }

  /// @throws AbortedError  the group has failed
  template <class = void>
  void poll() {
    auto const lock = wait_.lock();
    wait_.check();
  }

  /// Makes the group usable again after a failure; messages that nobody has received are lost.
  /// @throws ContractError  a rank is still inside a collective: discard() its stream first; or
  ///                        other groups share the failure
  template <class = void>
  void reset() {
    auto const lock = wait_.lock();
    expects(!wait_.failure()->shared(),
            "ThreadsGroup::reset: other groups have failed with this one; make them anew");
    for (int rank = 0; rank < ranks_; ++rank) {
      expects(!slot(rank).inside, "ThreadsGroup::reset: a rank is still inside a collective");
    }
    expects(mail_.idle(), "ThreadsGroup::reset: a rank still sends or receives");
    for (int rank = 0; rank < ranks_; ++rank) {
      slot(rank).waiting = false;
    }
    mail_.clear();
    wait_.failure()->reset();
    waiting_ = 0;
  }

  /// Where @p rank notes what it is doing, for time-out messages; see describe_progress. Never read
  /// otherwise. @pre rank is in [0, size())
  [[nodiscard]] std::atomic<std::uint64_t>& progress(int rank) noexcept {
    return progress_of(rank);
  }

  [[nodiscard]] int size() const noexcept { return ranks_; }

 private:
  friend class ThreadsCommunicator;
  friend class VirtualCommunicator;

  using Slot = detail::ThreadsSlot;

  template <class = void>
  static std::unique_ptr<Slot[]> make_slots(int ranks) {
    expects(ranks >= 1 && ranks <= max_tree_ranks,
            "ThreadsGroup: the number of ranks must be between 1 and 256");
    return std::make_unique<Slot[]>(static_cast<std::size_t>(ranks));
  }

  /// First meeting. Afterwards call_of(r) may be read for every r, until leave().
  template <class = void>
  void meet(int rank, detail::Call const& call) {
    auto lock = wait_.lock();
    Slot& mine = slot(rank);
    wait_.check();
    expects(!mine.inside, "a rank is in two collectives of a group: use one stream for a group");
    mine.call = call;
    mine.used = mine.inside = mine.waiting = true;
    mine.message_number = 0;
    if (++waiting_ == ranks_) {
      begin();
    } else {
      wait_for_others(lock, mine);
    }
    if (!mismatch_.empty()) {
      mine.inside = false;
      throw ContractError{mismatch_};
    }
  }

  /// Second meeting: all ranks are done with all buffers. Waits without a limit, for ranks that are
  /// all at work and cannot fail.
  template <class = void>
  void leave(int rank) {
    auto lock = wait_.lock();
    if (++leaving_ == ranks_) {
      leaving_ = 0;
      ++meetings_;
      wait_.notify();
    } else {
      wait_.wait_without_limit(lock, [this, now = meetings_] { return meetings_ != now; });
    }
    slot(rank).inside = false;
  }

  [[nodiscard]] detail::Call const& call_of(int rank) const noexcept { return slot(rank).call; }

  /// fill(box) when the next place from @p rank to @p peer is free.
  template <class Fill>
  void send(int rank, int peer, detail::Call const& call, Fill const& fill) {
    mail_.send(rank, peer, call, fill, Where{*this});
  }

  /// drain(box) when a message from @p peer to @p rank has come.
  template <class Drain>
  void receive(int rank, int peer, detail::Call const& call, Drain const& drain) {
    mail_.receive(rank, peer, call, drain, Where{*this});
  }

  /// The last rank has come: all go on, with one verdict. The next one needs all of them again.
  template <class = void>
  void begin() {
    ++collectives_;
    mismatch_.clear();
    for (int rank = ranks_ - 1; rank >= 0; --rank) {
      slot(rank).waiting = false;
      if (!slot(rank).call.matches(slot(0).call)) {
        mismatch_ = words_.prefix() + "ranks " + std::to_string(words_.number_of(0)) + " and " +
                    std::to_string(words_.number_of(rank)) + " disagree on collective #" +
                    std::to_string(collectives_) + ": " + words_.in_words(slot(0).call) + ", but " +
                    words_.in_words(slot(rank).call) +
                    "; all ranks must make the same calls in the same order";
      }
    }
    waiting_ = 0;
    ++meetings_;
    wait_.notify();
  }

  template <class = void>
  void wait_for_others(detail::GroupWait::Lock& lock, Slot& mine) {
    try {
      wait_.wait(
          lock, [this, now = meetings_] { return meetings_ != now; },
          [&] { return words_.prefix() + time_out_message(mine.call); });
    } catch (...) {
      mine.inside = false;
      throw;
    }
  }

  template <class = void>
  [[nodiscard]] std::string time_out_message(detail::Call const& awaited) const {
    std::string text;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (slot(rank).waiting) {
        continue;
      }
      text.append(text.empty() ? "" : "; ").append(words_.name_of(rank));
      text.append(" did not reach ").append(numbered(awaited, collectives_ + 1));
      text.append(words_.within()).append(last_seen(rank));
    }
    return text;
  }

  [[nodiscard]] std::string last_seen(int rank) const {
    return words_.last_seen(rank, slot(rank), collectives_, progress_of(rank).load());
  }

  /// The group's words for the messages of Mail.
  struct Where {
    ThreadsGroup const& group;

    [[nodiscard]] std::string prefix() const { return group.words_.prefix(); }
    [[nodiscard]] std::string who(int rank) const { return group.words_.name_of(rank); }
    [[nodiscard]] std::string within() const { return group.words_.within(); }
    [[nodiscard]] std::string last_seen(int rank) const { return group.last_seen(rank); }

    /// @p rank has sent or received message @p number; called under the lock.
    void note(int rank, detail::Call const& call, std::uint64_t number) const {
      group.slot(rank).message = call;
      group.slot(rank).message_number = number;
    }
  };

  [[nodiscard]] Slot& slot(int rank) const noexcept {
    return slots_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] std::atomic<std::uint64_t>& progress_of(int rank) const noexcept {
    return all_ != nullptr ? all_->progress_of(words_.number_of(rank)) : slot(rank).progress;
  }

  int ranks_;
  detail::ThreadsWords words_;
  ThreadsGroup* all_ = nullptr;  // whose ranks these are some of; null: they are all
  std::unique_ptr<Slot[]> slots_;
  detail::GroupWait wait_;  // guards all below, the slots but for progress, the calls between
                            // the meetings, and mail_
  std::uint64_t meetings_ = 0;
  std::uint64_t collectives_ = 0;
  int waiting_ = 0;
  int leaving_ = 0;
  std::string mismatch_;
  detail::Mail mail_;
};

}  // namespace tandem

namespace tandem {

/// One rank's end of a ThreadsGroup; a small value, copies of it are the same end.
///
/// Models every concept of comm/concepts.hpp. Each rank needs a stream of its own, used by one
/// thread. A collective's errors come out of that stream's wait() or synchronize(): AbortedError
/// when the group was aborted, TimeoutError when a rank did not come, and ContractError, on every
/// rank and leaving the group usable, when the ranks' calls do not match.
class ThreadsCommunicator {
 public:
  using Stream = host::Queue;

  /// Messages of a pair of ranks and a direction that may be sent before the receiver comes.
  static constexpr int messages_in_flight = 1;

  /// Whether all_reduce() and reduce_scatter() join the ranks in the order of comm/fixed_tree.hpp.
  static constexpr bool ordered = true;

  /// out[i] = op over the ranks' in[i]; the label is for messages. See AllReduces.
  ///
  /// Order:  a tree fixed by rank, see reduce_in_tree(); all ranks get the same bits in every run.
  /// Cost:   reads and writes 2 (n - 1) / n * bytes(in) of the other ranks' memory; no allocation.
  /// @throws ContractError  the sizes of in and out differ, or they overlap in part
  template <class T, class Op>
    requires Reduction<Op, T>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                  Stream& stream, Label label = {}) {
    expects(in.size() == out.size(),
            "all_reduce: in and out must have the same number of elements");
    expects(detail::equal_or_disjoint<T>(in, out),
            "all_reduce: in and out must be the same elements or not overlap at all");
    stream.post([group = group_, rank = rank_, op, first = in.data(), result = out.data(),
                 count = out.size(), label] {
      group->meet(rank, {.operation = Operation::all_reduce,
                         .label = label,
                         .type = &detail::type_mark<T, Op>,
                         .count = count,
                         .in = first,
                         .out = result});
      reduce_share<T>(*group, rank, count, op);
      group->leave(rank);
    });
  }

  /// This rank's part of op over the ranks' in; the label is for messages. See ReduceScatters.
  ///
  /// Order:  that of all_reduce(): the same bits.
  /// Cost:   reads (n - 1) / n * bytes(in) of the other ranks' memory; no allocation.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T, class Op>
    requires Reduction<Op, T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      Stream& stream, Label label = {}) {
    expects(in.size() == out.size() * static_cast<std::size_t>(size()),
            "reduce_scatter: in must have as many elements as the ranks' outs together");
    expects(detail::part_or_disjoint<T>(rank_, in, out),
            "reduce_scatter: out must be this rank's part of in or not overlap it at all");
    stream.post([group = group_, rank = rank_, op, first = in.data(), result = out.data(),
                 count = out.size(), label] {
      group->meet(rank, {.operation = Operation::reduce_scatter,
                         .label = label,
                         .type = &detail::type_mark<T, Op>,
                         .count = count,
                         .in = first,
                         .out = result});
      std::array<T const*, max_tree_ranks> inputs;
      auto const ranks = static_cast<std::size_t>(group->size());
      std::size_t const begin = static_cast<std::size_t>(rank) * count;
      for (std::size_t r = 0; count > 0 && r < ranks; ++r) {
        inputs[r] = static_cast<T const*>(group->call_of(static_cast<int>(r)).in) + begin;
      }
      reduce_in_tree(std::span<T const* const>{inputs.data(), ranks}, 0, count,
                     std::span<T* const>{&result, 1}, op);
      group->leave(rank);
    });
  }

  /// Every rank's in, in the order of ranks; the label is for messages. See AllGathers.
  ///
  /// Cost:   every rank copies (n - 1) / n * bytes(out) of the others' memory; no allocation.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    expects(out.size() == in.size() * static_cast<std::size_t>(size()),
            "all_gather: out must have as many elements as the ranks' ins together");
    expects(detail::part_or_disjoint<T>(rank_, out, in),
            "all_gather: in must be this rank's part of out or not overlap it at all");
    stream.post([group = group_, rank = rank_, first = in.data(), result = out.data(),
                 count = in.size(), label] {
      group->meet(rank, {.operation = Operation::all_gather,
                         .label = label,
                         .type = &detail::type_mark<T, void>,
                         .count = count,
                         .in = first,
                         .out = result});
      for (int r = 0; count > 0 && r < group->size(); ++r) {
        void const* const from = group->call_of(r).in;
        T* const to = result + static_cast<std::size_t>(r) * count;
        if (from != to) {
          std::memcpy(to, from, count * sizeof(T));
        }
      }
      group->leave(rank);
    });
  }

  /// data = root's data; the label is for messages. See Broadcasts.
  ///
  /// Cost:   every rank but the root copies bytes(data); no allocation.
  /// @throws ContractError  @p root is not in [0, size())
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    expects(root >= 0 && root < size(), "broadcast: the root must be a rank of the group");
    stream.post(
        [group = group_, rank = rank_, root, first = data.data(), count = data.size(), label] {
          group->meet(rank, {.operation = Operation::broadcast,
                             .label = label,
                             .type = &detail::type_mark<T, void>,
                             .count = count,
                             .root = root,
                             .in = first,
                             .out = first});
          if (rank != root && count > 0) {
            std::memcpy(first, group->call_of(root).in, count * sizeof(T));
          }
          group->leave(rank);
        });
  }

  /// A message to @p peer; the label is for messages of errors. See SendsAndReceives.
  ///
  /// Cost:   copies bytes(data) once; allocates where the message is larger than all of its pair
  ///         and direction before it. Waits while the one before it has not been received.
  /// @throws ContractError  @p peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    using Element = std::remove_const_t<T>;
    expects(is_peer(peer), "send: the peer must be another rank of the group");
    stream.post(
        [group = group_, rank = rank_, peer, first = data.data(), count = data.size(), label] {
          group->send(rank, peer,
                      {.operation = Operation::send,
                       .label = label,
                       .type = &detail::type_mark<Element, void>,
                       .count = count},
                      [=](detail::Box& box) {
                        std::byte* const to = box.room(count * sizeof(T));
                        if (count > 0) {
                          std::memcpy(to, first, count * sizeof(T));
                        }
                      });
        });
  }

  /// A message from @p peer; the label is for messages of errors. See SendsAndReceives.
  ///
  /// Cost:   copies bytes(data) once. A message that does not fit is a ContractError out of the
  ///         stream, and is lost.
  /// @throws ContractError  @p peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    expects(is_peer(peer), "receive: the peer must be another rank of the group");
    stream.post(
        [group = group_, rank = rank_, peer, first = data.data(), count = data.size(), label] {
          group->receive(rank, peer,
                         {.operation = Operation::receive,
                          .label = label,
                          .type = &detail::type_mark<T, void>,
                          .count = count},
                         [=](detail::Box& box) {
                           if (count > 0) {
                             std::memcpy(first, box.bytes.get(), count * sizeof(T));
                           }
                         });
        });
  }

  /// The sends, which wait for nobody if earlier messages have been received, then the receives.
  /// See Exchanges.
  /// @throws ContractError  a peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& stream, Label label = {}) {
    for (auto const& message : sends) {
      send(message.data, message.peer, stream, label);
    }
    for (auto const& message : receives) {
      receive(message.data, message.peer, stream, label);
    }
  }

  /// No rank's stream passes before every rank's stream has come; the label is for messages.
  template <class = void>  // compiled where it is called, not by every include
  void barrier(Stream& stream, Label label = {}) {
    stream.post([group = group_, rank = rank_, label] {
      group->meet(rank, {.operation = Operation::barrier, .label = label});
      group->leave(rank);
    });
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return group_->size(); }

 private:
  friend class ThreadsGroup;

  ThreadsCommunicator(ThreadsGroup& group, int rank) : group_{&group}, rank_{rank} {}

  [[nodiscard]] bool is_peer(int peer) const noexcept {
    return peer >= 0 && peer < size() && peer != rank_;
  }

  template <class T, class Op>
  static void reduce_share(ThreadsGroup const& group, int rank, std::size_t count, Op op) {
    std::array<T const*, max_tree_ranks> inputs;
    std::array<T*, max_tree_ranks> outputs;
    auto const ranks = static_cast<std::size_t>(group.size());
    for (std::size_t r = 0; r < ranks; ++r) {
      detail::Call const& call = group.call_of(static_cast<int>(r));
      inputs[r] = static_cast<T const*>(call.in);
      outputs[r] = static_cast<T*>(call.out);
    }
    auto const [begin, end] = detail::share_of(rank, group.size(), count, sizeof(T));
    reduce_in_tree(std::span<T const* const>{inputs.data(), ranks}, begin, end,
                   std::span<T* const>{outputs.data(), ranks}, op);
  }

  ThreadsGroup* group_;
  int rank_;
};

inline ThreadsCommunicator ThreadsGroup::communicator(int rank) {
  expects(rank >= 0 && rank < ranks_, "ThreadsGroup::communicator: no such rank in this group");
  return {*this, rank};
}

}  // namespace tandem

namespace tandem {

/// Ranks are threads of this process, on the host.
template <int Ranks>
class ThreadsTransport {
 public:
  using Communicator = ThreadsCommunicator;

  /// Whether a communicator's calls may be captured into a graph.
  static constexpr bool capturable = false;

  /// @throws ContractError  the time-out is not positive, or there are several processes
  /// @throws ContractError  a group names a rank twice, or one that there is not
  explicit ThreadsTransport(TransportOptions const& options)
      : group_{Ranks, threads_options(options)}, sets_{options.groups} {
    detail::check_groups(sets_, Ranks);
    for (RankSet const& set : sets_) {
      groups_.push_back(std::make_unique<ThreadsGroup>(group_, set));
    }
  }

  /// The ranks that live in this process are [first_rank(), first_rank() + local_ranks()).
  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] static int local_ranks() noexcept { return Ranks; }

  /// Which of the devices that this process sees belongs to its rank first_rank() + @p local.
  [[nodiscard]] static int device_of(int local) noexcept { return local; }

  /// The end of @p rank in the group of all ranks.
  [[nodiscard]] Communicator communicator(int rank) { return group_.communicator(rank); }

  /// The end of @p rank in options.groups[@p group], which numbers its members anew.
  /// @throws ContractError  there is no such group, or the rank is no member of it
  [[nodiscard]] Communicator communicator(int rank, int group) {
    int const position = detail::member_of(sets_, rank, group);
    return groups_[static_cast<std::size_t>(group)]->communicator(position);
  }

  /// Where @p rank notes what it is doing, for time-out messages; null where nobody would read it.
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) { return &group_.progress(rank); }

  /// Makes every rank that waits for others, in any group, throw AbortedError, now or later.
  void abort(int rank, std::string_view reason) { group_.abort(rank, reason); }

  /// What whoever waits for @p rank's device calls again and again: throws if the wait is in vain.
  /// Once more when the device has come: after an abort it may go on, with wrong numbers.
  /// @param waited  for how long already
  void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) { group_.poll(); }

 private:
  ThreadsGroup group_;  // of all
  std::vector<RankSet> sets_;
  std::vector<std::unique_ptr<ThreadsGroup>> groups_;
};

/// A strategy of one device: nobody to wait for, and no group has more than the one rank.
template <>
class ThreadsTransport<1> {
 public:
  using Communicator = SelfCommunicator;
  static constexpr bool capturable = false;

  explicit ThreadsTransport(TransportOptions const& options) : sets_{options.groups} {
    static_cast<void>(threads_options(options));
    detail::check_groups(sets_, 1);
  }

  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] static int local_ranks() noexcept { return 1; }
  [[nodiscard]] static int device_of(int local) noexcept { return local; }
  [[nodiscard]] static Communicator communicator(int /*rank*/) { return {}; }
  [[nodiscard]] Communicator communicator(int rank, int group) const {
    static_cast<void>(detail::member_of(sets_, rank, group));
    return {};
  }
  [[nodiscard]] static std::atomic<std::uint64_t>* progress(int /*rank*/) { return nullptr; }
  static void abort(int /*rank*/, std::string_view /*reason*/) {}
  static void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) {}

 private:
  std::vector<RankSet> sets_;
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
  [[nodiscard]] Communicator communicator(int rank, int group) {
    return Communicator{Base::communicator(rank, group)};
  }
};

}  // namespace tandem

// ---- tandem/core/philox.hpp

/// @file
/// Philox4x32-10, a counter-based generator: the random numbers of a place, with no state to carry.
///
/// A number depends on its key and its counter only, never on which device draws it or in which
/// order, so that dropout, augmentation and initial weights are the same under every strategy.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

namespace tandem {

/// Four words drawn at once.
struct Random4 {
  std::uint32_t word[4];
};

/// What a random number is for; part of every key, so that no two uses share numbers.
enum class RandomUse : std::uint32_t { initial_weights = 1, dropout, order, augmentation, user };

/// The 128 bits at counter (@p low, @p high) of the stream with key (@p seed, @p use).
TANDEM_HOST_DEVICE constexpr Random4 philox(std::uint64_t seed, RandomUse use, std::uint64_t low,
                                            std::uint64_t high) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(use) << 24);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  Random4 r{{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
             static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const a = 0xD2511F53ULL * r.word[0];
    std::uint64_t const b = 0xCD9E8D57ULL * r.word[2];
    r = Random4{
        {static_cast<std::uint32_t>(b >> 32) ^ r.word[1] ^ key0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ r.word[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return r;
}

/// Uniform in [0, 1), 24 bits.
TANDEM_HOST_DEVICE constexpr float uniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

/// Uniform in {0, …, n - 1}; the bias is below n / 2^32.
TANDEM_HOST_DEVICE constexpr std::uint32_t below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * n) >> 32);
}

}  // namespace tandem

// ---- tandem/core/shape.hpp

/// @file
/// Shape: the extents of one sample, known to the compiler; and Image, Vector, the network inputs.
///
/// The batch is never part of a Shape: it is a run-time number. A Shape of rank 0 is "no shape".

namespace tandem {

/// Extents of one sample, outermost first: (C, H, W) for an image, (N) for a vector.
struct Shape {
  int rank = 0;
  int extent[4] = {};

  [[nodiscard]] constexpr int operator[](int axis) const { return extent[axis]; }

  /// 0 for a shape of rank 0.
  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t product = rank > 0 ? 1 : 0;
    for (int axis = 0; axis < rank && axis < 4; ++axis) {
      product *= extent[axis];
    }
    return product;
  }

  [[nodiscard]] constexpr bool valid() const { return elements() > 0; }

  friend constexpr bool operator==(Shape const&, Shape const&) = default;
};

/// The shape of an image: @p channels maps of @p height rows and @p width columns.
constexpr Shape image_shape(int channels, int height, int width) {
  return {3, {channels, height, width, 0}};
}

/// The shape of a vector of @p elements.
constexpr Shape vector_shape(int elements) { return {1, {elements, 0, 0, 0}}; }

/// A network's input: an image of C channels, H rows, W columns.
template <int C, int H, int W>
struct Image {
  static constexpr Shape shape = image_shape(C, H, W);
};

/// A network's input: a vector of N numbers.
template <int N>
struct Vector {
  static constexpr Shape shape = vector_shape(N);
};

/// "3x32x32", "10", or "none" for a shape of rank 0.
inline std::string to_string(Shape const& shape) {
  std::string text;
  for (int axis = 0; axis < shape.rank; ++axis) {
    text += axis > 0 ? "x" : "";
    text += std::to_string(shape[axis]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace tandem

// ---- tandem/data/augment.hpp

/// @file
/// augment(dataset, transforms...): a Dataset whose samples pass through transforms, in that order.

// ---- tandem/data/dataset.hpp

/// @file
/// Dataset: what the trainer needs of data, as a concept; and Randomness, the source of
/// augmentation.
///
/// A dataset is any type with size, shape, targets and read; it needs no base class. Samples are
/// float, whatever precision the network has: a Loader converts them.

namespace tandem {

/// The random numbers of one sample in one epoch: they depend on these three and nothing else, so
/// that a sample is augmented alike on every device, under every strategy, and after a resume.
struct Randomness {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;

  /// 128 bits; different for each @p which, one number for each transform of a chain.
  /// @pre 0 <= epoch < 2^32
  [[nodiscard]] constexpr Random4 draw(std::uint32_t which) const {
    return philox(seed, RandomUse::augmentation, static_cast<std::uint64_t>(sample),
                  (static_cast<std::uint64_t>(epoch) << 32) | which);
  }
};

/// An element of a sample's target: std::int32_t for labels, float for regression.
template <class T>
concept DataTarget = std::same_as<T, std::int32_t> || std::same_as<T, float>;

/// Samples with random access.
///
/// read(index, x, y) writes sample `index` of [0, size()): shape().elements() floats to x,
/// targets() numbers to y (one for a label). It is the plain sample, as evaluation wants it, and is
/// called by several threads at once. size(), shape() and targets() never change.
template <class D>
concept Dataset = DataTarget<typename D::Target> &&
    requires(D const& data, std::int64_t index, std::span<float> x,
             std::span<typename D::Target> y) {
  { data.size() } -> std::same_as<std::int64_t>;
  { data.shape() } -> std::same_as<Shape>;
  { data.targets() } -> std::same_as<int>;
  { data.read(index, x, y) } -> std::same_as<void>;
};

/// A Dataset that also has read(index, x, y, randomness): the sample as training wants it.
template <class D>
concept RandomDataset = Dataset<D> &&
    requires(D const& data, std::int64_t index, std::span<float> x, std::span<typename D::Target> y,
             Randomness const& randomness) {
  { data.read(index, x, y, randomness) } -> std::same_as<void>;
};

/// A Dataset whose labels are in [0, classes()).
template <class D>
concept ClassifiedDataset = Dataset<D> && requires(D const& data) {
  { data.classes() } -> std::same_as<int>;
};

/// Reads a sample for training: by the random form of read if @p data has it, else by the plain
/// one.
template <Dataset D>
void read_sample(D const& data, std::int64_t index, std::span<float> x,
                 std::span<typename D::Target> y, Randomness const& randomness) {
  if constexpr (RandomDataset<D>) {
    data.read(index, x, y, randomness);
  } else {
    data.read(index, x, y);
  }
}

/// The number of classes of @p data, or 0 where it does not say.
template <Dataset D>
[[nodiscard]] int classes_of(D const& data) {
  if constexpr (ClassifiedDataset<D>) {
    return data.classes();
  } else {
    return 0;
  }
}

}  // namespace tandem

// ---- tandem/data/transform.hpp

/// @file
/// Transforms of one sample: Normalize, PadTo, RandomCrop, RandomFlip; and what one of your own
/// needs.
///
/// A transform is a value with output(Shape) and apply. It works in place, on a span that holds the
/// larger of its input and its output, so that a chain of them needs no other memory.

namespace tandem {

/// output(in) is the shape that a sample of shape `in` becomes, and throws ContractError where it
/// cannot. apply(x, in) overwrites the sample at the start of x by its image.
template <class T>
concept FixedTransform = requires(T const& transform, std::span<float> x, Shape const& in) {
  { transform.output(in) } -> std::same_as<Shape>;
  { transform.apply(x, in) } -> std::same_as<void>;
};

/// The same with random bits, the sample's own in each epoch. Evaluation leaves it out, so it must
/// not change the shape.
template <class T>
concept RandomTransform = requires(T const& transform, std::span<float> x, Shape const& in,
                                   Random4 const& bits) {
  { transform.output(in) } -> std::same_as<Shape>;
  { transform.apply(x, in, bits) } -> std::same_as<void>;
};

template <class T>
concept Transform = FixedTransform<T> || RandomTransform<T>;

namespace detail {

constexpr bool is_image(Shape const& shape) { return shape.rank == 3 && shape.valid(); }

/// An image as rows: row r of channel c starts at (c * height + r) * width.
struct Rows {
  explicit Rows(Shape const& shape)
      : channels{static_cast<std::size_t>(shape[0])},
        height{static_cast<std::size_t>(shape[1])},
        width{static_cast<std::size_t>(shape[2])} {}

  std::size_t channels;
  std::size_t height;
  std::size_t width;
};

}  // namespace detail

/// x = (x - mean) / std for each channel, the first axis of a sample of rank 3; a sample of lower
/// rank is one channel.
struct Normalize {
  float mean[4] = {};
  float std[4] = {};  ///< no default: one above 0 for each channel

  [[nodiscard]] Shape output(Shape const& in) const {
    expects(in.valid() && channels(in) <= 4, "Normalize: at most 4 channels");
    for (int c = 0; c < channels(in); ++c) {
      expects(std[c] > 0.0F, "Normalize: give a mean and an std above 0 for each channel");
    }
    return in;
  }

  void apply(std::span<float> x, Shape const& in) const {
    std::size_t const plane = static_cast<std::size_t>(in.elements() / channels(in));
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels(in)); ++c) {
      for (float& value : x.subspan(c * plane, plane)) {
        value = (value - mean[c]) / std[c];
      }
    }
  }

 private:
  static int channels(Shape const& in) { return in.rank == 3 ? in[0] : 1; }
};

/// Centres an image in a larger one of zeros; a single channel is repeated for each channel asked
/// for. The odd row and column of the border are at the bottom and at the right.
struct PadTo {
  Shape shape;

  [[nodiscard]] Shape output(Shape const& in) const {
    expects(detail::is_image(in) && detail::is_image(shape),
            "PadTo: the sample and the shape to pad to must be images (C, H, W)");
    detail::Rows const from{in};
    detail::Rows const to{shape};
    expects(to.height >= from.height && to.width >= from.width,
            "PadTo: the image to pad to must be at least as high and wide as the sample");
    expects(to.channels == from.channels || from.channels == 1,
            "PadTo: only a single channel can be repeated; else the channels must be equal");
    return shape;
  }

  /// Rows from the last to the first: none is overwritten before it has been moved.
  void apply(std::span<float> x, Shape const& in) const {
    detail::Rows const from{in};
    detail::Rows const to{shape};
    std::size_t const top = (to.height - from.height) / 2;
    std::size_t const left = (to.width - from.width) / 2;
    for (std::size_t c = to.channels; c-- > 0;) {
      std::size_t const source = (from.channels == 1 ? 0 : c) * from.height;
      for (std::size_t r = to.height; r-- > 0;) {
        float* const row = x.data() + (c * to.height + r) * to.width;
        if (r < top || r >= top + from.height) {
          continue;
        }
        float const* const moved = x.data() + (source + r - top) * from.width;
        std::memmove(row + left, moved, from.width * sizeof(float));
        std::fill(row, row + left, 0.0F);
        std::fill(row + left + from.width, row + to.width, 0.0F);
      }
      float* const plane = x.data() + c * to.height * to.width;
      std::fill(plane, plane + top * to.width, 0.0F);
      std::fill(plane + (top + from.height) * to.width, plane + to.height * to.width, 0.0F);
    }
  }
};

/// Pads an image by `padding` zeros on each side and takes a piece of the original size out of it,
/// each of the (2 padding + 1)^2 places being equally likely.
struct RandomCrop {
  int padding = 0;

  [[nodiscard]] Shape output(Shape const& in) const {
    expects(detail::is_image(in), "RandomCrop: the sample must be an image (C, H, W)");
    expects(padding >= 0 && padding < in[1] && padding < in[2],
            "RandomCrop: padding must be at least 0 and below the image's height and width");
    return in;
  }

  void apply(std::span<float> x, Shape const& in, Random4 const& bits) const {
    auto const places = static_cast<std::uint32_t>(2 * padding + 1);
    shift(x, in, static_cast<int>(below(bits.word[0], places)) - padding,
          static_cast<int>(below(bits.word[1], places)) - padding);
  }

  /// out(r, c) = in(r + down, c + right), zero outside; in place, since it moves
  /// rows and pixels away from the side that it comes from.
  static void shift(std::span<float> x, Shape const& in, int down, int right) {
    int const height = in[1];
    int const width = in[2];
    int const kept = width - (right < 0 ? -right : right);
    for (int channel = 0; channel < in[0]; ++channel) {
      for (int step = 0; step < height; ++step) {
        int const r = down >= 0 ? step : height - 1 - step;
        float* const row = x.data() + (std::ptrdiff_t{channel} * height + r) * width;
        if (r + down < 0 || r + down >= height) {
          std::fill(row, row + width, 0.0F);
          continue;
        }
        float const* const from = row + std::ptrdiff_t{down} * width;
        std::size_t const bytes = static_cast<std::size_t>(kept) * sizeof(float);
        if (right >= 0) {
          std::memmove(row, from + right, bytes);
          std::fill(row + kept, row + width, 0.0F);
        } else {
          std::memmove(row - right, from, bytes);
          std::fill(row, row - right, 0.0F);
        }
      }
    }
  }
};

/// Mirrors an image left to right, with probability 1/2.
struct RandomFlip {
  [[nodiscard]] Shape output(Shape const& in) const {
    expects(detail::is_image(in), "RandomFlip: the sample must be an image (C, H, W)");
    return in;
  }

  void apply(std::span<float> x, Shape const& in, Random4 const& bits) const {
    if ((bits.word[0] >> 31) == 0) {
      return;
    }
    for (std::ptrdiff_t row = 0; row < in.elements(); row += in[2]) {
      std::reverse(x.data() + row, x.data() + row + in[2]);
    }
  }
};

}  // namespace tandem

namespace tandem {

namespace detail {

/// Draws that the transforms below have taken, so that transforms around them take others.
template <class D>
constexpr std::uint32_t draws_of() {
  if constexpr (requires { D::draws; }) {
    return D::draws;
  } else {
    return 0;
  }
}

}  // namespace detail

/// The primary template is the error path: something is no Dataset, or no Transform.
template <class D, class... Ts>
class Augmented {
  static_assert(Dataset<std::remove_cvref_t<D>>,
                "Augmented<D, Ts...>: D must be a Dataset, or a reference to one");
  static_assert((Transform<Ts> && ...),
                "Augmented<D, Ts...>: every T must be a Transform, such as Normalize, PadTo, "
                "RandomCrop or RandomFlip: output(Shape) and apply(x, in) or apply(x, in, bits)");
};

/// A dataset and the transforms of its samples; made by augment().
///
/// Training reads through all transforms, each random one with bits of (seed, epoch, sample) and
/// its place in the chain; evaluation, the plain read, leaves the random ones out.
///
/// Cost: that of the transforms, in place; no memory.
template <class D, class... Ts>
  requires(Dataset<std::remove_cvref_t<D>> && (Transform<Ts> && ...))
class Augmented<D, Ts...> {
 public:
  using Base = std::remove_cvref_t<D>;
  using Target = typename Base::Target;

  static constexpr std::uint32_t draws =
      detail::draws_of<Base>() + static_cast<std::uint32_t>(sizeof...(Ts));

  /// @throws ContractError  a transform does not fit the shape that it meets, shrinks it, or is
  ///                        random and changes it
  explicit Augmented(D&& data, Ts... transforms)
      : data_{std::forward<D>(data)},
        transforms_{std::move(transforms)...},
        shape_{base().shape()} {
    std::apply([this](Ts const&... transform) { ((shape_ = checked(transform, shape_)), ...); },
               transforms_);
  }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    base().read(index, input(x), y);
    transform(x,
              [](auto const& transform, std::span<float> values, Shape const& in, std::uint32_t) {
                if constexpr (FixedTransform<decltype(transform)>) {
                  transform.apply(values, in);
                }
              });
  }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y,
            Randomness const& randomness) const {
    read_sample(base(), index, input(x), y, randomness);
    transform(x, [&](auto const& transform, std::span<float> values, Shape const& in,
                     std::uint32_t which) {
      if constexpr (RandomTransform<decltype(transform)>) {
        transform.apply(values, in, randomness.draw(which));
      } else {
        transform.apply(values, in);
      }
    });
  }

  [[nodiscard]] std::int64_t size() const { return base().size(); }
  [[nodiscard]] Shape shape() const noexcept { return shape_; }
  [[nodiscard]] int targets() const { return base().targets(); }
  [[nodiscard]] int classes() const requires ClassifiedDataset<Base> { return base().classes(); }

 private:
  template <class T>
  static Shape checked(T const& transform, Shape const& in) {
    Shape const out = transform.output(in);
    expects(out.elements() >= in.elements(),
            "augment: a transform may not make a sample smaller, since it works in place");
    expects(FixedTransform<T> || out == in,
            "augment: a random transform may not change the shape, since evaluation leaves it out");
    return out;
  }

  [[nodiscard]] Base const& base() const noexcept { return data_; }

  [[nodiscard]] std::span<float> input(std::span<float> x) const {
    expects(static_cast<std::int64_t>(x.size()) == shape_.elements(),
            "Augmented::read: x takes shape().elements() numbers");
    return x.first(static_cast<std::size_t>(base().shape().elements()));
  }

  /// Calls @p apply for each transform with its part of @p x, its input shape and its draw.
  template <class Apply>
  void transform(std::span<float> x, Apply const& apply) const {
    Shape in = base().shape();
    std::uint32_t which = detail::draws_of<Base>();
    auto const one = [&](auto const& transform) {
      Shape const out = transform.output(in);
      apply(transform, x.first(static_cast<std::size_t>(out.elements())), in, which++);
      in = out;
    };
    std::apply([&](Ts const&... each) { (one(each), ...); }, transforms_);
  }

  D data_;
  std::tuple<Ts...> transforms_;
  Shape shape_;
};

/// The samples of @p data after @p transforms.
///
/// A dataset that is an lvalue is referred to and must outlive the result; one that is an rvalue,
/// such as the result of another augment(), moves into it.
template <class D, class... Ts>
[[nodiscard]] Augmented<D, Ts...> augment(D&& data, Ts... transforms) {
  return Augmented<D, Ts...>{std::forward<D>(data), std::move(transforms)...};
}

}  // namespace tandem

// ---- tandem/data/cifar10.hpp

/// @file
/// CIFAR-10 in its binary version: a checked parser, a split as a Dataset, and the whole folder.
///
/// A record is one label byte and 3072 pixels, 32 x 32 red, then green, then blue; a file is
/// nothing but records. Source: Krizhevsky, "Learning multiple layers of features from tiny
/// images", 2009; binary version

// ---- tandem/data/file.hpp

/// @file
/// Whole files into memory, with one sentence for each way in which that fails.
///
/// On <cstdio>: <fstream> and <filesystem> would cost every user of the umbrella their compile
/// time.

namespace tandem {

/// The largest file, and the largest content of a compressed file, that a reader takes by default:
/// 1 GiB, twenty times the largest file of the formats that tandem reads.
inline constexpr std::size_t default_file_limit = std::size_t{1} << 30;

namespace detail {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
};

using OpenFile = std::unique_ptr<std::FILE, CloseFile>;

inline bool no_such_entry(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace detail

/// Whether there is an entry of this name, readable or not, file or folder.
[[nodiscard]] inline bool path_exists(std::string const& path) {
  detail::OpenFile const file{std::fopen(path.c_str(), "rb")};
  return file != nullptr || !detail::no_such_entry(errno);
}

/// Whether @p path is a folder.
[[nodiscard]] inline bool folder_exists(std::string const& path) {
  return path_exists(path + "/.");
}

/// All bytes of a file.
///
/// Cost:   one allocation of the file's size if the file knows it, as pipes do not.
/// @throws FileError  the file is missing, a folder, unreadable, or larger than @p limit bytes
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] std::vector<std::uint8_t> read_file(std::string const& path,
                                                  std::size_t limit = default_file_limit) {
  auto const too_large = [&] {
    return FileError{path, "the file is larger than the limit of " + std::to_string(limit) +
                               " bytes for files of its kind"};
  };
  errno = 0;
  detail::OpenFile const file{std::fopen(path.c_str(), "rb")};
  if (file == nullptr) {
    throw detail::no_such_entry(errno)
        ? FileError{path, "there is no such file"}
        : FileError{path, std::string{"the file cannot be opened: "} + std::strerror(errno)};
  }
  std::vector<std::uint8_t> bytes(1);
  std::size_t used = std::fread(bytes.data(), 1, 1, file.get());  // tells folders from files
  if (used == 1 && std::fseek(file.get(), 0, SEEK_END) == 0) {
    long const size = std::ftell(file.get());
    static_cast<void>(std::fseek(file.get(), 1, SEEK_SET));
    if (size > 0 && static_cast<std::size_t>(size) > limit) {
      throw too_large();
    }
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) + 1 : 1);  // one more finds the end
  }
  while (std::feof(file.get()) == 0 && std::ferror(file.get()) == 0 && used <= limit) {
    if (used == bytes.size()) {
      bytes.resize(used + used / 2 + 65536);
    }
    used += std::fread(bytes.data() + used, 1, bytes.size() - used, file.get());
  }
  if (std::ferror(file.get()) != 0) {
    throw errno == EISDIR
        ? FileError{path, "this is a folder, expected a file"}
        : FileError{path, std::string{"the file cannot be read: "} + std::strerror(errno)};
  }
  if (used > limit) {
    throw too_large();
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace tandem

namespace tandem {

inline constexpr Shape cifar10_shape = image_shape(3, 32, 32);

/// Bytes of one record: its label, then its pixels.
inline constexpr std::size_t cifar10_record = 1 + 3 * 32 * 32;

/// The number of records in @p bytes.
/// @throws FileError  not a whole number of records, or none, or a label above 9; @p name is for
/// the
///                    message
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] std::int64_t parse_cifar10(std::span<std::uint8_t const> bytes,
                                         std::string const& name) {
  if (bytes.empty() || bytes.size() % cifar10_record != 0) {
    throw FileError{name, "truncated or oversized: expected a whole number of records of " +
                              std::to_string(cifar10_record) + " bytes, found " +
                              std::to_string(bytes.size()) + " bytes, " +
                              std::to_string(bytes.size() % cifar10_record) + " more than " +
                              std::to_string(bytes.size() / cifar10_record) + " records"};
  }
  std::size_t const records = bytes.size() / cifar10_record;
  for (std::size_t record = 0; record < records; ++record) {
    int const label = bytes[record * cifar10_record];
    if (label > 9) {
      throw FileError{name, "label out of range: expected labels from 0 to 9, found " +
                                std::to_string(label) + " in record " + std::to_string(record)};
    }
  }
  return static_cast<std::int64_t>(records);
}

/// Records of CIFAR-10, in memory as bytes; a Dataset of (3, 32, 32) images with pixels in [0, 1],
/// a byte divided by 255.
class Cifar10Split {
 public:
  using Target = std::int32_t;

  /// Any number of records, such as a part of the original files.
  /// @throws FileError  see parse_cifar10; @p name is for the message
  template <class = void>
  Cifar10Split(std::vector<std::uint8_t> records, std::string const& name)
      : records_{std::move(records)}, size_{parse_cifar10(records_, name)} {}

  /// @pre 0 <= index < size(), x.size() == 3072, y.size() == 1
  template <class = void>
  void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const {
    expects(index >= 0 && index < size_, "Cifar10Split::read: the index must be in [0, size())");
    expects(x.size() == cifar10_record - 1 && y.size() == 1,
            "Cifar10Split::read: x takes 3072 numbers, y takes one label");
    std::uint8_t const* const record =
        records_.data() + static_cast<std::size_t>(index) * cifar10_record;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(record[i + 1]) / 255.0F;
    }
    y[0] = record[0];
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] Shape shape() const noexcept { return cifar10_shape; }
  [[nodiscard]] int targets() const noexcept { return 1; }
  [[nodiscard]] int classes() const noexcept { return 10; }

 private:
  std::vector<std::uint8_t> records_;
  std::int64_t size_;
};

/// A folder with `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or the folder
/// around it that the archive makes, which holds `cifar-10-batches-bin`.
///
/// Cost: both splits stay in memory as bytes, 184 MB.
class Cifar10 {
 public:
  /// @throws FileError  the folder or a file is missing, or a file does not hold 10,000 records
  template <class = void>
  explicit Cifar10(std::string const& folder)
      : train_{read(located(folder), {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                      "data_batch_4.bin", "data_batch_5.bin"})},
        test_{read(located(folder), {"test_batch.bin"})} {}

  [[nodiscard]] Cifar10Split const& train() const& noexcept { return train_; }
  [[nodiscard]] Cifar10Split const& test() const& noexcept { return test_; }
  Cifar10Split const& train() const&& = delete;  // Cifar10 owns its splits: give it a name
  Cifar10Split const& test() const&& = delete;

 private:
  static constexpr std::size_t file_bytes = 10000 * cifar10_record;

  static std::string located(std::string const& folder) {
    std::string const inner = folder + "/cifar-10-batches-bin";
    if (folder_exists(inner)) {
      return inner;
    }
    if (!folder_exists(folder)) {
      throw FileError{folder,
                      "there is no such folder; expected the unpacked binary version of CIFAR-10 "
                      "(cifar-10-binary.tar.gz), data_batch_1.bin to data_batch_5.bin and "
                      "test_batch.bin"};
    }
    return folder;
  }

  template <class = void>
  static Cifar10Split read(std::string const& folder, std::vector<std::string> const& names) {
    std::vector<std::uint8_t> records;
    records.reserve(names.size() * file_bytes);
    for (std::string const& name : names) {
      std::string const path = folder + "/" + name;
      std::vector<std::uint8_t> const file = read_file(path);
      std::int64_t const count = parse_cifar10(file, path);
      if (count != 10000) {
        throw FileError{path, "expected the 10000 records of a file of CIFAR-10, found " +
                                  std::to_string(count)};
      }
      records.insert(records.end(), file.begin(), file.end());
    }
    return {std::move(records), folder};
  }

  Cifar10Split train_;
  Cifar10Split test_;
};

}  // namespace tandem

// ---- tandem/data/first.hpp

/// @file
/// first(data, count): the first samples of a dataset.

namespace tandem {

/// A view: the dataset must live as long as it.
template <Dataset D>
class First {
 public:
  using Target = typename D::Target;

  First(D const& data, std::int64_t count)
      : data_{&data}, count_{std::clamp<std::int64_t>(count, 0, data.size())} {}

  [[nodiscard]] std::int64_t size() const { return count_; }
  [[nodiscard]] Shape shape() const { return data_->shape(); }
  [[nodiscard]] int targets() const { return data_->targets(); }
  [[nodiscard]] int classes() const requires ClassifiedDataset<D> { return data_->classes(); }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    data_->read(index, x, y);
  }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y,
            Randomness const& randomness) const {
    read_sample(*data_, index, x, y, randomness);
  }

 private:
  D const* data_;
  std::int64_t count_;
};

/// The first @p count samples of @p data, or all if it has fewer. No copy.
template <Dataset D>
First<D> first(D const& data, std::int64_t count) {
  return {data, count};
}

}  // namespace tandem

// ---- tandem/data/loader.hpp

/// @file
/// Loader: the batches of one epoch, read ahead by a thread of its own.
///
/// The batches depend on the dataset and the options only, never on timing. A Loader is made for an
/// epoch and thrown away after it; it knows nothing of ranks, which take their parts of a batch.

// ---- tandem/data/order.hpp

/// @file
/// The order in which an epoch visits the samples: a permutation that (seed, epoch) determine.

namespace tandem {

/// Fills @p order with 0, 1, …, n - 1, n being its size: the order without shuffling.
constexpr void ascending_order(std::span<std::int64_t> order) {
  std::int64_t index = 0;
  for (std::int64_t& place : order) {
    place = index++;
  }
}

/// Fills @p order with a permutation of 0, …, n - 1, n being its size.
///
/// The same (n, seed, epoch) give the same permutation everywhere; it needs no state from the
/// epochs before, so that a resumed run continues with the order it left.
///
/// Cost:   n / 4 Philox blocks of ten rounds, n swaps.
/// Order:  sequential; place i draws word i % 4 of block i / 4. The bias of a place is below n /
/// 2^32.
/// @pre    n < 2^32
/// Source: Fisher, Yates, 1938, in the form of Durstenfeld, CACM 7(7), 1964, algorithm 235
constexpr void shuffled_order(std::span<std::int64_t> order, std::uint64_t seed,
                              std::int64_t epoch) {
  expects(order.size() < (std::uint64_t{1} << 32), "shuffled_order: at most 2^32 - 1 samples");
  ascending_order(order);
  Random4 block{};
  for (std::size_t i = order.size(), drawn = i; i-- > 1;) {
    if (i / 4 != drawn) {
      drawn = i / 4;
      block = philox(seed, RandomUse::order, drawn, static_cast<std::uint64_t>(epoch));
    }
    std::size_t const j = below(block.word[i % 4], static_cast<std::uint32_t>(i + 1));
    std::int64_t const swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}

}  // namespace tandem

namespace tandem {

/// Samples side by side: x is (size, shape().elements()), y is (size, targets()), both contiguous.
template <class Scalar, class Target>
struct Batch {
  Scalar const* x = nullptr;
  Target const* y = nullptr;
  int size = 0;
  std::int64_t first = 0;  ///< position of its first sample in the epoch: where to resume
};

struct LoaderOptions {
  int batch = 1;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool shuffle = true;     ///< else in the dataset's order
  bool augment = true;     ///< else plain samples, as evaluation wants them
  bool drop_last = false;  ///< leave out a last batch of fewer samples than `batch`
  std::int64_t first = 0;  ///< samples of the epoch to skip; Batch::first + size resumes exactly
};

/// The primary template is the error path: D is no Dataset.
template <class D, class Scalar = float>
class Loader {
  static_assert(Dataset<D>,
                "Loader<D, Scalar>: D must be a Dataset: Target (std::int32_t or float), size() -> "
                "std::int64_t, shape() -> Shape, targets() -> int, read(index, x, y), all const");
};

/// Reads a dataset's samples in the order of (seed, epoch) into a ring of three batches.
///
/// Cost:   three batches of Scalar and Target, an index for each sample of the dataset, and one
///         thread; all allocated by the constructor, nothing by next().
/// @throws ContractError  options.batch < 1, epoch outside [0, 2^32), or first outside [0, size()]
template <Dataset D, class Scalar>
class Loader<D, Scalar> {
 public:
  using Target = typename D::Target;
  using BatchType = Batch<Scalar, Target>;

  /// Starts to read. @p data must live, unchanged, until the Loader is gone.
  Loader(D const& data, LoaderOptions options)
      : data_{data},
        options_{checked(options, data)},
        elements_{static_cast<std::size_t>(data.shape().elements())},
        targets_{static_cast<std::size_t>(data.targets())},
        order_(static_cast<std::size_t>(data.size())),
        sample_(std::is_same_v<Scalar, float> ? std::size_t{0} : elements_) {
    if (options_.shuffle) {
      shuffled_order(order_, options_.seed, options_.epoch);
    } else {
      ascending_order(order_);
    }
    auto const batch = static_cast<std::size_t>(options_.batch);
    for (Slot& slot : ring_) {
      slot.x.resize(batch * elements_);
      slot.y.resize(batch * targets_);
    }
    thread_ = std::thread{[this] { fill_ring(); }};
  }
  Loader(D const&&, LoaderOptions) = delete;

  /// Stops reading within one sample's time.
  ~Loader() {
    {
      std::lock_guard const lock{mutex_};
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Loader(Loader const&) = delete;
  Loader& operator=(Loader const&) = delete;

  /// Waits for the next batch; false at the end of the epoch, and @p batch is then empty.
  ///
  /// The batch's memory is the Loader's, and holds until the following next().
  /// @throws whatever the dataset's read threw, after the batches that precede it, and ever after
  [[nodiscard]] bool next(BatchType& batch) {
    std::unique_lock lock{mutex_};
    if (lent_) {
      lent_ = false;
      ++taken_;
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return filled_ > taken_ || done_; });
    batch = {};
    if (filled_ > taken_) {
      Slot const& slot = ring_[taken_ % slots];
      batch = {slot.x.data(), slot.y.data(), slot.size, slot.first};
      lent_ = true;
    } else if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
    return lent_;
  }

 private:
  static constexpr std::size_t slots = 3;

  struct Slot {
    std::vector<Scalar> x;
    std::vector<Target> y;
    int size = 0;
    std::int64_t first = 0;
  };

  static LoaderOptions checked(LoaderOptions const& options, D const& data) {
    expects(options.batch >= 1, "LoaderOptions: batch must be at least 1");
    expects(options.epoch >= 0 && options.epoch < (std::int64_t{1} << 32),
            "LoaderOptions: epoch must be in [0, 2^32)");
    expects(options.first >= 0 && options.first <= data.size(),
            "LoaderOptions: first must be in [0, size of the dataset]");
    return options;
  }

  /// The thread: waits for a free slot, fills it without the lock, hands it over.
  void fill_ring() noexcept {
    std::int64_t const end = static_cast<std::int64_t>(order_.size());
    std::int64_t first = options_.first;
    bool more = true;
    while (more) {
      std::int64_t const left = end - first;
      int const size = left < options_.batch ? static_cast<int>(left) : options_.batch;
      more = size > 0 && (size == options_.batch || !options_.drop_last);
      std::exception_ptr error;
      if (more && wait_for_slot()) {
        try {
          more = fill(ring_[filled_ % slots], first, size);
        } catch (...) {
          error = std::current_exception();
          more = false;
        }
      } else {
        more = false;
      }
      {
        std::lock_guard const lock{mutex_};
        filled_ += more ? 1 : 0;
        done_ = !more;
        error_ = error;
      }
      changed_.notify_all();
      first += size;
    }
  }

  bool wait_for_slot() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return stop_ || filled_ - taken_ < slots; });
    return !stop_;
  }

  /// False if told to stop.
  bool fill(Slot& slot, std::int64_t first, int size) {
    slot.first = first;
    slot.size = size;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      if (stop_) {
        return false;
      }
      std::int64_t const index = order_[static_cast<std::size_t>(first) + i];
      Scalar* const x = slot.x.data() + i * elements_;
      std::span<Target> const y{slot.y.data() + i * targets_, targets_};
      if constexpr (std::is_same_v<Scalar, float>) {
        read(index, {x, elements_}, y);
      } else {
        read(index, sample_, y);
        for (std::size_t e = 0; e < elements_; ++e) {
          x[e] = static_cast<Scalar>(sample_[e]);
        }
      }
    }
    return true;
  }

  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    if (options_.augment) {
      read_sample(data_, index, x, y, Randomness{options_.seed, options_.epoch, index});
    } else {
      data_.read(index, x, y);
    }
  }

  D const& data_;
  LoaderOptions options_;
  std::size_t elements_;
  std::size_t targets_;
  std::vector<std::int64_t> order_;
  std::vector<float> sample_;  // one sample before its conversion
  Slot ring_[slots];

  std::mutex mutex_;  // guards what follows; `filled_` is written by the thread only
  std::condition_variable changed_;
  std::size_t filled_ = 0;  // batches since the start
  std::size_t taken_ = 0;   // batches given back by the consumer
  bool lent_ = false;
  bool done_ = false;
  std::exception_ptr error_;
  std::atomic<bool> stop_ = false;  // also read without the lock, between samples
  std::thread thread_;
};

template <class D>
Loader(D const&, LoaderOptions) -> Loader<D>;

}  // namespace tandem

// ---- tandem/data/mnist.hpp

/// @file
/// Mnist and FashionMnist: the two splits of a folder of four IDX files, plain or gzipped.

// ---- tandem/data/gzip.hpp

/// @file
/// Inflate: how this program reads .gz files, with zlib or not at all; and files that may be .gz.
///
/// tandem needs no library. A program that defines TANDEM_ZLIB=1 and links -lz reads .gz files; any
/// other is told what to do. The macro chooses what an alias names, never the body of a function.

// ---- tandem/data/zlib.hpp

/// @file
/// Zlib: inflates gzip buffers; there only if the program defines TANDEM_ZLIB=1 and links -lz.

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

#include <zlib.h>

namespace tandem {

namespace detail {

/// A zlib stream that is freed on every path.
class InflateStream {
 public:
  explicit InflateStream(std::string const& name) {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {  // 16: a gzip header, not a zlib one
      throw FileError{name, "zlib cannot start: no memory, or zlib.h is not of the linked library"};
    }
  }
  ~InflateStream() { static_cast<void>(inflateEnd(&stream_)); }
  InflateStream(InflateStream const&) = delete;
  InflateStream& operator=(InflateStream const&) = delete;

  z_stream* operator->() noexcept { return &stream_; }
  z_stream* get() noexcept { return &stream_; }

 private:
  z_stream stream_{};
};

}  // namespace detail

/// Inflates with zlib; a model of Inflater (gzip.hpp).
struct Zlib {
  /// The content of the gzip buffer @p packed, all its members one after the other, checked against
  /// their checksums. Memory never exceeds twice @p limit, whatever the buffer says.
  /// @throws FileError  @p packed is not gzip, truncated, damaged, or of more than @p limit bytes
  template <class = void>  // compiled where it is called, not by every include
  [[nodiscard]] static std::vector<std::uint8_t> inflate(std::span<std::uint8_t const> packed,
                                                         std::string const& name,
                                                         std::size_t limit) {
    constexpr std::size_t largest_chunk = std::size_t{1} << 30;
    detail::InflateStream stream{name};
    std::vector<std::uint8_t> bytes;
    std::size_t read = 0;
    std::size_t used = 0;
    for (;;) {
      if (used == bytes.size()) {
        std::size_t const room =
            limit - used;  // and one byte more, which shows that it is too long
        std::size_t const more = used < 65536 ? 65536 : used;
        bytes.resize(used + (more <= room ? more : room + 1));
      }
      std::size_t const in =
          packed.size() - read < largest_chunk ? packed.size() - read : largest_chunk;
      std::size_t const out =
          bytes.size() - used < largest_chunk ? bytes.size() - used : largest_chunk;
      stream->next_in = const_cast<Bytef*>(packed.data() + read);  // zlib only reads it
      stream->avail_in = static_cast<uInt>(in);
      stream->next_out = bytes.data() + used;
      stream->avail_out = static_cast<uInt>(out);
      int const status = ::inflate(stream.get(), Z_NO_FLUSH);
      read += in - stream->avail_in;
      used += out - stream->avail_out;
      if (used > limit) {
        throw FileError{name, "the unpacked content is larger than the limit of " +
                                  std::to_string(limit) + " bytes for files of its kind"};
      }
      if (status == Z_STREAM_END) {
        if (read == packed.size()) {
          bytes.resize(used);
          return bytes;
        }
        static_cast<void>(inflateReset(stream.get()));  // another member follows
      } else if (status == Z_BUF_ERROR && read == packed.size()) {
        throw FileError{name, "the gzip file is truncated: it ends after " +
                                  std::to_string(packed.size()) + " bytes, within its content"};
      } else if (status != Z_OK) {
        throw FileError{name, std::string{"the gzip file is damaged: "} +
                                  (stream->msg != nullptr ? stream->msg : zError(status)) +
                                  " near byte " + std::to_string(read)};
      }
    }
  }
};

}  // namespace tandem

#endif

namespace tandem {

/// What inflates a gzip buffer to at most @p limit bytes; the name is for messages.
template <class I>
concept Inflater = requires(std::span<std::uint8_t const> packed, std::string const& name,
                            std::size_t limit) {
  { I::inflate(packed, name, limit) } -> std::same_as<std::vector<std::uint8_t>>;
};

/// The Inflater of a program without zlib.
struct NoZlib {
  /// @throws FileError  always: it says how to get along
  [[noreturn]] static std::vector<std::uint8_t> inflate(std::span<std::uint8_t const>,
                                                        std::string const& name, std::size_t) {
    throw FileError{name,
                    "this program was compiled without zlib and cannot read gzip files; define "
                    "TANDEM_ZLIB=1 and link -lz, or gunzip the file first"};
  }
};

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB
using Inflate = Zlib;
#else
using Inflate = NoZlib;
#endif

/// The content of @p path, or if there is no such file, of the gzip file of that name with ".gz".
/// @throws FileError  neither is there, or one cannot be read, or is larger than @p limit bytes
template <Inflater I>
[[nodiscard]] std::vector<std::uint8_t> read_plain_or_gzip(std::string const& path,
                                                           std::size_t limit = default_file_limit) {
  if (path_exists(path)) {
    return read_file(path, limit);
  }
  std::string const packed_path = path + ".gz";
  if (!path_exists(packed_path)) {
    throw FileError{path, "neither this file nor one of this name with '.gz' is there"};
  }
  return I::inflate(read_file(packed_path, limit), packed_path, limit);
}

}  // namespace tandem

// ---- tandem/data/idx.hpp

/// @file
/// The IDX format of MNIST and Fashion-MNIST: a checked parser, and one split as a Dataset.
///
/// Only what those sets use: unsigned bytes, of rank 1 (labels) or 3 (images). Whole folders are
/// read by mnist.hpp.
/// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits", file formats

namespace tandem {

/// What an IDX header promises, once the file has been seen to keep it.
struct IdxHeader {
  std::int64_t count = 0;  ///< samples
  int rows = 1;
  int columns = 1;
  std::size_t bytes = 0;  ///< of the header itself: where the values start
};

namespace detail {

inline std::uint32_t big_endian(std::span<std::uint8_t const> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 |
         static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | static_cast<std::uint32_t>(bytes[at + 3]);
}

inline std::string hexadecimal(std::uint32_t word) {
  std::string text = "0x00000000";
  for (std::size_t digit = 10; digit-- > 2; word >>= 4) {
    text[digit] = "0123456789abcdef"[word & 15U];
  }
  return text;
}

inline std::string idx_kind(std::uint32_t magic) {
  std::string const kind = magic == 0x801          ? ", labels"
                           : magic == 0x803        ? ", images"
                           : magic >> 16 == 0x1F8B ? ", a gzip file whose name lacks '.gz'"
                                                   : "";
  return hexadecimal(magic) + kind;
}

}  // namespace detail

/// Checks the IDX file with content @p bytes, of @p rank 1 (labels) or 3 (images).
///
/// @throws FileError  another magic number, an extent of 0 or absurdly large, or a header that does
///                    not agree with the number of bytes; @p name is for the message
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] IdxHeader parse_idx(std::span<std::uint8_t const> bytes, std::string const& name,
                                  int rank) {
  expects(rank == 1 || rank == 3, "parse_idx: rank must be 1 (labels) or 3 (images)");
  std::size_t const header = 4 + 4 * static_cast<std::size_t>(rank);
  std::uint32_t const expected = 0x800U + static_cast<std::uint32_t>(rank);
  if (bytes.size() >= 4 && detail::big_endian(bytes, 0) != expected) {
    throw FileError{name, "expected an IDX file with magic number " + detail::idx_kind(expected) +
                              "; found " + detail::idx_kind(detail::big_endian(bytes, 0))};
  }
  if (bytes.size() < header) {
    throw FileError{name, "the file is truncated: expected an IDX header of " +
                              std::to_string(header) + " bytes, found " +
                              std::to_string(bytes.size()) + " bytes"};
  }
  std::uint64_t extent[3] = {1, 1, 1};
  std::string text;
  bool sane = true;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(rank); ++axis) {
    extent[axis] = detail::big_endian(bytes, 4 + 4 * axis);
    text += (axis > 0 ? " x " : "") + std::to_string(extent[axis]);
    sane = sane && extent[axis] > 0 && extent[axis] <= (axis == 0 ? 0x7FFFFFFFU : 0xFFFFU);
  }
  if (!sane) {
    throw FileError{name,
                    "expected between 1 and 2147483647 samples of between 1 and 65535 rows "
                    "and columns, found " +
                        text};
  }
  std::uint64_t const size = header + extent[0] * extent[1] * extent[2];  // < 2^63 + 16
  if (size != bytes.size()) {
    throw FileError{
        name, std::string{bytes.size() < size ? "the file is truncated" : "the file is too long"} +
                  ": expected " + std::to_string(size) + " bytes for a header and " + text +
                  " values, found " + std::to_string(bytes.size()) + " bytes"};
  }
  return {static_cast<std::int64_t>(extent[0]), static_cast<int>(extent[1]),
          static_cast<int>(extent[2]), header};
}

/// Images and labels of one IDX split, in memory as bytes; a Dataset of (1, rows, columns) images
/// with pixels in [0, 1], a byte divided by 255.
class IdxSplit {
 public:
  using Target = std::int32_t;

  /// @param images, labels            the contents of the two files
  /// @param images_name, labels_name  for messages
  /// @throws FileError  see parse_idx; or the counts differ; or a label is not below @p classes
  template <class = void>
  IdxSplit(std::vector<std::uint8_t> images, std::vector<std::uint8_t> labels,
           std::string const& images_name, std::string const& labels_name, int classes = 10)
      : images_{std::move(images)}, labels_{std::move(labels)}, classes_{classes} {
    header_ = parse_idx(images_, images_name, 3);
    IdxHeader const label_header = parse_idx(labels_, labels_name, 1);
    first_label_ = label_header.bytes;
    if (label_header.count != header_.count) {
      throw FileError{labels_name, "expected " + std::to_string(header_.count) +
                                       " labels, one for each image of '" + images_name +
                                       "', found " + std::to_string(label_header.count)};
    }
    for (std::size_t i = first_label_; i < labels_.size(); ++i) {
      if (labels_[i] >= classes_) {
        throw FileError{labels_name, "label out of range: expected labels from 0 to " +
                                         std::to_string(classes_ - 1) + ", found " +
                                         std::to_string(labels_[i]) + " for sample " +
                                         std::to_string(i - first_label_)};
      }
    }
  }

  /// @pre 0 <= index < size(), x.size() == shape().elements(), y.size() == 1
  template <class = void>
  void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const {
    std::size_t const pixels = static_cast<std::size_t>(shape().elements());
    expects(index >= 0 && index < size(), "IdxSplit::read: the index must be in [0, size())");
    expects(x.size() == pixels && y.size() == 1,
            "IdxSplit::read: x takes rows * columns numbers, y takes one label");
    std::uint8_t const* const image =
        images_.data() + header_.bytes + static_cast<std::size_t>(index) * pixels;
    for (std::size_t i = 0; i < pixels; ++i) {
      x[i] = static_cast<float>(image[i]) / 255.0F;
    }
    y[0] = labels_[first_label_ + static_cast<std::size_t>(index)];
  }

  [[nodiscard]] std::int64_t size() const noexcept { return header_.count; }
  [[nodiscard]] Shape shape() const noexcept {
    return image_shape(1, header_.rows, header_.columns);
  }
  [[nodiscard]] int targets() const noexcept { return 1; }
  [[nodiscard]] int classes() const noexcept { return classes_; }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
  IdxHeader header_;
  std::size_t first_label_ = 0;
  int classes_;
};

}  // namespace tandem

namespace tandem {

/// A folder with `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
/// `t10k-labels-idx1-ubyte`, each under that name or with `.gz` behind it; I reads the latter.
///
/// Cost: both splits stay in memory as bytes, 55 MB for MNIST and for Fashion-MNIST.
template <Inflater I>
class BasicIdxFolder {
 public:
  /// @throws FileError  the folder or a file is missing, or a file is not what IdxSplit expects
  explicit BasicIdxFolder(std::string const& folder, int classes = 10)
      : train_{split(checked(folder), "train", classes)}, test_{split(folder, "t10k", classes)} {}

  [[nodiscard]] IdxSplit const& train() const& noexcept { return train_; }
  [[nodiscard]] IdxSplit const& test() const& noexcept { return test_; }
  IdxSplit const& train() const&& = delete;  // the folder owns its splits: give it a name
  IdxSplit const& test() const&& = delete;

 private:
  static std::string const& checked(std::string const& folder) {
    if (!folder_exists(folder)) {
      throw FileError{folder,
                      "there is no such folder; expected one with train-images-idx3-ubyte and its "
                      "three companions, plain or .gz, such as /usr/share/datasets/fashion-mnist "
                      "of the Debian package dataset-fashion-mnist"};
    }
    return folder;
  }

  static IdxSplit split(std::string const& folder, std::string const& part, int classes) {
    std::string const images = folder + "/" + part + "-images-idx3-ubyte";
    std::string const labels = folder + "/" + part + "-labels-idx1-ubyte";
    return {read_plain_or_gzip<I>(images), read_plain_or_gzip<I>(labels), images, labels, classes};
  }

  IdxSplit train_;
  IdxSplit test_;
};

using IdxFolder = BasicIdxFolder<Inflate>;
using Mnist = IdxFolder;
using FashionMnist = IdxFolder;

}  // namespace tandem

// ---- tandem/data/tensor_dataset.hpp

/// @file
/// TensorDataset: a Dataset of arrays that the program already has.

namespace tandem {

/// The primary template is the error path: T is no element of a target.
template <class T>
class TensorDataset {
  static_assert(DataTarget<T>,
                "TensorDataset<T>: T must be std::int32_t (labels) or float (regression)");
};

/// Samples in two arrays: x is (size, shape) and y is (size, targets), both contiguous.
template <DataTarget T>
class TensorDataset<T> {
 public:
  using Target = T;

  /// Holds @p x and @p y; move them in to avoid a copy.
  /// @param targets  numbers of y for each sample, 1 for a label
  /// @throws ContractError  x or y is not a whole number of samples, or they differ in that number
  TensorDataset(Shape const& shape, std::vector<float> x, std::vector<T> y, int targets = 1)
      : shape_{shape}, x_{std::move(x)}, y_{std::move(y)}, targets_{targets} {
    expects(shape_.valid(), "TensorDataset: every extent of the shape must be at least 1");
    expects(targets_ >= 1, "TensorDataset: a sample needs at least one target");
    expects(x_.size() % elements() == 0,
            "TensorDataset: x must hold a whole number of samples of the shape");
    expects(y_.size() % width() == 0 && y_.size() / width() == x_.size() / elements(),
            "TensorDataset: y must hold `targets` numbers for each sample of x");
  }

  /// @pre 0 <= index < size(), x.size() == shape().elements(), y.size() == targets()
  void read(std::int64_t index, std::span<float> x, std::span<T> y) const {
    expects(index >= 0 && index < size(), "TensorDataset::read: the index must be in [0, size())");
    expects(x.size() == elements() && y.size() == width(),
            "TensorDataset::read: x takes shape().elements() numbers, y takes targets()");
    auto const at = static_cast<std::size_t>(index);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = x_[at * x.size() + i];
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = y_[at * y.size() + i];
    }
  }

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(x_.size() / elements());
  }
  [[nodiscard]] Shape shape() const noexcept { return shape_; }
  [[nodiscard]] int targets() const noexcept { return targets_; }

 private:
  [[nodiscard]] std::size_t elements() const noexcept {
    return static_cast<std::size_t>(shape_.elements());
  }
  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(targets_); }

  Shape shape_;
  std::vector<float> x_;
  std::vector<T> y_;
  int targets_;
};

}  // namespace tandem

// ---- tandem/engine/rank.hpp

/// @file
/// Rank: one device's program, a loop over its row of actions. All memory is allocated by the
/// constructor; a step allocates nothing, looks up nothing and calls nothing virtually.

// ---- tandem/engine/mirror.hpp

/// @file
/// ParameterMirror: a rank's parameters, gradients and optimizer states for the host to read and
/// write, in the layout of the network as the user wrote it.

// ---- tandem/engine/parameter_memory.hpp

/// @file
/// ParameterMemory: the parameters, gradients and optimizer states of one rank.

// ---- tandem/strategy/options.hpp

/// @file
/// Options of strategies as types, and Batching, the value that they are lowered to.
///
/// DataParallel<3, Weighted<4, 4, 3>, Microbatches<2>, Reproducible<>>: options come in any order.

// ---- tandem/core/bfloat16.hpp

/// @file
/// BFloat16: the upper half of a float, as storage; arithmetic is done in float.

namespace tandem {

/// 1 sign bit, 8 exponent bits, 7 fraction bits; the same bits as CUDA's __nv_bfloat16.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays one.
  TANDEM_HOST_DEVICE explicit constexpr BFloat16(float value) : bits{rounded(value)} {}
  TANDEM_HOST_DEVICE explicit constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }

  /// One rounding; what reductions of 16-bit messages need.
  TANDEM_HOST_DEVICE friend constexpr BFloat16 operator+(BFloat16 a, BFloat16 b) {
    return BFloat16{static_cast<float>(a) + static_cast<float>(b)};
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator>(BFloat16 a, BFloat16 b) {
    return static_cast<float>(a) > static_cast<float>(b);
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator==(BFloat16 a, BFloat16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  TANDEM_HOST_DEVICE static constexpr std::uint16_t rounded(float value) {
    auto const word = __builtin_bit_cast(std::uint32_t, value);
    if ((word & 0x7FFFFFFFU) > 0x7F800000U) {
      return static_cast<std::uint16_t>((word >> 16) | 0x40U);
    }
    return static_cast<std::uint16_t>((word + 0x7FFFU + ((word >> 16) & 1U)) >> 16);
  }
};

static_assert(sizeof(BFloat16) == 2);

}  // namespace tandem

// ---- tandem/core/float16.hpp

/// @file
/// Float16: IEEE 754 half precision, as storage and on the wire; arithmetic is done in float.

namespace tandem {

/// 1 sign bit, 5 exponent bits, 10 fraction bits; the same bits as CUDA's __half.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  /// Rounds to nearest, ties to even, to subnormals too; from 65520 on to infinity; a NaN stays
  /// one.
  TANDEM_HOST_DEVICE explicit constexpr Float16(float value) : bits{rounded(value)} {}
  TANDEM_HOST_DEVICE explicit constexpr operator float() const {
    std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    std::uint32_t const exponent = (bits >> 10) & 0x1FU;
    std::uint32_t const fraction = bits & 0x3FFU;
    if (exponent == 0) {  // zero or subnormal: fraction times 2⁻²⁴, exact
      float const magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, magnitude) | sign);
    }
    std::uint32_t const biased = exponent == 31 ? 255 : exponent + 112;
    return __builtin_bit_cast(float, sign | (biased << 23) | (fraction << 13));
  }

  /// One rounding; what reductions of 16-bit messages need.
  TANDEM_HOST_DEVICE friend constexpr Float16 operator+(Float16 a, Float16 b) {
    return Float16{static_cast<float>(a) + static_cast<float>(b)};
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator>(Float16 a, Float16 b) {
    return static_cast<float>(a) > static_cast<float>(b);
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator==(Float16 a, Float16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  TANDEM_HOST_DEVICE static constexpr std::uint16_t rounded(float value) {
    auto const word = __builtin_bit_cast(std::uint32_t, value);
    std::uint32_t const sign = (word >> 16) & 0x8000U;
    std::uint32_t const magnitude = word & 0x7FFFFFFFU;
    std::uint32_t result = 0;
    if (magnitude > 0x7F800000U) {  // a NaN: quiet, with the upper bits of its payload
      result = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
    } else if (magnitude >= 0x47800000U) {  // 2¹⁶ and above
      result = 0x7C00U;
    } else if (magnitude >= 0x38800000U) {  // normal, from 2⁻¹⁴ on; may carry into infinity
      std::uint32_t const rebiased = magnitude - (112U << 23);
      result = (rebiased + 0xFFFU + ((rebiased >> 13) & 1U)) >> 13;
    } else if (magnitude >= 0x33000000U) {  // from 2⁻²⁵ on, half the smallest subnormal
      std::uint32_t const significand = (magnitude & 0x7FFFFFU) | 0x800000U;
      std::uint32_t const shift = 126U - (magnitude >> 23);  // to units of 2⁻²⁴
      std::uint32_t const half = 1U << (shift - 1);
      result = (significand + half - 1 + ((significand >> shift) & 1U)) >> shift;
    }
    return static_cast<std::uint16_t>(sign | result);
  }
};

static_assert(sizeof(Float16) == 2);

}  // namespace tandem

namespace tandem {

// In these types the sentence stands last: clang drops the members behind one that fails.

namespace detail {

template <int Count>
struct MicrobatchesIsSound {
  static constexpr bool value = true;
  static_assert(Count >= 1, "Microbatches<Count>: give a positive number");
};

}  // namespace detail

/// Each replica takes its shard of the batch in Count parts, one after another (gradient
/// accumulation). The microbatch is the unit of batch-norm statistics.
template <int Count>
struct Microbatches {
  static constexpr int microbatches = Count >= 1 ? Count : 1;
  static_assert(detail::MicrobatchesIsSound<Count>::value);
};

/// Shards in proportion to these weights, for unequal devices; a weight of 0 is an empty shard.
template <int... Weights>
struct Weighted {
  static constexpr int count = sizeof...(Weights);
  static constexpr int weights[sizeof...(Weights) > 0 ? sizeof...(Weights) : 1] = {Weights...};
  static_assert(sizeof...(Weights) >= 1 && sizeof...(Weights) <= 64 && ((Weights >= 0) && ...) &&
                    (0 + ... + Weights) > 0,
                "Weighted<Weights...>: give 1 to 64 numbers of 0 or more, not all 0");
};

/// The same bits on any number of devices: gradients are added by a tree that the index of a leaf
/// fixes. A leaf is a run of consecutive microbatches; Leaves is how many the whole batch has, by
/// default one a microbatch. A replica needs 1 + log2(its leaves) gradient buffers.
template <int Leaves = 0>
struct Reproducible {
  static constexpr int leaves = Leaves >= 0 ? Leaves : 0;
  static_assert(Leaves >= 0, "Reproducible<Leaves>: give 0 (one a microbatch) or more");
};

/// Sizes of the gradient buckets: the first small, so that reduction begins early.
template <std::int64_t First, std::int64_t Rest>
struct BucketBytes {
  static constexpr std::int64_t first_bucket = First;
  static constexpr std::int64_t bucket = Rest;
  static_assert(First >= 1 && Rest >= 1, "BucketBytes<First, Rest>: give positive numbers");
};

/// Gradients as they are sent: exact, or rounded to 16 bits.
enum class WireFormat : std::uint8_t { exact, bfloat16, float16 };

/// Gradients are rounded to E, BFloat16 or Float16, before they are summed over the replicas: half
/// the bytes to send for 8 or 11 bits of precision. Running averages of batch norm travel along.
/// Float16 has fewer bits below 6e-5 and none below 6e-8, and it ends at 65,504.
template <class E>
struct Wire {
  static constexpr WireFormat wire = std::same_as<E, BFloat16>  ? WireFormat::bfloat16
                                     : std::same_as<E, Float16> ? WireFormat::float16
                                                                : WireFormat::exact;
  static_assert(std::same_as<E, BFloat16> || std::same_as<E, Float16>,
                "Wire<E>: E must be BFloat16 or Float16");
};

/// How the global batch becomes an ordered list of microbatches, and who takes which: replica r the
/// `microbatches` consecutive ones from r * microbatches.
struct Batching {
  int replicas = 1;
  int microbatches = 1;  ///< of one replica
  int shards = 0;        ///< weighted shards; 0: all microbatches alike
  int weight[64] = {};
  bool reproducible = false;
  int leaves = 1;  ///< of one replica: runs of microbatches whose sums a fixed tree joins
  WireFormat wire = WireFormat::exact;
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;

  [[nodiscard]] constexpr int all_microbatches() const { return replicas * microbatches; }
  /// Where a replica has the model in @p copies, each for its run of the microbatches: leaves of
  /// one.
  [[nodiscard]] constexpr int leaves_of_copy(int copies) const {
    return leaves > copies ? leaves / copies : 1;
  }
  /// Microbatches of a leaf.
  [[nodiscard]] constexpr int leaf(int copies) const {
    return microbatches / copies / leaves_of_copy(copies);
  }
};

template <class Option>
concept BatchingOption = requires {
  Option::microbatches;
}
|| requires { Option::weights; }
|| requires { Option::leaves; }
|| requires { Option::first_bucket; }
|| requires { Option::wire; };

namespace detail {

template <class Option>
constexpr void apply_batching_option(Batching& batching, int& leaves) {
  if constexpr (requires { Option::microbatches; }) {
    batching.microbatches = Option::microbatches;
  } else if constexpr (requires { Option::weights; }) {
    batching.shards = Option::count;
    for (int shard = 0; shard < Option::count && shard < 64; ++shard) {
      batching.weight[shard] = Option::weights[shard];
    }
  } else if constexpr (requires { Option::leaves; }) {
    batching.reproducible = true;
    leaves = Option::leaves;
  } else if constexpr (requires { Option::wire; }) {
    batching.wire = Option::wire;
  } else {
    batching.first_bucket_bytes = Option::first_bucket;
    batching.bucket_bytes = Option::bucket;
  }
}

// The options gathered; leaves is 0 where the number of leaves is no multiple of the replicas.
// Options of other kinds are for others.
template <int Replicas, class... Options>
constexpr Batching gather_batching(int microbatches = 1) {
  Batching batching{.replicas = Replicas, .microbatches = microbatches};
  int leaves = 0;
  [[maybe_unused]] auto const take = [&]<class Option>(Option const*) {
    if constexpr (BatchingOption<Option>) {
      apply_batching_option<Option>(batching, leaves);
    }
  };
  (take(static_cast<Options const*>(nullptr)), ...);
  if (batching.reproducible) {
    int const all = leaves > 0 ? leaves : batching.all_microbatches();
    batching.leaves = all % Replicas == 0 ? all / Replicas : 0;
  }
  return batching;
}

constexpr bool leaves_fit(Batching const& b) {
  bool const power_of_two = b.leaves > 0 && (b.leaves & (b.leaves - 1)) == 0;
  return power_of_two && b.microbatches % b.leaves == 0;
}

}  // namespace detail

}  // namespace tandem

namespace tandem {

/// Whether a backend's ops keep parameters in layouts of their own.
template <class Backend>
inline constexpr bool packs_weights = [] {
  if constexpr (requires { Backend::packs_weights; }) {
    return bool{Backend::packs_weights};
  } else {
    return false;
  }
}();

/// Flat arrays in the order of the device's ParameterLayout.
template <class Program, class Backend>
class ParameterMemory {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Buffer = typename Backend::Buffer;
  using Device = typename Backend::Device;
  /// Whether products read parameters of another type than the optimizer keeps, and no op packs
  /// them.
  static constexpr bool mixed = !std::is_same_v<T, P> && !packs_weights<Backend>;
  static constexpr auto const& graph = Program::graph;
  static constexpr auto const& layout = Program::layout;

  /// @param leaves  of one replica: runs of microbatches whose gradients a tree joins
  ParameterMemory(Device& device, int states, int leaves)
      : waiting_leaves_{static_cast<int>(std::bit_width(static_cast<unsigned>(leaves))) - 1},
        parameters_{device, bytes(layout.elements)},
        weights_{device, mixed ? static_cast<std::size_t>(layout.elements) * sizeof(T) : 0},
        gradients_{device, bytes(layout.trained) * (1 + static_cast<std::size_t>(waiting_leaves_))},
        states_{device, bytes(layout.trained) * static_cast<std::size_t>(states)} {}

  [[nodiscard]] P* parameters() const { return parameters_.template as<P>(); }
  /// The parameters as products read them; where the types agree, the parameters themselves. Null
  /// where ops pack them.
  [[nodiscard]] T* weights() const {
    if constexpr (mixed) {
      return weights_.template as<T>();
    } else if constexpr (std::is_same_v<T, P>) {
      return parameters();
    } else {
      return nullptr;
    }
  }
  /// Buffer 0 takes the gradients of the leaf at work, the others wait in the tree.
  [[nodiscard]] P* gradients(int buffer = 0) const {
    return gradients_.template as<P>() + buffer * layout.trained;
  }
  [[nodiscard]] P* state(int s) const { return states_.template as<P>() + s * layout.trained; }
  /// Sums of finished leaves that wait for their sibling in the tree.
  [[nodiscard]] int waiting_leaves() const { return waiting_leaves_; }

 protected:
  static std::int64_t size(Buffer const& b) { return static_cast<std::int64_t>(b.bytes()); }
  [[nodiscard]] std::int64_t parameter_bytes() const { return size(parameters_); }
  [[nodiscard]] std::int64_t weight_bytes() const { return size(weights_); }
  [[nodiscard]] std::int64_t gradient_bytes() const { return size(gradients_); }
  [[nodiscard]] std::int64_t state_bytes() const { return size(states_); }

 private:
  static std::size_t bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(P);
  }

  int waiting_leaves_;
  Buffer parameters_;
  Buffer weights_;
  Buffer gradients_;
  Buffer states_;
};

}  // namespace tandem

namespace tandem {

/// The primary template is for devices whose memory is the host's: the mirror is the memory.
template <class Program, class Backend>
class ParameterMirror {
 public:
  using T = typename Backend::Master;
  using Device = typename Backend::Device;
  using Memory = ParameterMemory<Program, Backend>;

  explicit ParameterMirror(int /*states*/) {}

  /// Brings the mirror up to date; until the next step or upload it stays so.
  void download(Device& /*device*/, Memory const& memory) { memory_ = &memory; }
  /// Gives the device what the mirror has.
  void upload(Device& /*device*/, Memory const& /*memory*/) {}

  /// As of ParameterMemory. @pre download() was called
  [[nodiscard]] T* parameters() const { return memory_->parameters(); }
  [[nodiscard]] T* gradients() const { return memory_->gradients(); }
  [[nodiscard]] T* state(int s) const { return memory_->state(s); }

 private:
  Memory const* memory_ = nullptr;
};

}  // namespace tandem

// ---- tandem/engine/rank_interface.hpp

/// @file
/// RankInterface: what the ranks of a program have in common, whichever device of a replica they
/// are. Called a few times a step, never by an action.

// ---- tandem/engine/memory_report.hpp

/// @file
/// MemoryReport: what a rank has allocated for tensors.

namespace tandem {

/// Bytes of each arena of a rank; together they are all that it ever allocates for tensors.
struct MemoryReport {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;  ///< 1 + log2(leaves of the replica) buffers
  std::int64_t optimizer_state = 0;
  std::int64_t kept = 0;        ///< activations that backward reads, for each live microbatch
  std::int64_t recomputed = 0;  ///< activations that backward computes again before it reads them
  std::int64_t transient = 0;   ///< other activations and the gradients of all, sharing memory
  std::int64_t scratch = 0;
  std::int64_t weights = 0;  ///< parameters as products read them, where that is another form
  std::int64_t wire = 0;     ///< gradients rounded for the way, where the strategy asks for that
  std::int64_t feed =
      0;  ///< batches and results on their way, where the device has a memory of its own
  std::int64_t tables = 0;   ///< of the update, and sums of losses, likewise
  std::int64_t logical = 0;  ///< what one live microbatch's activations and gradients would be if
                             ///< nothing shared memory

  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + optimizer_state + kept + recomputed + transient + scratch +
           weights + wire + feed + tables;
  }
};

}  // namespace tandem

// ---- tandem/engine/named_parameter.hpp

/// @file
/// NamedParameter: a parameter with its gradient and optimizer states, by name.

// ---- tandem/graph/graph.hpp

/// @file
/// Graph: a network as a plain constexpr value, nodes in topological order with their edges.
///
/// Everything that decides (cuts, buckets, schedules, memory, costs) reads this value. C arrays,
/// and no strings: constant evaluation of a network of 200 nodes stays far below the compilers'
/// limits.

// ---- tandem/graph/layer.hpp

/// @file
/// What a layer says of itself: its output shape, its parameters, its cost, and what it refuses.
///
/// A layer is an empty type of static constexpr functions of its input's Shape. It has no kernels
/// (ops/ has them), so that planners and tables need no machine.

namespace tandem {

/// How a parameter changes: a weight by the optimizer, a statistic by its running average.
enum class Role : std::uint8_t { weight, statistic };

/// Initial values of one parameter.
struct Init {
  enum class Law : std::uint8_t { constant, uniform_fan_in };
  Law law = Law::constant;
  float value = 0.0F;       ///< constant: every element
  std::int64_t fan_in = 1;  ///< uniform_fan_in: uniform in ±1/sqrt(fan_in), as PyTorch's layers

  static constexpr Init constant(float value) { return {Law::constant, value, 1}; }
  static constexpr Init uniform_fan_in(std::int64_t fan_in) {
    return {Law::uniform_fan_in, 0.0F, fan_in};
  }
};

/// One parameter of a layer, named as PyTorch names it ("weight", "bias", "running_mean", …).
struct Parameter {
  char const* name = "";
  Shape shape{};
  Init init{};
  Role role = Role::weight;
  float rate = 0.0F;  ///< of a statistic: weight of the newest step in its running average
};

/// The parameters of a layer, in the order in which its op sees them; at most four.
struct Parameters {
  int count = 0;
  Parameter item[4] = {};

  constexpr Parameters() = default;

  template <std::same_as<Parameter>... Items>
    requires(sizeof...(Items) >= 1 && sizeof...(Items) <= 4)
  constexpr explicit Parameters(Items... items) : count{sizeof...(Items)}, item{items...} {}
};

/// Why a layer or a network cannot be: each has its sentence in graph/check.hpp.
enum class Fault : std::uint8_t {
  none,
  reported,          ///< its sentence stands where the type is
  no_input,          ///< the network's input has no elements
  rejected,          ///< the layer's output(shape) is no shape
  not_an_image,      ///< wants (C, H, W)
  not_a_vector,      ///< wants (N)
  window_too_large,  ///< kernel larger than the padded input
  groups,            ///< channels are no multiple of the groups
  padding,           ///< a pool's padding exceeds half of its kernel
  concat_shapes,     ///< branches differ in height or width
  residual_shapes,   ///< body and shortcut differ in shape
  channels,          ///< a shortcut that would drop channels
};

/// What a rewrite of a graph must know a layer to be.
enum class LayerKind : std::uint8_t { other, batch_norm, relu, flatten, pool, pointwise };

/// A layer: `static constexpr std::string_view name` and `static constexpr Shape output(Shape in)`.
/// It may add `parameters(in)`, `macs(in)`, `fault(in)`, `is_view` (y is x under another shape),
/// and `kind`.
template <class L>
concept Layer = requires(Shape in) {
  { L::name } -> std::convertible_to<std::string_view>;
  { L::output(in) } -> std::same_as<Shape>;
};

template <class L>
constexpr Parameters parameters_of(Shape in) {
  if constexpr (requires { L::parameters(in); }) {
    return L::parameters(in);
  } else {
    return {};
  }
}

/// Multiply-accumulates of one sample's forward pass; 0 where the layer does not say.
template <class L>
constexpr std::int64_t macs_of(Shape in) {
  if constexpr (requires { L::macs(in); }) {
    return L::macs(in);
  } else {
    return 0;
  }
}

template <class L>
constexpr Fault fault_of(Shape in) {
  if constexpr (requires { L::fault(in); }) {
    if (L::fault(in) != Fault::none) {
      return L::fault(in);
    }
  }
  return L::output(in).valid() ? Fault::none : Fault::rejected;
}

template <class L>
constexpr LayerKind kind_of() {
  if constexpr (requires { L::kind; }) {
    return L::kind;
  } else {
    return LayerKind::other;
  }
}

template <class L>
inline constexpr bool is_view = [] {
  if constexpr (requires { L::is_view; }) {
    return bool{L::is_view};
  } else {
    return false;
  }
}();

}  // namespace tandem

namespace tandem {

/// `send` and `receive` stand in the graph of one device, where a tensor leaves for another or
/// comes from there.
enum class NodeKind : std::uint8_t { input, layer, concat, add, send, receive };

/// Where a node stands in the network as the user wrote it: "3", "2.0.1", "4.body.0".
struct Path {
  static constexpr int body = -1;
  static constexpr int shortcut = -2;
  static constexpr int most = 12;
  int depth = 0;
  std::int16_t part[most] = {};

  constexpr void push(int index) {
    expects(depth < most, "a network may be nested at most 12 deep");
    part[depth++] = static_cast<std::int16_t>(index);
  }
  constexpr void pop() { --depth; }
};

/// One node: the input, one layer, the join of a Concat (concat) or of a Residual (add), or an end
/// of a transfer.
struct Node {
  NodeKind kind = NodeKind::input;
  LayerKind layer = LayerKind::other;
  bool frozen = false;          ///< its parameters are constants
  bool needs_gradient = false;  ///< something at or before it is trained
  bool view = false;            ///< output is the input's memory under another shape
  bool relu = false;            ///< the op also applies the ReLU that follows (a rewrite)
  bool merged = false;          ///< the op of `home` computes it, together with its own (a rewrite)
  bool placed = false;          ///< its inputs are written where it has its output (a rewrite)
  bool normalizes = false;      ///< uses statistics of the microbatch, so one value is too few
  bool synchronizes = false;    ///< the statistics are those of all replicas' microbatches together
  int leaf = -1;                ///< which layer type, in the order of the leaves
  int origin = 0;               ///< index of the node in the network's graph
  int stage = 0;                ///< whose pass it is part of
  int peer = -1;                ///< of a transfer: the stage at its other end
  int top = 0;                  ///< index of its top-level part, what Split counts
  int first_edge = 0;           ///< its inputs are edges [first_edge, first_edge + edges)
  int edges = 0;
  int first_parameter = 0;
  int parameters = 0;
  int home = -1;          ///< whose memory the output is a slice of; -1: its own (a rewrite)
  int first_channel = 0;  ///< of that slice
  int width = 0;          ///< channels of its own memory, where they are more than out's
  Shape in{};             ///< of the first input
  Shape out{};
  std::int64_t macs = 0;  ///< of one sample's forward pass
  std::string_view name{};
  Path path{};

  /// Whether it has an op.
  [[nodiscard]] constexpr bool computes() const { return !is_end() && !view && !merged && !placed; }
  /// Whether nothing is computed because the tensor comes from elsewhere, or goes there.
  [[nodiscard]] constexpr bool is_end() const {
    return kind == NodeKind::input || kind == NodeKind::send || kind == NodeKind::receive;
  }
};

/// A parameter, the node it belongs to, and whether it is trained.
struct GraphParameter {
  Parameter parameter{};
  int node = 0;
  bool frozen = false;
  int origin = 0;  ///< index of the parameter in the network's graph
};

/// Sizes of a Graph.
struct GraphSize {
  int nodes = 0;
  int edges = 0;
  int parameters = 0;
};

/// A network's dataflow graph, or that of the part of it that one device has. In a network's, node
/// 0 is the input and the last node gives the output.
template <GraphSize Size>
struct Graph {
  static constexpr GraphSize size = Size;
  static constexpr int nodes = Size.nodes;
  static constexpr int edges = Size.edges;
  static constexpr int parameters = Size.parameters;

  Node node[Size.nodes] = {};
  int source[Size.edges > 0 ? Size.edges : 1] =
      {};  ///< of an edge: the node whose output it carries
  int edge_origin[Size.edges > 0 ? Size.edges : 1] = {};  ///< its index in the network's graph
  GraphParameter parameter[Size.parameters > 0 ? Size.parameters : 1] = {};
  int tops = 0;                 ///< top-level parts
  int result = Size.nodes - 1;  ///< the node that gives the network's output; -1: not here
  Fault fault = Fault::none;
  int fault_node = 0;
  int fault_a = 0;  ///< the numbers at fault, by the kind of fault
  int fault_b = 0;

  [[nodiscard]] constexpr Node const& output() const { return node[result]; }

  /// Elements of all weights (statistics are not counted).
  [[nodiscard]] constexpr std::int64_t parameter_elements() const {
    std::int64_t sum = 0;
    for (int p = 0; p < parameters; ++p) {
      sum +=
          parameter[p].parameter.role == Role::weight ? parameter[p].parameter.shape.elements() : 0;
    }
    return sum;
  }

  /// Multiply-accumulates of one sample's forward pass.
  [[nodiscard]] constexpr std::int64_t macs() const {
    std::int64_t sum = 0;
    for (int n = 0; n < nodes; ++n) {
      sum += node[n].macs;
    }
    return sum;
  }

  /// Elements of all the nodes' outputs for one sample; views count once.
  [[nodiscard]] constexpr std::int64_t activation_elements() const {
    std::int64_t sum = 0;
    for (int n = 1; n < nodes; ++n) {
      sum += node[n].view ? 0 : node[n].out.elements();
    }
    return sum;
  }

  [[nodiscard]] constexpr std::int64_t activation_bytes(std::int64_t element_bytes = 4) const {
    return activation_elements() * element_bytes;
  }
};

/// Whether backward calls the op of node @p n for the gradient of its inputs. Sums and views pass
/// theirs on in place; below the first trained layer none is wanted.
template <GraphSize Size>
constexpr bool gives_input_gradient(Graph<Size> const& graph, int n) {
  Node const& node = graph.node[n];
  bool wanted = false;
  for (int e = 0; e < node.edges; ++e) {
    wanted = wanted || graph.node[graph.source[node.first_edge + e]].needs_gradient;
  }
  return wanted && node.kind != NodeKind::add && node.computes();
}

/// The node whose memory has the output of @p n: through views, and the homes of slices.
template <GraphSize Size>
constexpr int root_of(Graph<Size> const& graph, int n) {
  for (;;) {
    Node const& node = graph.node[n];
    if (node.home < 0 && !node.view) {
      return n;
    }
    n = node.home >= 0 ? node.home : graph.source[node.first_edge];
  }
}

/// Where in the pixels of that memory the output of @p n begins.
template <GraphSize Size>
constexpr int first_channel_of(Graph<Size> const& graph, int n) {
  int first = 0;
  for (;;) {
    Node const& node = graph.node[n];
    if (node.home < 0 && !node.view) {
      return first;
    }
    first += node.first_channel;
    n = node.home >= 0 ? node.home : graph.source[node.first_edge];
  }
}

/// Channels of a pixel of that memory.
template <GraphSize Size>
constexpr int stored_channels(Graph<Size> const& graph, int n) {
  Node const& root = graph.node[root_of(graph, n)];
  return root.width > 0 ? root.width : root.out[0];
}

/// "2.0.1", "4.body.0"; "" for the input.
inline std::string to_string(Path const& path) {
  std::string text;
  for (int i = 0; i < path.depth; ++i) {
    text += i > 0 ? "." : "";
    text += path.part[i] == Path::body       ? "body"
            : path.part[i] == Path::shortcut ? "shortcut"
                                             : std::to_string(path.part[i]);
  }
  return text;
}

/// The name of parameter @p p in checkpoints and in parameter groups: "2.0.1.weight".
template <GraphSize Size>
std::string parameter_name(Graph<Size> const& graph, int p) {
  GraphParameter const& parameter = graph.parameter[p];
  std::string const path = to_string(graph.node[parameter.node].path);
  return (path.empty() ? path : path + ".") + parameter.parameter.name;
}

}  // namespace tandem

namespace tandem {

/// A parameter, its gradient of the last step, and its optimizer states, by name.
template <class T>
struct NamedParameter {
  std::string name;
  int index = 0;  ///< in the network's order
  Shape shape{};
  Role role = Role::weight;
  bool frozen = false;
  std::span<T> value{};
  std::span<T> gradient{};             ///< empty where frozen
  std::vector<std::span<T>> states{};  ///< empty where frozen, and for statistics
};

/// All parameters of a rank's mirror, in the order of its device's graph.
template <class Program, class Mirror>
auto named_parameters(Mirror& mirror, int states) {
  using T = typename Mirror::T;
  std::vector<NamedParameter<T>> list;
  for (int p = 0; p < Program::graph.parameters; ++p) {
    GraphParameter const& own = Program::graph.parameter[p];
    auto const count = static_cast<std::size_t>(own.parameter.shape.elements());
    std::int64_t const at = Program::layout.offset[p];
    NamedParameter<T> named{.name = parameter_name(Program::graph, p),
                            .index = own.origin,
                            .shape = own.parameter.shape,
                            .role = own.parameter.role,
                            .frozen = own.frozen,
                            .value = {mirror.parameters() + at, count}};
    if (!own.frozen) {
      named.gradient = {mirror.gradients() + at, count};
      for (int s = 0; named.role == Role::weight && s < states; ++s) {
        named.states.emplace_back(mirror.state(s) + at, count);
      }
    }
    list.push_back(std::move(named));
  }
  return list;
}

}  // namespace tandem

// ---- tandem/engine/rank_options.hpp

/// @file
/// RankOptions: what a rank is made for; Watch: what it calls while it waits.

// ---- tandem/optim/optimizer.hpp

/// @file
/// Sgd, Adam, AdamW: settings as values, and the element-wise functors that every backend runs.
///
/// A functor updates element i of one flat run of parameters; backends call it for every i, or its
/// next() for several elements at once, and may construct it on the device. The arithmetic and its
/// order are PyTorch's.

namespace tandem {

/// Stochastic gradient descent with heavy-ball or Nesterov momentum and L2 weight decay.
///
/// g += weight_decay p; v = momentum v + g; p -= learning_rate (nesterov ? g + momentum v : v).
struct Sgd {
  float learning_rate = 0.01F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  bool nesterov = false;

  [[nodiscard]] constexpr int states() const { return momentum != 0.0F ? 1 : 0; }
  static constexpr char const* state_name(int /*state*/) { return "momentum_buffer"; }
};

/// Adam with L2 weight decay. Source: Kingma, Ba, arXiv:1412.6980.
struct Adam {
  float learning_rate = 0.001F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;

  [[nodiscard]] static constexpr int states() { return 2; }
  static constexpr char const* state_name(int state) {
    return state == 0 ? "exp_avg" : "exp_avg_sq";
  }
};

/// Adam with decoupled weight decay. Source: Loshchilov, Hutter, arXiv:1711.05101.
struct AdamW {
  float learning_rate = 0.001F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;

  [[nodiscard]] static constexpr int states() { return 2; }
  static constexpr char const* state_name(int state) { return Adam::state_name(state); }
};

using Optimizer = std::variant<Sgd, Adam, AdamW>;

/// "Sgd", "Adam" or "AdamW".
inline std::string optimizer_name(Optimizer const& optimizer) {
  static constexpr char const* names[] = {"Sgd", "Adam", "AdamW"};
  return names[optimizer.index()];
}

template <class = void>  // compiled where it is called, not by every include
double learning_rate_of(Optimizer const& optimizer) {
  return std::visit([](auto const& o) { return double{o.learning_rate}; }, optimizer);
}

/// Arrays of the parameters' size that the optimizer keeps between steps.
template <class = void>
int states_of(Optimizer const& optimizer) {
  return std::visit([](auto const& o) { return o.states(); }, optimizer);
}

/// Their names, as PyTorch's: "momentum_buffer"; "exp_avg", "exp_avg_sq".
template <class = void>
std::vector<std::string> state_names(Optimizer const& optimizer) {
  return std::visit(
      [](auto const& o) {
        std::vector<std::string> names;
        for (int s = 0; s < o.states(); ++s) {
          names.emplace_back(o.state_name(s));
        }
        return names;
      },
      optimizer);
}

/// One flat run of parameters with its gradients and optimizer states.
template <class T>
struct ParameterRun {
  T* parameter = nullptr;
  T const* gradient = nullptr;
  T* state[2] = {};
};

/// What changes from step to step and from group to group.
struct UpdateSettings {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  double gradient_scale = 1.0;  ///< of clipping
  std::int64_t step = 1;        ///< counted from 1
};

namespace detail {

/// Element @p i of @p run becomes what update.next() says of it.
template <class Update, class T>
TANDEM_HOST_DEVICE void update_element(Update const& update, ParameterRun<T> const& run,
                                       std::int64_t i) {
  T state[2] = {run.state[0] != nullptr ? run.state[0][i] : T{0},
                run.state[1] != nullptr ? run.state[1][i] : T{0}};
  run.parameter[i] = update.next(run.parameter[i], run.gradient[i], state);
  for (int s = 0; s < 2; ++s) {
    if (run.state[s] != nullptr) {
      run.state[s][i] = state[s];
    }
  }
}

}  // namespace detail

/// The functors below have next(p, g, state): the parameter after a step with gradient g, which
/// also moves the element's optimizer states; and operator()(i), which does so to element i.
template <class T>
struct SgdUpdate {
  ParameterRun<T> run;
  T learning_rate, momentum, weight_decay, scale;
  bool nesterov;

  TANDEM_HOST_DEVICE SgdUpdate(Sgd const& o, UpdateSettings const& s, ParameterRun<T> r)
      : run{r},
        learning_rate{static_cast<T>(s.learning_rate)},
        momentum{static_cast<T>(o.momentum)},
        weight_decay{static_cast<T>(s.weight_decay)},
        scale{static_cast<T>(s.gradient_scale)},
        nesterov{o.nesterov} {}

  TANDEM_HOST_DEVICE T next(T p, T gradient, T (&state)[2]) const {
    T g = gradient * scale + weight_decay * p;
    if (run.state[0] != nullptr) {
      T const v = momentum * state[0] + g;
      state[0] = v;
      g = nesterov ? g + momentum * v : v;
    }
    return p - learning_rate * g;
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

template <class T>
struct AdamUpdate {
  ParameterRun<T> run;
  T step_size, beta1, beta2, epsilon, root_correction, l2, shrink, scale;

  template <class O>
  TANDEM_HOST_DEVICE AdamUpdate(O const& o, UpdateSettings const& s, ParameterRun<T> r,
                                bool decoupled)
      : run{r},
        step_size{static_cast<T>(s.learning_rate /
                                 (1.0 - std::pow(double{o.beta1}, static_cast<double>(s.step))))},
        beta1{static_cast<T>(o.beta1)},
        beta2{static_cast<T>(o.beta2)},
        epsilon{static_cast<T>(o.epsilon)},
        root_correction{static_cast<T>(
            1.0 / std::sqrt(1.0 - std::pow(double{o.beta2}, static_cast<double>(s.step))))},
        l2{decoupled ? T{0} : static_cast<T>(s.weight_decay)},
        shrink{decoupled ? static_cast<T>(1.0 - s.learning_rate * s.weight_decay) : T{1}},
        scale{static_cast<T>(s.gradient_scale)} {}

  TANDEM_HOST_DEVICE T next(T before, T gradient, T (&state)[2]) const {
    T const p = before * shrink;
    T const g = gradient * scale + l2 * p;
    T const m = beta1 * state[0] + (T{1} - beta1) * g;
    T const v = beta2 * state[1] + (T{1} - beta2) * g * g;
    state[0] = m;
    state[1] = v;
    using std::sqrt;
    return p - step_size * m / (sqrt(v) * root_correction + epsilon);
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

/// A statistic's running average: p = (1 - rate) p + rate (average over the step's microbatches).
template <class T>
struct AverageUpdate {
  ParameterRun<T> run;
  T rate;

  TANDEM_HOST_DEVICE T next(T p, T average, T (&/*state*/)[2]) const {
    return (T{1} - rate) * p + rate * average;
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

template <class T>
TANDEM_HOST_DEVICE SgdUpdate<T> make_update(Sgd const& o, UpdateSettings const& s,
                                            ParameterRun<T> run) {
  return {o, s, run};
}
template <class T>
TANDEM_HOST_DEVICE AdamUpdate<T> make_update(Adam const& o, UpdateSettings const& s,
                                             ParameterRun<T> run) {
  return {o, s, run, false};
}
template <class T>
TANDEM_HOST_DEVICE AdamUpdate<T> make_update(AdamW const& o, UpdateSettings const& s,
                                             ParameterRun<T> run) {
  return {o, s, run, true};
}

}  // namespace tandem

// ---- tandem/optim/parameter_group.hpp

/// @file
/// ParameterGroup: other settings for the parameters whose names match a pattern.

// ---- tandem/strategy/parameter_layout.hpp

/// @file
/// ParameterLayout: where each parameter stands in the flat arrays of values, gradients and
/// optimizer state, and which runs of it are reduced together.
///
/// Trained parameters come first, in the order in which the backward pass finishes their gradients,
/// so that a bucket is one contiguous run and nothing is copied. Frozen ones come last and have no
/// gradient. Cost: one walk over the nodes, at compile time.

namespace tandem {

/// Every parameter starts at a multiple of this many elements; the gaps stay zero.
inline constexpr int parameter_alignment = 16;

template <int Nodes, int Parameters>
struct ParameterLayout {
  std::int64_t offset[Parameters > 0 ? Parameters : 1] =
      {};                     ///< of a graph's parameter, in elements
  std::int64_t trained = 0;   ///< elements that have a gradient, gaps included
  std::int64_t elements = 0;  ///< all of them
  int buckets = 0;
  std::int64_t bucket_begin[Nodes + 1] =
      {};                           ///< bucket b is [bucket_begin[b], bucket_begin[b + 1])
  int bucket_stage[Nodes] = {};     ///< whose parameters the bucket has: of one stage only
  std::int16_t closes[Nodes] = {};  ///< bucket that is whole after this node's backward, or -1
};

/// @param first, rest  a bucket closes when it has at least so many bytes: the first of a stage,
/// its
///                     others
template <GraphSize Size>
constexpr auto lay_out_parameters(Graph<Size> const& graph, std::int64_t element_bytes,
                                  std::int64_t first, std::int64_t rest) {
  ParameterLayout<Size.nodes, Size.parameters> layout;
  auto const place = [&](int p) {
    layout.offset[p] = layout.elements;
    std::int64_t const elements = graph.parameter[p].parameter.shape.elements();
    layout.elements +=
        (elements + parameter_alignment - 1) / parameter_alignment * parameter_alignment;
  };
  int last_trained = -1;
  auto const close = [&](int n) {
    layout.closes[n] = static_cast<std::int16_t>(layout.buckets);
    layout.bucket_stage[layout.buckets++] = graph.node[n].stage;
    layout.bucket_begin[layout.buckets] = layout.elements;
  };
  auto const is_open = [&] { return layout.elements > layout.bucket_begin[layout.buckets]; };
  int whole = Size.nodes;  // the node from which on the gradients placed so far are all there
  for (int n = Size.nodes - 1; n >= 0; --n) {
    Node const& node = graph.node[n];
    layout.closes[n] = -1;
    if (node.parameters == 0 || node.frozen) {
      continue;
    }
    if (is_open() && graph.node[last_trained].stage != node.stage) {
      close(last_trained);
    }
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      place(p);
    }
    last_trained = n;
    whole = node.merged && node.home < whole ? node.home : whole;
    std::int64_t const bytes =
        (layout.elements - layout.bucket_begin[layout.buckets]) * element_bytes;
    bool const is_first =
        layout.buckets == 0 || layout.bucket_stage[layout.buckets - 1] != node.stage;
    if (n <= whole && bytes >= (is_first ? first : rest)) {
      close(n);
    }
  }
  if (is_open()) {  // what is left
    close(last_trained);
  }
  layout.trained = layout.elements;
  for (int p = 0; p < Size.parameters; ++p) {
    if (graph.parameter[p].frozen) {
      place(p);
    }
  }
  return layout;
}

}  // namespace tandem

namespace tandem {

/// Settings for the parameters whose names match `pattern`, in which '*' stands for any characters:
/// {"*.bias", .weight_decay = 0}. Where several groups match, the last one counts.
struct ParameterGroup {
  std::string pattern;
  float learning_rate_scale = 1.0F;
  std::optional<float> weight_decay = std::nullopt;  ///< instead of the optimizer's
  bool frozen =
      false;  ///< keeps its value; Frozen<…> in the network also saves the gradient's work
};

/// A run of neighbouring parameters that are updated alike.
struct UpdateRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int origin = 0;       ///< of the first one: its index in the network's graph
  bool counted = true;  ///< in the norm of the gradient: of a stage's copies only the first is
  Role role = Role::weight;
  float rate = 0.0F;  ///< of a statistic
  float learning_rate_scale = 1.0F;
  std::optional<float> weight_decay = std::nullopt;
  bool frozen = false;

  [[nodiscard]] bool alike(UpdateRun const& other) const {
    return role == other.role && rate == other.rate &&
           learning_rate_scale == other.learning_rate_scale && weight_decay == other.weight_decay &&
           frozen == other.frozen;
  }
};

namespace detail {

/// Whether @p name matches @p pattern, '*' standing for any run of characters.
constexpr bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace detail

/// A pattern that matches nothing is a mistake.
/// @throws ContractError  a pattern matches no parameter of the network
template <GraphSize Size>
void check_groups(Graph<Size> const& graph, std::vector<ParameterGroup> const& groups) {
  for (ParameterGroup const& group : groups) {
    bool used = false;
    for (int p = 0; p < Size.parameters && !used; ++p) {
      used = !graph.parameter[p].frozen && detail::matches(group.pattern, parameter_name(graph, p));
    }
    if (!used) {
      throw ContractError{"parameter group '" + group.pattern +
                          "' matches no trained parameter; names look like '0.weight'"};
    }
  }
}

/// The trained parameters of a device as runs, one each, in the order of its layout.
/// @param parts  of the model: stages from there on are copies of others
template <GraphSize Size>
std::vector<UpdateRun> parameter_runs(Graph<Size> const& graph,
                                      ParameterLayout<Size.nodes, Size.parameters> const& layout,
                                      std::vector<ParameterGroup> const& groups, int parts) {
  std::vector<UpdateRun> runs;
  for (int n = Size.nodes - 1; n >= 0; --n) {  // the layout's order
    Node const& node = graph.node[n];
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      if (graph.parameter[p].frozen) {
        continue;
      }
      Parameter const& parameter = graph.parameter[p].parameter;
      UpdateRun run{.begin = layout.offset[p],
                    .end = layout.offset[p] + parameter.shape.elements(),
                    .origin = graph.parameter[p].origin,
                    .counted = node.stage < parts,
                    .role = parameter.role,
                    .rate = parameter.rate};
      std::string const name = parameter_name(graph, p);
      for (ParameterGroup const& group : groups) {
        if (detail::matches(group.pattern, name)) {
          run.learning_rate_scale = group.learning_rate_scale;
          run.weight_decay = group.weight_decay;
          run.frozen = group.frozen;
        }
      }
      runs.push_back(run);
    }
  }
  return runs;
}

/// Neighbours with like settings become one.
template <class = void>  // compiled where it is called, not by every include
std::vector<UpdateRun> merged(std::vector<UpdateRun> const& parameters) {
  std::vector<UpdateRun> runs;
  for (UpdateRun const& run : parameters) {
    if (!runs.empty() && runs.back().alike(run)) {
      runs.back().end = run.end;
    } else {
      runs.push_back(run);
    }
  }
  return runs;
}

}  // namespace tandem

// ---- tandem/runtime/device_spec.hpp

/// @file
/// DeviceSpec: which device of the machine a rank gets.

namespace tandem {

struct DeviceSpec {
  int threads = 1;  ///< of a CPU device
  int ordinal = 0;  ///< of a GPU
};

}  // namespace tandem

// ---- tandem/strategy/action_table.hpp

/// @file
/// ActionTable: the rows of all devices of a model replica, as a constexpr value or, as
/// std::vector<std::vector<Action>>, one that was read from a file.

// ---- tandem/strategy/action.hpp

/// @file
/// Action: one entry of a rank's program, in the grammar of PyTorch's pipelining schedules.
///
/// "0F3" is the forward pass of stage 0 on microbatch 3, "0B3" its whole backward pass, "0I3" and
/// "0W3" the input gradient and the weight gradient apart; "2SEND_F1" sends what stage 2 made of
/// microbatch 1, "2RECV_B1" receives the gradient of that. "0REDUCE_GRAD1" awaits bucket 1 of the
/// stage's gradients, "0REDUCE_LOSS" the losses, "0U" is the update. Every action has a name, so
/// that an error can say which one was not reached.

namespace tandem {

enum class ActionKind : std::uint8_t {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  reduce_gradient,
  reduce_loss,
  reduce_norm,
  update,
  end,  ///< stands behind a row, so that a rank need not count
};

/// What a rank does next; `index` is the replica's microbatch, or the bucket of a reduction.
/// Eight bytes without a gap, so that a rank reports one with a single store.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::uint8_t version = 0;  ///< of the weights, 0 in synchronous strategies
  std::int16_t stage = 0;
  std::int32_t index = 0;

  friend constexpr bool operator==(Action const&, Action const&) = default;
};

/// How an action is written, and whether a number stands behind it.
struct ActionName {
  char const* text;
  bool numbered;
};

constexpr ActionName name_of(ActionKind kind) {
  constexpr ActionName names[] = {{"F", true},
                                  {"B", true},
                                  {"I", true},
                                  {"W", true},
                                  {"SEND_F", true},
                                  {"RECV_F", true},
                                  {"SEND_B", true},
                                  {"RECV_B", true},
                                  {"REDUCE_GRAD", true},
                                  {"REDUCE_LOSS", false},
                                  {"REDUCE_NORM", false},
                                  {"U", false},
                                  {"END", false}};
  return names[static_cast<int>(kind)];
}

/// "0F3", "0REDUCE_GRAD1", "0U".
inline std::string to_string(Action const& action) {
  ActionName const name = name_of(action.kind);
  return std::to_string(action.stage) + name.text +
         (name.numbered ? std::to_string(action.index) : std::string{});
}

/// An action in one word, for a progress board that other threads read.
constexpr std::uint64_t pack(Action const& action) { return std::bit_cast<std::uint64_t>(action); }

constexpr Action unpack_action(std::uint64_t word) { return std::bit_cast<Action>(word); }

}  // namespace tandem

namespace tandem {

/// Rows of at most @p Length actions, one a device.
template <int Devices, int Length>
struct ActionTable {
  static constexpr int devices = Devices;
  int length[Devices] = {};
  Action action[Devices][Length > 0 ? Length : 1] = {};

  constexpr void add(int device, Action a) { action[device][length[device]++] = a; }
};

/// What an algorithm reads of either form.
struct ActionSpan {
  Action const* data = nullptr;
  int size = 0;

  constexpr Action const& operator[](int i) const { return data[i]; }
  [[nodiscard]] constexpr Action const* begin() const { return data; }
  [[nodiscard]] constexpr Action const* end() const { return data + size; }
};

template <int Devices, int Length>
constexpr ActionSpan row_of(ActionTable<Devices, Length> const& table, int device) {
  return {table.action[device], table.length[device]};
}
template <int Devices, int Length>
constexpr int devices_of(ActionTable<Devices, Length> const&) {
  return Devices;
}

using ActionRows = std::vector<std::vector<Action>>;

inline ActionSpan row_of(ActionRows const& table, int device) {
  auto const& row = table[static_cast<std::size_t>(device)];
  return {row.data(), static_cast<int>(row.size())};
}
inline int devices_of(ActionRows const& table) { return static_cast<int>(table.size()); }

}  // namespace tandem

namespace tandem {

/// What a rank is made for.
struct RankOptions {
  int rank = 0;
  int largest_microbatch = 1;
  DeviceSpec device{};
  Optimizer optimizer{};
  std::vector<ParameterGroup> groups{};
  /// Rows of passes and messages that were imported, and their microbatches; null: the strategy's.
  ActionRows const* rows = nullptr;
  int microbatches = 0;
  bool record = true;  ///< on a GPU: record a step as a graph and replay it
};

/// Whether a communicator's calls can be recorded: not if the host takes part in them.
template <class C>
inline constexpr bool is_capturable = [] {
  if constexpr (requires { C::capturable; }) {
    return bool{C::capturable};
  } else {
    return false;
  }
}();

/// How the host waits for a device that works on its own: for so long, and looking after the other
/// ranks meanwhile.
struct Watch {
  using Duration = std::chrono::steady_clock::duration;
  /// Called again and again; throws when the wait is in vain. Null: nobody to look after.
  void (*look)(void* context, int rank, Duration waited) = nullptr;
  void* context = nullptr;
  int rank = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes{10};

  /// What a Feed waits with.
  [[nodiscard]] auto waiter() const {
    return [*this](auto& device, auto const& event) {
      // The others' time-out names who is missing; the device's own is for a wait without others.
      device.wait(
          event, [this](Duration waited) { look_after(waited); }, timeout + grace);
      look_after(Duration::zero());  // after an abort the device goes on, with wrong numbers
    };
  }

 private:
  static constexpr std::chrono::milliseconds grace{2000};

  void look_after(Duration waited) const {
    if (look != nullptr) {
      look(context, rank, waited);
    }
  }
};

}  // namespace tandem

// ---- tandem/engine/state.hpp

/// @file
/// StepBatch: the data of one step; StepResult: what it gives back.

// ---- tandem/ops/step_state.hpp

/// @file
/// StepState: all that a step depends on besides parameters and data.

namespace tandem {

/// Small, so that a device can keep it in its own memory and replay a recorded step.
struct StepState {
  std::uint64_t seed = 0;
  std::int64_t step = 0;       ///< counted from 0
  double learning_rate = 0.0;  ///< after the schedule
  double clip_norm = 0.0;      ///< largest global norm of the gradient; 0: no clipping
};

}  // namespace tandem

namespace tandem {

/// One global batch, the same on every rank: each takes its own microbatches of it.
template <class T, class Target>
struct StepBatch {
  T const* x = nullptr;             ///< (size, input)
  Target const* targets = nullptr;  ///< (size, targets a sample); null: predict only
  T* outputs = nullptr;             ///< (size, output), written if not null
  int size = 0;
};

/// Sums over the global batch, the same on every rank.
struct StepResult {
  double loss = 0.0;           ///< mean over the samples
  double metric = 0.0;         ///< mean over the samples
  double gradient_norm = 0.0;  ///< before clipping; 0 where clipping is off
  int non_finite = -1;         ///< first microbatch whose loss is not finite; the update is skipped
  int samples = 0;
};

}  // namespace tandem

// ---- tandem/engine/tracer.hpp

/// @file
/// Tracer: when each action and each collective of one step of a rank began and ended.

namespace tandem {

/// What runs side by side on one rank.
enum class Lane { compute, communication };

/// One bar of a trace, in microseconds since the step began.
struct TraceEvent {
  std::string name{};
  int rank = 0;
  Lane lane = Lane::compute;
  double begin_us = 0.0;
  double end_us = 0.0;
};

/// Sets stamps around what a rank queues; where they are is the device's business, so that a GPU
/// stamps its own streams. Off at first, and then it costs one test a collective.
template <class Device>
class Tracer {
 public:
  using Stamp = typename Device::Stamp;

  [[nodiscard]] bool on() const { return on_; }

  void begin(Device& device) {
    entries_.clear();
    on_ = true;
    device.stamp(origin_.emplace(device.make_stamp()));
  }

  template <class F>
  void action(Device& device, Action action, F const& f) {
    Entry& entry = open(device, to_string(action), Lane::compute);
    device.stamp(entry.begin);
    f();
    device.stamp(entry.end);
  }

  template <class F>
  void collective(Device& device, Label label, F const& f) {
    on_stream(device, device.communication, label, f);
  }

  /// The same for what @p f queues on a stream of communication.
  template <class Stream, class F>
  void on_stream(Device& device, Stream& stream, Label label, F const& f) {
    if (!on_) {
      f();
      return;
    }
    Entry& entry = open(device, to_string(label), Lane::communication);
    device.stamp_on(stream, entry.begin);
    f();
    device.stamp_on(stream, entry.end);
  }

  /// Turns it off again; what has been stamped stays for events().
  void end() { on_ = false; }

  /// @pre everything that was queued is done
  std::vector<TraceEvent> events(Device& device, int rank) {
    std::vector<TraceEvent> events;
    for (Entry const& entry : entries_) {
      events.push_back({.name = entry.name,
                        .rank = rank,
                        .lane = entry.lane,
                        .begin_us = device.microseconds(*origin_, entry.begin),
                        .end_us = device.microseconds(*origin_, entry.end)});
    }
    entries_.clear();
    return events;
  }

 private:
  struct Entry {
    std::string name;
    Lane lane;
    Stamp begin;
    Stamp end;
  };

  Entry& open(Device& device, std::string name, Lane lane) {
    entries_.push_back({std::move(name), lane, device.make_stamp(), device.make_stamp()});
    return entries_.back();
  }

  bool on_ = false;
  std::optional<Stamp> origin_;
  std::deque<Entry> entries_;  // stamps keep their addresses
};

}  // namespace tandem

namespace tandem {

/// @tparam P  of parameters and of the data that the caller passes
template <class P, class Target>
class RankInterface {
 public:
  using Batch = StepBatch<P, Target>;

  RankInterface() = default;
  RankInterface(RankInterface const&) = delete;
  RankInterface& operator=(RankInterface const&) = delete;
  virtual ~RankInterface() = default;

  /// One training step on @p batch, without its result: at most steps_in_flight may wait.
  virtual void queue_training(StepState const& state, Batch const& batch) = 0;
  /// A step that is walked; once it is collected, traced() says when each action began and ended.
  virtual void queue_traced(StepState const& state, Batch const& batch) = 0;
  /// The result of the oldest step that was queued, the same on every rank. If a loss was not
  /// finite, the steps behind it are dropped: they have changed nothing.
  virtual StepResult collect() = 0;
  /// Forward only, in evaluation mode: losses if the batch has targets, outputs if it wants them.
  virtual StepResult forward(StepState const& state, Batch const& batch) = 0;
  virtual std::vector<TraceEvent> traced() = 0;

  /// The rank's parameters where the calling program can read and write them, and their indices in
  /// the network; download() first, and upload() after writing.
  virtual std::vector<NamedParameter<P>> parameters() = 0;
  virtual void download() = 0;
  virtual void upload() = 0;

  /// What is allocated for tensors on the rank's device.
  [[nodiscard]] virtual MemoryReport memory_report() const = 0;
  /// Lets another rank's device, of this process, reach this one's memory.
  virtual void share_with(DeviceSpec const& other) = 0;
  /// Where the rank says which action it is at, for other threads' error messages.
  virtual void report_progress_to(std::atomic<std::uint64_t>* board) = 0;
  /// What to call while the host waits for the device.
  virtual void watch_with(Watch watch) = 0;
  /// After an error: nothing queued reads or writes memory any more.
  virtual void settle() = 0;
};

}  // namespace tandem

// ---- tandem/engine/rank_passes.hpp

/// @file
/// RankPasses: what the passes and messages of a rank do; Rank runs them in the order of its row.

// ---- tandem/engine/feed.hpp

/// @file
/// Feed: how the data and the state of a step reach a device, and how its results come back.

// ---- tandem/engine/microbatches.hpp

/// @file
/// RankMicrobatches: which samples of the global batch each microbatch of a rank has.

// ---- tandem/strategy/split.hpp

/// @file
/// split: sizes of the microbatches of a global batch, the last uneven one included.

namespace tandem {

/// Part @p part of @p total cut into @p parts alike: ceil((i+1) t/p) - ceil(i t/p).
///
/// Sizes differ by one at most, and so do the sums of equal runs of them: 10 samples in 4
/// microbatches are 3, 2, 3, 2, hence 5 and 5 for two replicas of two.
constexpr int even_part(int total, int part, int parts) {
  auto const before = [&](std::int64_t i) {
    return static_cast<int>((i * total + parts - 1) / parts);
  };
  return before(part + 1) - before(part);
}

/// Shard @p shard of @p total in proportion to the weights: floors first, then what is left goes to
/// the largest remainders, the lower rank among equals. Cost: O(shards²).
constexpr int weighted_part(int total, int shard, Batching const& batching) {
  std::int64_t weights = 0;
  for (int s = 0; s < batching.shards; ++s) {
    weights += batching.weight[s];
  }
  auto const quota = [&](int s) { return std::int64_t{total} * batching.weight[s]; };
  std::int64_t left = total;
  for (int s = 0; s < batching.shards; ++s) {
    left -= quota(s) / weights;
  }
  int ahead = 0;  // shards that come before this one in the order of remainders
  for (int s = 0; s < batching.shards; ++s) {
    std::int64_t const theirs = quota(s) % weights;
    std::int64_t const ours = quota(shard) % weights;
    ahead += theirs > ours || (theirs == ours && s < shard) ? 1 : 0;
  }
  return static_cast<int>(quota(shard) / weights) + (ahead < left ? 1 : 0);
}

/// Samples in microbatch @p index (counted over all replicas) of a global batch of @p total.
constexpr int microbatch_size(int total, int index, Batching const& batching) {
  int const all = batching.all_microbatches();
  if (batching.shards == 0) {
    return even_part(total, index, all);
  }
  int const run = all / batching.shards;
  return even_part(weighted_part(total, index / run, batching), index % run, run);
}

/// The largest microbatch of a global batch of @p total: what memory is planned for.
constexpr int largest_microbatch(int total, Batching const& batching) {
  int largest = 0;
  for (int i = 0; i < batching.all_microbatches(); ++i) {
    int const size = microbatch_size(total, i, batching);
    largest = size > largest ? size : largest;
  }
  return largest;
}

}  // namespace tandem

namespace tandem {

/// One of a rank's microbatches.
struct Microbatch {
  int size = 0;       ///< samples
  int first = 0;      ///< position of its first sample in the global batch
  int finishes = -1;  ///< the leaf, of those of its copy of the model, whose last it is
  bool adds = false;  ///< an earlier one of its leaf has samples, so gradients are added
};

/// The sizes for one global batch size, worked out again only when that changes.
class RankMicrobatches {
 public:
  RankMicrobatches(Batching const& batching, int replica, int copies = 1)
      : batching_{batching},
        replica_{replica},
        copies_{copies},
        leaf_{batching.leaf(copies)},
        own_(static_cast<std::size_t>(batching.microbatches)) {}

  /// Splits a global batch of @p total samples. No allocation.
  void split(int total) {
    if (total == total_) {
      return;
    }
    total_ = total;
    int before = 0;
    int const own = replica_ * batching_.microbatches;
    for (int i = 0; i < own; ++i) {
      before += microbatch_size(total, i, batching_);
    }
    bool adds = false;
    for (int m = 0; m < batching_.microbatches; ++m) {
      int const size = microbatch_size(total, own + m, batching_);
      adds = adds && m % leaf_ != 0;
      int const leaf = m % (batching_.microbatches / copies_) / leaf_;
      own_[static_cast<std::size_t>(m)] = {.size = size,
                                           .first = before,
                                           .finishes = (m + 1) % leaf_ == 0 ? leaf : -1,
                                           .adds = adds};
      adds = adds || size > 0;
      before += size;
    }
  }

  [[nodiscard]] int total() const { return total_; }
  /// The rank's microbatch @p m.
  [[nodiscard]] Microbatch const& operator[](int m) const {
    return own_[static_cast<std::size_t>(m)];
  }
  [[nodiscard]] int size(int m) const { return (*this)[m].size; }
  [[nodiscard]] std::int64_t first(int m) const { return (*this)[m].first; }
  /// The rank's shard of the global batch: samples [begin(), end()).
  [[nodiscard]] std::int64_t begin() const { return own_.front().first; }
  [[nodiscard]] std::int64_t end() const { return own_.back().first + own_.back().size; }
  /// What of the shard the microbatches of one of the model's copies are.
  [[nodiscard]] std::int64_t begin(int copy) const { return (*this)[first_of(copy)].first; }
  [[nodiscard]] std::int64_t end(int copy) const {
    Microbatch const& last = (*this)[first_of(copy + 1) - 1];
    return last.first + last.size;
  }
  /// Its index among the microbatches of all replicas.
  [[nodiscard]] int global(int m) const { return replica_ * batching_.microbatches + m; }

 private:
  [[nodiscard]] int first_of(int copy) const { return copy * (batching_.microbatches / copies_); }

  Batching batching_;
  int replica_;
  int copies_;
  int leaf_;  // in microbatches
  int total_ = -1;
  std::vector<Microbatch> own_;
};

}  // namespace tandem

// ---- tandem/graph/rewrite.hpp

/// @file
/// Rewrites: functions from graph to graph that suit a graph to a backend's kernels.
///
/// They keep every node, its index, its parameters and its edges, so that names, random numbers and
/// buckets are those of the network as the user wrote it; only what a node's op does, and where its
/// output stands, changes.

namespace tandem {

/// Which rewrites a backend wants.
struct Rewrites {
  bool fuse_relu = false;        ///< a ReLU behind a batch norm becomes part of it
  bool channels_last = false;    ///< activations are stored (B, H, W, C)
  bool merge_pointwise = false;  ///< sibling 1x1 convolutions become one; needs channels_last
  bool place_concat = false;     ///< inputs of a Concat are written into it; needs channels_last
};

namespace detail {

/// For each node, how many edges carry its output, and the node that the last of them leads to.
template <GraphSize Size>
struct Readers {
  int count[Size.nodes] = {};
  int last[Size.nodes] = {};

  constexpr explicit Readers(Graph<Size> const& graph) {
    for (int n = 0; n < Size.nodes; ++n) {
      for (int e = 0; e < graph.node[n].edges; ++e) {
        int const source = graph.source[graph.node[n].first_edge + e];
        ++count[source];
        last[source] = n;
      }
    }
  }
};

}  // namespace detail

/// Marks each batch norm whose only reader is a ReLU, which becomes a view of its output.
template <GraphSize Size>
constexpr Graph<Size> fuse_relu(Graph<Size> graph) {
  detail::Readers<Size> const readers{graph};
  for (int n = 1; n < Size.nodes; ++n) {
    int const source = graph.source[graph.node[n].first_edge];
    Node& before = graph.node[source];
    if (graph.node[n].layer == LayerKind::relu && before.layer == LayerKind::batch_norm &&
        readers.count[source] == 1) {
      before.relu = true;
      graph.node[n].view = true;
    }
  }
  return graph;
}

/// Makes each Flatten that would change the order of elements in memory a copy: (H, W, C) is not
/// (C, H, W) where there are several channels and several pixels.
template <GraphSize Size>
constexpr Graph<Size> materialise_flatten(Graph<Size> graph) {
  for (int n = 1; n < Size.nodes; ++n) {
    Node& node = graph.node[n];
    if (node.layer == LayerKind::flatten && node.in.rank == 3 && node.in[0] > 1 &&
        node.in[1] * node.in[2] > 1) {
      node.view = false;
    }
  }
  return graph;
}

/// Makes sibling 1x1 convolutions of one input one: the first computes all, side by side in one
/// wide memory of which each output is a slice. Each may be read by one batch norm only, since that
/// is what reads slices.
/// @param most  convolutions that become one, at most
template <GraphSize Size>
constexpr Graph<Size> merge_pointwise(Graph<Size> graph, int most = 8) {
  detail::Readers<Size> const readers{graph};
  auto const fits = [&](int n) {
    Node const& node = graph.node[n];
    return node.layer == LayerKind::pointwise && node.home < 0 && node.width == 0 &&
           readers.count[n] == 1 && graph.node[readers.last[n]].layer == LayerKind::batch_norm;
  };
  for (int first = 1; first < Size.nodes; ++first) {
    if (!fits(first)) {
      continue;
    }
    Node& leader = graph.node[first];
    int width = leader.out[0];
    int count = 1;
    for (int n = first + 1; n < Size.nodes && count < most; ++n) {
      Node& node = graph.node[n];
      if (fits(n) && graph.source[node.first_edge] == graph.source[leader.first_edge] &&
          node.parameters == leader.parameters && node.frozen == leader.frozen &&
          node.stage == leader.stage) {
        node.merged = true;
        node.home = first;
        node.first_channel = width;
        width += node.out[0];
        ++count;
      }
    }
    leader.width = count > 1 ? width : 0;
  }
  return graph;
}

/// Lets the inputs of each Concat be written into its output, slices of channels, where all of them
/// are read by nobody else and come from ops that can: batch norm, pools, and such Concats.
template <GraphSize Size>
constexpr Graph<Size> place_concat(Graph<Size> graph) {
  detail::Readers<Size> const readers{graph};
  // The node that writes the output of n, or -1.
  auto const writer = [&](int n) {
    for (; graph.node[n].view; n = graph.source[graph.node[n].first_edge]) {
      if (readers.count[n] != 1) {
        return -1;
      }
    }
    Node const& node = graph.node[n];
    bool const writes_slices =
        node.layer == LayerKind::batch_norm || node.layer == LayerKind::pool || node.placed;
    return writes_slices && node.home < 0 && readers.count[n] == 1 ? n : -1;
  };
  for (int n = 1; n < Size.nodes; ++n) {
    Node& join = graph.node[n];
    bool all = join.kind == NodeKind::concat && join.out.rank == 3;
    for (int e = 0; all && e < join.edges; ++e) {
      all = writer(graph.source[join.first_edge + e]) >= 0;
    }
    if (!all) {
      continue;
    }
    join.placed = true;
    int channel = 0;
    for (int e = 0; e < join.edges; ++e) {
      Node& node = graph.node[writer(graph.source[join.first_edge + e])];
      node.home = n;
      node.first_channel = channel;
      channel += node.out[0];
    }
  }
  return graph;
}

/// All that @p rewrites asks for.
template <GraphSize Size>
constexpr Graph<Size> rewrite(Graph<Size> graph, Rewrites rewrites) {
  if (rewrites.fuse_relu) {
    graph = fuse_relu(graph);
  }
  if (rewrites.channels_last) {
    graph = materialise_flatten(graph);
  }
  if (rewrites.merge_pointwise) {
    graph = merge_pointwise(graph);
  }
  if (rewrites.place_concat) {
    graph = place_concat(graph);
  }
  return graph;
}

/// The rewrites of a backend: its member `rewrites`, or none.
template <class Backend>
constexpr Rewrites rewrites_of() {
  if constexpr (requires { Backend::rewrites; }) {
    return Backend::rewrites;
  } else {
    return {};
  }
}

}  // namespace tandem

// ---- tandem/ops/op.hpp

/// @file
/// Op<Layer, Backend>: a layer's passes on a backend, prepared once for one node of a graph.
///
/// An op is an object constructed from an OpSetup. It has forward, input_gradient and (with
/// parameters) weight_gradient, each over one microbatch; it never allocates and never sees a
/// communicator. Gradients of activations are overwritten; the engine adds where a value forks. An
/// op that asks for packed bytes has pack(operands, device), called when parameters have changed.

namespace tandem {

/// The convolutions that one op computes together, side by side in one wide output.
struct MergedOutputs {
  static constexpr int most = 8;
  int count = 1;
  int channels[most] = {};   ///< outputs of each, in the order of their slices
  int parameter[most] = {};  ///< where each one's parameters stand in Operands, from the op's own
};

/// What an op is prepared for.
struct OpSetup {
  Node node{};
  int index = 0;                  ///< of the node in its graph; part of the key of random numbers
  Shape const* inputs = nullptr;  ///< of each input
  int batch = 0;                  ///< samples in the largest microbatch
  int threads = 1;                ///< of its device
  bool wants_input_gradient = true;  ///< input_gradient runs before weight_gradient; else never
  bool reproducible = false;         ///< choose algorithms by shape only, and none whose sums vary
  int x_stride = 0;  ///< channels of the stored pixels that input 0 is a slice of; its own if whole
  int y_stride = 0;  ///< the same of the output
  MergedOutputs merged{};
};

/// The memory that an op wants for a microbatch of OpSetup::batch samples.
struct OpNeeds {
  bool input = false;              ///< backward reads x
  bool output = false;             ///< backward reads y
  bool in_place = false;           ///< y may be any x that is not read again, dx may be dy
  std::int64_t saved_bytes = 0;    ///< kept from forward to backward
  std::int64_t scratch_bytes = 0;  ///< of any one pass, not kept
  std::int64_t packed_bytes = 0;   ///< parameters in a layout of the op's own, kept between steps
};

/// One node's memory for one live microbatch. B is the microbatch's size; T is the type of
/// activations, P that of parameters and of their gradients.
template <class T, class P = T>
struct Operands {
  T const* const* x = nullptr;       ///< each input, (B, its shape)
  T* y = nullptr;                    ///< (B, out)
  T const* dy = nullptr;             ///< gradient of y
  T* const* dx = nullptr;            ///< gradient of each input; null where none is wanted
  P* const* parameter = nullptr;     ///< each parameter, in the layer's order
  T const* const* weight = nullptr;  ///< each parameter rounded to T; itself where T is P
  P* const* gradient = nullptr;      ///< of each parameter; of a statistic: what is averaged
  std::byte* saved = nullptr;
  std::byte* packed = nullptr;
};

/// What a pass over one microbatch may depend on.
template <class Device>
struct Pass {
  Device& device;
  int batch = 0;                     ///< samples in this microbatch
  std::int64_t first_sample = 0;     ///< position of its first sample in the global batch
  double share = 1.0;                ///< its samples over those of the global batch
  StepState const* state = nullptr;  ///< in the device's memory: for its kernels to read
  bool training = true;
  bool accumulate = false;  ///< add to parameter gradients instead of overwriting them
};

namespace detail {

template <class L, class Backend>
inline constexpr bool has_op = false;  // what the primary template's assert depends on

}  // namespace detail

/// The primary template is the error path.
template <class L, class Backend>
struct Op {
  static_assert(detail::has_op<L, Backend>,
                "Op<Layer, Backend>: this layer has no kernels for this backend; give your layer "
                "static forward(call) and input_gradient(call) for Host, or specialise tandem::Op");
};

/// The joins of a graph, which are no layers of the user's.
struct ConcatJoin {};
struct AddJoin {};

/// Border<Backend>: load and store samples where a backend has them otherwise than the user.
template <class Backend>
struct Border;

/// LossOp<Loss, Backend>: the loss of a microbatch and its gradient; the primary is the error path.
template <class L, class Backend>
struct LossOp {
  static_assert(detail::has_op<L, Backend>,
                "LossOp<Loss, Backend>: this loss has no kernels for this backend; give it static "
                "value(output, target) and gradient(output, target, dy), both of one sample");
};

/// MetricOp<Metric, Loss, Backend>: sums a metric over a microbatch; the primary is the error path.
template <class M, class L, class Backend>
struct MetricOp {
  static_assert(
      detail::has_op<M, Backend>,
      "MetricOp<Metric, Loss, Backend>: this metric does not fit this loss's targets, or "
      "has no kernels for this backend; give it static value(output, target) of one sample");
};

}  // namespace tandem

// ---- tandem/ops/verbs.hpp

/// @file
/// Verbs<Backend>: the few operations on flat arrays that the engine itself needs.

// ---- tandem/kernels/channels_last/elementwise.hpp

/// @file
/// Loops over n numbers that have no shape, float or BFloat16: convert, sum, ReLU.
///
/// BFloat16 is computed in float and rounded once.

// ---- tandem/kernels/channels_last/channel_vectors.hpp

/// @file
/// for_vectors: a loop over the channels of a pixel, 16 at a time, whatever their number.

// ---- tandem/kernels/channels_last/vectors.hpp

/// @file
/// Floats: 16 channels of one pixel in a register, read from and written to float or BFloat16.
///
/// Made of the compilers' vector extension: AVX-512 takes one register, a lesser machine several.
/// A struct, passed by reference: without AVX-512 compilers warn of any function that takes or
/// returns a bare vector of this size. All is inlined, so that no such call remains.

namespace tandem::host::channels_last {

namespace detail {

using FloatVector = float __attribute__((vector_size(64)));
using IntVector = int __attribute__((vector_size(64)));
using WordVector = std::uint32_t __attribute__((vector_size(64)));
using HalfVector = std::uint16_t __attribute__((vector_size(32)));

/// result = compare(a, b), -1 or 0 in each lane. Without AVX-512 a part at a time: g++ 12 compares
/// larger vectors than the machine's lane by lane (batch norm's backward took 38 ms, not 5).
template <class Compare>
[[gnu::always_inline]] inline void compare_to(IntVector& result, FloatVector const& a,
                                              FloatVector const& b, Compare const& compare) {
#if defined(__AVX512F__)
  result = compare(a, b);
#else
  using FloatPart = float __attribute__((vector_size(16)));
  using IntPart = int __attribute__((vector_size(16)));
  IntPart part[4];
  FloatPart x[4];
  FloatPart y[4];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  for (int i = 0; i < 4; ++i) {
    part[i] = compare(x[i], y[i]);
  }
  std::memcpy(&result, part, sizeof result);
#endif
}

/// result = @p a where the mask is -1, @p b where it is 0.
[[gnu::always_inline]] inline void select_to(WordVector& result, IntVector const& mask,
                                             WordVector const& a, WordVector const& b) {
#if defined(__AVX512F__)
  result = mask ? a : b;
#else
  result = ((WordVector)mask & a) | (~(WordVector)mask & b);
#endif
}

}  // namespace detail

/// Lanes of a Floats.
inline constexpr int lanes = 16;

/// What a comparison gives: true or false in each lane, for select().
struct Mask {
  detail::IntVector v;  ///< -1 or 0
};

/// 16 floats; starts undefined. Each operator works on all lanes and rounds as float does.
struct Floats {
  detail::FloatVector v;

  Floats() = default;
  /// @p value in every lane.
  [[gnu::always_inline]] explicit Floats(float value) : v{value - detail::FloatVector{}} {}

  [[gnu::always_inline]] friend Floats operator+(Floats const& a, Floats const& b) {
    return of(a.v + b.v);
  }
  [[gnu::always_inline]] friend Floats operator-(Floats const& a, Floats const& b) {
    return of(a.v - b.v);
  }
  [[gnu::always_inline]] friend Floats operator*(Floats const& a, Floats const& b) {
    return of(a.v * b.v);
  }
  [[gnu::always_inline]] Floats& operator+=(Floats const& b) {
    v += b.v;
    return *this;
  }
  [[gnu::always_inline]] friend Mask operator>(Floats const& a, Floats const& b) {
    Mask result;
    detail::compare_to(result.v, a.v, b.v, [](auto const& x, auto const& y) { return x > y; });
    return result;
  }
  [[gnu::always_inline]] friend Mask operator<=(Floats const& a, Floats const& b) {
    Mask result;
    detail::compare_to(result.v, a.v, b.v, [](auto const& x, auto const& y) { return x <= y; });
    return result;
  }
  [[gnu::always_inline]] friend Mask operator==(Floats const& a, Floats const& b) {
    Mask result;
    detail::compare_to(result.v, a.v, b.v, [](auto const& x, auto const& y) { return x == y; });
    return result;
  }

  /// a b + c, in one rounding where the machine can.
  [[gnu::always_inline]] friend Floats multiply_add(Floats const& a, Floats const& b,
                                                    Floats const& c) {
    return of(a.v * b.v + c.v);
  }
  /// @p a where the mask is true, @p b elsewhere.
  [[gnu::always_inline]] friend Floats select(Mask const& mask, Floats const& a, Floats const& b) {
    Floats result;
    detail::WordVector words;
    detail::select_to(words, mask.v, (detail::WordVector)a.v, (detail::WordVector)b.v);
    result.v = (detail::FloatVector)words;
    return result;
  }
  /// The larger of each pair; a NaN in @p a stays, one in @p b is passed over.
  [[gnu::always_inline]] friend Floats max(Floats const& a, Floats const& b) {
    return of(b.v > a.v ? b.v : a.v);
  }
  /// The smaller of each pair; a NaN in @p a stays, one in @p b is passed over.
  [[gnu::always_inline]] friend Floats min(Floats const& a, Floats const& b) {
    return of(b.v < a.v ? b.v : a.v);
  }

 private:
  template <class Vector>
  [[gnu::always_inline]] static Floats of(Vector const& vector) {
    Floats result;
    result.v = vector;
    return result;
  }
};

/// @p value where @p y is positive or a NaN, 0 elsewhere: a ReLU, or its gradient.
[[gnu::always_inline]] inline Floats where_positive(Floats const& y, Floats const& value) {
  return select(y <= Floats{0.0F}, Floats{0.0F}, value);
}

/// p[0] to p[15]; any alignment.
[[gnu::always_inline]] inline Floats load(float const* p) {
  Floats result;
  std::memcpy(&result.v, p, sizeof result.v);
  return result;
}
[[gnu::always_inline]] inline Floats load(BFloat16 const* p) {
  detail::HalfVector halves;
  std::memcpy(&halves, p, sizeof halves);
  Floats result;
#if defined(__AVX512BW__)  // the same numbers; g++ 12 takes five instructions to convert, one here
  result.v = (detail::FloatVector)__builtin_shufflevector(
      detail::HalfVector{}, halves, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24,
      9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#else
  result.v = (detail::FloatVector)(__builtin_convertvector(halves, detail::WordVector) << 16);
#endif
  return result;
}

/// To p[0] to p[15]; any alignment. BFloat16 rounds to nearest, ties to even; a NaN stays one.
[[gnu::always_inline]] inline void store(float* p, Floats const& value) {
  std::memcpy(p, &value.v, sizeof value.v);
}
[[gnu::always_inline]] inline void store(BFloat16* p, Floats const& value) {
#if defined(__AVX512BF16__)  // takes numbers below 2^-126 for 0
  detail::HalfVector halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(value.v));
#else
  auto const words = (detail::WordVector)value.v;
  detail::WordVector const upper = words >> 16;
  detail::WordVector rounded = (words + 0x7FFFU + (upper & 1U)) >> 16;
  detail::select_to(rounded, (value == value).v, rounded, upper | 0x40U);
  auto const halves = __builtin_convertvector(rounded, detail::HalfVector);
#endif
  std::memcpy(static_cast<void*>(p), &halves, sizeof halves);
}

/// p[0] to p[n - 1], and 0 in the other lanes, whose memory is not touched. Slower than load(p):
/// where a pixel has 16 channels or more, rather take its last 16 once more.
/// @pre 0 <= n <= 16
template <class T>
[[gnu::always_inline]] inline Floats load(T const* p, int n) {
  T part[lanes] = {};
  for (int i = 0; i < n; ++i) {
    part[i] = p[i];
  }
  return load(part);
}

/// Lanes 0 to n - 1 to p[0] to p[n - 1]; the memory behind them is not touched.
/// @pre 0 <= n <= 16
template <class T>
[[gnu::always_inline]] inline void store(T* p, Floats const& value, int n) {
  T part[lanes];
  store(part, value);
  for (int i = 0; i < n; ++i) {
    p[i] = part[i];
  }
}

}  // namespace tandem::host::channels_last

namespace tandem::host::channels_last {

/// Every lane is a channel.
struct AllLanes {
  template <class T>
  [[gnu::always_inline]] Floats load(T const* p) const {
    return channels_last::load(p);
  }
  template <class T>
  [[gnu::always_inline]] void store(T* p, Floats const& value) const {
    channels_last::store(p, value);
  }
};

/// The first n lanes are channels; no memory behind them is touched.
struct FirstLanes {
  int n;

  template <class T>
  [[gnu::always_inline]] Floats load(T const* p) const {
    return channels_last::load(p, n);
  }
  template <class T>
  [[gnu::always_inline]] void store(T* p, Floats const& value) const {
    channels_last::store(p, value, n);
  }
};

/// Calls f(c, lanes) so that channels c, c + 1, … of all calls cover [0, channels); lanes loads and
/// stores them. Where 16 do not divide the channels some are covered twice.
///
/// @pre f computes the same values when it is called for a channel again
template <class Function>
[[gnu::always_inline]] inline void for_vectors(int channels, Function const& f) {
  if (channels < lanes) {
    f(0, FirstLanes{channels});
    return;
  }
  for (int c = 0; c < channels; c += lanes) {
    f(c < channels - lanes ? c : channels - lanes, AllLanes{});
  }
}

/// Hints that p[offset] will be read soon; it may be no memory of anybody's. Where a loop stays at
/// a pixel for a while the processor does not see by itself that it walks through memory.
template <class T>
[[gnu::always_inline]] inline void will_read(T const* p, std::int64_t offset) {
  __builtin_prefetch(reinterpret_cast<void const*>(reinterpret_cast<std::intptr_t>(p) +
                                                   offset * static_cast<std::int64_t>(sizeof(T))),
                     0);
}

/// The same of memory that will be written.
template <class T>
[[gnu::always_inline]] inline void will_write(T* p, std::int64_t offset) {
  __builtin_prefetch(reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(p) +
                                             offset * static_cast<std::int64_t>(sizeof(T))),
                     1);
}

/// Calls f(n), n a constant where it is 1, 2 or 3: for_cells then makes no loop.
template <class Function>
[[gnu::always_inline]] inline void with_columns(int n, Function const& f) {
  switch (n) {
    case 1:
      return f(std::integral_constant<int, 1>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    case 3:
      return f(std::integral_constant<int, 3>{});
    default:
      return f(n);
  }
}

/// Calls f(0), …, f(n - 1), for an n of with_columns.
template <class Count, class Function>
[[gnu::always_inline]] inline void for_cells(Count n, Function const& f) {
  if constexpr (std::is_same_v<Count, int>) {
    for (int v = 0; v < n; ++v) {
      f(v);
    }
  } else {
    if constexpr (Count::value > 0)
      f(0);
    if constexpr (Count::value > 1)
      f(1);
    if constexpr (Count::value > 2)
      f(2);
  }
}

}  // namespace tandem::host::channels_last

// ---- tandem/runtime/host/team.hpp

/// @file
/// Team: the threads of one Host device, and its parallel_for.
///
/// The calling thread is a member of its team, so a team of one starts no thread at all. Kernels
/// split their *outputs* among the members and never a sum, so that no bit depends on the size.
/// In a program with OpenMP the members are the caller's OpenMP threads, which oneDNN computes on
/// too; else they are threads of the Team's own.

// ---- tandem/runtime/host/openmp.hpp

/// @file
/// OpenMp: how a Team runs on the OpenMP threads of its caller, in a program that has OpenMP.
///
/// oneDNN computes on those threads, which spin for milliseconds after each of its loops. A Team
/// with threads of its own beside them would wait for a core each time: a device has one or the
/// other. Units compiled with and without OpenMP may be mixed: those with it only add a definition.
/// Where other programs want the same cores, that spinning costs more than it gains; the user may
/// turn it off with OMP_WAIT_POLICY=passive in the environment.

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace tandem::host {

/// The two things that a Team wants of OpenMP, or null where there is none.
struct OpenMp {
  using Part = void (*)(void const* context, int part);

  /// part(context, 0), …, part(context, parts - 1), one on each thread of the caller's team, 0 on
  /// the caller itself; with fewer threads than asked for, each takes every so manyth. Returns when
  /// all have.
  void (*fork)(int parts, Part part, void const* context) = nullptr;

  /// How many threads the loops of others, such as oneDNN's, take if the calling thread starts
  /// them.
  void (*set_threads)(int threads) = nullptr;
};

/// The program's, constant once main() runs: empty if no unit of it was compiled with OpenMP.
inline constinit OpenMp openmp{};

#if defined(_OPENMP)

namespace detail {

template <class = void>  // compiled where it is called, not by every include
void openmp_fork(int parts, OpenMp::Part part, void const* context) {
#pragma omp parallel num_threads(parts) default(none) firstprivate(parts, part, context)
  {
    int const threads = omp_get_num_threads();
    for (int mine = omp_get_thread_num(); mine < parts; mine += threads) {
      part(context, mine);
    }
  }
}

/// Makes `openmp` what it is in a program with OpenMP, before main().
inline bool const openmp_is_here =
    (openmp = {.fork = openmp_fork<>, .set_threads = omp_set_num_threads}, true);

}  // namespace detail

#endif

}  // namespace tandem::host

namespace tandem::host {

/// A fixed set of threads that run the parts of one loop at a time. Not copyable, not movable.
class Team {
 public:
  /// To be made by the device's own thread, since with OpenMP it becomes the number of threads of
  /// that thread's loops: omp_get_max_threads() is `threads` there from now on, and nowhere else.
  /// @param threads_of  whose threads to run on; OpenMp{}: threads of the Team's own
  /// @pre threads >= 1
  template <class = void>  // compiled where it is called, not by every include
  explicit Team(int threads = 1, OpenMp const& threads_of = openmp)
      : size_{threads}, fork_{threads_of.fork} {
    expects(threads >= 1, "Team: a device needs at least one thread");
    if (threads_of.set_threads != nullptr) {
      threads_of.set_threads(threads);
    }
    if (fork_ != nullptr) {
      return;
    }
    members_.reserve(static_cast<std::size_t>(threads - 1));
    for (int member = 1; member < threads; ++member) {
      members_.emplace_back([this, member] { serve(member); });
    }
  }

  Team(Team const&) = delete;
  Team& operator=(Team const&) = delete;

  ~Team() {
    stop_.store(true, std::memory_order_relaxed);
    loop_.fetch_add(1, std::memory_order_release);
    loop_.notify_all();
    for (std::thread& member : members_) {
      member.join();
    }
  }

  [[nodiscard]] int size() const noexcept { return size_; }

  /// body(begin, end) on disjoint ranges that cover [0, n), one for each member; returns when all
  /// have. No allocation, but what OpenMP may do in the first loop. Which range is whose depends on
  /// n and size() only. Called by the device's own thread only.
  /// @pre body does not throw and does not call parallel_for
  template <class Body>
  void parallel_for(std::int64_t n, Body&& body) {
    if (size_ == 1 || n <= 1) {
      if (n > 0) {
        body(std::int64_t{0}, n);
      }
      return;
    }
    count_ = n;
    body_ = const_cast<void*>(static_cast<void const*>(std::addressof(body)));
    call_ = [](void* object, std::int64_t begin, std::int64_t end) {
      (*static_cast<std::remove_reference_t<Body>*>(object))(begin, end);
    };
    if (fork_ != nullptr) {
      fork_(
          size_,
          [](void const* team, int member) { static_cast<Team const*>(team)->run_part(member); },
          this);
      return;
    }
    working_.store(size_ - 1, std::memory_order_relaxed);
    loop_.fetch_add(1, std::memory_order_release);
    loop_.notify_all();
    run_part(0);
    for (int left = working_.load(std::memory_order_acquire); left != 0;
         left = working_.load(std::memory_order_acquire)) {
      working_.wait(left, std::memory_order_acquire);
    }
  }

 private:
  void run_part(int member) const {
    std::int64_t const begin = count_ * member / size_;
    std::int64_t const end = count_ * (member + 1) / size_;
    if (begin < end) {
      call_(body_, begin, end);
    }
  }

  template <class = void>
  void serve(int member) {
    for (std::uint32_t seen = 0;; ++seen) {
      loop_.wait(seen, std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) {
        return;
      }
      run_part(member);
      if (working_.fetch_sub(1, std::memory_order_release) == 1) {
        working_.notify_one();
      }
    }
  }

  int size_;
  void (*fork_)(int, OpenMp::Part, void const*);
  std::int64_t count_ = 0;
  void* body_ = nullptr;
  void (*call_)(void*, std::int64_t, std::int64_t) = nullptr;
  std::atomic<std::uint32_t> loop_{0};
  std::atomic<int> working_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> members_;
};

}  // namespace tandem::host

namespace tandem::host::channels_last {

/// f(i, lanes) so that elements i, i + 1, … of all calls are [0, n), each once.
template <class Function>
[[gnu::always_inline]] inline void for_elements(Team& team, std::int64_t n, Function const& f) {
  team.parallel_for(n, [f](std::int64_t begin, std::int64_t end) {
    std::int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      f(i, AllLanes{});
    }
    if (i < end) {
      f(i, FirstLanes{static_cast<int>(end - i)});
    }
  });
}

/// y[i] = x[i], rounded where Y is narrower; x and y may be equal where the types are.
template <class X, class Y>
TANDEM_NOINLINE void convert(Team& team, X const* x, Y* y, std::int64_t n) {
  for_elements(team, n, [=](std::int64_t i, auto some) { some.store(y + i, some.load(x + i)); });
}

/// out[i] = in[0][i] + … + in[k - 1][i].
///
/// Cost:  reads k n elements and writes n; bound by memory.
/// Order: ((in[0] + in[1]) + in[2]) + …, for each i, in float; rounded once.
/// @pre   k >= 0 (0: zeros); out may be one of the inputs
template <class T>
TANDEM_NOINLINE void sum(Team& team, T const* const* in, int k, T* out, std::int64_t n) {
  for_elements(team, n, [=](std::int64_t i, auto some) {
    Floats total = k > 0 ? some.load(in[0] + i) : Floats{0.0F};
    for (int j = 1; j < k; ++j) {
      total += some.load(in[j] + i);
    }
    some.store(out + i, total);
  });
}

/// y = max(x, 0); a NaN stays a NaN, and -0 stays -0.
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_forward(Team& team, T const* x, T* y, std::int64_t n) {
  for_elements(team, n, [=](std::int64_t i, auto some) {
    Floats const value = some.load(x + i);
    some.store(y + i, select(Floats{0.0F} > value, Floats{0.0F}, value));
  });
}

/// dx = dy where y > 0, else 0; where y is a NaN the gradient passes, as in PyTorch.
///
/// Shapes: y (n), the output of relu_forward; dy (n); dx (n), which may be dy.
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_gradient(Team& team, T const* y, T const* dy, T* dx, std::int64_t n) {
  for_elements(team, n, [=](std::int64_t i, auto some) {
    some.store(dx + i, where_positive(some.load(y + i), some.load(dy + i)));
  });
}

}  // namespace tandem::host::channels_last

// ---- tandem/kernels/host/elementwise.hpp

/// @file
/// Loops over n numbers that have no shape: fill, copy, sum, axpby, sum_of_squares, transform.
///
/// Every kernel of this folder takes its Team first, never allocates and never throws, and gives
/// the same bits for a Team of any size. The kernels without a shape take n last.

// ---- tandem/kernels/host/lanes.hpp

/// @file
/// Sums over a run of indices in one fixed order that a compiler can vectorise.
///
/// A compiler may not reorder a floating-point sum, so the order says it: term i goes to lane i mod
/// 16, and the lanes are added as a binary tree at the end. No thread is involved.

namespace tandem::host::detail {

inline constexpr int lanes = 16;

/// The sum of the lanes, as a binary tree: lane i and lane i + 8, then 4, 2, 1.
template <class T>
constexpr T add_lanes(T (&lane)[lanes]) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lane[i] += lane[i + half];
    }
  }
  return lane[0];
}

/// term(0) + … + term(n - 1), added in the type T.
///
/// Order: 16 interleaved sums in index order, then a binary tree; a function of n only.
template <class T, class Term>
T lane_sum(std::int64_t n, Term const& term) {
  T lane[lanes] = {};
  std::int64_t const whole = n - n % lanes;
  for (std::int64_t i = 0; i < whole; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      lane[j] += static_cast<T>(term(i + j));
    }
  }
  for (std::int64_t i = whole; i < n; ++i) {
    lane[i - whole] += static_cast<T>(term(i));
  }
  return add_lanes(lane);
}

/// The sum of term(i) over the elements i of one channel of a (B, C, pixels) tensor.
///
/// Order: each map in 16 lanes in T, then the samples in order in double.
template <class T, class Term>
double channel_sum(int batch, int channels, std::int64_t pixels, std::int64_t channel,
                   Term const& term) {
  double total = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    std::int64_t const first = (s * channels + channel) * pixels;
    total +=
        static_cast<double>(lane_sum<T>(pixels, [&](std::int64_t i) { return term(first + i); }));
  }
  return total;
}

}  // namespace tandem::host::detail

namespace tandem::host {

/// Calls f(i) for each i in [0, n), in no order that f may rely on; f is inlined into the loop.
///
/// @pre f writes only what belongs to its own i
template <class Function>
TANDEM_NOINLINE void transform(Team& team, std::int64_t n, Function const& f) {
  team.parallel_for(n, [f](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      f(i);
    }
  });
}

/// y[i] = value.
template <class T>
TANDEM_NOINLINE void fill(Team& team, T* y, std::int64_t n, T value) {
  team.parallel_for(
      n, [=](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, value); });
}

/// y[i] = x[i].
///
/// @pre x and y are equal or do not overlap
template <class T>
TANDEM_NOINLINE void copy(Team& team, T const* x, T* y, std::int64_t n) {
  if (x == y) {
    return;
  }
  team.parallel_for(
      n, [=](std::int64_t begin, std::int64_t end) { std::copy(x + begin, x + end, y + begin); });
}

/// out[i] = in[0][i] + … + in[k - 1][i].
///
/// Cost:  reads k n elements and writes n; bound by memory.
/// Order: ((in[0] + in[1]) + in[2]) + …, for each i.
/// @pre   k >= 0 (0: zeros); out may be one of the inputs
template <class T>
TANDEM_NOINLINE void sum(Team& team, T const* const* in, int k, T* out, std::int64_t n) {
  constexpr std::int64_t block = 1024;  // stays in the first-level cache while the k inputs pass
  team.parallel_for((n + block - 1) / block, [=](std::int64_t begin, std::int64_t end) {
    T total[block];
    for (std::int64_t b = begin; b < end; ++b) {
      std::int64_t const first = b * block;
      std::int64_t const count = std::min(block, n - first);
      if (k > 0) {
        std::copy(in[0] + first, in[0] + first + count, total);
      } else {
        std::fill(total, total + count, T{0});
      }
      for (int j = 1; j < k; ++j) {
        T const* const x = in[j] + first;
        for (std::int64_t i = 0; i < count; ++i) {
          total[i] += x[i];
        }
      }
      std::copy(total, total + count, out + first);
    }
  });
}

/// y[i] = a x[i] + b y[i]; for b == 0 y is not read, so that it may hold anything.
template <class T>
TANDEM_NOINLINE void axpby(Team& team, T a, T const* x, T b, T* y, std::int64_t n) {
  if (b == T{0}) {
    transform(team, n, [=](std::int64_t i) { y[i] = a * x[i]; });
  } else {
    transform(team, n, [=](std::int64_t i) { y[i] = a * x[i] + b * y[i]; });
  }
}

/// x[0]² + … + x[n - 1]², squared and added in double.
///
/// Order: 256 chunks whose length is a function of n, each in 16 lanes; then the chunks in order.
template <class T>
[[nodiscard]] TANDEM_NOINLINE double sum_of_squares(Team& team, T const* x, std::int64_t n) {
  constexpr std::int64_t chunks = 256;
  double partial[chunks];
  std::int64_t const length = (n + chunks - 1) / chunks;
  team.parallel_for(chunks, [=, &partial](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      std::int64_t const first = std::min(n, chunk * length);
      std::int64_t const count = std::min(length, n - first);
      partial[chunk] = detail::lane_sum<double>(count, [&](std::int64_t i) {
        double const value = static_cast<double>(x[first + i]);
        return value * value;
      });
    }
  });
  double total = 0;
  for (double const value : partial) {
    total += value;
  }
  return total;
}

}  // namespace tandem::host

// ---- tandem/runtime/host/host.hpp

/// @file
/// BasicHost: the backend that computes on plain CPUs, and its device.

// ---- tandem/core/precision.hpp

/// @file
/// Precisions: the element types in which a backend stores and computes.
///
/// Scalar is the type of activations and of what matrix products read; Master that of parameters,
/// gradients, optimizer state and of the data that users pass.

namespace tandem {

/// 32-bit floating point throughout.
struct Fp32 {
  using Scalar = float;
  using Master = float;
  static constexpr char const* name = "fp32";
};

/// 32-bit storage; matrix products round their inputs to 10 fraction bits (tensor cores). Cuda
/// only.
struct Tf32 {
  using Scalar = float;
  using Master = float;
  static constexpr char const* name = "tf32";
};

/// 16-bit activations and products with fp32 sums; parameters, statistics, loss and update in fp32.
struct Bf16 {
  using Scalar = BFloat16;
  using Master = float;
  static constexpr char const* name = "bf16";
};

/// 64-bit floating point throughout; what the tests compare in.
struct Fp64 {
  using Scalar = double;
  using Master = double;
  static constexpr char const* name = "fp64";
};

}  // namespace tandem

// ---- tandem/runtime/host/buffer.hpp

/// @file
/// Buffer: aligned host memory that starts as zeros, owned and move-only.

namespace tandem::host {

/// `bytes` of memory aligned to 64, zero at first.
class Buffer {
 public:
  Buffer() = default;

  /// @throws Error  the machine has not so much memory; the message says how much was asked for
  explicit Buffer(std::size_t bytes) : bytes_{bytes} {
    if (bytes == 0) {
      return;
    }
    std::size_t const rounded = (bytes + 63) / 64 * 64;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
    if (!data_) {
      throw Error{"out of memory: a host device asked for " + std::to_string(bytes) +
                  " bytes; use a smaller batch or more microbatches"};
    }
    std::memset(data_.get(), 0, rounded);
  }

  /// The same; all host devices share one memory.
  template <class Device>
  Buffer(Device& /*device*/, std::size_t bytes) : Buffer{bytes} {}

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::host

// ---- tandem/runtime/host/cpus.hpp

/// @file
/// usable_cpus(): how many threads can really run at once here, which in a container or under a
/// batch system is not how many CPUs the machine has.

#if defined(__linux__)
#include <sched.h>
#endif

namespace tandem::host {

/// Whole CPUs, at least one, of a quota as cgroup v2 writes it in cpu.max: "200000 100000" is two;
/// "max 100000", or what is no quota, is the largest int.
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] int cpus_of_quota(char const* text) {
  constexpr int most = std::numeric_limits<int>::max();
  long long quota = 0;
  long long period = 0;
  if (std::sscanf(text, "%18lld %18lld", &quota, &period) != 2 || quota <= 0 || period <= 0) {
    return most;
  }
  return static_cast<int>(std::clamp<long long>(quota / period, 1, most));
}

/// CPUs in the calling thread's affinity mask (taskset, cpusets of containers, batch systems);
/// where that cannot be asked, the machine's. At least one.
template <class = void>
[[nodiscard]] int cpus_in_mask() {
  auto cpus = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  bool known = false;
  for (std::size_t size = CPU_SETSIZE; !known && size <= 1024 * CPU_SETSIZE; size *= 2) {
    cpu_set_t* const mask = CPU_ALLOC(size);
    std::size_t const bytes = CPU_ALLOC_SIZE(size);
    known = mask != nullptr && sched_getaffinity(0, bytes, mask) == 0;  // fails if it is too small
    if (known) {
      cpus = CPU_COUNT_S(bytes, mask);
    }
    CPU_FREE(mask);
  }
#endif
  return std::max(cpus, 1);
}

/// CPUs that this process may use at a time: cpus_in_mask(), or fewer if its container has a quota
/// of CPU time (docker --cpus, Kubernetes limits; cgroup v2).
template <class = void>
[[nodiscard]] int usable_cpus() {
  char text[64] = "";
  if (std::FILE* const file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {  // a container's own
    static_cast<void>(std::fgets(text, sizeof text, file));
    static_cast<void>(std::fclose(file));
  }
  return std::min(cpus_in_mask(), cpus_of_quota(text));
}

}  // namespace tandem::host

namespace tandem {

namespace host {

/// One device of a Host backend: its threads, the scratch memory of its kernels, and the queue on
/// which its communication runs while its own thread computes.
struct Device {
  using Mark = Queue::Ticket;
  using Stamp = std::chrono::steady_clock::time_point;

  explicit Device(int threads) : team{threads} {}
  explicit Device(DeviceSpec const& spec) : team{spec.threads} {}

  Team team;
  Queue communication;
  std::byte* scratch = nullptr;
  std::int64_t scratch_bytes = 0;

  /// A place on the communication queue, for mark() to set.
  [[nodiscard]] static Mark make_mark() { return 0; }
  /// What is queued for communication from now on comes after what has been computed so far.
  static void begin_communication() {}
  void mark(Mark& mark) { mark_on(communication, mark); }
  /// What is computed from now on comes after the communication up to @p mark.
  void await(Mark mark) { communication.wait(mark); }

  /// The same for a queue of its own, besides `communication`.
  [[nodiscard]] static std::unique_ptr<Queue> make_stream() { return std::make_unique<Queue>(); }
  static void begin_on(Queue& /*queue*/) {}
  static void mark_on(Queue& queue, Mark& mark) { mark = queue.last(); }
  static void await_on(Queue& queue, Mark mark) { queue.wait(mark); }
  /// Sets @p stamp when everything so far has been computed, or been communicated.
  [[nodiscard]] static Stamp make_stamp() { return {}; }
  static void stamp(Stamp& stamp) { stamp = std::chrono::steady_clock::now(); }
  static void stamp_on(Queue& queue, Stamp& stamp) {
    queue.post([&stamp] { stamp = std::chrono::steady_clock::now(); });
  }
  static double microseconds(Stamp from, Stamp to) {
    return std::chrono::duration<double, std::micro>(to - from).count();
  }

  /// All that was computed is done.
  static void finish() {}

  /// Host memory is everybody's.
  static void share_with(DeviceSpec const& /*other*/) {}

  /// Does one action; nothing is queued that could fail behind it.
  template <class Wait, class F>
  static void debug(std::string const& /*action*/, Wait const& /*wait*/, F const& f) {
    f();
  }

  /// Nothing queued reads or writes memory any more; for after an error.
  void settle() { communication.discard(); }
  static void settle(Queue& queue) { queue.discard(); }

  template <class T>
  [[nodiscard]] T* scratch_as() const noexcept {
    return reinterpret_cast<T*>(scratch);
  }
};

/// Threads for each of @p devices, so that together they do not exceed the CPUs that this process
/// may use.
inline int threads_of_each(int devices) {
  int const all = usable_cpus();
  return all > devices ? all / devices : 1;
}

}  // namespace host

/// The kernels written in portable C++: no library needed, the reference for every other.
struct Portable {
  static constexpr char const* name = "portable";
  static constexpr bool packs_weights = false;
  static constexpr Rewrites rewrites{};
};

/// Convolutions and matrix products by oneDNN; needs TANDEM_ONEDNN=1 and the library. Activations
/// are stored channels-last, weights in the layouts that the primitives want.
struct OneDnn {
  static constexpr char const* name = "onednn";
  static constexpr bool packs_weights = true;
  static constexpr Rewrites rewrites{
      .fuse_relu = true, .channels_last = true, .merge_pointwise = true, .place_concat = true};
};

#if defined(TANDEM_ONEDNN)
using DefaultHostKernels = OneDnn;
#else
using DefaultHostKernels = Portable;
#endif

/// Plain CPUs; a device is a worker thread with a team of its own.
/// @tparam Kernels    Portable or OneDnn
/// @tparam Precision  Fp32; Bf16 (OneDnn only), Fp64 (Portable only)
template <class Kernels = DefaultHostKernels, class Precision = Fp32>
struct BasicHost {
  static_assert(!std::is_same_v<Kernels, OneDnn> || !std::is_same_v<Precision, Fp64>,
                "BasicHost<OneDnn, Fp64>: oneDNN computes in fp32 and bf16; take "
                "BasicHost<Portable, Fp64>");
  static_assert(!std::is_same_v<Kernels, Portable> || !std::is_same_v<Precision, Bf16>,
                "BasicHost<Portable, Bf16>: the portable kernels compute in fp32 and fp64; take "
                "BasicHost<OneDnn, Bf16>");
  using Scalar = typename Precision::Scalar;
  using Master = typename Precision::Master;
  using Device = host::Device;
  using Buffer = host::Buffer;
  using Stream = host::Queue;
  static constexpr Rewrites rewrites = Kernels::rewrites;
  static constexpr char const* name = "host";
};

/// The default CPU backend: with oneDNN where CMake has found it.
using Host = BasicHost<>;

}  // namespace tandem

namespace tandem {

/// Rounds once, to nearest.
template <class From, class To>
struct CastElement {
  From const* x;
  To* y;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<To>(x[i]); }
};

/// zero, copy, cast, add (y += x), sum (of k arrays, in order; 16-bit ones in float, rounded once),
/// sum_of_squares (in double, in an order of its own that no number of threads changes), each
/// (functor(i) for every i). Arrays are activations or parameters, whatever the types of these are.
template <class Backend>
struct Verbs;

template <class Kernels, class Precision>
struct Verbs<BasicHost<Kernels, Precision>> {
  template <class E>
  static void zero(host::Device& d, E* y, std::int64_t n) {
    host::fill(d.team, y, n, E{});
  }
  template <class E>
  static void copy(host::Device& d, E const* x, E* y, std::int64_t n) {
    host::copy(d.team, x, y, n);
  }
  template <class E>
  static void add(host::Device& d, E const* x, E* y, std::int64_t n) {
    E const* const both[] = {x, y};
    sum(d, both, 2, y, n);
  }
  template <class E>
  static void sum(host::Device& d, E const* const* in, int k, E* out, std::int64_t n) {
    if constexpr (std::is_same_v<E, double>) {
      host::sum(d.team, in, k, out, n);
    } else {
      host::channels_last::sum(d.team, in, k, out, n);
    }
  }
  /// y = x in another type.
  template <class From, class To>
  static void cast(host::Device& d, From const* x, To* y, std::int64_t n) {
    host::transform(d.team, n, CastElement<From, To>{x, y});
  }
  template <class E>
  static double sum_of_squares(host::Device& d, E const* x, std::int64_t n) {
    return host::sum_of_squares(d.team, x, n);
  }
  template <class Functor>
  static void each(host::Device& d, std::int64_t n, Functor const& functor) {
    host::transform(d.team, n, functor);
  }
};

}  // namespace tandem

namespace tandem {

/// What a Feed must have room for.
struct FeedSizes {
  std::int64_t samples = 0;  ///< of the largest shard
  std::int64_t targets_per_sample = 1;
};

/// Whether arrays of @p shape are of another type, or in another order, than users have them.
template <class Backend>
constexpr bool converts(Shape shape) {
  bool const reorders = rewrites_of<Backend>().channels_last && shape.rank == 3 && shape[0] > 1 &&
                        shape[1] * shape[2] > 1;
  return reorders || !std::is_same_v<typename Backend::Scalar, typename Backend::Master>;
}

/// The primary template is for devices that read the caller's memory: nothing is copied unless the
/// backend stores it otherwise, and a step is over when its last action is.
template <class Program, class Backend, class Target>
class Feed {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Batch = StepBatch<P, Target>;
  using Device = typename Backend::Device;
  static constexpr Shape in = Program::Program::network.node[0].out;
  static constexpr Shape out = Program::Program::network.output().out;
  static constexpr std::int64_t inputs = in.elements();
  static constexpr std::int64_t outputs = out.elements();
  /// Whether the caller's elements are of another type, or in another order, than the backend's.
  static constexpr bool converts_input = Program::has_input && converts<Backend>(in);
  static constexpr bool converts_output = converts<Backend>(out);
  /// Steps that may be queued before the result of the first is collected.
  static constexpr int steps_in_flight = 1;

  Feed(Device& device, FeedSizes const& sizes)
      : targets_{sizes.targets_per_sample},
        samples_{device, converts_input
                             ? static_cast<std::size_t>(sizes.samples * inputs) * sizeof(T)
                             : 0} {}

  /// Begins a step. @p batch is the global one, of which the rank has @p own.
  template <class Wait>
  void begin(Device& /*device*/, StepState const& state, Batch const& batch,
             RankMicrobatches const& own, Wait const& /*wait*/) {
    state_ = state;
    batch_ = batch;
    first_ = own.begin();
    result_ = {};
  }

  /// In the device's memory.
  [[nodiscard]] StepState const* state() const { return &state_; }
  [[nodiscard]] StepResult* result() { return &result_; }

  /// What is queued first in every step.
  void load(Device& device, RankMicrobatches const& own) {
    if constexpr (converts_input) {
      Border<Backend>::load(device, static_cast<int>(own.end() - own.begin()), in,
                            batch_.x + first_ * inputs, samples_.template as<T>());
    }
  }

  /// A microbatch's samples and targets, in the device's memory and in the backend's layout.
  [[nodiscard]] T const* input(Microbatch const& m) const {
    if constexpr (converts_input) {
      return samples_.template as<T>() + (m.first - first_) * inputs;
    } else {
      return batch_.x + m.first * inputs;
    }
  }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    return batch_.targets + m.first * targets_;
  }

  /// Gives the caller a microbatch's outputs.
  void store(Device& device, T const* y, Microbatch const& m) {
    P* const to = batch_.outputs + m.first * outputs;
    if constexpr (converts_output) {
      Border<Backend>::store(device, m.size, out, y, to);
    } else {
      Verbs<Backend>::copy(device, y, to, m.size * outputs);
    }
  }

  /// Ends a step that begin() began; all of it has been queued.
  void end(Device& /*device*/) {}

  /// Steps that have been queued and not collected.
  [[nodiscard]] static constexpr int waiting() { return 0; }

  /// The result of the oldest step that has not been collected.
  template <class Wait>
  StepResult collect(Device& /*device*/, Wait const& /*wait*/) {
    return result_;
  }

  /// Bytes of the device's memory that this has.
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(samples_.bytes()); }

 private:
  std::int64_t targets_;
  typename Backend::Buffer samples_;
  std::int64_t first_ = 0;  // of the rank's samples in the global batch
  StepState state_{};
  Batch batch_{};
  StepResult result_{};
};

}  // namespace tandem

// ---- tandem/engine/gradient_reduction.hpp

/// @file
/// GradientReduction: the gradients of a rank on their way from its microbatches to the sum over
/// all replicas.

namespace tandem {

/// Whether a communicator adds in an order fixed by rank.
template <class C>
inline constexpr bool sums_in_order = [] {
  if constexpr (requires { C::ordered; }) {
    return bool{C::ordered};
  } else {
    return true;
  }
}();

/// Has the rank's end of the group of all ranks, for the losses, and of the replicas of each of its
/// stages. Buckets are reduced in the order in which backward closes them, on the communication
/// stream, while it goes on; where a stage's copies are on devices with different rows, in the
/// order of the model's parts when all are whole, so that no two ranks wait for each other.
template <class Program, class Backend, class Communicator>
class GradientReduction {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Buffer = typename Backend::Buffer;
  using Mark = typename Device::Mark;
  using Memory = ParameterMemory<Program, Backend>;
  using Whole = typename Program::Program;
  static constexpr Batching batching = Whole::batching;
  static constexpr auto const& layout = Program::layout;
  static constexpr int replicas = Program::gradient_replicas;
  static constexpr bool overlaps = Whole::map.copies == 1;
  /// What is sent: the gradients themselves, or rounded to 16 bits.
  using Wire =
      std::conditional_t<batching.wire == WireFormat::bfloat16, BFloat16,
                         std::conditional_t<batching.wire == WireFormat::float16, Float16, P>>;
  /// Whether sums in a fixed order take more than an all-reduce: comm/cuda_ordered.cuh.
  static constexpr bool needs_order =
      batching.reproducible && replicas > 1 && !sums_in_order<Communicator>;
  static constexpr bool rounds = batching.wire != WireFormat::exact && replicas > 1;

  /// @param all     the group of all ranks
  /// @param stages  of each local stage: the group of its replicas
  /// @param plan    microbatches and leaves
  /// @param tracer  outlives this
  GradientReduction(Device& device, Communicator all, std::vector<Communicator> stages,
                    Batching const& plan, Tracer<Device>& tracer)
      : communicator_{std::move(all)},
        stages_{std::move(stages)},
        leaves_{plan.leaves_of_copy(Whole::map.copies)},
        tracer_{&tracer},
        synchronized_{device.make_mark()},
        ordered_{device, order_bytes()},
        wire_{device, rounds ? static_cast<std::size_t>(layout.trained) * sizeof(Wire) : 0} {
    for (int mark = 0; mark < layout.buckets + 1; ++mark) {
      marks_.push_back(device.make_mark());
    }
  }

  /// The gradients of @p bucket are whole for @p leaf of the stage's copy: they join the tree, and
  /// at the end of the last leaf their reduction over the replicas begins.
  void leaf_ready(Device& device, Memory const& memory, int bucket, int leaf) {
    if (memory.waiting_leaves() > 0) {
      auto const [begin, count] = range(bucket);
      join_tree(device, memory, leaf, begin, count);
    }
    if constexpr (replicas > 1 && overlaps) {
      if (leaf == leaves_ - 1) {
        begin(device, memory, bucket);
      }
    }
  }

  /// What is computed from now on reads the sum of @p bucket over all replicas.
  void await(Device& device, Memory const& memory, int bucket) {
    if constexpr (!overlaps) {
      begin_in_order(device, memory, bucket);
    }
    device.await(marks_[static_cast<std::size_t>(bucket)]);
    if constexpr (rounds) {
      auto const [begin, count] = range(bucket);
      Verbs<Backend>::cast(device, wire_.template as<Wire>() + begin, memory.gradients() + begin,
                           count);
    }
  }

  /// The same for the losses and metrics of all microbatches.
  void reduce_sums(Device& device, std::span<double> sums, Label label = {"losses"}) {
    reduce(device, communicator_, sums, label, marks_.back());
  }
  void await_sums(Device& device) { device.await(marks_.back()); }

  /// What is computed from now on reads in @p sums the sums over the replicas of a local stage.
  void synchronize(Device& device, std::span<double> sums, int stage) {
    reduce(device, communicator(stage), sums, {"statistics"}, synchronized_);
    device.await(synchronized_);
  }

  [[nodiscard]] Communicator& communicator() { return communicator_; }
  /// The group of the replicas of local stage @p stage.
  [[nodiscard]] Communicator& communicator(int stage) {
    return stages_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] std::int64_t wire_bytes() const {
    return static_cast<std::int64_t>(wire_.bytes() + ordered_.bytes());
  }

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t count;
  };
  static Range range(int bucket) {
    std::int64_t const begin = layout.bucket_begin[bucket];
    return {begin, layout.bucket_begin[bucket + 1] - begin};
  }
  template <class E>
  static std::span<E> span_of(E* data, std::int64_t count) {
    return {data, static_cast<std::size_t>(count)};
  }

  static std::size_t order_bytes() {
    std::size_t most = 0;
    for (int bucket = 0; needs_order && bucket < layout.buckets; ++bucket) {
      if constexpr (needs_order) {
        most = std::max(most, ordered_scratch_bytes<Communicator, P>(
                                  static_cast<std::size_t>(range(bucket).count), replicas));
      }
    }
    return most;
  }

  void begin(Device& device, Memory const& memory, int bucket) {
    auto const [first, count] = range(bucket);
    Label const label{"bucket", bucket};
    Mark& mark = marks_[static_cast<std::size_t>(bucket)];
    Communicator& group = communicator(local_stage(layout.bucket_stage[bucket]));
    if constexpr (rounds) {
      Wire* const sent = wire_.template as<Wire>() + first;
      Verbs<Backend>::cast(device, memory.gradients() + first, sent, count);
      reduce(device, group, span_of(sent, count), label, mark);
    } else {
      reduce(device, group, span_of(memory.gradients() + first, count), label, mark);
    }
  }

  // All buckets, when the first is awaited: part by part.
  void begin_in_order(Device& device, Memory const& memory, int bucket) {
    for (int part = 0; bucket == 0 && part < Whole::map.parts(); ++part) {
      for (int b = 0; b < layout.buckets; ++b) {
        if (layout.bucket_stage[b] % Whole::map.parts() == part) {
          begin(device, memory, b);
        }
      }
    }
  }
  static int local_stage(int id) {
    int local = 0;
    while (Program::stages.stage[local].id != id) {
      ++local;
    }
    return local;
  }

  template <class E>
  void reduce(Device& device, Communicator& group, std::span<E> data, Label label, Mark& mark) {
    device.begin_communication();
    tracer_->collective(device, label, [&] {
      if constexpr (needs_order && std::is_same_v<E, P>) {  // sums of losses round nothing
        std::span<std::byte> const scratch{ordered_.data(), ordered_.bytes()};
        all_reduce_ordered(group, std::span<E const>{data}, data, Sum{}, scratch,
                           device.communication, label);
      } else {
        group.all_reduce(data, data, Sum{}, device.communication, label);
      }
    });
    device.mark(mark);
  }

  // A binary counter: leaf k joins as many waiting sums as k has trailing ones.
  void join_tree(Device& device, Memory const& memory, int index, std::int64_t begin,
                 std::int64_t count) {
    P* const sum = memory.gradients() + begin;
    int level = 0;
    for (int carry = index; (carry & 1) != 0; carry >>= 1, ++level) {
      Verbs<Backend>::add(device, memory.gradients(1 + level) + begin, sum, count);
    }
    if (index != leaves_ - 1) {
      Verbs<Backend>::copy(device, sum, memory.gradients(1 + level) + begin, count);
    }
  }

  Communicator communicator_;
  std::vector<Communicator> stages_;
  int leaves_;  // of a stage's copy
  Tracer<Device>* tracer_;
  std::vector<Mark> marks_;  // of each bucket's reduction, then of the losses'
  Mark synchronized_;
  Buffer ordered_;
  Buffer wire_;
};

}  // namespace tandem

// ---- tandem/engine/prepared_ops.hpp

/// @file
/// PreparedOps: all that a rank computes with, and the memory that it wants.

// ---- tandem/engine/op_table.hpp

/// @file
/// OpTable: the ops of all nodes of a graph, each of its own type, found by index at compile time.

// ---- tandem/graph/leaves.hpp

/// @file
/// Leaves: the layer types of a network in the order of their nodes, and Leaf, the I-th of them.

// ---- tandem/graph/network.hpp

/// @file
/// The words of a network type: Sequential, Concat, Residual, Frozen, and Network, which adds the
/// input.
///
/// These types are empty. `struct Net : Network<Image<3, 32, 32>, Sequential<…>> {};` gives a
/// network a short name of its own, which keeps symbols and compiler messages short; do the same
/// for blocks.

namespace tandem {

namespace detail {
struct Composite {};  // base of everything below that is built from parts
}  // namespace detail

/// A layer, or parts put together by Sequential, Concat, Residual or Frozen.
template <class P>
concept NetworkPart = Layer<P> || std::derived_from<P, detail::Composite>;

namespace detail {

// Concepts, because the second is not looked at where the first fails: a fold has its limits.
template <class... Parts>
concept FewParts = sizeof...(Parts) <= 256;
template <class... Parts>
concept AllParts = (NetworkPart<Parts> && ...);
template <class... Parts>
concept TooManyOrAllParts = !FewParts<Parts...> || AllParts<Parts...>;

// The sentences stand in types of their own: a composite at fault remains a part, so that what
// holds it does not complain too.
template <class... Parts>
struct SequentialIsSound {
  static constexpr bool value = true;
  static_assert(FewParts<Parts...>,
                "Sequential<Parts...>: at most 256 parts; nest a Sequential for more");
  static_assert(TooManyOrAllParts<Parts...>,
                "Sequential<Parts...>: every part must be a layer (a type with `name` and "
                "`output(Shape)`), or Sequential, Concat, Residual or Frozen of such parts");
};

template <class... Branches>
struct ConcatIsSound {
  static constexpr bool value = true;
  static_assert((NetworkPart<Branches> && ...) && sizeof...(Branches) >= 2,
                "Concat<Branches...>: give two or more branches, each a layer, or Sequential, "
                "Concat, Residual or Frozen of such parts");
};

template <class Body, class Shortcut>
struct ResidualIsSound {
  static constexpr bool value = true;
  static_assert(
      NetworkPart<Body> && NetworkPart<Shortcut>,
      "Residual<Body, Shortcut>: both must be a layer, or Sequential, Concat, Residual or "
      "Frozen of such parts");
};

template <class Body>
struct FrozenIsSound {
  static constexpr bool value = true;
  static_assert(NetworkPart<Body>,
                "Frozen<Body>: Body must be a layer, or Sequential, Concat or Residual of layers");
};

}  // namespace detail

/// The parts one after another. Parameters of part i are named "i.…".
/// The primary template is the error path.
template <class... Parts>
struct Sequential : detail::Composite {
  static_assert(detail::SequentialIsSound<Parts...>::value);
};

template <class... Parts>
  requires detail::FewParts<Parts...> && detail::AllParts<Parts...>
struct Sequential<Parts...> : detail::Composite {
};

/// The branches on one input, their outputs joined along the channels: Inception's block.
/// Every branch must give the same height and width. Parameters of branch i are named "i.…".
template <class... Branches>
struct Concat : detail::Composite {
  static_assert(detail::ConcatIsSound<Branches...>::value);
};

template <class... Branches>
  requires(detail::AllParts<Branches...> && sizeof...(Branches) >= 2)
struct Concat<Branches...> : detail::Composite {};

/// Body(x) + Shortcut(x); the empty Sequential is the identity. Named "body.…" and "shortcut.…".
template <class Body, class Shortcut = Sequential<>>
struct Residual : detail::Composite {
  static_assert(detail::ResidualIsSound<Body, Shortcut>::value);
};

template <class Body, class Shortcut>
  requires(NetworkPart<Body>&& NetworkPart<Shortcut>)
struct Residual<Body, Shortcut> : detail::Composite {};

/// Body with parameters and statistics that training leaves as they are; a frozen batch norm
/// normalises by its running statistics. No gradient of them is computed, stored or reduced.
template <class Body>
struct Frozen : detail::Composite {
  static_assert(detail::FrozenIsSound<Body>::value);
};

template <class Body>
  requires NetworkPart<Body>
struct Frozen<Body> : detail::Composite {
};

/// What goes into a network: `static constexpr Shape shape`, of one sample.
template <class I>
concept NetworkInput = requires {
  { I::shape } -> std::convertible_to<Shape>;
};

namespace detail {

template <class Input, class Body>
struct NetworkHasParts {
  static constexpr bool value = true;
  static_assert(
      NetworkInput<Input> && NetworkPart<Body>,
      "Network<Input, Body>: Input must be Image<C, H, W> or Vector<N>, and Body a layer, "
      "or Sequential, Concat, Residual or Frozen of such parts");
};

}  // namespace detail

/// A network: what goes in, such as Image<3, 32, 32>, and the parts it goes through.
/// The primary template is the error path.
template <class Input, class Body>
struct Network {
  using input = Vector<1>;
  using body = Sequential<>;
  static_assert(detail::NetworkHasParts<Input, Body>::value);
};

template <class Input, class Body>
  requires(NetworkInput<Input>&& NetworkPart<Body>)
struct Network<Input, Body> {
  using input = Input;
  using body = Body;
};

}  // namespace tandem

namespace tandem {

template <class... Types>
struct TypeList {
  static constexpr int size = sizeof...(Types);
};

namespace detail {

template <class... A, class... B>
constexpr TypeList<A..., B...> operator+(TypeList<A...>, TypeList<B...>) {
  return {};
}

// A layer under another name (`struct Conv3x3 : Conv2d<…> {}`) has the ops of the layer it is.
template <class L>
struct Canonical {
  using type = L;
};
template <class L>
  requires requires { typename L::layer; }
struct Canonical<L> {
  using type = typename L::layer;
};

// Declared before use: each part of a composite may be any of the others.
struct Flatten {
  template <Layer L>
  static TypeList<typename Canonical<L>::type> of(L const*);
  template <class... Parts>
    requires FewParts<Parts...>
  static auto of(Sequential<Parts...> const*) {
    return (TypeList<>{} + ... + decltype(of(static_cast<Parts const*>(nullptr))){});
  }
  template <class... Branches>
  static auto of(Concat<Branches...> const*) {
    return (TypeList<>{} + ... + decltype(of(static_cast<Branches const*>(nullptr))){});
  }
  template <class Body, class Shortcut>
  static auto of(Residual<Body, Shortcut> const*) {
    return decltype(of(static_cast<Body const*>(nullptr))){} +
           decltype(of(static_cast<Shortcut const*>(nullptr))){};
  }
  template <class Body>
  static auto of(Frozen<Body> const*) {
    return decltype(of(static_cast<Body const*>(nullptr))){};
  }
  static TypeList<> of(void const*);  // no part: has its sentence elsewhere
};

template <std::size_t I, class Type>
struct Indexed {
  using type = Type;
};

template <class Indices, class List>
struct IndexedList;

template <std::size_t... I, class... Types>
struct IndexedList<std::index_sequence<I...>, TypeList<Types...>> : Indexed<I, Types>... {};

template <std::size_t I, class Type>
Indexed<I, Type> pick(Indexed<I, Type> const*);

}  // namespace detail

/// The layer types of @p Part, in the order in which their nodes stand in the graph.
template <class Part>
using Leaves = decltype(detail::Flatten::of(static_cast<Part const*>(nullptr)));

/// The leaves of a network under a short name, for look-up by index in O(1) instantiations.
template <class Net>
struct LeafTable : detail::IndexedList<std::make_index_sequence<Leaves<typename Net::body>::size>,
                                       Leaves<typename Net::body>> {};

/// The @p I-th layer type of a network.
template <class Net, int I>
using Leaf = typename decltype(detail::pick<static_cast<std::size_t>(I)>(
    static_cast<LeafTable<Net> const*>(nullptr)))::type;

}  // namespace tandem

namespace tandem {

namespace detail {

/// Inputs, views and what another node's op does compute nothing.
struct NoOp {
  explicit NoOp(OpSetup const&) {}
  [[nodiscard]] static OpNeeds needs() { return {}; }
};

template <NodeKind Kind, bool Computes, class Net, class Backend, int LeafIndex>
struct SelectOp {
  using type = NoOp;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::layer, true, Net, Backend, LeafIndex> {
  using type = Op<Leaf<Net, LeafIndex>, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::concat, true, Net, Backend, LeafIndex> {
  using type = Op<ConcatJoin, Backend>;
};
template <class Net, class Backend, int LeafIndex>
struct SelectOp<NodeKind::add, true, Net, Backend, LeafIndex> {
  using type = Op<AddJoin, Backend>;
};

template <class Program, class Backend, int I>
using OpAt =
    typename SelectOp<Program::graph.node[I].kind, Program::graph.node[I].computes(),
                      typename Program::Network, Backend, Program::graph.node[I].leaf>::type;

template <int I, class O>
struct OpSlot {
  template <class Device>
  OpSlot(OpSetup const& setup, Device& device) : op{make(setup, device)} {}

  // Some ops need no device to be prepared.
  template <class Device>
  static O make(OpSetup const& setup, Device& device) {
    if constexpr (std::is_constructible_v<O, OpSetup const&, Device&>) {
      return O{setup, device};
    } else {
      return O{setup};
    }
  }

  O op;
};

template <int I, class O>
O& slot(OpSlot<I, O>& s) {
  return s.op;
}

template <class Program, class Backend, class Indices>
struct OpSlots;

template <class Program, class Backend, int... I>
struct OpSlots<Program, Backend, std::integer_sequence<int, I...>>
    : OpSlot<I, OpAt<Program, Backend, I>>... {
  template <class Device>
  OpSlots(std::vector<OpSetup> const& setup, Device& device)
      : OpSlot<I, OpAt<Program, Backend, I>>{setup[static_cast<std::size_t>(I)], device}... {}

  [[nodiscard]] std::vector<OpNeeds> needs() { return {slot<I>(*this).needs()...}; }
};

}  // namespace detail

/// Prepared ops of a program, one a node.
template <class Program, class Backend>
class OpTable {
 public:
  /// @param batch  samples in the largest microbatch
  OpTable(int batch, int threads, typename Backend::Device& device)
      : slots_{setups(batch, threads), device} {}

  template <int I>
  [[nodiscard]] auto& get() {
    return detail::slot<I>(slots_);
  }

  [[nodiscard]] std::vector<OpNeeds> needs() { return slots_.needs(); }

 private:
  static std::vector<OpSetup> setups(int batch, int threads) {
    static std::vector<Shape> const inputs = input_shapes();
    std::vector<OpSetup> list;
    for (int n = 0; n < Program::graph.nodes; ++n) {
      Node const& node = Program::graph.node[n];
      list.push_back(
          {.node = node,
           .index = node.origin,
           .inputs = inputs.data() + node.first_edge,
           .batch = batch,
           .threads = threads,
           .wants_input_gradient = gives_input_gradient(Program::graph, n),
           .reproducible = Program::batching.reproducible,
           .x_stride = node.edges > 0 ? stored_channels(Program::graph, source(node)) : 0,
           .y_stride = stored_channels(Program::graph, n),
           .merged = merged_into(n)});
    }
    return list;
  }
  static int source(Node const& node) { return Program::graph.source[node.first_edge]; }
  static MergedOutputs merged_into(int leader) {
    Node const& first = Program::graph.node[leader];
    MergedOutputs merged{.count = 0};
    for (int n = leader; n < Program::graph.nodes; ++n) {
      Node const& node = Program::graph.node[n];
      if (n == leader || (node.merged && node.home == leader)) {
        merged.channels[merged.count] = node.out[0];
        merged.parameter[merged.count++] = node.first_parameter - first.first_parameter;
      }
    }
    return merged;
  }
  static std::vector<Shape> input_shapes() {
    std::vector<Shape> shapes;
    for (int e = 0; e < Program::graph.edges; ++e) {
      shapes.push_back(Program::graph.node[Program::graph.source[e]].out);
    }
    return shapes;
  }

  detail::OpSlots<Program, Backend, std::make_integer_sequence<int, Program::graph.nodes>> slots_;
};

}  // namespace tandem

namespace tandem {

/// The ops of all nodes, of the loss and of the metric, for microbatches of one largest size.
template <class Program, class Backend, class LossType, class MetricType>
class PreparedOps {
 public:
  static constexpr Shape output = Program::Program::network.output().out;

  PreparedOps(int largest_microbatch, int threads, typename Backend::Device& device)
      : loss{output, largest_microbatch},
        metric{output},
        nodes_{largest_microbatch, threads, device},
        needs_{nodes_.needs()},
        largest_microbatch_{largest_microbatch} {}

  template <int I>
  [[nodiscard]] auto& get() {
    return nodes_.template get<I>();
  }

  /// What the op of each node asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return needs_; }

  /// What the greediest pass wants.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    std::int64_t most = Program::has_result ? loss.scratch_bytes() : 0;
    if constexpr (requires { metric.scratch_bytes(largest_microbatch_); }) {
      most = std::max(most, metric.scratch_bytes(largest_microbatch_));
    }
    for (OpNeeds const& need : needs_) {
      most = std::max(most, need.scratch_bytes);
    }
    return most;
  }

  LossOp<LossType, Backend> loss;
  MetricOp<MetricType, LossType, Backend> metric;

 private:
  OpTable<Program, Backend> nodes_;
  std::vector<OpNeeds> needs_;
  int largest_microbatch_;
};

}  // namespace tandem

// ---- tandem/engine/rank_links.hpp

/// @file
/// RankLinks: the ends of all links of a rank, and which tensors go over them.

// ---- tandem/engine/link.hpp

/// @file
/// LinkEnd: one end of a link between two devices, on which tensors of one direction travel.

namespace tandem {

/// Has a stream of its own, so that a message waits for nothing but its buffer and its other end,
/// and what is computed meanwhile goes on. Not copyable, not movable.
template <class Backend, class Communicator>
class LinkEnd {
 public:
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using Mark = typename Device::Mark;
  using Stream = typename Communicator::Stream;

  /// @param communicator  of two ranks, of which the sender is rank 0
  /// @param tracer        outlives this
  LinkEnd(Device& device, Communicator communicator, Tracer<Device>& tracer)
      : communicator_{std::move(communicator)},
        tracer_{&tracer},
        stream_{device.make_stream()},
        mark_{device.make_mark()} {}

  LinkEnd(LinkEnd const&) = delete;
  LinkEnd& operator=(LinkEnd const&) = delete;

  /// Makes the connection where the first message would: one end alone may not, since in a step the
  /// other may be sending on another link. Both ends call it, and all ranks for their links in one
  /// order.
  void connect() {
    if constexpr (requires { communicator_.warm_up(*stream_, {Operation::send}); }) {
      communicator_.warm_up(*stream_, {Operation::send});
    }
  }

  /// Sends what has been computed so far; it must not change until await().
  void send(Device& device, T const* data, std::int64_t count, Label label) {
    transfer(device, label, [&] {
      communicator_.send(std::span<T const>{data, static_cast<std::size_t>(count)}, 1, *stream_,
                         label);
    });
  }

  /// What is computed from now on comes after the message's arrival in @p data.
  void receive(Device& device, T* data, std::int64_t count, Label label) {
    transfer(device, label, [&] {
      communicator_.receive(std::span<T>{data, static_cast<std::size_t>(count)}, 0, *stream_,
                            label);
    });
    await(device);
  }

  /// What is computed from now on comes after all messages so far.
  void await(Device& device) {
    if (std::exchange(pending_, false)) {  // a capture may not wait for another step's mark
      device.await_on(*stream_, mark_);
    }
  }

  /// After an error: nothing queued reads or writes memory any more.
  void settle(Device& device) { device.settle(*stream_); }

  [[nodiscard]] Communicator& communicator() { return communicator_; }

 private:
  template <class F>
  void transfer(Device& device, Label label, F const& f) {
    device.begin_on(*stream_);
    tracer_->on_stream(device, *stream_, label, f);
    device.mark_on(*stream_, mark_);
    pending_ = true;
  }

  Communicator communicator_;
  Tracer<Device>* tracer_;
  std::unique_ptr<Stream> stream_;
  Mark mark_;
  bool pending_ = false;  // messages that nobody has awaited
};

}  // namespace tandem

// ---- tandem/engine/rank_groups.hpp

/// @file
/// RankGroups: the groups of a program's ranks, besides that of all: for each part of the model the
/// ranks that have it, and for each link and direction its two ends.

// ---- tandem/strategy/stage_map_view.hpp

/// @file
/// StageMapView: what an algorithm reads of a StageMap, or of one that was made at run time.
///
/// A view keeps pointers: the map must live as long as it.

// ---- tandem/strategy/scratch.hpp

/// @file
/// Scratch: memory of an algorithm that runs at compile time and at run time.
///
/// Its size may be known at run time only; in a constant evaluation, g++ 12 and clang 14 have no
/// std::vector.

namespace tandem::detail {

template <class T>
class Scratch {
 public:
  /// @p size elements, each T{}
  constexpr explicit Scratch(int size)
      : data_{new T[static_cast<std::size_t>(size > 0 ? size : 1)]{}} {}
  constexpr Scratch(int size, T value) : Scratch{size} {
    for (int i = 0; i < size; ++i) {
      data_[i] = value;
    }
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  constexpr ~Scratch() { delete[] data_; }

  /// In a long evaluation, take this once: an access through it costs the compiler no call.
  constexpr T* data() { return data_; }
  constexpr T& operator[](int i) { return data_[i]; }
  constexpr T const& operator[](int i) const { return data_[i]; }

 private:
  T* data_;
};

}  // namespace tandem::detail

// ---- tandem/strategy/stage_map.hpp

/// @file
/// StageMap: which device of a model replica has which stage, and between which stages tensors go.

namespace tandem {

/// Outputs of stage `from` are inputs of stage `to`. If both are on one device nothing is sent;
/// else one message a microbatch goes over `link`, and its gradient comes back over the same one.
/// Messages of a link and a direction arrive in the order in which they were sent.
struct StageEdge {
  std::int16_t from = 0;
  std::int16_t to = 0;
  std::int16_t link = 0;
};

/// The stages of one replica of a model. Every edge leads from a lower stage to a higher one.
///
/// A stage's copies (Chimera has two, in opposite directions) are stages of their own: with
/// `copies` of `parts` stages each, stage c * parts + k is copy c of part k. Copy c trains on the
/// c-th of `copies` equal runs of the replica's microbatches.
/// @tparam Stages, Edges  of all copies
template <int Stages, int Edges>
struct StageMap {
  static constexpr int stages = Stages;
  static constexpr int edges = Edges;
  int devices = 1;
  int copies = 1;
  int links = 0;
  std::int16_t device[Stages] = {};
  StageEdge edge[Edges > 0 ? Edges : 1] = {};

  [[nodiscard]] constexpr int parts() const { return Stages / copies; }
};

/// `Devices * Chunks` stages in a chain, stage k on device k modulo Devices.
template <int Devices, int Chunks = 1>
constexpr auto chain_map() {
  constexpr int stages = Devices * Chunks;
  StageMap<stages, stages - 1> map{.devices = Devices};
  for (int s = 0; s < stages; ++s) {
    map.device[s] = static_cast<std::int16_t>(s % Devices);
    if (s > 0) {
      map.edge[s - 1] = {static_cast<std::int16_t>(s - 1), static_cast<std::int16_t>(s),
                         static_cast<std::int16_t>(s - 1)};
    }
  }
  map.links = stages - 1;
  return map;
}

/// Two chains in opposite directions: stage k on device k, its copy on device Devices - 1 - k.
template <int Devices>
constexpr auto bidirectional_map() {
  StageMap<2 * Devices, 2 * (Devices - 1)> map{.devices = Devices, .copies = 2};
  for (int s = 0; s < Devices; ++s) {
    map.device[s] = static_cast<std::int16_t>(s);
    map.device[Devices + s] = static_cast<std::int16_t>(Devices - 1 - s);
  }
  for (int copy = 0; copy < 2; ++copy) {
    for (int s = 1; s < Devices; ++s) {
      int const to = copy * Devices + s;
      map.edge[map.links] = {static_cast<std::int16_t>(to - 1), static_cast<std::int16_t>(to),
                             static_cast<std::int16_t>(map.links)};
      ++map.links;
    }
  }
  return map;
}

}  // namespace tandem

namespace tandem {

struct StageMapView {
  int stages = 0;
  int edges = 0;
  int devices = 1;
  int copies = 1;
  int links = 0;
  std::int16_t const* device = nullptr;  ///< of each stage
  StageEdge const* edge = nullptr;

  constexpr StageMapView() = default;

  template <int Stages, int Edges>
  constexpr StageMapView(StageMap<Stages, Edges> const& map)
      : stages{Stages},
        edges{Edges},
        devices{map.devices},
        copies{map.copies},
        links{map.links},
        device{map.device},
        edge{map.edge} {}

  [[nodiscard]] constexpr int parts() const { return stages / copies; }

  /// Whether messages go over this edge: its stages are on two devices.
  [[nodiscard]] constexpr bool crosses(int e) const {
    return device[edge[e].from] != device[edge[e].to];
  }

  /// The first of the replica's microbatches that a stage's copy trains on.
  [[nodiscard]] constexpr int first_microbatch(int stage, int microbatches) const {
    return stage / parts() * (microbatches / copies);
  }
};

/// A StageMap whose size is known at run time only.
struct RuntimeMap {
  int devices = 1;
  int copies = 1;
  int links = 0;
  std::vector<std::int16_t> device;
  std::vector<StageEdge> edge;

  RuntimeMap() = default;

  template <int Stages, int Edges>
  explicit RuntimeMap(StageMap<Stages, Edges> const& map)
      : devices{map.devices},
        copies{map.copies},
        links{map.links},
        device(map.device, map.device + Stages),
        edge(map.edge, map.edge + Edges) {}

  operator StageMapView() const {
    StageMapView view;
    view.stages = static_cast<int>(device.size());
    view.edges = static_cast<int>(edge.size());
    view.devices = devices;
    view.copies = copies;
    view.links = links;
    view.device = device.data();
    view.edge = edge.data();
    return view;
  }
};

/// Whether stages are on devices that exist, edges lead upwards inside a copy, and all edges of a
/// link lead from one device to one other.
constexpr bool is_sound(StageMapView const& map) {
  if (map.stages < 1 || map.devices < 1 || map.copies < 1 || map.stages % map.copies != 0 ||
      map.links < 0) {
    return false;
  }
  for (int s = 0; s < map.stages; ++s) {
    if (map.device[s] < 0 || map.device[s] >= map.devices) {
      return false;
    }
  }
  detail::Scratch<int> ends_of_link{map.links, -1};
  for (int e = 0; e < map.edges; ++e) {
    StageEdge const edge = map.edge[e];
    if (edge.from < 0 || edge.from >= edge.to || edge.to >= map.stages ||
        edge.from / map.parts() != edge.to / map.parts()) {
      return false;
    }
    if (!map.crosses(e)) {
      continue;
    }
    if (edge.link < 0 || edge.link >= map.links) {
      return false;
    }
    int const ends = map.device[edge.from] * map.devices + map.device[edge.to];
    if (ends_of_link[edge.link] >= 0 && ends_of_link[edge.link] != ends) {
      return false;
    }
    ends_of_link[edge.link] = ends;
  }
  return true;
}

}  // namespace tandem

namespace tandem {

/// The same on every rank. Group -1 is that of all ranks.
template <class Program>
class RankGroups {
 public:
  static constexpr int all = -1;

  template <class = void>  // compiled where it is called, not by every include
  static std::vector<RankSet> list() {
    std::vector<RankSet> groups;
    for (int part = 0; reduces() && part < map().parts(); ++part) {
      RankSet set{.ranks = {}, .name = "stage " + std::to_string(part)};
      for (int replica = 0; replica < replicas(); ++replica) {
        for (int copy = 0; copy < map().copies; ++copy) {
          set.ranks.push_back(rank_of(replica, copy * map().parts() + part));
        }
      }
      groups.push_back(set);
    }
    for (int replica = 0; replica < replicas(); ++replica) {
      for (int link = 0; link < map().links; ++link) {
        StageEdge const& edge = first_edge(link);
        int const from = rank_of(replica, edge.from);
        int const to = rank_of(replica, edge.to);
        std::string const name =
            "boundary " + std::to_string(edge.from) + "-" + std::to_string(edge.to);
        groups.push_back({.ranks = {from, to}, .name = name + ", forward"});
        groups.push_back({.ranks = {to, from}, .name = name + ", backward"});
      }
    }
    return groups;
  }

  /// Of the ranks that have this part of the model.
  static int of_part(int part) { return reduces() ? part : all; }

  /// Of the ends of a link; the sender is its first rank.
  static int of_link(int replica, int link, bool forward) {
    return (reduces() ? map().parts() : 0) + 2 * (replica * map().links + link) + (forward ? 0 : 1);
  }

 private:
  static constexpr StageMapView map() { return Program::map; }
  static constexpr int replicas() { return Program::batching.replicas; }
  // Where each device has the whole model, its group is that of all.
  static constexpr bool reduces() { return Program::devices > 1 && replicas() * map().copies > 1; }
  static constexpr int rank_of(int replica, int stage) {
    return replica * Program::devices + map().device[stage];
  }
  static StageEdge const& first_edge(int link) {
    int e = 0;
    while (Program::map.edge[e].link != link || !map().crosses(e)) {
      ++e;
    }
    return Program::map.edge[e];
  }
};

}  // namespace tandem

// ---- tandem/engine/rank_memory.hpp

/// @file
/// RankMemory: the arenas of one rank, allocated once, and the tables of pointers into them.

// ---- tandem/engine/arenas.hpp

/// @file
/// Arenas: where the regions of a MemoryPlan stand in a rank's memory, for each live microbatch.

// ---- tandem/engine/memory_plan.hpp

/// @file
/// MemoryPlan: where each activation and each gradient of a device's nodes stands, for one size of
/// microbatch; made before the first step and never changed.
///
/// Regions. *kept*, of each stage, holds what backward reads, once for each live microbatch.
/// *recomputed* holds what backward reads and computes again first, of one run of nodes at a time.
/// *transient* holds what lives within one pass; buffers whose lives do not meet share memory
/// (first fit). *gradient* holds the gradients of one backward pass likewise, behind those that are
/// sent.

// ---- tandem/engine/first_fit.hpp

/// @file
/// FirstFit: places buffers in one region of memory by when they live.

namespace tandem {

namespace detail {

/// Buffers placed by first fit in the order of their births.
class FirstFit {
 public:
  // Memory from time @p birth to time @p death, both inclusive; births never decrease.
  template <class = void>  // compiled where it is called, not by every include
  std::int64_t place(std::int64_t bytes, int birth, int death) {
    std::erase_if(live_, [&](Block const& block) { return block.death < birth; });
    std::int64_t offset = 0;
    auto at = live_.begin();
    for (; at != live_.end() && at->offset - offset < bytes; ++at) {
      offset = at->offset + at->bytes;
    }
    live_.insert(at, {offset, bytes, death});
    peak_ = std::max(peak_, offset + bytes);
    return offset;
  }

  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  struct Block {
    std::int64_t offset;
    std::int64_t bytes;
    int death;
  };
  std::vector<Block> live_;  // by offset
  std::int64_t peak_ = 0;
};

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace detail

}  // namespace tandem

namespace tandem {

/// What a plan must know of a stage: nodes [first, last), and how many of its microbatches are live
/// at once, from the arrival of their input to the end of their backward pass.
struct StageLife {
  int first = 0;
  int last = 0;
  int live = 1;
  int deferred = 0;  ///< of these: between the input gradient and the weight gradient, where apart
  int first_microbatch = 0;  ///< of the replica's
};

/// Where a buffer is. Gradients are all in the gradient region.
enum class MemoryRegion : std::uint8_t { none, kept, recomputed, transient };

/// Offsets in bytes within a region, in *kept* within a live microbatch of the stage; -1 where
/// there is no such buffer.
struct MemoryPlan {
  static constexpr std::int64_t none = -1;

  std::vector<int> root;                    ///< of a node: whose memory its output is
  std::vector<std::int64_t> slice;          ///< of a node: where in that memory, in bytes
  std::vector<MemoryRegion> region;         ///< of a root
  std::vector<std::int64_t> value;          ///< of a root
  std::vector<int> stage;                   ///< of a root: whose *kept* region has it
  std::vector<std::int64_t> saved;          ///< of a node, kept or recomputed
  std::vector<std::int64_t> node_gradient;  ///< of a node
  std::vector<std::int64_t> edge_gradient;  ///< of an edge
  std::vector<std::int64_t> outgoing;       ///< of a received node: its gradient, to be sent
  std::vector<std::int64_t> bytes;          ///< of a node's output
  std::int64_t loss_gradient = none;        ///< where the loss writes
  std::vector<std::int64_t> kept_bytes;     ///< of a stage, for each live microbatch
  std::int64_t recomputed_bytes = 0;
  std::int64_t transient_bytes = 0;
  std::int64_t outgoing_bytes = 0;  ///< at the beginning of the gradient region
  std::int64_t gradient_bytes = 0;  ///< of one backward pass, behind them
  std::int64_t logical_bytes = 0;   ///< all outputs and gradients, had each a memory of its own
};

/// What is planned for.
struct PlanTask {
  int batch = 1;  ///< samples of the largest microbatch
  std::int64_t element_bytes = 4;
  int microbatches = 1;  ///< of the replica
  std::vector<StageLife> stages{};
  int const* segment = nullptr;  ///< of each node: its run of nodes that is computed again, or -1
  bool apart = false;  ///< gradients of several readers are sent one by one, not their sum
};

namespace detail {

/// Sizes of the buffers of a graph's nodes.
template <GraphSize Size>
struct BufferSizes {
  Graph<Size> const& graph;
  std::int64_t batch;
  std::int64_t element_bytes;

  [[nodiscard]] std::int64_t bytes(int node) const {
    return aligned(graph.node[node].out.elements() * batch * element_bytes);
  }
  // Of a root, which may be wider than what it is named after.
  [[nodiscard]] std::int64_t stored_bytes(int node) const {
    Node const& n = graph.node[node];
    std::int64_t const wider = n.width > 0 ? n.width : 1;
    std::int64_t const own = n.width > 0 ? n.out[0] : 1;
    return aligned(n.out.elements() / own * wider * batch * element_bytes);
  }
};

/// Places values, and what ops save.
template <GraphSize Size>
class ValuePlanner {
 public:
  ValuePlanner(Graph<Size> const& graph, std::vector<OpNeeds> const& needs, PlanTask const& task,
               MemoryPlan& plan)
      : graph_{graph},
        needs_{needs},
        task_{task},
        sizes_{graph, task.batch, task.element_bytes},
        plan_{plan} {}

  void place() {
    find_roots();
    find_regions();
    place_values();
  }

 private:
  [[nodiscard]] OpNeeds const& needs(int node) const {
    return needs_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] int root(int node) const { return plan_.root[static_cast<std::size_t>(node)]; }
  [[nodiscard]] MemoryRegion& region(int node) {
    return plan_.region[static_cast<std::size_t>(root(node))];
  }
  [[nodiscard]] bool is_input(int node) const { return graph_.node[node].kind == NodeKind::input; }
  template <class F>
  void each_source(int n, F const& f) const {
    Node const& node = graph_.node[n];
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      f(graph_.source[e]);
    }
  }

  void find_roots() {
    for (int n = 0; n < Size.nodes; ++n) {
      plan_.bytes.push_back(sizes_.bytes(n));
      plan_.root.push_back(root_of(graph_, n));
      plan_.slice.push_back(first_channel_of(graph_, n) * task_.element_bytes);
    }
    for (int n = 0; n < Size.nodes; ++n) {
      int const over = overwritten_by(n);
      if (over >= 0) {
        std::replace(plan_.root.begin(), plan_.root.end(), n, root(over));
      }
    }
  }

  // The input whose memory takes the output of node n as well, or -1: nobody needs the input later.
  [[nodiscard]] int overwritten_by(int n) const {
    int over = -1;
    each_source(n, [&](int source) {
      if (over < 0 && needs(n).in_place && root(n) == n && !is_input(root(source)) &&
          sizes_.bytes(source) == sizes_.bytes(n) &&
          sizes_.stored_bytes(root(source)) == sizes_.bytes(n) && is_over(root(source), n)) {
        over = source;
      }
    });
    return over;
  }

  // Whether memory that is of root @p r is read by nobody but node @p n from then on.
  [[nodiscard]] bool is_over(int r, int n) const {
    if (crosses(r, n)) {
      return false;
    }
    for (int m = 0; m < Size.nodes; ++m) {
      Node const& node = graph_.node[m];
      if (root(m) == r && (m > n || (node.needs_gradient && needs(m).output))) {
        return false;
      }
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        bool const later = node.kind == NodeKind::send || (node.needs_gradient && needs(m).input);
        if (root(graph_.source[e]) == r && root(m) != r && m != n && (m > n || later)) {
          return false;
        }
      }
    }
    return true;
  }

  // Whether node @p n reads what another stage, or another run that is computed again, has made.
  [[nodiscard]] bool crosses(int source, int n) const {
    return graph_.node[source].stage != graph_.node[n].stage || segment(source) != segment(n) ||
           (segment(n) >= 0 && graph_.node[source].kind == NodeKind::receive);
  }
  [[nodiscard]] int segment(int node) const {
    return task_.segment != nullptr ? task_.segment[node] : -1;
  }

  void find_regions() {
    plan_.region.assign(Size.nodes, MemoryRegion::transient);
    for (int n = 0; n < Size.nodes; ++n) {  // what backward reads
      Node const& node = graph_.node[n];
      MemoryRegion const wanted = segment(n) >= 0 ? MemoryRegion::recomputed : MemoryRegion::kept;
      if (node.needs_gradient && needs(n).output) {
        region(n) = wanted;
      }
      each_source(n, [&](int source) {
        if (node.needs_gradient && needs(n).input) {
          region(source) = wanted;
        }
      });
    }
    for (int n = 0; n < Size.nodes; ++n) {  // what must outlive its pass
      Node const& node = graph_.node[n];
      if (node.kind == NodeKind::receive || n == graph_.result) {  // the loss reads it again
        region(n) = MemoryRegion::kept;
      }
      each_source(n, [&](int source) {
        if (node.kind == NodeKind::send || crosses(root(source), n)) {
          region(source) = MemoryRegion::kept;
        }
      });
    }
    for (int n = 0; n < Size.nodes; ++n) {
      if (is_input(root(n))) {
        region(n) = MemoryRegion::none;
      }
    }
  }

  void place_values() {
    std::vector<int> last(Size.nodes, 0);  // of a root: when it is read or written last in forward
    for (int n = 0; n < Size.nodes; ++n) {
      auto const used = [&](int node) { last[static_cast<std::size_t>(root(node))] = n; };
      used(n);
      each_source(n, used);
    }
    plan_.value.assign(Size.nodes, MemoryPlan::none);
    plan_.saved.assign(Size.nodes, MemoryPlan::none);
    plan_.stage.assign(Size.nodes, 0);
    plan_.kept_bytes.assign(task_.stages.size(), 0);
    detail::FirstFit transient;
    for (std::size_t s = 0; s < task_.stages.size(); ++s) {
      std::int64_t recomputed = 0;
      for (int n = task_.stages[s].first; n < task_.stages[s].last; ++n) {
        recomputed = n > 0 && segment(n) != segment(n - 1) ? 0 : recomputed;
        auto const reserve = [&](MemoryRegion where, std::int64_t size) {
          std::int64_t& used = where == MemoryRegion::kept ? plan_.kept_bytes[s] : recomputed;
          std::int64_t const offset = used;
          used += size;
          plan_.recomputed_bytes = std::max(plan_.recomputed_bytes, recomputed);
          return offset;
        };
        auto const i = static_cast<std::size_t>(n);
        auto const r = static_cast<std::size_t>(root(n));
        MemoryRegion const where = plan_.region[r];
        if (where != MemoryRegion::none && plan_.value[r] == MemoryPlan::none &&
            graph_.node[n].kind != NodeKind::send) {  // whoever writes there first
          std::int64_t const size = sizes_.stored_bytes(root(n));
          plan_.stage[r] = static_cast<int>(s);
          plan_.value[r] = where == MemoryRegion::transient ? transient.place(size, n, last[r])
                                                            : reserve(where, size);
        }
        if (needs(n).saved_bytes > 0) {
          plan_.saved[i] = reserve(segment(n) >= 0 ? MemoryRegion::recomputed : MemoryRegion::kept,
                                   aligned(needs(n).saved_bytes));
        }
        Node const& node = graph_.node[n];
        bool const written = !node.is_end() && (!node.view || node.layer == LayerKind::relu);
        plan_.logical_bytes += written ? sizes_.bytes(n) * (node.needs_gradient ? 2 : 1) : 0;
      }
    }
    plan_.transient_bytes = transient.peak();
  }

  Graph<Size> const& graph_;
  std::vector<OpNeeds> const& needs_;
  PlanTask const& task_;
  BufferSizes<Size> sizes_;
  MemoryPlan& plan_;
};

}  // namespace detail

}  // namespace tandem

namespace tandem {

/// Two arenas: one of what is kept, stage by stage and slot by slot; one of what is sent, values
/// and gradients. Of a stage, microbatch m of the replica has slot m modulo its live ones.
class Arenas {
 public:
  /// Both outlive this.
  Arenas(MemoryPlan const& plan, PlanTask const& task) : plan_{plan}, task_{task} {
    for (StageLife const& stage : task.stages) {
      deferred_ = std::max(deferred_, stage.deferred);
    }
  }

  /// So many tables of pointers that live microbatches have different ones, and each of them always
  /// the same slots: microbatch m has table m modulo this number.
  [[nodiscard]] int tables() const {
    int count = 1;
    for (StageLife const& stage : task_.stages) {
      count = std::lcm(count, std::max(stage.live, 1));
      count = std::lcm(count, std::max(stage.deferred, 1));
    }
    return std::min(count, task_.microbatches);
  }

  [[nodiscard]] std::int64_t kept_bytes() const {
    return kept_before(static_cast<int>(task_.stages.size()));
  }
  /// Where the slot of @p table of a stage begins.
  [[nodiscard]] std::int64_t kept_at(int stage, int table) const {
    auto const s = static_cast<std::size_t>(stage);
    StageLife const& own = task_.stages[s];
    return kept_before(stage) + slot(table, own.first_microbatch, own.live) * plan_.kept_bytes[s];
  }

  /// Of what is sent, values, and gradients. The last two share memory unless values are computed
  /// again between gradients, or gradients outlive their pass.
  [[nodiscard]] std::int64_t transient_bytes() const {
    return gradients_at() + (shares() ? std::max(plan_.transient_bytes, plan_.gradient_bytes)
                                      : plan_.gradient_bytes * std::max(deferred_, 1));
  }
  [[nodiscard]] std::int64_t values_at() const { return plan_.outgoing_bytes; }
  /// What is to be added to the plan's @p offset of a gradient.
  [[nodiscard]] std::int64_t gradient_at(int table, std::int64_t offset) const {
    if (offset < plan_.outgoing_bytes) {
      return 0;
    }
    int const own =
        deferred_ > 0 ? slot(table, task_.stages.front().first_microbatch, deferred_) : 0;
    return gradients_at() - plan_.outgoing_bytes + own * plan_.gradient_bytes;
  }

 private:
  [[nodiscard]] static int slot(int table, int first, int slots) {
    return ((table - first) % slots + slots) % slots;
  }
  [[nodiscard]] std::int64_t kept_before(int stage) const {
    std::int64_t sum = 0;
    for (int s = 0; s < stage; ++s) {
      sum += plan_.kept_bytes[static_cast<std::size_t>(s)] *
             task_.stages[static_cast<std::size_t>(s)].live;
    }
    return sum;
  }
  [[nodiscard]] bool shares() const { return plan_.recomputed_bytes == 0 && deferred_ == 0; }
  [[nodiscard]] std::int64_t gradients_at() const {
    return plan_.outgoing_bytes + (shares() ? 0 : plan_.transient_bytes);
  }

  MemoryPlan const& plan_;
  PlanTask const& task_;
  int deferred_ = 0;
};

}  // namespace tandem

// ---- tandem/engine/gradient_plan.hpp

/// @file
/// plan_memory: a MemoryPlan whole, values and gradients.

namespace tandem {

namespace detail {

/// Places the gradients of a MemoryPlan whose values have been placed.
template <GraphSize Size>
class GradientPlanner {
 public:
  GradientPlanner(Graph<Size> const& graph, std::vector<OpNeeds> const& needs, PlanTask const& task,
                  MemoryPlan& plan)
      : graph_{graph},
        needs_{needs},
        task_{task},
        sizes_{graph, task.batch, task.element_bytes},
        plan_{plan} {}

  // In backward, node n has time `nodes - n`; a buffer lives until its last reader's time.
  void place() {
    plan_.node_gradient.assign(Size.nodes, MemoryPlan::none);
    plan_.edge_gradient.assign(static_cast<std::size_t>(Size.edges), MemoryPlan::none);
    plan_.outgoing.assign(Size.nodes, MemoryPlan::none);
    wide_gradient_.assign(Size.nodes, MemoryPlan::none);
    dies_.resize(Size.nodes);  // of a node's gradient, through nodes that pass it on
    own_.assign(Size.nodes, true);
    place_outgoing();
    find_deaths();
    for (int n = Size.nodes - 1; n >= 0; --n) {
      if (graph_.node[n].needs_gradient) {
        place_node_gradient(n);
        place_edge_gradients(n);
      }
    }
    plan_.gradient_bytes = gradients_.peak();
  }

 private:
  [[nodiscard]] OpNeeds const& needs(int node) const {
    return needs_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] int readers(int node) const {
    int count = 0;
    for (int e = 0; e < Size.edges; ++e) {
      count += graph_.source[e] == node ? 1 : 0;
    }
    return count;
  }

  // What is sent while the next passes compute has memory that nothing else uses.
  void place_outgoing() {
    for (int n = 0; n < Size.nodes; ++n) {
      Node const& node = graph_.node[n];
      if (node.kind == NodeKind::receive && node.needs_gradient) {
        plan_.outgoing[static_cast<std::size_t>(n)] = plan_.outgoing_bytes;
        plan_.outgoing_bytes += sizes_.bytes(n) * (task_.apart ? readers(n) : 1);
      }
    }
  }

  void find_deaths() {
    bool deferred = false;  // weight gradients are computed when the pass is over
    for (StageLife const& stage : task_.stages) {
      deferred = deferred || stage.deferred > 0;
    }
    for (int n = 0; n < Size.nodes; ++n) {
      Node const& node = graph_.node[n];
      int& death = dies_[static_cast<std::size_t>(n)];
      death = deferred ? std::numeric_limits<int>::max() : time(node.merged ? node.home : n);
      for (int e = 0; passes_on(n) && e < node.edges; ++e) {
        int const source = graph_.source[node.first_edge + e];
        death = std::max(death, dies_[static_cast<std::size_t>(source)]);
      }
    }
  }

  // The gradient of its only reader's input, or a sum of several in memory of its own.
  void place_node_gradient(int n) {
    if (graph_.node[n].kind == NodeKind::send) {
      return;
    }
    auto const i = static_cast<std::size_t>(n);
    int users = 0;
    std::int64_t only = MemoryPlan::none;
    for (int m = n + 1; m < Size.nodes; ++m) {
      for (int e = graph_.node[m].first_edge, end = e + graph_.node[m].edges; e < end; ++e) {
        if (graph_.source[e] == n && plan_.edge_gradient[static_cast<std::size_t>(e)] >= 0) {
          ++users;
          only = plan_.edge_gradient[static_cast<std::size_t>(e)];
          own_[i] = graph_.node[m].kind != NodeKind::add &&
                    (own_[static_cast<std::size_t>(m)] || !passes_on(m));
        }
      }
    }
    if (n == graph_.result) {
      only = plan_.loss_gradient = place(sizes_.bytes(n), n, n);
      users = 1;
    }
    if (plan_.outgoing[i] >= 0) {
      only = plan_.outgoing[i];
    } else if (users != 1) {
      own_[i] = true;
      only = place(sizes_.bytes(n), n, n);
    }
    plan_.node_gradient[i] = only;
  }

  void place_edge_gradients(int n) {
    Node const& node = graph_.node[n];
    std::int64_t channel = 0;
    for (int e = node.first_edge; e < node.first_edge + node.edges && !node.merged; ++e) {
      int const source = graph_.source[e];
      std::int64_t const offset = node.placed ? channel * task_.element_bytes : 0;
      channel += graph_.node[source].out[0];
      if (graph_.node[source].needs_gradient) {
        plan_.edge_gradient[static_cast<std::size_t>(e)] =
            passes_on(n) ? plan_.node_gradient[static_cast<std::size_t>(n)] + offset
                         : place_edge_gradient(n, source);
      }
    }
  }

  // What node @p n writes as the gradient of @p source, perhaps a slice of a wide one.
  std::int64_t place_edge_gradient(int n, int source) {
    Node const& node = graph_.node[source];
    if (plan_.outgoing[static_cast<std::size_t>(source)] >= 0 && readers(source) == 1) {
      return plan_.outgoing[static_cast<std::size_t>(source)];
    }
    int const leader = node.merged ? node.home : source;
    if (graph_.node[leader].width == 0) {
      return place(sizes_.bytes(source), n, source);
    }
    std::int64_t& wide = wide_gradient_[static_cast<std::size_t>(leader)];
    if (wide == MemoryPlan::none) {
      wide = place(sizes_.stored_bytes(leader), n, leader);
    }
    return wide + node.first_channel * task_.element_bytes;
  }

  // Memory that is written when @p writer has its turn and read until that of @p last.
  std::int64_t place(std::int64_t bytes, int writer, int last) {
    return plan_.outgoing_bytes +
           gradients_.place(bytes, time(writer), dies_[static_cast<std::size_t>(last)]);
  }

  [[nodiscard]] static int time(int node) { return Size.nodes - node; }
  // The gradient of its output and those of its inputs are in the same memory.
  [[nodiscard]] bool passes_on(int n) const {
    Node const& node = graph_.node[n];
    return node.kind == NodeKind::add || node.view || node.placed ||
           (needs(n).in_place && own_[static_cast<std::size_t>(n)]);
  }

  Graph<Size> const& graph_;
  std::vector<OpNeeds> const& needs_;
  PlanTask const& task_;
  BufferSizes<Size> sizes_;
  MemoryPlan& plan_;
  FirstFit gradients_;
  std::vector<std::int64_t> wide_gradient_;  // of the first of merged nodes
  std::vector<int> dies_;
  std::vector<bool> own_;  // of a node: nobody else has its gradient's memory
};

}  // namespace detail

/// Plans the memory of a device's graph. @p needs are those of each node's op.
template <GraphSize Size>
MemoryPlan plan_memory(Graph<Size> const& graph, std::vector<OpNeeds> const& needs,
                       PlanTask const& task) {
  MemoryPlan plan;
  detail::ValuePlanner<Size>{graph, needs, task, plan}.place();
  detail::GradientPlanner<Size>{graph, needs, task, plan}.place();
  return plan;
}

}  // namespace tandem

// ---- tandem/ops/operand_table.hpp

/// @file
/// OperandTable: where everything stands that a device's nodes read and write for one microbatch.

namespace tandem {

template <class T, class P = T>
struct OperandTable {
  Operands<T, P> const* operands = nullptr;  ///< of each node
  T const* const* forks = nullptr;           ///< gradients of nodes' outputs that are to be added
  std::size_t const* first_fork = nullptr;   ///< of each node, those of its output
  T* const* gradient = nullptr;              ///< of each node's output
  T const* output = nullptr;                 ///< the network's, where the device has it
  T* loss_gradient = nullptr;                ///< likewise
};

}  // namespace tandem

namespace tandem {

/// All memory of a rank. What a node reads and writes for a microbatch stands in one of several
/// tables, table(m) for the replica's microbatch m; microbatches that are live at once have
/// different ones.
template <class Program, class Backend>
class RankMemory : public ParameterMemory<Program, Backend> {
  using Base = ParameterMemory<Program, Backend>;

 public:
  using Base::graph;
  using Base::layout;
  using typename Base::Buffer;
  using typename Base::Device;
  using typename Base::P;
  using typename Base::T;

  /// What a rank computes at a time: the operands of each node for one microbatch.
  using Table = OperandTable<T, P>;

  /// @param ops     have needs() and scratch_bytes(), as PreparedOps
  /// @param task    what is planned for
  /// @param leaves  of one replica
  template <class Ops>
  RankMemory(Device& device, Ops const& ops, int states, PlanTask const& task, int leaves)
      : Base{device, states, leaves},
        task_{task},
        plan_{plan_memory(graph, ops.needs(), task)},
        arenas_{plan_, task_},
        kept_{device, static_cast<std::size_t>(arenas_.kept_bytes())},
        recomputed_{device, static_cast<std::size_t>(plan_.recomputed_bytes)},
        transient_{device, static_cast<std::size_t>(arenas_.transient_bytes())},
        scratch_{device, static_cast<std::size_t>(ops.scratch_bytes())},
        packed_{device, packed_bytes(ops.needs())} {
    point_parameters();
    point_packed(ops.needs());
    int const count = arenas_.tables();
    tables_.reserve(static_cast<std::size_t>(count));
    for (int t = 0; t < count; ++t) {
      tables_.push_back(std::make_unique<Storage>());
      point_activations(t, *tables_.back());
    }
    for (int m = 0; m < task.microbatches; ++m) {
      of_microbatch_.push_back(tables_[static_cast<std::size_t>(m % count)].get());
    }
  }

  [[nodiscard]] std::byte* scratch() const { return scratch_.data(); }

  /// The operands for microbatch @p m of the replica.
  [[nodiscard]] Table const& table(int m) const { return storage(m).table; }

  /// Points every edge that carries the network's input to @p x, for microbatch @p m.
  void set_input(int m, T const* x) {
    Storage& own = storage(m);
    for (int i = 0; i < input_edges; ++i) {
      *own.input_edge[i] = x;
    }
    if constexpr (result_is_input) {
      own.table.output = x;
    }
  }

  /// The gradient of a received node, to be sent: of its reader @p reader where they are sent
  /// apart.
  [[nodiscard]] T* outgoing(int node, int reader = 0) const {
    return at(transient_, reader * plan_.bytes[static_cast<std::size_t>(node)],
              plan_.outgoing[static_cast<std::size_t>(node)]);
  }

  [[nodiscard]] MemoryReport report() const {
    return {.parameters = Base::parameter_bytes(),
            .gradients = Base::gradient_bytes(),
            .optimizer_state = Base::state_bytes(),
            .kept = Base::size(kept_),
            .recomputed = Base::size(recomputed_),
            .transient = Base::size(transient_),
            .scratch = Base::size(scratch_),
            .weights = Base::weight_bytes() + Base::size(packed_),
            .logical = plan_.logical_bytes};
  }

 private:
  static constexpr bool is_input(int node) {
    return graph.node[root_of(graph, node)].kind == NodeKind::input;
  }
  static constexpr int input_edges = [] {
    int count = 0;
    for (int e = 0; e < graph.edges; ++e) {
      count += is_input(graph.source[e]) ? 1 : 0;
    }
    return count;
  }();

  // One table, and the arrays that it points into.
  struct Storage {
    Table table;
    T const** input_edge[input_edges > 0 ? input_edges : 1] = {};
    std::vector<T const*> edge_value;
    std::vector<T*> edge_gradient;
    std::vector<T const*> forks;
    std::vector<std::size_t> first_fork;
    std::vector<T*> gradient;
    std::vector<Operands<T, P>> operands;
  };
  static constexpr bool result_is_input = graph.result >= 0 && is_input(graph.result);

  static T* at(Buffer const& arena, std::int64_t base, std::int64_t offset) {
    return offset < 0 ? nullptr : reinterpret_cast<T*>(arena.data() + base + offset);
  }

  [[nodiscard]] Storage& storage(int m) const {
    return *of_microbatch_[static_cast<std::size_t>(m)];
  }

  [[nodiscard]] T* gradient(int table, std::int64_t offset) const {
    return at(transient_, arenas_.gradient_at(table, offset), offset);
  }
  [[nodiscard]] T* place(MemoryRegion region, int stage, int table, std::int64_t offset) const {
    switch (region) {
      case MemoryRegion::kept:
        return at(kept_, arenas_.kept_at(stage, table), offset);
      case MemoryRegion::recomputed:
        return at(recomputed_, 0, offset);
      case MemoryRegion::transient:
        return at(transient_, arenas_.values_at(), offset);
      case MemoryRegion::none:
        break;
    }
    return nullptr;
  }
  [[nodiscard]] T* value_of(int node, int table) const {
    auto const n = static_cast<std::size_t>(node);
    auto const root = static_cast<std::size_t>(plan_.root[n]);
    return plan_.value[root] < 0 ? nullptr
                                 : place(plan_.region[root], plan_.stage[root], table,
                                         plan_.value[root] + plan_.slice[n]);
  }

  void point_parameters() {
    for (int p = 0; p < graph.parameters; ++p) {
      parameter_.push_back(this->parameters() + layout.offset[p]);
      weight_.push_back(this->weights() != nullptr ? this->weights() + layout.offset[p] : nullptr);
      gradient_.push_back(graph.parameter[p].frozen ? nullptr
                                                    : this->gradients() + layout.offset[p]);
    }
  }

  void point_activations(int t, Storage& own) const {
    for (int e = 0; e < graph.edges; ++e) {
      own.edge_value.push_back(value_of(graph.source[e], t));
      own.edge_gradient.push_back(gradient(t, plan_.edge_gradient[static_cast<std::size_t>(e)]));
    }
    for (int e = 0, i = 0; e < graph.edges; ++e) {
      if (is_input(graph.source[e])) {
        own.input_edge[i++] = &own.edge_value[static_cast<std::size_t>(e)];
      }
    }
    for (int s = 0; s < static_cast<int>(task_.stages.size()); ++s) {
      StageLife const& stage = task_.stages[static_cast<std::size_t>(s)];
      for (int n = stage.first; n < stage.last; ++n) {
        auto const i = static_cast<std::size_t>(n);
        Node const& node = graph.node[n];
        point_forks(n, own);
        own.gradient.push_back(gradient(t, plan_.node_gradient[i]));
        MemoryRegion const saved = task_.segment != nullptr && task_.segment[n] >= 0
                                       ? MemoryRegion::recomputed
                                       : MemoryRegion::kept;
        own.operands.push_back(
            {.x = own.edge_value.data() + node.first_edge,
             .y = value_of(n, t),
             .dy = own.gradient.back(),
             .dx = own.edge_gradient.data() + node.first_edge,
             .parameter = parameter_.data() + node.first_parameter,
             .weight = weight_.data() + node.first_parameter,
             .gradient = gradient_.data() + node.first_parameter,
             .saved = reinterpret_cast<std::byte*>(place(saved, s, t, plan_.saved[i])),
             .packed = packed_at_[i]});
      }
    }
    own.table = {.operands = own.operands.data(),
                 .forks = own.forks.data(),
                 .first_fork = own.first_fork.data(),
                 .gradient = own.gradient.data(),
                 .output = graph.result >= 0 ? value_of(graph.result, t) : nullptr,
                 .loss_gradient = gradient(t, plan_.loss_gradient)};
  }

  // The gradients of the edges that carry a node's output, in the order of the network's edges.
  void point_forks(int n, Storage& own) const {
    own.first_fork.push_back(own.forks.size());
    std::vector<std::pair<int, T const*>> forks;
    for (int m = n + 1; m < graph.nodes; ++m) {
      for (int e = graph.node[m].first_edge, end = e + graph.node[m].edges; e < end; ++e) {
        if (graph.source[e] == n && !graph.node[m].merged) {
          forks.emplace_back(graph.edge_origin[e], own.edge_gradient[static_cast<std::size_t>(e)]);
        }
      }
    }
    std::stable_sort(forks.begin(), forks.end(),
                     [](auto const& a, auto const& b) { return a.first < b.first; });
    for (auto const& fork : forks) {
      own.forks.push_back(fork.second);
    }
  }

  static std::size_t packed_bytes(std::vector<OpNeeds> const& needs) {
    std::int64_t sum = 0;
    for (OpNeeds const& need : needs) {
      sum += detail::aligned(need.packed_bytes);
    }
    return static_cast<std::size_t>(sum);
  }
  void point_packed(std::vector<OpNeeds> const& needs) {
    std::byte* next = packed_.data();
    for (OpNeeds const& need : needs) {
      packed_at_.push_back(next);
      next += detail::aligned(need.packed_bytes);
    }
  }

  PlanTask task_;
  MemoryPlan plan_;
  Arenas arenas_;
  Buffer kept_;
  Buffer recomputed_;
  Buffer transient_;  // what is sent, then values and gradients
  Buffer scratch_;
  Buffer packed_;
  std::vector<P*> parameter_;
  std::vector<T const*> weight_;
  std::vector<P*> gradient_;
  std::vector<std::byte*> packed_at_;
  std::vector<std::unique_ptr<Storage>> tables_;
  std::vector<Storage*> of_microbatch_;
};

}  // namespace tandem

// ---- tandem/strategy/local_stage.hpp

/// @file
/// LocalStages: which nodes of a device's graph each of its stages has.

namespace tandem {

/// One of a device's stages: nodes [first, last) of its graph.
struct LocalStage {
  int id = 0;  ///< in the StageMap
  int first = 0;
  int last = 0;
  int copy = 0;                 ///< which of the model's copies it is part of
  int part = 0;                 ///< which part of the model it is
  bool needs_gradient = false;  ///< some node of it does, so that it goes backward
  bool has_input = false;       ///< it reads the network's input
  bool has_result = false;      ///< it gives the network's output
};

/// The stages of a device, in the order of its graph.
template <int Count>
struct LocalStages {
  static constexpr int count = Count;
  LocalStage stage[Count] = {};
};

namespace detail {

template <GraphSize Size>
constexpr int count_stages(Graph<Size> const& graph) {
  int count = 1;
  for (int n = 1; n < Size.nodes; ++n) {
    count += graph.node[n].stage != graph.node[n - 1].stage ? 1 : 0;
  }
  return count;
}

template <int Count, GraphSize Size>
constexpr LocalStages<Count> find_stages(Graph<Size> const& graph, int parts) {
  LocalStages<Count> stages;
  int next = 0;
  for (int n = 0; n < Size.nodes; ++n) {
    int const id = graph.node[n].stage;
    if (n == 0 || id != graph.node[n - 1].stage) {
      stages.stage[next++] = {
          .id = id, .first = n, .last = n, .copy = id / parts, .part = id % parts};
    }
    LocalStage& stage = stages.stage[next - 1];
    stage.last = n + 1;
    stage.needs_gradient = stage.needs_gradient || graph.node[n].needs_gradient;
    stage.has_input = stage.has_input || graph.node[n].kind == NodeKind::input;
    stage.has_result = stage.has_result || n == graph.result;
  }
  return stages;
}

}  // namespace detail

}  // namespace tandem

namespace tandem {

/// Sends and receives what the nodes of kind `send` and `receive` stand for. Made once; a message
/// allocates nothing here.
template <class Program, class Backend, class Communicator>
class RankLinks {
 public:
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using Memory = RankMemory<Program, Backend>;
  using Table = typename Memory::Table;
  using End = LinkEnd<Backend, Communicator>;
  using Whole = typename Program::Program;
  static constexpr auto const& graph = Program::graph;

  /// @param connect  connect(group): this rank's end of a group of RankGroups
  template <class Connect>
  RankLinks(Device& device, int replica, Connect const& connect, Tracer<Device>& tracer) {
    ends_.resize(2 * static_cast<std::size_t>(Whole::map.links));
    for (int s = 0; s < Program::stages.count; ++s) {
      LocalStage const& stage = Program::stages.stage[s];
      for (int n = stage.first; n < stage.last; ++n) {
        Node const& node = graph.node[n];
        if (node.kind != NodeKind::send && node.kind != NodeKind::receive) {
          continue;
        }
        bool const sends = node.kind == NodeKind::send;
        int const link =
            sends ? link_between(stage.id, node.peer) : link_between(node.peer, stage.id);
        for (bool const forward : {true, false}) {
          std::unique_ptr<End>& own = end(link, forward);
          if (own == nullptr && (forward || node.needs_gradient)) {
            own = std::make_unique<End>(
                device, connect(RankGroups<Whole>::of_link(replica, link, forward)), tracer);
          }
        }
        (sends ? sends_ : receives_).push_back({.node = n, .stage = stage.id, .link = link});
      }
    }
    for (auto const& own : ends_) {  // in the order of the links, which is the same on all ranks
      if (own != nullptr) {
        own->connect();
      }
    }
    // Their gradients come in the order in which later stages go backward.
    gradients_ = sends_;
    std::stable_sort(gradients_.begin(), gradients_.end(),
                     [](Transfer const& a, Transfer const& b) {
                       return graph.node[a.node].peer > graph.node[b.node].peer;
                     });
    for (LocalStage const& stage : Program::stages.stage) {
      for (char const* const verb : {"SEND_F", "RECV_F", "SEND_B", "RECV_B"}) {
        names_.push_back(std::to_string(stage.id) + verb);
      }
    }
  }

  /// What stage @p id has made of a microbatch of @p batch samples leaves.
  void send_forward(Device& device, Table const& table, int id, int m, std::int64_t batch) {
    for (Transfer const& t : sends_) {
      if (t.stage == id) {
        int const source = graph.source[graph.node[t.node].first_edge];
        end(t.link, true)
            ->send(device, table.operands[source].y, batch * elements(t), label(id, 0, m));
      }
    }
  }
  void receive_forward(Device& device, Table const& table, int id, int m, std::int64_t batch) {
    for (Transfer const& t : receives_) {
      if (t.stage == id) {
        end(t.link, true)
            ->receive(device, table.operands[t.node].y, batch * elements(t), label(id, 1, m));
      }
    }
  }
  /// The gradients of what stage @p id received.
  void send_backward(Device& device, Memory const& memory, int id, int m, std::int64_t batch) {
    for (Transfer const& t : receives_) {
      for (int r = 0; t.stage == id && r < messages(t); ++r) {
        end(t.link, false)
            ->send(device, memory.outgoing(t.node, r), batch * elements(t), label(id, 2, m));
      }
    }
  }
  void receive_backward(Device& device, Table const& table, int id, int m, std::int64_t batch) {
    for (Transfer const& t : gradients_) {
      Node const& node = graph.node[t.node];
      for (int e = 0; t.stage == id && node.needs_gradient && e < node.edges; ++e) {
        end(t.link, false)
            ->receive(device, table.operands[t.node].dx[e], batch * elements(t), label(id, 3, m));
      }
    }
  }

  /// What stage @p id sent forward, or its gradients, may be overwritten by what is computed next.
  /// In training a gradient that came back says so, where there is one.
  void await_forward(Device& device, int id, bool training) {
    for (Transfer const& t : sends_) {
      if (t.stage == id && !(training && graph.node[t.node].needs_gradient)) {
        end(t.link, true)->await(device);
      }
    }
  }
  void await_backward(Device& device, int id) {
    for (Transfer const& t : receives_) {
      if (t.stage == id && end(t.link, false) != nullptr) {
        end(t.link, false)->await(device);
      }
    }
  }

  /// All messages are behind what is computed next.
  void await_all(Device& device) {
    for (auto const& own : ends_) {
      if (own != nullptr) {
        own->await(device);
      }
    }
  }
  void settle(Device& device) {
    for (auto const& own : ends_) {
      if (own != nullptr) {
        own->settle(device);
      }
    }
  }

 private:
  struct Transfer {
    int node;
    int stage;
    int link;
  };

  static int link_between(int from, int to) {
    for (StageEdge const& edge : Whole::map.edge) {
      if (edge.from == from && edge.to == to) {
        return edge.link;
      }
    }
    return 0;
  }
  std::unique_ptr<End>& end(int link, bool forward) {
    return ends_[2 * static_cast<std::size_t>(link) + (forward ? 0 : 1)];
  }
  static std::int64_t elements(Transfer const& t) { return graph.node[t.node].out.elements(); }
  // Gradients of one received tensor.
  static int messages(Transfer const& t) {
    if (!graph.node[t.node].needs_gradient) {
      return 0;
    }
    int readers = 0;
    for (int e = 0; e < graph.edges; ++e) {
      readers += graph.source[e] == t.node ? 1 : 0;
    }
    return Whole::batching.reproducible ? readers : 1;
  }
  Label label(int id, int verb, int microbatch) const {
    int local = 0;
    while (Program::stages.stage[local].id != id) {
      ++local;
    }
    return {names_[static_cast<std::size_t>(4 * local + verb)].c_str(), microbatch};
  }

  std::vector<std::unique_ptr<End>> ends_;  // of each link and direction, if it is the rank's
  std::vector<Transfer> sends_;
  std::vector<Transfer> receives_;
  std::vector<Transfer> gradients_;
  std::vector<std::string> names_;  // of each local stage, its four kinds of messages
};

}  // namespace tandem

// ---- tandem/engine/rank_plan.hpp

/// @file
/// RankPlan: a device's rows of actions, and how many microbatches its stages hold for them.

// ---- tandem/strategy/live_microbatches.hpp

/// @file
/// How many microbatches a stage must hold at once, which is what its activations cost.

namespace tandem {

/// Most microbatches of a stage that are live at once: from RECV_F (F where nothing is received) to
/// the end of B (W where backward is split), in the order of its device's row.
///
/// They are consecutive, so microbatch i may live in slot i modulo this number.
/// @pre the table passes verify()
template <class Table>
constexpr int live_microbatches(Table const& table, StageMapView const& map, int stage) {
  int received = 0;
  int forwarded = 0;
  int retired = 0;
  int most = 0;
  for (Action const& action : row_of(table, map.device[stage])) {
    if (action.stage != stage) {
      continue;
    }
    received += action.kind == ActionKind::receive_forward ? 1 : 0;
    forwarded += action.kind == ActionKind::forward ? 1 : 0;
    most = std::max(most, std::max(received, forwarded) - retired);
    retired +=
        action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient ? 1 : 0;
  }
  return most;
}

/// Most microbatches of a stage that are between I and W at once; 0 if backward is not split.
/// @pre the table passes verify()
template <class Table>
constexpr int deferred_microbatches(Table const& table, StageMapView const& map, int stage) {
  int deferred = 0;
  int most = 0;
  for (Action const& action : row_of(table, map.device[stage])) {
    if (action.stage == stage && action.kind == ActionKind::input_gradient) {
      most = std::max(most, ++deferred);
    } else if (action.stage == stage && action.kind == ActionKind::weight_gradient) {
      --deferred;
    }
  }
  return most;
}

}  // namespace tandem

namespace tandem {

/// What a rank does in a step. Made at start-up from the strategy's table, or from one that was
/// imported.
struct RankPlan {
  Batching batching{};
  std::vector<Action> training{};  ///< ends with an `end`
  std::vector<Action> forward{};   ///< of an evaluation or a prediction, likewise
  Action last_forward{};           ///< of a training step; the losses are summed behind it
  Action last_evaluation{};
  std::vector<StageLife> stages{};
};

/// The strategy's batching, with the microbatches of an imported table if there are any.
template <class Whole>
Batching batching_with(int microbatches) {
  Batching batching = Whole::batching;
  if (microbatches > 0) {
    if (batching.leaves == batching.microbatches) {  // one a microbatch, or one in all
      batching.leaves = batching.reproducible ? microbatches : 1;
    }
    batching.microbatches = microbatches;
  }
  return batching;
}

/// The plan of device @p Program::device: the passes and messages of its row, then the reductions
/// and the update. Evaluation does the forward passes in the same order.
/// @param batching  with as many microbatches as @p table has
template <class Program, class Table>
RankPlan make_rank_plan(Table const& table, Batching const& batching) {
  using Whole = typename Program::Program;
  RankPlan plan{.batching = batching};
  for (Action const& action : row_of(table, Program::device)) {
    plan.training.push_back(action);
    bool const is_forward = action.kind == ActionKind::forward;
    if (is_forward || action.kind == ActionKind::send_forward ||
        action.kind == ActionKind::receive_forward) {
      plan.forward.push_back(action);
    }
    plan.last_forward = is_forward ? action : plan.last_forward;
  }
  plan.last_evaluation = plan.last_forward;
  auto const add = [](std::vector<Action>& row, ActionKind kind, int stage, int index) {
    row.push_back({.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index});
  };
  int const stage = Program::stages.stage[0].id;
  if (Program::gradient_replicas > 1) {
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      add(plan.training, ActionKind::reduce_gradient, Program::layout.bucket_stage[bucket], bucket);
    }
  }
  if (Whole::ranks > 1) {
    add(plan.training, ActionKind::reduce_loss, stage, 0);
    add(plan.forward, ActionKind::reduce_loss, stage, 0);
  }
  if (Whole::devices > 1) {
    add(plan.training, ActionKind::reduce_norm, stage, 0);
  }
  add(plan.training, ActionKind::update, stage, 0);
  add(plan.training, ActionKind::end, stage, 0);
  add(plan.forward, ActionKind::end, stage, 0);
  StageMapView const map{Whole::map};
  for (LocalStage const& own : Program::stages.stage) {
    plan.stages.push_back(
        {.first = own.first,
         .last = own.last,
         .live = live_microbatches(table, map, own.id),
         .deferred = deferred_microbatches(table, map, own.id),
         .first_microbatch = map.first_microbatch(own.id, batching.microbatches)});
  }
  return plan;
}

}  // namespace tandem

// ---- tandem/engine/stage.hpp

/// @file
/// Stage: the passes over the nodes of one stage, straight-line code without a look-up.
///
/// Each pass is a function of its own, made of blocks of at most 128 nodes; a rank's loop over its
/// actions calls it with the microbatch as a run-time number.

namespace tandem {

/// For each node of a graph, how many gradients its output gets.
template <int Nodes>
struct UseCounts {
  int of[Nodes] = {};
};

template <GraphSize Size>
constexpr UseCounts<Size.nodes> count_uses(Graph<Size> const& graph) {
  UseCounts<Size.nodes> uses;
  for (int n = 0; n < Size.nodes; ++n) {
    for (int e = 0; e < graph.node[n].edges && !graph.node[n].merged; ++e) {
      ++uses.of[graph.source[graph.node[n].first_edge + e]];
    }
  }
  return uses;
}

/// Whether one of nodes [first, last) of a device has statistics that are added over replicas.
template <class Program>
constexpr bool synchronizes(int first, int last) {
  bool any = false;
  for (int n = first; n < last; ++n) {
    any = any || (Program::batching.replicas > 1 && Program::graph.node[n].synchronizes);
  }
  return any;
}

/// What a backward pass computes.
enum class BackwardPart { whole, input_gradient, weight_gradient };

/// Nodes [First, Last) of a device's graph.
///
/// Where statistics are added over the replicas, a replica without samples has its passes called,
/// too: it adds zeros, and takes part in every collective in the order of the others.
/// @tparam Rank  has this as a friend, `ops_`, `outgoing(node)`, `bucket_ready(bucket,
/// leaf)`,
///               `finish_empty_bucket(bucket, adds, leaf)`, `synchronize(sums, local stage)`
template <class Rank, class Program, class Backend, int First, int Last>
struct Stage {
  using PassType = typename Rank::PassType;
  using Table = typename Rank::Table;
  static constexpr auto const& graph = Program::graph;
  static constexpr int block = 128;
  static constexpr auto uses = count_uses(graph);
  static constexpr bool synchronizes = tandem::synchronizes<Program>(First, Last);

  TANDEM_NOINLINE static void forward(Rank& rank, PassType const& pass, Table const& table) {
    forward_blocks(rank, pass, table, Blocks{});
  }

  /// What was not kept is computed again, run by run, and then goes backward: once, so both
  /// gradients are computed when a schedule that has them apart wants the first.
  /// @param leaf  the leaf that this microbatch finishes, or -1
  template <BackwardPart P = BackwardPart::whole>
  TANDEM_NOINLINE static void backward(Rank& rank, PassType const& pass, Table const& table,
                                       int leaf) {
    if constexpr (Program::segments.of[First] < 0) {
      backward_blocks<P>(rank, pass, table, leaf, Blocks{});
    } else if constexpr (P != BackwardPart::weight_gradient) {
      recompute_and_back<Last>(rank, pass, table, leaf);
    }
  }

  /// After parameters have changed.
  TANDEM_NOINLINE static void pack(Rank& rank, Table const& table) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (pack_node<First + I>(rank, table), ...); }
    (std::make_integer_sequence<int, Last - First>{});
  }

 private:
  using Blocks = std::make_integer_sequence<int, (Last - First + block - 1) / block>;
  static constexpr int block_end(int first) { return Last - first < block ? Last : first + block; }

  template <int... B>
  static void forward_blocks(Rank& rank, PassType const& pass, Table const& table,
                             std::integer_sequence<int, B...>) {
    (forward_nodes<First + B * block, block_end(First + B * block)>(rank, pass, table), ...);
  }
  template <int Begin, int End>
  static void forward_nodes(Rank& rank, PassType const& pass, Table const& table) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (forward_node<Begin + I>(rank, pass, table), ...);
    }
    (std::make_integer_sequence<int, End - Begin>{});
  }

  // Blocks and nodes in descending order.
  template <BackwardPart P, int... B>
  static void backward_blocks(Rank& rank, PassType const& pass, Table const& table, int leaf,
                              std::integer_sequence<int, B...>) {
    constexpr int last = static_cast<int>(sizeof...(B)) - 1;
    (backward_nodes<P, First + (last - B) * block, block_end(First + (last - B) * block)>(
         rank, pass, table, leaf),
     ...);
  }
  template <BackwardPart P, int Begin, int End>
  static void backward_nodes(Rank& rank, PassType const& pass, Table const& table, int leaf) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (backward_node<P, End - 1 - I>(rank, pass, table, leaf), ...);
    }
    (std::make_integer_sequence<int, End - Begin>{});
  }

  static constexpr int segment_begin(int end) {
    int begin = end - 1;
    while (begin > First && Program::segments.of[begin - 1] == Program::segments.of[end - 1]) {
      --begin;
    }
    return begin;
  }
  template <int End>
  static void recompute_and_back(Rank& rank, PassType const& pass, Table const& table, int leaf) {
    if constexpr (End > First) {
      constexpr int begin = segment_begin(End);
      forward_nodes<begin, End>(rank, pass, table);
      backward_nodes<BackwardPart::whole, begin, End>(rank, pass, table, leaf);
      recompute_and_back<begin>(rank, pass, table, leaf);
    }
  }

  template <int I>
  static void forward_node(Rank& rank, PassType const& pass, Table const& table) {
    constexpr Node const& node = graph.node[I];
    if constexpr (node.computes()) {
      auto& op = rank.ops_.template get<I>();
      if constexpr (tandem::synchronizes<Program>(I, I + 1)) {
        if (pass.training) {
          add_over_replicas(rank, pass, op.sums(table.operands[I]),
                            [&] { op.local_sums(table.operands[I], pass); });
          if (!is_empty(pass)) {
            op.forward_synchronized(table.operands[I], pass);
          }
          return;
        }
      }
      if (!is_empty(pass)) {
        op.forward(table.operands[I], pass);
      }
    }
  }

  // Without statistics of all replicas no such pass is called.
  static bool is_empty(PassType const& pass) { return synchronizes && pass.batch == 0; }

  template <class Sum>
  static void add_over_replicas(Rank& rank, PassType const& pass, std::span<double> sums,
                                Sum const& own) {
    constexpr int stage = [] {
      int local = 0;
      while (Program::stages.stage[local].first != First) {
        ++local;
      }
      return local;
    }();
    if (is_empty(pass)) {
      Verbs<Backend>::zero(pass.device, sums.data(), static_cast<std::int64_t>(sums.size()));
    } else {
      own();
    }
    rank.synchronize(sums, stage);
  }

  template <int I>
  static void pack_node(Rank& rank, Table const& table) {
    auto& op = rank.ops_.template get<I>();
    if constexpr (requires { op.pack(table.operands[I], rank.device_); }) {
      op.pack(table.operands[I], rank.device_);
    }
  }

  template <BackwardPart P, int I>
  static void backward_node(Rank& rank, PassType const& pass, Table const& table, int leaf) {
    constexpr Node const& node = graph.node[I];
    auto const& operands = table.operands[I];
    if constexpr (node.needs_gradient && P != BackwardPart::weight_gradient) {
      if (!is_empty(pass)) {
        add_forks<I>(rank, pass, table);
      }
      if constexpr (gives_input_gradient(graph, I)) {
        auto& op = rank.ops_.template get<I>();
        if constexpr (tandem::synchronizes<Program>(I, I + 1)) {
          add_over_replicas(rank, pass, op.sums(operands),
                            [&] { op.local_gradient_sums(operands, pass); });
          if (!is_empty(pass)) {
            op.input_gradient_synchronized(operands, pass);
          }
        } else if (!is_empty(pass)) {
          op.input_gradient(operands, pass);
        }
      }
    }
    if constexpr (node.needs_gradient && P != BackwardPart::input_gradient) {
      if constexpr (node.parameters > 0 && !node.frozen && node.computes()) {
        auto& op = rank.ops_.template get<I>();
        if (is_empty(pass)) {
        } else if constexpr (tandem::synchronizes<Program>(I, I + 1)) {
          op.weight_gradient_synchronized(operands, pass);
        } else {
          op.weight_gradient(operands, pass);
        }
      }
      if constexpr (constexpr int bucket = Program::layout.closes[I]; bucket >= 0) {
        if (is_empty(pass)) {
          rank.finish_empty_bucket(bucket, pass.accumulate, leaf);
        } else {
          rank.bucket_ready(bucket, leaf);
        }
      }
    }
  }

  // The gradient of a node's output from those that its readers gave it.
  template <int I>
  static void add_forks(Rank& rank, PassType const& pass, Table const& table) {
    constexpr Node const& node = graph.node[I];
    auto const* const forks = table.forks + table.first_fork[I];
    std::int64_t const elements = pass.batch * node.out.elements();
    if constexpr (node.kind == NodeKind::receive) {
      rank.template gather_outgoing<I>(forks, uses.of[I], elements);
    } else if constexpr (uses.of[I] > 1) {
      Verbs<Backend>::sum(pass.device, forks, uses.of[I], table.gradient[I], elements);
    }
  }
};

}  // namespace tandem

// ---- tandem/engine/step_key.hpp

/// @file
/// StepKey: what a step's program depends on, besides the numbers that it works with.

namespace tandem {

/// Steps with the same key queue the same work.
struct StepKey {
  int samples = 0;  ///< of the global batch
  bool training = false;
  bool targets = false;
  bool outputs = false;
  bool clips = false;  ///< the gradient may be scaled down to a largest norm

  friend bool operator==(StepKey const&, StepKey const&) = default;
};

}  // namespace tandem

// ---- tandem/engine/step_sums.hpp

/// @file
/// StepSums: the loss and the metric of every microbatch of a global batch, in double.
///
/// A rank writes the slots of its own microbatches; a sum over the ranks, zeros elsewhere, gives
/// every rank all of them without rounding, so that the totals have the same bits on any number.

namespace tandem {

/// The means over result.samples, and the first microbatch whose loss is not finite; @p sums are
/// pairs of loss and metric.
template <class = void>  // compiled where it is called, not by every include
void finish_sums(std::span<double const> sums, StepResult& result) {
  double loss = 0.0;
  double metric = 0.0;
  for (std::size_t i = 0; i < sums.size(); i += 2) {
    loss += sums[i];
    metric += sums[i + 1];
  }
  result.loss = loss / result.samples;
  result.metric = metric / result.samples;
  if (!std::isfinite(loss)) {
    std::size_t first = 0;  // also where only the sum of finite losses overflows
    for (std::size_t i = sums.size(); i > 0; i -= 2) {
      first = std::isfinite(sums[i - 2]) ? first : i / 2 - 1;
    }
    result.non_finite = static_cast<int>(first);
  }
}

/// In the memory of a device; the primary template is for devices that share the host's.
template <class Backend>
class StepSums {
 public:
  using Device = typename Backend::Device;

  template <class = void>
  StepSums(Device& /*device*/, int microbatches)
      : sums_(2 * static_cast<std::size_t>(microbatches)) {}

  void clear(Device& /*device*/) { std::fill(sums_.begin(), sums_.end(), 0.0); }

  /// Zeros for one microbatch.
  void clear(Device& /*device*/, int microbatch) { *loss(microbatch) = *metric(microbatch) = 0.0; }

  [[nodiscard]] double* loss(int microbatch) {
    return &sums_[2 * static_cast<std::size_t>(microbatch)];
  }
  [[nodiscard]] double* metric(int microbatch) { return loss(microbatch) + 1; }

  /// What is to be summed over the ranks.
  [[nodiscard]] std::span<double> all() { return sums_; }

  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Fills in *result, but for its norm.
  /// @param samples  of the global batch
  void finish(Device& /*device*/, int samples, StepResult* result) const {
    result->samples = samples;
    finish_sums(sums_, *result);
  }

 private:
  std::vector<double> sums_;
};

}  // namespace tandem

namespace tandem {

/// A rank's device with all memory, prepared ops and communicators, and what is done to one
/// microbatch.
/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
class RankPasses {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Target = typename LossType::Target;
  using Batch = StepBatch<P, Target>;
  using Device = typename Backend::Device;
  using PassType = Pass<Device>;
  using Memory = RankMemory<Program, Backend>;
  using Table = typename Memory::Table;
  using FeedType = Feed<Program, Backend, Target>;
  using Whole = typename Program::Program;
  static constexpr auto const& graph = Program::graph;
  /// Whether the losses are summed at the end of the row: else a pass that waits for its replicas
  /// would wait behind them for all other devices; and where the call of a collective waits for the
  /// other ranks, as some on GPUs do, they would wait for messages that come behind it in the row.
  static constexpr bool sums_losses_late = Whole::devices > 1;

  [[nodiscard]] Memory const& memory() const { return memory_; }
  /// What each node's op asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return ops_.needs(); }
  [[nodiscard]] RankPlan const& plan() const { return plan_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] Communicator& communicator() { return gradients_.communicator(); }

 protected:
  template <class Connect>
  RankPasses(RankOptions const& options, Connect const& connect)
      : plan_{make_plan(options)},
        device_{options.device},
        ops_{options.largest_microbatch, options.device.threads, device_},
        memory_{device_, ops_, states_of(options.optimizer), plan_task(options),
                plan_.batching.leaves_of_copy(Whole::map.copies)},
        feed_{device_, feed_sizes(options)},
        gradients_{device_, connect(RankGroups<Whole>::all), stage_groups(connect), plan_.batching,
                   tracer_},
        links_{device_, replica_of(options), connect, tracer_},
        microbatches_{plan_.batching, replica_of(options), Whole::map.copies},
        sums_{device_, plan_.batching.all_microbatches()} {
    device_.scratch = memory_.scratch();
    device_.scratch_bytes = ops_.scratch_bytes();
  }

  static int replica_of(RankOptions const& options) { return options.rank / Whole::devices; }

  template <class Wait>
  void begin(StepState const& state, Batch const& batch, bool training, Wait const& wait) {
    key_ = {.samples = batch.size,
            .training = training,
            .targets = batch.targets != nullptr,
            .outputs = batch.outputs != nullptr,
            .clips = state.clip_norm > 0.0};
    microbatches_.split(batch.size);
    feed_.begin(device_, state, batch, microbatches_, wait);
  }

  void run_forward(Action action) {
    int const m = action.index;
    if (Microbatch const& own = microbatches_[m]; own.size > 0) {
      PassType const p = pass(own);
      if (Whole::devices > 1) {
        links_.await_forward(device_, action.stage, key_.training);
      }
      Table const& table = memory_.table(m);
      at_stage(action.stage, [&](auto s) {
        if constexpr (Program::stages.stage[s].has_input) {
          memory_.set_input(m, feed_.input(own));
        }
        Passes<s>::forward(*this, p, table);
        if constexpr (Program::stages.stage[s].has_result) {
          run_loss(m, own, p, table);
        }
      });
    } else {
      if (Program::has_result) {
        sums_.clear(device_, microbatches_.global(m));
      }
      at_stage(action.stage, [&](auto s) {
        if (Passes<s>::synchronizes && key_.training) {
          Passes<s>::forward(*this, pass(own), memory_.table(m));
        }
      });
    }
    if constexpr (Whole::ranks > 1 && !sums_losses_late) {
      if (action == plan_.last_forward) {
        gradients_.reduce_sums(device_, sums_.all());
      }
    }
  }

  template <BackwardPart Which = BackwardPart::whole>
  void run_backward(Action action) {
    int const m = action.index;
    Microbatch const& own = microbatches_[m];
    at_stage(action.stage, [&](auto s) {
      constexpr LocalStage stage = Program::stages.stage[s];
      if (own.size > 0 || Passes<s>::synchronizes) {
        PassType const p = pass(own);
        Table const& table = memory_.table(m);
        if (Which != BackwardPart::weight_gradient && own.size > 0) {
          if (Whole::devices > 1) {
            links_.await_backward(device_, action.stage);
          }
          if constexpr (Program::stages.stage[s].has_result) {
            ops_.loss.gradient(p, table.output, feed_.targets(own), 1.0 / key_.samples,
                               table.loss_gradient);
          }
        }
        if constexpr (stage.needs_gradient) {
          Passes<s>::template backward<Which>(*this, p, table, own.finishes);
        }
      } else if (Which != BackwardPart::input_gradient) {
        finish_empty_microbatch(own, stage.id);
      }
    });
  }

  void run_message(Action action, std::int64_t size) {
    int const m = action.index;
    Table const& table = memory_.table(m);
    switch (action.kind) {
      case ActionKind::send_forward:
        links_.send_forward(device_, table, action.stage, m, size);
        break;
      case ActionKind::receive_forward:
        links_.receive_forward(device_, table, action.stage, m, size);
        break;
      case ActionKind::send_backward:
        links_.send_backward(device_, memory_, action.stage, m, size);
        break;
      default:
        links_.receive_backward(device_, table, action.stage, m, size);
    }
  }

  void pack() {
    for (LocalStage const& stage : Program::stages.stage) {
      at_stage(stage.id, [this](auto s) { Passes<s>::pack(*this, memory_.table(0)); });
    }
  }

  RankPlan plan_;
  Device device_;
  PreparedOps<Program, Backend, LossType, MetricType> ops_;
  Memory memory_;
  FeedType feed_;
  Tracer<Device> tracer_;
  GradientReduction<Program, Backend, Communicator> gradients_;
  RankLinks<Program, Backend, Communicator> links_;
  RankMicrobatches microbatches_;
  StepSums<Backend> sums_;
  StepKey key_{};  // of the step at work

 private:
  template <class, class, class, int, int>
  friend struct Stage;

  template <int S>
  using Passes = Stage<RankPasses, Program, Backend, Program::stages.stage[S].first,
                       Program::stages.stage[S].last>;

  static RankPlan make_plan(RankOptions const& options) {
    Batching const batching = batching_with<Whole>(options.microbatches);
    return options.rows != nullptr ? make_rank_plan<Program>(*options.rows, batching)
                                   : make_rank_plan<Program>(Whole::table, batching);
  }
  [[nodiscard]] PlanTask plan_task(RankOptions const& options) const {
    return {.batch = options.largest_microbatch,
            .element_bytes = sizeof(T),
            .microbatches = plan_.batching.microbatches,
            .stages = plan_.stages,
            .segment = Whole::checkpoint.every != 0 ? Program::segments.of : nullptr,
            .apart = Whole::batching.reproducible};
  }
  template <class Connect>
  static std::vector<Communicator> stage_groups(Connect const& connect) {
    std::vector<Communicator> groups;
    for (LocalStage const& stage : Program::stages.stage) {
      groups.push_back(connect(RankGroups<Whole>::of_part(stage.part)));
    }
    return groups;
  }
  [[nodiscard]] FeedSizes feed_sizes(RankOptions const& options) const {
    std::int64_t const samples =
        std::int64_t{options.largest_microbatch} * plan_.batching.microbatches;
    return {.samples = Program::has_input || Program::has_result ? samples : 0,
            .targets_per_sample = LossType::targets(Whole::network.output().out)};
  }

  // Calls f with the index of a local stage, as a type.
  template <class F>
  static void at_stage(int id, F const& f) {
    if constexpr (Program::stages.count == 1) {
      f(std::integral_constant<int, 0>{});
    } else {
      [&]<int... S>(std::integer_sequence<int, S...>) {
        (void)((Program::stages.stage[S].id == id && (f(std::integral_constant<int, S>{}), true)) ||
               ...);
      }
      (std::make_integer_sequence<int, Program::stages.count>{});
    }
  }
  void bucket_ready(int bucket, int leaf) {
    if (leaf >= 0) {
      gradients_.leaf_ready(device_, memory_, bucket, leaf);
    }
  }

  // The sums over the replicas of a local stage.
  void synchronize(std::span<double> sums, int stage) {
    gradients_.synchronize(device_, sums, stage);
  }

  // Puts the gradient of a received tensor where it is sent from.
  template <int I>
  void gather_outgoing(T const* const* forks, int count, std::int64_t elements) {
    if (Whole::batching.reproducible || count == 1) {
      for (int i = 0; i < count; ++i) {
        if (forks[i] != memory_.outgoing(I, i)) {
          Verbs<Backend>::copy(device_, forks[i], memory_.outgoing(I, i), elements);
        }
      }
    } else {
      Verbs<Backend>::sum(device_, forks, count, memory_.outgoing(I), elements);
    }
  }

  [[nodiscard]] PassType pass(Microbatch const& own) {
    return {.device = device_,
            .batch = own.size,
            .first_sample = own.first,
            .share = static_cast<double>(own.size) / key_.samples,
            .state = feed_.state(),
            .training = key_.training,
            .accumulate = own.adds};
  }

  void run_loss(int m, Microbatch const& own, PassType const& p, Table const& table) {
    if (key_.targets) {
      int const global = microbatches_.global(m);
      ops_.loss.forward(p, table.output, feed_.targets(own), sums_.loss(global));
      ops_.metric.count(p, table.output, feed_.targets(own), sums_.metric(global));
    }
    if (key_.outputs) {
      feed_.store(device_, table.output, own);
    }
  }

  // A shard without samples contributes zeros, and still takes part in every collective.
  void finish_empty_microbatch(Microbatch const& own, int stage) {
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      if (Program::layout.bucket_stage[bucket] == stage) {
        finish_empty_bucket(bucket, own.adds, own.finishes);
      }
    }
  }
  void finish_empty_bucket(int bucket, bool adds, int leaf) {
    if (leaf >= 0 && !adds) {
      std::int64_t const first = Program::layout.bucket_begin[bucket];
      Verbs<Backend>::zero(device_, memory_.gradients() + first,
                           Program::layout.bucket_begin[bucket + 1] - first);
    }
    bucket_ready(bucket, leaf);
  }
};

}  // namespace tandem

// ---- tandem/engine/step_runner.hpp

/// @file
/// StepRunner: whether the actions of a step are walked, or a recording of them is replayed.

namespace tandem {

/// The primary template walks.
template <class Backend>
class StepRunner {
 public:
  /// @param recordable  whether a walk may be recorded: not where it waits for other ranks
  explicit StepRunner(bool /*recordable*/) {}

  template <class Walk>
  void run(typename Backend::Device& /*device*/, StepKey const& /*key*/, Walk const& walk) {
    walk();
  }
};

}  // namespace tandem

// ---- tandem/engine/update.hpp

/// @file
/// Update: the optimizer over a rank's flat arrays, with clipping and running averages.

namespace tandem {

/// Every replica runs it on the same summed gradients and gets the same parameters. The primary
/// template is for devices that share the host's memory.
template <class Backend>
class Update {
 public:
  using Device = typename Backend::Device;
  using T = typename Backend::Master;

  /// @param parameters  of the device, a run each
  /// @param counted     whether the rank's part counts in the norm: of all ranks with the same
  ///                    parameters only one's does
  /// @param all         parameters of the network
  template <class Memory>
  Update(Device& /*device*/, Memory const& /*memory*/, Optimizer optimizer,
         std::vector<UpdateRun> parameters, bool counted, int all)
      : optimizer_{std::move(optimizer)},
        parameters_{std::move(parameters)},
        runs_{merged(parameters_)},
        counted_{counted},
        squares_(static_cast<std::size_t>(all)) {}

  /// The square sums of this rank's gradients, each at its parameter's place, zeros elsewhere: to
  /// be summed over the ranks before run(), if there are several with different parameters.
  template <class Memory>
  std::span<double> sum_squares(Device& device, Memory const& memory) {
    std::fill(squares_.begin(), squares_.end(), 0.0);
    for (UpdateRun const& r : parameters_) {
      if (counted_ && r.counted && r.role == Role::weight && !r.frozen) {
        squares_[static_cast<std::size_t>(r.origin)] =
            Verbs<Backend>::sum_of_squares(device, memory.gradients() + r.begin, r.end - r.begin);
      }
    }
    return squares_;
  }

  /// Finishes *result and, if every loss is finite, updates all parameters; no allocation.
  /// @pre where clipping is on, sum_squares() was called
  /// Cost: one pass over parameters, gradients and states.
  template <class Memory>
  void run(Device& device, Memory const& memory, StepState const* state,
           StepSums<Backend> const& sums, StepKey const& key, StepResult* result) const {
    sums.finish(device, key.samples, result);
    if (result->non_finite < 0) {
      result->gradient_norm = update(device, memory, *state);
    }
  }

  /// After parameters were written by the host.
  void refresh(Device& /*device*/) {}

  /// Bytes of the device's memory that this has.
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Lets steps update again after one whose loss was not finite.
  void forgive(Device& /*device*/) {}

 private:
  template <class Memory>
  double update(Device& device, Memory const& memory, StepState const& state) const {
    double norm = 0.0;
    double scale = 1.0;
    if (state.clip_norm > 0.0) {
      norm = std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
      scale = norm > state.clip_norm ? state.clip_norm / norm : 1.0;
    }
    std::visit(
        [&](auto const& optimizer) {
          for (UpdateRun const& r : runs_) {
            update_run(device, memory, state, scale, optimizer, r);
          }
        },
        optimizer_);
    return norm;
  }

  template <class Memory, class O>
  void update_run(Device& device, Memory const& memory, StepState const& state, double scale,
                  O const& optimizer, UpdateRun const& r) const {
    if (r.frozen) {
      return;
    }
    ParameterRun<T> run{.parameter = memory.parameters() + r.begin,
                        .gradient = memory.gradients() + r.begin};
    if (r.role == Role::statistic) {
      Verbs<Backend>::each(device, r.end - r.begin, AverageUpdate<T>{run, static_cast<T>(r.rate)});
      return;
    }
    for (int s = 0; s < optimizer.states(); ++s) {
      run.state[s] = memory.state(s) + r.begin;
    }
    UpdateSettings const settings{
        .learning_rate = state.learning_rate * double{r.learning_rate_scale},
        .weight_decay = double{r.weight_decay.value_or(optimizer.weight_decay)},
        .gradient_scale = scale,
        .step = state.step + 1};
    Verbs<Backend>::each(device, r.end - r.begin, make_update<T>(optimizer, settings, run));
  }

  Optimizer optimizer_;
  std::vector<UpdateRun> parameters_;
  std::vector<UpdateRun> runs_;  // neighbours that are updated alike
  bool counted_;
  std::vector<double> squares_;
};

}  // namespace tandem

// ---- tandem/engine/walk.hpp

/// @file
/// walk: a rank's loop over its row of actions.

namespace tandem {

/// Does one action of @p rank, which has run_forward(action), run_backward(action) and
/// run_other(action). Whether the row goes on.
template <class Rank>
TANDEM_INLINE bool act(Action action, Rank& rank) {
  if (action.kind == ActionKind::forward) {
    rank.run_forward(action);
  } else if (action.kind == ActionKind::backward) {
    rank.run_backward(action);
  } else {
    return rank.run_other(action);
  }
  return true;
}

/// All actions up to the one of kind `end`; @p progress says which one the rank is at. Forward and
/// backward, which nearly all actions are, are told apart here, others elsewhere.
template <class Rank>
void walk(Action const* next, std::atomic<std::uint64_t>& progress, Rank& rank) {
  for (;; ++next) {
    std::uint64_t const word = pack(*next);
    progress.store(word, std::memory_order_relaxed);
    if (!act(unpack_action(word), rank)) {  // read once
      return;
    }
  }
}

/// The same with @p f called for each action, for traces and for debugging.
template <class F>
void walk_each(Action const* next, std::atomic<std::uint64_t>& progress, F const& f) {
  for (; next->kind != ActionKind::end; ++next) {
    progress.store(pack(*next), std::memory_order_relaxed);
    f(*next);
  }
}

}  // namespace tandem

namespace tandem {

/// @tparam Program  a DeviceProgram
template <class Program, class Backend, class LossType, class MetricType, class Communicator>
class Rank final : public RankInterface<typename Backend::Master, typename LossType::Target>,
                   public RankPasses<Program, Backend, LossType, MetricType, Communicator> {
  using Base = RankPasses<Program, Backend, LossType, MetricType, Communicator>;

 public:
  using typename Base::Batch;
  using typename Base::P;
  using typename Base::Whole;
  /// Whether a walk over the actions may be recorded once and replayed.
  static constexpr bool recordable = Whole::ranks == 1 || is_capturable<Communicator>;

  /// @param connect  connect(group): the rank's end of a group of RankGroups
  template <class Connect>
  Rank(RankOptions const& options, Connect const& connect)
      : Base{options, connect},
        update_{device_,
                memory_,
                options.optimizer,
                parameter_runs(Program::graph, Program::layout, options.groups, Whole::map.parts()),
                Whole::devices == 1 || Base::replica_of(options) == 0,
                Whole::network.parameters},
        mirror_{states_of(options.optimizer)},
        runner_{recordable && options.record},
        rank_{options.rank},
        states_{states_of(options.optimizer)},
        debug_{!options.record} {
    device_.finish();
  }

  /// One training step on @p batch. The result is the same on every rank.
  StepResult train(StepState const& state, Batch const& batch) {
    queue_training(state, batch);
    return collect();
  }

  void queue_training(StepState const& state, Batch const& batch) override {
    this->begin(state, batch, true, watch_.waiter());
    runner_.run(device_, key_, [this] { training_step(); });
    feed_.end(device_);
  }

  StepResult collect() override {
    StepResult const result = feed_.collect(device_, watch_.waiter());
    if (result.non_finite >= 0) {
      while (feed_.waiting() > 0) {
        feed_.collect(device_, watch_.waiter());
      }
      update_.forgive(device_);
    }
    return result;
  }

  void queue_traced(StepState const& state, Batch const& batch) override {
    this->begin(state, batch, true, watch_.waiter());
    tracer_.begin(device_);
    training_step();
    tracer_.end();
    feed_.end(device_);
  }
  std::vector<TraceEvent> traced() override { return tracer_.events(device_, rank_); }

  StepResult forward(StepState const& state, Batch const& batch) override {
    this->begin(state, batch, false, watch_.waiter());
    runner_.run(device_, key_, [this] {
      feed_.load(device_, microbatches_);
      run(plan_.forward.data());
      links_.await_all(device_);
      sums_.finish(device_, key_.samples, feed_.result());
    });
    feed_.end(device_);
    return collect();
  }

  [[nodiscard]] MemoryReport memory_report() const override {
    MemoryReport report = memory_.report();
    report.feed = feed_.bytes();
    report.wire = gradients_.wire_bytes();
    report.tables = update_.bytes() + sums_.bytes();
    return report;
  }
  std::vector<NamedParameter<P>> parameters() override {
    return named_parameters<Program>(mirror_, states_);
  }
  void download() override { mirror_.download(device_, memory_); }
  void upload() override {
    mirror_.upload(device_, memory_);
    update_.refresh(device_);
    this->pack();
  }
  void share_with(DeviceSpec const& other) override { device_.share_with(other); }
  void report_progress_to(std::atomic<std::uint64_t>* board) override {
    progress_ = board != nullptr ? board : &nowhere_;
  }
  void watch_with(Watch watch) override { watch_ = watch; }
  void settle() override {
    device_.settle();
    links_.settle(device_);
  }

 private:
  using Base::device_;
  using Base::feed_;
  using Base::gradients_;
  using Base::key_;
  using Base::links_;
  using Base::memory_;
  using Base::microbatches_;
  using Base::plan_;
  using Base::sums_;
  using Base::tracer_;

  template <class R>
  friend bool act(Action, R&);

  void training_step() {
    feed_.load(device_, microbatches_);
    run(plan_.training.data());
  }

  void run(Action const* row) {
    if (Whole::ranks > 1 || !key_.targets) {  // else each forward pass writes its own
      sums_.clear(device_);
    }
    if (tracer_.on() || debug_) {
      run_watched(row);
      return;
    }
    walk(row, *progress_, *this);
  }

  TANDEM_NOINLINE void run_watched(Action const* row) {
    walk_each(row, *progress_, [this](Action action) {
      auto const act = [&] { tandem::act(action, *this); };
      if (tracer_.on()) {
        tracer_.action(device_, action, act);
      } else {
        device_.debug(to_string(action), watch_.waiter(), act);
      }
    });
  }

  // Whether the row goes on.
  TANDEM_NOINLINE bool run_other(Action action) {
    int const m = action.index;
    switch (action.kind) {
      case ActionKind::input_gradient:
        this->template run_backward<BackwardPart::input_gradient>(action);
        break;
      case ActionKind::weight_gradient:
        this->template run_backward<BackwardPart::weight_gradient>(action);
        break;
      case ActionKind::reduce_gradient:
        gradients_.await(device_, memory_, action.index);
        break;
      case ActionKind::reduce_loss:
        if constexpr (Base::sums_losses_late) {
          gradients_.reduce_sums(device_, sums_.all());
        }
        gradients_.await_sums(device_);
        break;
      case ActionKind::reduce_norm:
        if (key_.clips) {
          gradients_.reduce_sums(device_, update_.sum_squares(device_, memory_), {"norm"});
          gradients_.await_sums(device_);
        }
        break;
      case ActionKind::update:
        if (Whole::devices == 1 && key_.clips) {
          update_.sum_squares(device_, memory_);
        }
        links_.await_all(device_);
        update_.run(device_, memory_, feed_.state(), sums_, key_, feed_.result());
        this->pack();
        break;
      case ActionKind::end:
        return false;
      default:
        if (std::int64_t const size = microbatches_[m].size; size > 0) {
          this->run_message(action, size);
        }
    }
    return true;
  }

  Update<Backend> update_;
  ParameterMirror<Program, Backend> mirror_;
  StepRunner<Backend> runner_;
  std::atomic<std::uint64_t> nowhere_{};
  std::atomic<std::uint64_t>* progress_ = &nowhere_;
  Watch watch_{};
  int rank_;
  int states_;
  bool debug_;
};

}  // namespace tandem

// ---- tandem/graph/lower.hpp

/// @file
/// graph<Net>: a network type lowered to its Graph at compile time.
///
/// Two passes of one walk over the type: the first counts parameters, the second fills the arrays.

// ---- tandem/graph/check.hpp

/// @file
/// The sentences for networks that cannot be. One instantiation a network, whatever its size.

namespace tandem {

namespace detail {

// Where the layers do not fit: the type at fault, its node in the graph, and the two numbers that
// do not meet are template arguments, so that the compiler prints them. `value` is always true: the
// sentence stays the only error.
template <Fault Why, class Where, int NodeIndex, int A, int B>
struct NetworkIsSound {
  static constexpr bool value = true;
  static_assert(
      Why != Fault::no_input,
      "the network's input has no elements: give positive numbers, as in Image<3, 32, 32>");
  static_assert(Why != Fault::rejected,
                "this layer does not accept its input: output(Shape) gave no shape");
  static_assert(Why != Fault::not_an_image,
                "this layer wants an image (C, H, W), but its input is a vector: put it before "
                "GlobalAvgPool, Flatten or Linear");
  static_assert(Why != Fault::not_a_vector,
                "Linear wants a vector: put GlobalAvgPool or Flatten before it");
  static_assert(
      Why != Fault::window_too_large,
      "the kernel is larger than its padded input: use a smaller kernel, more padding, or "
      "fewer strides before it");
  static_assert(Why != Fault::groups,
                "Conv2d: input and output channels must be multiples of Groups");
  static_assert(Why != Fault::padding, "a pool's padding must be at most half of its kernel");
  static_assert(Why != Fault::concat_shapes,
                "Concat: every branch must give the same height and width");
  static_assert(Why != Fault::residual_shapes,
                "Residual: body and shortcut must give the same shape; put a 1x1 Conv2d with the "
                "body's stride and channels on the shortcut");
  static_assert(Why != Fault::channels,
                "Subsample2d: a shortcut cannot drop channels; give at least as many as its input "
                "has");
};

template <class Net, int LeafIndex>
struct FaultyPart {
  using type = Leaf<Net, LeafIndex>;
};
template <class Net>
struct FaultyPart<Net, -1> {
  using type = Net;  // no fault, or that of a join: the network itself is named
};

// `graph` stands before the assert, so that it is there also where that fails.
template <class Net, auto const& G>
struct CheckedGraph {
  static constexpr auto const& graph = G;
  using Where =
      typename FaultyPart<Net, G.fault <= Fault::reported ? -1 : G.node[G.fault_node].leaf>::type;
  static_assert(NetworkIsSound<G.fault, Where, G.fault_node, G.fault_a, G.fault_b>::value);
};

}  // namespace detail

}  // namespace tandem

namespace tandem {

namespace detail {

// Nodes and edges that a part adds; independent of shapes.
struct CountParts {
  template <Layer L>
  static constexpr GraphSize of(L const*) {
    return {1, 1, 4};
  }
  template <class... Parts>
    requires FewParts<Parts...>
  static constexpr GraphSize of(Sequential<Parts...> const*) {
    return sum({0, 0, 0}, of(static_cast<Parts const*>(nullptr))...);
  }
  template <class... Branches>
  static constexpr GraphSize of(Concat<Branches...> const*) {
    return sum({1, sizeof...(Branches), 0}, of(static_cast<Branches const*>(nullptr))...);
  }
  template <class Body, class Shortcut>
  static constexpr GraphSize of(Residual<Body, Shortcut> const*) {
    return sum({1, 2, 0}, of(static_cast<Body const*>(nullptr)),
               of(static_cast<Shortcut const*>(nullptr)));
  }
  template <class Body>
  static constexpr GraphSize of(Frozen<Body> const*) {
    return of(static_cast<Body const*>(nullptr));
  }
  static constexpr GraphSize of(void const*) { return {}; }  // no part: has its sentence

 private:
  template <class... Sizes>
  static constexpr GraphSize sum(GraphSize total, Sizes... sizes) {
    for (GraphSize const& size : {GraphSize{}, sizes...}) {
      total = {total.nodes + size.nodes, total.edges + size.edges,
               total.parameters + size.parameters};
    }
    return total;
  }
};

// Fills a Graph. Without `keep` it only counts the parameters.
template <class G, bool Keep>
struct GraphBuilder {
  G graph{};
  int nodes = 0;
  int edges = 0;
  int parameters = 0;
  int leaves = 0;
  int top = 0;
  bool frozen = false;
  Path path{};

  constexpr Shape shape(int node) const { return graph.node[node].out; }

  constexpr void fail(Fault fault, int a, int b) {
    if (graph.fault == Fault::none) {
      graph.fault = fault;
      graph.fault_node = nodes;
      graph.fault_a = a;
      graph.fault_b = b;
    }
  }

  constexpr int add(Node node, std::initializer_list<int> inputs) {
    node.top = top;
    node.path = path;
    node.frozen = frozen;
    node.origin = nodes;
    node.first_edge = edges;
    node.edges = static_cast<int>(inputs.size());
    for (int const input : inputs) {
      graph.edge_origin[edges] = edges;
      graph.source[edges++] = input;
      node.needs_gradient = node.needs_gradient || graph.node[input].needs_gradient;
    }
    graph.node[nodes] = node;
    return nodes++;
  }

  template <Layer L>
  constexpr int walk(int input, L const*) {
    Shape const in = shape(input);
    Node node{.kind = NodeKind::layer,
              .layer = kind_of<L>(),
              .view = is_view<L>,
              .leaf = leaves++,
              .in = in};
    node.name = L::name;
    if constexpr (requires { L::normalizes_over_batch; }) {
      node.normalizes = L::normalizes_over_batch && !frozen;
    }
    if constexpr (requires { L::synchronizes_over_replicas; }) {
      node.synchronizes = L::synchronizes_over_replicas && !frozen;
    }
    node.first_parameter = parameters;
    if (in.valid()) {
      if (Fault const fault = fault_of<L>(in); fault != Fault::none) {
        fail(fault, in.rank == 3 ? in[1] : in.rank, in[0]);
      } else {
        node.out = L::output(in);
        node.macs = macs_of<L>(in);
        Parameters const list = parameters_of<L>(in);
        node.parameters = list.count;
        for (int p = 0; p < list.count; ++p, ++parameters) {
          node.needs_gradient = node.needs_gradient || !frozen;
          if constexpr (Keep) {
            graph.parameter[parameters] = {list.item[p], nodes, frozen, parameters};
          }
        }
      }
    }
    return add(node, {input});
  }

  template <class... Parts>
    requires FewParts<Parts...>
  constexpr int walk(int input, Sequential<Parts...> const*) {
    bool const outermost = path.depth == 0 && nodes == 1;
    int index = 0;
    int node = input;
    [[maybe_unused]] auto const step = [&]<class Part>(Part const* part) {
      if (outermost) {
        top = index;
      }
      path.push(index++);
      node = walk(node, part);
      path.pop();
    };
    (step(static_cast<Parts const*>(nullptr)), ...);
    if (outermost) {
      graph.tops = index;
    }
    return node;
  }

  template <class... Branches>
  constexpr int walk(int input, Concat<Branches...> const*) {
    int index = 0;
    auto const branch = [&]<class Part>(Part const* part) {
      path.push(index++);
      int const node = walk(input, part);
      path.pop();
      return node;
    };
    int const ends[] = {branch(static_cast<Branches const*>(nullptr))...};
    Node join{.kind = NodeKind::concat, .in = shape(ends[0]), .out = shape(ends[0])};
    join.name = "Concat";
    for (int i = 1; i < static_cast<int>(sizeof...(Branches)); ++i) {
      Shape const other = shape(ends[i]);
      if (!other.valid() || !join.out.valid()) {
        join.out = {};
      } else if (other.rank != join.out.rank || other[1] != join.out[1] ||
                 other[2] != join.out[2]) {
        fail(Fault::concat_shapes, join.in[1], other[1]);
        join.out = {};
      } else {
        join.out.extent[0] += other[0];
      }
    }
    int const first = edges;
    int const node = add(join, {ends[0]});
    for (int i = 1; i < static_cast<int>(sizeof...(Branches)); ++i) {
      graph.edge_origin[edges] = edges;
      graph.source[edges++] = ends[i];
      graph.node[node].needs_gradient |= graph.node[ends[i]].needs_gradient;
    }
    graph.node[node].edges = edges - first;
    return node;
  }

  template <class Body, class Shortcut>
  constexpr int walk(int input, Residual<Body, Shortcut> const*) {
    path.push(Path::body);
    int const body = walk(input, static_cast<Body const*>(nullptr));
    path.pop();
    path.push(Path::shortcut);
    int const shortcut = walk(input, static_cast<Shortcut const*>(nullptr));
    path.pop();
    if (shape(body).valid() && shape(shortcut).valid() && shape(body) != shape(shortcut)) {
      fail(Fault::residual_shapes, shape(body)[0], shape(shortcut)[0]);
    }
    Node join{.kind = NodeKind::add, .in = shape(body), .out = shape(body)};
    join.name = "Add";
    return add(join, {body, shortcut});
  }

  template <class Body>
  constexpr int walk(int input, Frozen<Body> const*) {
    bool const before = frozen;
    frozen = true;
    int const node = walk(input, static_cast<Body const*>(nullptr));
    frozen = before;
    return node;
  }

  constexpr int walk(int input, void const*) {
    fail(Fault::reported, 0, 0);
    return input;
  }
};

template <bool Keep, GraphSize Size, class Net, class Input>
constexpr auto walk_network() {
  GraphBuilder<Graph<Size>, Keep> builder;
  Node input{.kind = NodeKind::input, .in = Input::shape, .out = Input::shape};
  input.name = "Input";
  if (!input.out.valid()) {
    builder.fail(Fault::no_input, input.out.rank, 0);
  }
  builder.add(input, {});
  builder.walk(0, static_cast<typename Net::body const*>(nullptr));
  builder.graph.tops = builder.graph.tops > 0 ? builder.graph.tops : 1;
  return builder;
}

// Each step a variable of its own: each has the compiler's whole budget.
template <class Net, class Input>
struct LowerNetwork {
  static constexpr GraphSize parts =
      CountParts::of(static_cast<typename Net::body const*>(nullptr));
  static constexpr auto counted =
      walk_network<false, GraphSize{parts.nodes + 1, parts.edges, 0}, Net, Input>();
  static constexpr auto graph =
      walk_network<true, GraphSize{parts.nodes + 1, parts.edges, counted.parameters}, Net, Input>()
          .graph;
};

}  // namespace detail

/// The graph of @p Net on inputs of type @p Input; not checked, so that a fault can be looked at.
template <class Net, class Input = typename Net::input>
inline constexpr auto const& unchecked_graph = detail::LowerNetwork<Net, Input>::graph;

/// The graph of a network: `static_assert(graph<Net>.parameter_elements() == 6'166'250)`.
/// A network that cannot be is a compile error that says which layer and why.
template <class Net, class Input = typename Net::input>
inline constexpr auto const& graph = detail::CheckedGraph<Net, unchecked_graph<Net, Input>>::graph;

}  // namespace tandem

// ---- tandem/layers/activation.hpp

/// @file
/// ReLU and Dropout: layers that keep their input's shape and have no parameters.

namespace tandem {

/// y = max(x, 0). Its gradient is taken from y, so x need not be kept.
struct ReLU {
  using layer = ReLU;
  static constexpr std::string_view name = "ReLU";
  static constexpr LayerKind kind = LayerKind::relu;
  static constexpr Shape output(Shape in) { return in; }
};

namespace detail {

template <int Value>
struct PercentIsSound {
  static constexpr bool value = true;
  static_assert(Value >= 0 && Value < 100, "Percent<Value>: give a number from 0 to 99");
};

}  // namespace detail

/// A probability in hundredths.
template <int Value>
struct Percent {
  static constexpr double value = Value / 100.0;
  static_assert(detail::PercentIsSound<Value>::value);
};

template <class R>
concept DropoutRate = requires {
  { R::value } -> std::convertible_to<double>;
};

namespace detail {

template <class Rate>
struct DropoutIsSound {
  static constexpr bool value = true;
  static_assert(DropoutRate<Rate>, "Dropout<Rate>: Rate is Percent<0> to Percent<99>");
};

}  // namespace detail

/// y = x / (1 - Rate) with probability 1 - Rate, else 0; in evaluation y = x.
///
/// The mask depends on (seed, step, sample, layer, element) only and is drawn again in backward.
/// Source: Srivastava et al., JMLR 15 (2014).
/// The primary template is the error path.
template <class Rate = Percent<50>>
struct Dropout {
  static constexpr std::string_view name = "Dropout";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::DropoutIsSound<Rate>::value);
};

template <DropoutRate Rate>
struct Dropout<Rate> {
  using layer = Dropout;
  static constexpr std::string_view name = "Dropout";
  static constexpr double rate = Rate::value;
  static constexpr Shape output(Shape in) { return in; }
};

}  // namespace tandem

// ---- tandem/layers/batch_norm2d.hpp

/// @file
/// BatchNorm2d: normalisation of each channel over the microbatch.

// ---- tandem/layers/options.hpp

/// @file
/// Options of layers as types: Conv2d<64, Kernel<3>, Stride<2>, Padding<1>, NoBias>.
///
/// Options come in any order; a missing one has PyTorch's default.

// ---- tandem/core/geometry.hpp

/// @file
/// Window: how a kernel slides over an image; ConvolutionGeometry: the sizes of one convolution.
///
/// Plain values shared by layers (output shapes, costs) and by the kernels of every backend.

namespace tandem {

/// Height and width of something on an image.
struct Extent2d {
  int height = 1;
  int width = 1;

  friend constexpr bool operator==(Extent2d const&, Extent2d const&) = default;
};

/// A window of `kernel` cells that moves by `stride` over an image padded by `padding` on each
/// side.
struct Window {
  Extent2d kernel{};
  Extent2d stride{};
  Extent2d padding{0, 0};

  /// Number of positions over @p in, rounded down as PyTorch does; 0 or less: does not fit.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr Extent2d positions(Extent2d in) const {
    int const rows = in.height + 2 * padding.height - kernel.height;
    int const columns = in.width + 2 * padding.width - kernel.width;
    return {rows < 0 ? 0 : rows / stride.height + 1, columns < 0 ? 0 : columns / stride.width + 1};
  }

  friend constexpr bool operator==(Window const&, Window const&) = default;
};

/// A window over each of `channels` maps: what pooling needs to know.
struct PoolGeometry {
  int channels = 0;
  Extent2d in{};
  Extent2d out{};
  Window window{};
};

/// One convolution: x (B, in_channels, in), weight (out_channels, in_channels / groups, kernel),
/// y (B, out_channels, out).
struct ConvolutionGeometry {
  int in_channels = 0;
  int out_channels = 0;
  int groups = 1;
  Extent2d in{};
  Extent2d out{};
  Window window{};

  /// Multiply-accumulates of one sample's forward pass.
  [[nodiscard]] constexpr std::int64_t macs() const {
    return std::int64_t{out_channels} * out.height * out.width * (in_channels / groups) *
           window.kernel.height * window.kernel.width;
  }
};

}  // namespace tandem

namespace tandem {

namespace detail {

// Options at fault keep a value that works: their sentence, which stands last, stays the only
// error.
constexpr int at_least(int least, int value) { return value < least ? least : value; }

}  // namespace detail

namespace detail {

template <int Height, int Width>
struct KernelIsSound {
  static constexpr bool value = true;
  static_assert(Height >= 1 && Width >= 1, "Kernel<Height, Width>: give positive numbers");
};

}  // namespace detail

/// Height and width of a window; one number means a square.
template <int Height, int Width = Height>
struct Kernel {
  static constexpr Extent2d kernel{detail::at_least(1, Height), detail::at_least(1, Width)};
  static_assert(detail::KernelIsSound<Height, Width>::value);
};

/// How far a window moves, in rows and columns; a pool's default is its kernel, a convolution's 1.
template <int Height, int Width = Height>
struct Stride {
  static constexpr Extent2d stride{detail::at_least(1, Height), detail::at_least(1, Width)};
  static_assert(Height >= 1 && Width >= 1, "Stride<Height, Width>: give positive numbers");
};

/// Rows and columns added on each side.
template <int Height, int Width = Height>
struct Padding {
  static constexpr Extent2d padding{detail::at_least(0, Height), detail::at_least(0, Width)};
  static_assert(Height >= 0 && Width >= 0, "Padding<Height, Width>: give numbers of 0 or more");
};

/// Channels in this many independent groups.
template <int Count>
struct Groups {
  static constexpr int groups = detail::at_least(1, Count);
  static_assert(Count >= 1, "Groups<Count>: give a positive number");
};

/// No bias is added.
struct NoBias {
  static constexpr bool bias = false;
};

/// An average over the cells inside the image only.
struct ExcludePadding {
  static constexpr bool count_padding = false;
};

namespace detail {

template <long Numerator, long Denominator>
struct EpsilonIsSound {
  static constexpr bool value = true;
  static_assert(Numerator > 0 && Denominator > 0,
                "Epsilon<Numerator, Denominator>: give positive numbers");
};

}  // namespace detail

/// Numerator / Denominator, as the small number that a batch norm adds to a variance.
template <long Numerator, long Denominator>
struct Epsilon {
  static constexpr double epsilon =
      static_cast<double>(Numerator) / static_cast<double>(Denominator != 0 ? Denominator : 1);
  static_assert(detail::EpsilonIsSound<Numerator, Denominator>::value);
};

/// Weight of the newest batch in a running average.
template <int Numerator, int Denominator>
struct Momentum {
  static constexpr double momentum =
      static_cast<double>(Numerator) / (Denominator != 0 ? Denominator : 1);
  static_assert(Numerator >= 0 && Denominator > 0 && Numerator <= Denominator,
                "Momentum<Numerator, Denominator>: give a share from 0 to 1");
};

namespace detail {

// The members that option types carry, gathered into one value.
struct LayerOptions {
  Window window{};
  bool stride_given = false;
  int groups = 1;
  bool bias = true;
  bool count_padding = true;
  double epsilon = 1e-5;
  double momentum = 0.1;
};

template <class Option>
constexpr void apply_option(LayerOptions& options) {
  if constexpr (requires { Option::kernel; }) {
    options.window.kernel = Option::kernel;
  } else if constexpr (requires { Option::stride; }) {
    options.window.stride = Option::stride;
    options.stride_given = true;
  } else if constexpr (requires { Option::padding; }) {
    options.window.padding = Option::padding;
  } else if constexpr (requires { Option::groups; }) {
    options.groups = Option::groups;
  } else if constexpr (requires { Option::bias; }) {
    options.bias = Option::bias;
  } else if constexpr (requires { Option::count_padding; }) {
    options.count_padding = Option::count_padding;
  } else if constexpr (requires { Option::epsilon; }) {
    options.epsilon = Option::epsilon;
  } else if constexpr (requires { Option::momentum; }) {
    options.momentum = Option::momentum;
  }
}

template <class... Options>
constexpr LayerOptions gather_options() {
  LayerOptions options;
  (apply_option<Options>(options), ...);
  return options;
}

// A pool's stride is its kernel unless given.
template <class... Options>
constexpr LayerOptions gather_pool_options() {
  LayerOptions options = gather_options<Options...>();
  if (!options.stride_given) {
    options.window.stride = options.window.kernel;
  }
  return options;
}

}  // namespace detail

template <class Option>
concept WindowOption = requires {
  Option::kernel;
}
|| requires { Option::stride; }
|| requires { Option::padding; };

template <class Option>
concept ConvolutionOption = WindowOption<Option> || requires {
  Option::groups;
} || requires {
  Option::bias;
};

template <class Option>
concept AveragePoolOption = WindowOption<Option> || requires {
  Option::count_padding;
};

template <class Option>
concept NormOption = requires {
  Option::epsilon;
}
|| requires { Option::momentum; };

}  // namespace tandem

namespace tandem {

namespace detail {

template <class... Options>
struct BatchNorm2dIsSound {
  static constexpr bool value = true;
  static_assert((NormOption<Options> && ...),
                "BatchNorm2d<Options...>: options are Epsilon and Momentum");
};

}  // namespace detail

/// y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of a channel over B, H, W.
///
/// Shapes: x, y (B, C, H, W); weight, bias, running_mean, running_var (C).
/// Saves:  mean and 1 / sqrt(var + epsilon) of the microbatch, 2 C elements, until backward.
/// Cost:   forward reads x three times and writes y; bound by memory.
/// The microbatch is the unit of statistics under every strategy. Running statistics move once a
/// step, by Momentum (default 1/10), towards the average over the step's microbatches, each
/// weighted by its samples; evaluation uses them. Options: Epsilon<1, 100000>, Momentum<1, 10>.
/// Source: Ioffe, Szegedy, arXiv:1502.03167; variance in running_var unbiased, as PyTorch.
/// The primary template is the error path.
template <class... Options>
struct BatchNorm2d {
  static constexpr std::string_view name = "BatchNorm2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::BatchNorm2dIsSound<Options...>::value);
};

template <class... Options>
  requires(NormOption<Options>&&...)
struct BatchNorm2d<Options...> {
  using layer = BatchNorm2d;
  static constexpr std::string_view name = "BatchNorm2d";
  static constexpr detail::LayerOptions options = detail::gather_options<Options...>();
  static constexpr double epsilon = options.epsilon;
  static constexpr double momentum = options.momentum;
  /// Tells the engine that a microbatch with one value a channel has no variance.
  static constexpr bool normalizes_over_batch = true;
  static constexpr LayerKind kind = LayerKind::batch_norm;

  static constexpr Fault fault(Shape in) {
    return in.rank == 3 ? Fault::none : Fault::not_an_image;
  }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape in) {
    Shape const channels = vector_shape(in[0]);
    Init const zero = Init::constant(0.0F);
    Init const one = Init::constant(1.0F);
    auto const rate = static_cast<float>(momentum);
    return Parameters{Parameter{"weight", channels, one}, Parameter{"bias", channels, zero},
                      Parameter{"running_mean", channels, zero, Role::statistic, rate},
                      Parameter{"running_var", channels, one, Role::statistic, rate}};
  }
};

}  // namespace tandem

// ---- tandem/layers/conv2d.hpp

/// @file
/// Conv2d: a convolution over the height and width of an image.

namespace tandem {

namespace detail {

template <int Out, class... Options>
struct Conv2dIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1, "Conv2d<Out, Options...>: give a positive number of output channels");
  static_assert((ConvolutionOption<Options> && ...),
                "Conv2d<Out, Options...>: options are Kernel, Stride, Padding, Groups and NoBias");
};

}  // namespace detail

/// y = x ⋆ weight + bias, over images. Options: Kernel, Stride, Padding, Groups, NoBias.
///
/// Shapes: x (B, In, H, W), weight (Out, In / Groups, kernel height, kernel width), bias (Out);
///         y (B, Out, H', W') with H' = floor((H + 2 padding - kernel) / stride) + 1.
/// Cost:   Out H' W' (In / Groups) kernel area multiply-accumulates a sample, each of three passes.
/// Init:   uniform in ±1/sqrt(fan-in), as PyTorch.
/// The primary template is the error path.
template <int Out, class... Options>
struct Conv2d {
  static constexpr std::string_view name = "Conv2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::Conv2dIsSound<Out, Options...>::value);
};

template <int Out, class... Options>
  requires(Out >= 1 && (ConvolutionOption<Options> && ...))
struct Conv2d<Out, Options...> {
  using layer = Conv2d;
  static constexpr std::string_view name = "Conv2d";
  static constexpr detail::LayerOptions options = detail::gather_options<Options...>();
  static constexpr bool bias = options.bias;
  static constexpr LayerKind kind =
      options.window == Window{} && options.groups == 1 ? LayerKind::pointwise : LayerKind::other;

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    if (in[0] % options.groups != 0 || Out % options.groups != 0) {
      return Fault::groups;
    }
    Extent2d const out = options.window.positions({in[1], in[2]});
    return out.height < 1 || out.width < 1 ? Fault::window_too_large : Fault::none;
  }

  static constexpr ConvolutionGeometry geometry(Shape in) {
    Extent2d const extent{in[1], in[2]};
    return {.in_channels = in[0],
            .out_channels = Out,
            .groups = options.groups,
            .in = extent,
            .out = options.window.positions(extent),
            .window = options.window};
  }

  static constexpr Shape output(Shape in) {
    Extent2d const out = options.window.positions({in[1], in[2]});
    return image_shape(Out, out.height, out.width);
  }

  static constexpr Parameters parameters(Shape in) {
    int const maps = in[0] / options.groups;
    Extent2d const kernel = options.window.kernel;
    std::int64_t const fan_in = std::int64_t{maps} * kernel.height * kernel.width;
    Parameter const weight{.name = "weight",
                           .shape = {4, {Out, maps, kernel.height, kernel.width}},
                           .init = Init::uniform_fan_in(fan_in)};
    if constexpr (bias) {
      return Parameters{weight, Parameter{.name = "bias",
                                          .shape = vector_shape(Out),
                                          .init = Init::uniform_fan_in(fan_in)}};
    } else {
      return Parameters{weight};
    }
  }

  static constexpr std::int64_t macs(Shape in) { return geometry(in).macs(); }
};

}  // namespace tandem

// ---- tandem/layers/linear.hpp

/// @file
/// Linear, a matrix product, and Flatten, which makes a vector of an image for it.

namespace tandem {

template <class Option>
concept LinearOption = std::same_as<Option, NoBias>;

namespace detail {

template <int Out, class... Options>
struct LinearIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1 && (LinearOption<Options> && ...),
                "Linear<Out, Options...>: give a positive number of outputs; the option is NoBias");
};

}  // namespace detail

/// y = x weightᵀ + bias. Option: NoBias.
///
/// Shapes: x (B, In), weight (Out, In), bias (Out); y (B, Out).
/// Cost:   In Out multiply-accumulates a sample, each of three passes.
/// Init:   uniform in ±1/sqrt(In), as PyTorch.
/// The primary template is the error path.
template <int Out, class... Options>
struct Linear {
  static constexpr std::string_view name = "Linear";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::LinearIsSound<Out, Options...>::value);
};

template <int Out, class... Options>
  requires(Out >= 1 && (LinearOption<Options> && ...))
struct Linear<Out, Options...> {
  using layer = Linear;
  static constexpr std::string_view name = "Linear";
  static constexpr bool bias = sizeof...(Options) == 0;

  static constexpr Fault fault(Shape in) {
    return in.rank == 1 ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Shape output(Shape) { return vector_shape(Out); }
  static constexpr Parameters parameters(Shape in) {
    Init const init = Init::uniform_fan_in(in[0]);
    Parameter const weight{"weight", {2, {Out, in[0]}}, init};
    if constexpr (bias) {
      return Parameters{weight, Parameter{"bias", vector_shape(Out), init}};
    } else {
      return Parameters{weight};
    }
  }
  static constexpr std::int64_t macs(Shape in) { return in.elements() * Out; }
};

/// The same numbers as one vector. Shapes: x (B, C, H, W); y (B, C H W). A view: nothing is copied.
struct Flatten {
  using layer = Flatten;
  static constexpr std::string_view name = "Flatten";
  static constexpr bool is_view = true;
  static constexpr LayerKind kind = LayerKind::flatten;
  static constexpr Shape output(Shape in) { return vector_shape(static_cast<int>(in.elements())); }
};

}  // namespace tandem

// ---- tandem/layers/loss.hpp

/// @file
/// Losses and metrics: types beside the network, not layers of it.
///
/// A loss says what a target is and how many of them a sample has; its op gives the loss and the
/// gradient of the network's output. The gradient is divided by the global batch once; everything
/// after that is a sum. A metric counts something of the outputs; the engine sums it over samples.

namespace tandem {

/// A loss: `Target`, the type of one target; `targets(Shape output)`, how many a sample.
template <class L>
concept Loss = requires(Shape out) {
  typename L::Target;
  { L::name } -> std::convertible_to<std::string_view>;
  { L::targets(out) } -> std::same_as<int>;
};

/// A metric: `name`, and whether it fits a loss is decided where its op is found.
template <class M>
concept Metric = requires {
  { M::name } -> std::convertible_to<std::string_view>;
};

/// Whether targets are indices of outputs, which the trainer then checks: a loss that sets
/// `static constexpr bool labels = true`, or a metric that looks the label up, as TopK does.
template <class L, class M>
inline constexpr bool targets_are_labels = std::integral<typename L::Target> &&
                                           (
                                               requires { L::labels; } || requires { M::k; });

/// -Σ_c q_c log softmax(y)_c, q = (1 - smoothing) [c = label] + smoothing / C, mean over the batch.
///
/// Shapes: output (B, C); one std::int32_t label in [0, C) a sample.
template <class Smoothing = void>
struct SoftmaxCrossEntropy {
  using Target = std::int32_t;
  static constexpr bool labels = true;
  static constexpr std::string_view name = "SoftmaxCrossEntropy";
  static constexpr double smoothing = Smoothing::value;
  static constexpr int targets(Shape) { return 1; }
};
template <>
struct SoftmaxCrossEntropy<void> {
  using Target = std::int32_t;
  static constexpr bool labels = true;
  static constexpr std::string_view name = "SoftmaxCrossEntropy";
  static constexpr double smoothing = 0.0;
  static constexpr int targets(Shape) { return 1; }
};

/// (y - t)², mean over the batch and the elements of the output.
///
/// Shapes: output (B, …); as many float targets a sample as the output has elements.
struct MeanSquaredError {
  using Target = float;
  static constexpr std::string_view name = "MeanSquaredError";
  static constexpr int targets(Shape out) { return static_cast<int>(out.elements()); }
};

/// Share of samples whose label is among the K largest outputs; the lowest index wins a tie.
template <int K>
struct TopK {
  static_assert(K >= 1, "TopK<K>: give a positive number");
  static constexpr std::string_view name = "top-k accuracy";
  static constexpr int k = K;
};

/// Share of samples whose largest output is at the label.
struct Accuracy : TopK<1> {
  static constexpr std::string_view name = "accuracy";
};

}  // namespace tandem

// ---- tandem/layers/pool.hpp

/// @file
/// MaxPool2d, AvgPool2d and GlobalAvgPool.

namespace tandem {

namespace detail {

template <class... Options>
struct PoolLayer {
  static constexpr LayerOptions options = gather_pool_options<Options...>();
  static constexpr LayerKind kind = LayerKind::pool;

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    Window const w = options.window;
    if (2 * w.padding.height > w.kernel.height || 2 * w.padding.width > w.kernel.width) {
      return Fault::padding;
    }
    Extent2d const out = w.positions({in[1], in[2]});
    return out.height < 1 || out.width < 1 ? Fault::window_too_large : Fault::none;
  }
  static constexpr PoolGeometry geometry(Shape in) {
    Extent2d const extent{in[1], in[2]};
    return {in[0], extent, options.window.positions(extent), options.window};
  }
  static constexpr Shape output(Shape in) {
    Extent2d const out = options.window.positions({in[1], in[2]});
    return image_shape(in[0], out.height, out.width);
  }
};

}  // namespace detail

namespace detail {

template <class... Options>
struct MaxPool2dIsSound {
  static constexpr bool value = true;
  static_assert((WindowOption<Options> && ...),
                "MaxPool2d<Options...>: options are Kernel, Stride and Padding");
};

}  // namespace detail

/// The largest cell of each window; the first among equals. Options: Kernel, Stride, Padding.
///
/// Shapes: x (B, C, H, W); y (B, C, H', W') as Conv2d's. Padding never wins.
/// Saves:  which cell won, one 32-bit integer an element of y.
/// The primary template is the error path.
template <class... Options>
struct MaxPool2d {
  static constexpr std::string_view name = "MaxPool2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::MaxPool2dIsSound<Options...>::value);
};

template <class... Options>
  requires(WindowOption<Options>&&...)
struct MaxPool2d<Options...> : detail::PoolLayer<Options...> {
  using layer = MaxPool2d;
  static constexpr std::string_view name = "MaxPool2d";
};

namespace detail {

template <class... Options>
struct AvgPool2dIsSound {
  static constexpr bool value = true;
  static_assert((AveragePoolOption<Options> && ...),
                "AvgPool2d<Options...>: options are Kernel, Stride, Padding and ExcludePadding");
};

}  // namespace detail

/// The average of each window, padding counted as zeros unless ExcludePadding.
///
/// Shapes: x (B, C, H, W); y (B, C, H', W') as Conv2d's. Saves nothing.
/// The primary template is the error path.
template <class... Options>
struct AvgPool2d {
  static constexpr std::string_view name = "AvgPool2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::AvgPool2dIsSound<Options...>::value);
};

template <class... Options>
  requires(AveragePoolOption<Options>&&...)
struct AvgPool2d<Options...> : detail::PoolLayer<Options...> {
  using layer = AvgPool2d;
  static constexpr std::string_view name = "AvgPool2d";
};

/// The average of each channel. Shapes: x (B, C, H, W); y (B, C), a vector that Linear takes.
struct GlobalAvgPool {
  using layer = GlobalAvgPool;
  static constexpr std::string_view name = "GlobalAvgPool";
  static constexpr Fault fault(Shape in) {
    return in.rank == 3 ? Fault::none : Fault::not_an_image;
  }
  static constexpr Shape output(Shape in) { return vector_shape(in[0]); }
};

}  // namespace tandem

// ---- tandem/layers/subsample2d.hpp

/// @file
/// Subsample2d: the parameter-free shortcut of the CIFAR residual networks ("option A").

namespace tandem {

namespace detail {

template <int Out, int Step>
struct Subsample2dIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1 && Step >= 1, "Subsample2d<Out, Step>: give positive numbers");
};

}  // namespace detail

/// y[c] = x[c - first] at every Step-th row and column, zero for the added channels, which stand
/// half before and half after (first = (Out - C) / 2).
///
/// Shapes: x (B, C, H, W); y (B, Out, ceil(H / Step), ceil(W / Step)).
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, section 4.2.
template <int Out, int Step>
struct Subsample2d {
  using layer = Subsample2d;
  static constexpr std::string_view name = "Subsample2d";
  static constexpr int step = detail::at_least(1, Step);

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    if (Out < 1 || Step < 1) {
      return Fault::reported;
    }
    return in[0] <= Out ? Fault::none : Fault::channels;
  }
  static constexpr Shape output(Shape in) {
    return image_shape(Out, (in[1] + step - 1) / step, (in[2] + step - 1) / step);
  }
  static_assert(detail::Subsample2dIsSound<Out, Step>::value);
};

}  // namespace tandem

// ---- tandem/layers/sync_batch_norm2d.hpp

/// @file
/// SyncBatchNorm2d: BatchNorm2d with the statistics of a microbatch of all replicas together.

namespace tandem {

namespace detail {

template <class... Options>
struct SyncBatchNorm2dIsSound {
  static constexpr bool value = true;
  static_assert((NormOption<Options> && ...),
                "SyncBatchNorm2d<Options...>: options are Epsilon and Momentum");
};

}  // namespace detail

/// y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of a channel over H, W and
/// the samples of the same microbatch of all replicas: m of the first with m of the second, and so
/// on. Replicas with fewer samples, or none, count as much as they have.
///
/// Shapes: x, y (B, C, H, W); weight, bias, running_mean, running_var (C), named as BatchNorm2d's.
/// Saves:  what BatchNorm2d saves, and 2 C + 1 doubles.
/// Cost:   that of BatchNorm2d and two small kernels a pass.
/// Comm:   over the replicas of its stage one all-reduce of 2 C + 1 doubles in each forward pass in
///         training, a recomputed one included, and one in each backward pass to its input, while
///         the device waits. None with one replica, in evaluation and where frozen: then its
///         numbers are BatchNorm2d's bit for bit.
/// Order:  the sums depend on the number of replicas, so Reproducible<> refuses it.
/// Source: PyTorch's SyncBatchNorm has the same formulas.
/// The primary template is the error path.
template <class... Options>
struct SyncBatchNorm2d {
  static constexpr std::string_view name = "SyncBatchNorm2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::SyncBatchNorm2dIsSound<Options...>::value);
};

template <class... Options>
  requires(NormOption<Options>&&...)
struct SyncBatchNorm2d<Options...> : BatchNorm2d<Options...> {
  using layer = SyncBatchNorm2d;
  static constexpr std::string_view name = "SyncBatchNorm2d";
  /// Tells the engine to add the op's sums over the replicas between the halves of its passes.
  static constexpr bool synchronizes_over_replicas = true;
};

}  // namespace tandem

// ---- tandem/models/googlenet.hpp

/// @file
/// GoogLeNet for 32×32 images: nine Inception blocks, batch norm, no auxiliary heads.

namespace tandem::models {

/// A convolution with bias, batch norm and ReLU.
template <int Out, class... Options>
struct ConvNormReLU : Sequential<Conv2d<Out, Options...>, BatchNorm2d<>, ReLU> {};

/// Four branches on one input: 1×1; 1×1 then 3×3; 1×1 then two 3×3; 3×3 max-pool then 1×1.
template <int One, int ThreeReduce, int Three, int FiveReduce, int Five, int Pool>
struct Inception
    : Concat<ConvNormReLU<One>,
             Sequential<ConvNormReLU<ThreeReduce>, ConvNormReLU<Three, Kernel<3>, Padding<1>>>,
             Sequential<ConvNormReLU<FiveReduce>, ConvNormReLU<Five, Kernel<3>, Padding<1>>,
                        ConvNormReLU<Five, Kernel<3>, Padding<1>>>,
             Sequential<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>, ConvNormReLU<Pool>>> {};

using HalvePool = MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>;

/// GoogLeNet as it is trained on CIFAR-10: 6,166,250 parameters and 1.52 G multiply-accumulates a
/// sample with 10 classes; 14 top-level layers, which is what Split counts.
///
/// Source: Szegedy et al., arXiv:1409.4842; widths and the two 3×3 in the 5×5 branch as in the
/// widely used CIFAR version, convolution biases included.
template <int Classes>
struct GoogLeNet : Network<Image<3, 32, 32>,
                           Sequential<ConvNormReLU<192, Kernel<3>, Padding<1>>,  // 0
                                      Inception<64, 96, 128, 16, 32, 32>,        // 1  (256, 32, 32)
                                      Inception<128, 128, 192, 32, 96, 64>,      // 2  (480, 32, 32)
                                      HalvePool,                                 // 3  (480, 16, 16)
                                      Inception<192, 96, 208, 16, 48, 64>,       // 4  (512, 16, 16)
                                      Inception<160, 112, 224, 24, 64, 64>,      // 5
                                      Inception<128, 128, 256, 24, 64, 64>,      // 6
                                      Inception<112, 144, 288, 32, 64, 64>,      // 7  (528, 16, 16)
                                      Inception<256, 160, 320, 32, 128, 128>,    // 8  (832, 16, 16)
                                      HalvePool,                                 // 9  (832, 8, 8)
                                      Inception<256, 160, 320, 32, 128, 128>,    // 10
                                      Inception<384, 192, 384, 48, 128, 128>,    // 11 (1024, 8, 8)
                                      GlobalAvgPool,                             // 12 (1024)
                                      Linear<Classes>>> {};                      // 13

}  // namespace tandem::models

// ---- tandem/models/inception_v3.hpp

/// @file
/// Inception-V3 for 299×299 images, without the auxiliary classifier.
///
///   top   layer                        output          parameters
///    0    3×3 32, stride 2             (32, 149, 149)         928
///    1    3×3 32                       (32, 147, 147)       9,280
///    2    3×3 64, padding 1            (64, 147, 147)      18,560
///    3    3×3 max pool, stride 2       (64, 73, 73)
///    4    1×1 80                       (80, 73, 73)         5,280
///    5    3×3 192                      (192, 71, 71)      138,624
///    6    3×3 max pool, stride 2       (192, 35, 35)
///    7    A, pool 32                   (256, 35, 35)      255,904
///    8    A, pool 64                   (288, 35, 35)      277,472
///    9    A, pool 64                   (288, 35, 35)      285,152
///   10    B                            (768, 17, 17)    1,153,280
///   11    C, 128                       (768, 17, 17)    1,297,408
///   12    C, 160                       (768, 17, 17)    1,691,008
///   13    C, 160                       (768, 17, 17)    1,691,008
///   14    C, 192                       (768, 17, 17)    2,141,952
///   15    D                            (1280, 8, 8)     1,698,304
///   16    E                            (2048, 8, 8)     5,044,608
///   17    E                            (2048, 8, 8)     6,076,800
///   18    average of each channel      (2048)
///   19    dropout                      (2048)
///   20    linear                       (1000)           2,049,000
///
/// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, arXiv:1512.00567; widths, order of the
/// branches, and epsilon of the batch norms (1/1000) as in the widely used PyTorch implementation.

namespace tandem::models {

namespace detail::inception_v3 {

/// A convolution without bias, batch norm and ReLU.
template <int Out, class... Options>
struct Conv : Sequential<Conv2d<Out, Options..., NoBias>, BatchNorm2d<Epsilon<1, 1000>>, ReLU> {};

// Convolutions that keep height and width, by their kernel.
template <int Out>
struct Conv3x3 : Conv<Out, Kernel<3>, Padding<1>> {};
template <int Out>
struct Conv5x5 : Conv<Out, Kernel<5>, Padding<2>> {};
template <int Out>
struct Conv1x3 : Conv<Out, Kernel<1, 3>, Padding<0, 1>> {};
template <int Out>
struct Conv3x1 : Conv<Out, Kernel<3, 1>, Padding<1, 0>> {};
template <int Out>
struct Conv1x7 : Conv<Out, Kernel<1, 7>, Padding<0, 3>> {};
template <int Out>
struct Conv7x1 : Conv<Out, Kernel<7, 1>, Padding<3, 0>> {};

/// Halves height and width, rounded down: 35 to 17, 17 to 8.
template <int Out>
struct Halve : Conv<Out, Kernel<3>, Stride<2>> {};
using HalvePool = MaxPool2d<Kernel<3>, Stride<2>>;

/// Averages that count the padding as zeros, then a 1×1 convolution.
template <int Out>
struct PoolBranch : Sequential<AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>, Conv<Out>> {};

/// 35×35: 1×1; 5×5; two 3×3; pool. Gives 224 + Pool channels. Figure 5 of the paper.
template <int Pool>
struct BlockA : Concat<Conv<64>,                                        //
                       Sequential<Conv<48>, Conv5x5<64>>,               //
                       Sequential<Conv<64>, Conv3x3<96>, Conv3x3<96>>,  //
                       PoolBranch<Pool>> {};

/// 35×35 to 17×17: 3×3; two 3×3; max pool. Gives 480 more channels.
struct BlockB : Concat<Halve<384>,                                    //
                       Sequential<Conv<64>, Conv3x3<96>, Halve<96>>,  //
                       HalvePool> {};

/// 17×17: 1×1; 7×7 as 1×7 and 7×1; the same twice; pool. Gives 768 channels. Figure 6.
template <int Width>
struct BlockC : Concat<Conv<192>,                                               //
                       Sequential<Conv<Width>, Conv1x7<Width>, Conv7x1<192>>,   //
                       Sequential<Conv<Width>, Conv7x1<Width>, Conv1x7<Width>,  //
                                  Conv7x1<Width>, Conv1x7<192>>,                //
                       PoolBranch<192>> {};

/// 17×17 to 8×8: 3×3; 7×7 and 3×3; max pool. Gives 512 more channels.
struct BlockD : Concat<Sequential<Conv<192>, Halve<320>>,                              //
                       Sequential<Conv<192>, Conv1x7<192>, Conv7x1<192>, Halve<192>>,  //
                       HalvePool> {};

/// A 3×3 whose two halves are not applied one after the other but side by side.
struct Spread : Concat<Conv1x3<384>, Conv3x1<384>> {};

/// 8×8: 1×1; spread; 3×3 and spread; pool. Gives 2048 channels. Figure 7.
struct BlockE : Concat<Conv<320>,                                    //
                       Sequential<Conv<384>, Spread>,                //
                       Sequential<Conv<448>, Conv3x3<384>, Spread>,  //
                       PoolBranch<192>> {};

}  // namespace detail::inception_v3

/// Inception-V3 for ImageNet: 23,834,568 parameters and 5.71 G multiply-accumulates a sample with
/// 1000 classes; 21 top-level layers, 94 convolutions.
template <int Classes>
struct InceptionV3 : Network<Image<3, 299, 299>,
                             Sequential<detail::inception_v3::Conv<32, Kernel<3>, Stride<2>>,  //
                                        detail::inception_v3::Conv<32, Kernel<3>>,             //
                                        detail::inception_v3::Conv3x3<64>,                     //
                                        detail::inception_v3::HalvePool,                       // 3
                                        detail::inception_v3::Conv<80>,                        //
                                        detail::inception_v3::Conv<192, Kernel<3>>,            //
                                        detail::inception_v3::HalvePool,                       // 6
                                        detail::inception_v3::BlockA<32>,                      //
                                        detail::inception_v3::BlockA<64>,                      //
                                        detail::inception_v3::BlockA<64>,                      //
                                        detail::inception_v3::BlockB,                          // 10
                                        detail::inception_v3::BlockC<128>,                     //
                                        detail::inception_v3::BlockC<160>,                     //
                                        detail::inception_v3::BlockC<160>,                     //
                                        detail::inception_v3::BlockC<192>,                     //
                                        detail::inception_v3::BlockD,                          // 15
                                        detail::inception_v3::BlockE,                          //
                                        detail::inception_v3::BlockE,                          //
                                        GlobalAvgPool, Dropout<>, Linear<Classes>>> {};        // 18

}  // namespace tandem::models

// ---- tandem/models/resnet_cifar.hpp

/// @file
/// Residual networks for 32×32 images: ResNet-20 of the original paper, and ResNet-18.

namespace tandem::models {

namespace detail {

template <int Out, int Step = 1>
struct Conv3x3 : Conv2d<Out, Kernel<3>, Stride<Step>, Padding<1>, NoBias> {};

// Two 3×3 convolutions; the ReLU after the sum follows in BasicBlock.
template <int Out, int Step>
struct BasicBody
    : Sequential<Conv3x3<Out, Step>, BatchNorm2d<>, ReLU, Conv3x3<Out>, BatchNorm2d<>> {};

// Where the shape changes, a 1×1 convolution with batch norm.
template <int Out, int Step>
struct Projection : Sequential<Conv2d<Out, Stride<Step>, NoBias>, BatchNorm2d<>> {};

template <int Out, int Step, class Shortcut>
struct BasicBlock : Sequential<Residual<BasicBody<Out, Step>, Shortcut>, ReLU> {};

template <int Out>
struct SameBlock : BasicBlock<Out, 1, Sequential<>> {};

}  // namespace detail

/// ResNet-20 for CIFAR: 269,722 parameters with 10 classes, shortcuts without parameters.
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, section 4.2 (n = 3, option A).
template <int Classes>
struct ResNet20
    : Network<Image<3, 32, 32>,
              Sequential<detail::Conv3x3<16>, BatchNorm2d<>, ReLU,  //
                         detail::SameBlock<16>, detail::SameBlock<16>, detail::SameBlock<16>,
                         detail::BasicBlock<32, 2, Subsample2d<32, 2>>, detail::SameBlock<32>,
                         detail::SameBlock<32>,  //
                         detail::BasicBlock<64, 2, Subsample2d<64, 2>>, detail::SameBlock<64>,
                         detail::SameBlock<64>,  //
                         GlobalAvgPool, Linear<Classes>>> {};

/// ResNet-18 for CIFAR: 11,173,962 parameters with 10 classes; a 3×3 stem and no first pool.
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, as widely adapted to 32×32 images.
template <int Classes>
struct ResNet18
    : Network<
          Image<3, 32, 32>,
          Sequential<detail::Conv3x3<64>, BatchNorm2d<>, ReLU,  //
                     detail::SameBlock<64>, detail::SameBlock<64>,
                     detail::BasicBlock<128, 2, detail::Projection<128, 2>>, detail::SameBlock<128>,
                     detail::BasicBlock<256, 2, detail::Projection<256, 2>>, detail::SameBlock<256>,
                     detail::BasicBlock<512, 2, detail::Projection<512, 2>>,
                     detail::SameBlock<512>,  //
                     GlobalAvgPool, Linear<Classes>>> {};

}  // namespace tandem::models

// ---- tandem/models/resnet_imagenet.hpp

/// @file
/// ResNet-50 for 224×224 images, stride 2 in the 3×3 convolution of a block ("v1.5").
///
///   stage  blocks                                  output          parameters
///   stem   7×7 stride 2, 3×3 max pool stride 2     (64, 56, 56)         9,536
///   1      3 of 1×1 64,  3×3 64,  1×1 256          (256, 56, 56)      215,808
///   2      4 of 1×1 128, 3×3 128, 1×1 512          (512, 28, 28)    1,219,584
///   3      6 of 1×1 256, 3×3 256, 1×1 1024         (1024, 14, 14)   7,098,368
///   4      3 of 1×1 512, 3×3 512, 1×1 2048         (2048, 7, 7)    14,964,736
///   head   average of each channel, linear         (1000)           2,049,000
///
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, table 1; the place of the stride as in the widely
/// used implementations, which reach a higher accuracy with it.

namespace tandem::models {

namespace detail {

// 1×1 down to Width channels, 3×3, 1×1 up to four times Width; the ReLU after the sum follows in
// Bottleneck.
template <int Width, int Step>
struct BottleneckBody : Sequential<Conv2d<Width, NoBias>, BatchNorm2d<>, ReLU,  //
                                   Conv3x3<Width, Step>, BatchNorm2d<>, ReLU,   //
                                   Conv2d<4 * Width, NoBias>, BatchNorm2d<>> {};

template <int Width, int Step, class Shortcut>
struct Bottleneck : Sequential<Residual<BottleneckBody<Width, Step>, Shortcut>, ReLU> {};

// The first block of a stage, which changes the shape, and the others.
template <int Width, int Step>
struct FirstBottleneck : Bottleneck<Width, Step, Projection<4 * Width, Step>> {};
template <int Width>
struct NextBottleneck : Bottleneck<Width, 1, Sequential<>> {};

}  // namespace detail

/// ResNet-50 for ImageNet: 25,557,032 parameters and 4.09 G multiply-accumulates a sample with 1000
/// classes; 22 top-level layers, each block one.
template <int Classes>
struct ResNet50
    : Network<Image<3, 224, 224>,
              Sequential<Conv2d<64, Kernel<7>, Stride<2>, Padding<3>, NoBias>, BatchNorm2d<>, ReLU,
                         MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>,                   // 3
                         detail::FirstBottleneck<64, 1>, detail::NextBottleneck<64>,    // 4
                         detail::NextBottleneck<64>,                                    //
                         detail::FirstBottleneck<128, 2>, detail::NextBottleneck<128>,  // 7
                         detail::NextBottleneck<128>, detail::NextBottleneck<128>,      //
                         detail::FirstBottleneck<256, 2>, detail::NextBottleneck<256>,  // 11
                         detail::NextBottleneck<256>, detail::NextBottleneck<256>,      //
                         detail::NextBottleneck<256>, detail::NextBottleneck<256>,      //
                         detail::FirstBottleneck<512, 2>, detail::NextBottleneck<512>,  // 17
                         detail::NextBottleneck<512>,                                   //
                         GlobalAvgPool, Linear<Classes>>> {};                           // 20

}  // namespace tandem::models

// ---- tandem/models/small_cnn.hpp

/// @file
/// SmallCnn: the quickstart's network for 28×28 grey images.

namespace tandem::models {

/// Three 3×3 convolutions with batch norm, two pools, one linear layer: 42,298 parameters with 10
/// classes. Reaches about 0.91 on Fashion-MNIST in a few epochs.
template <int Classes>
struct SmallCnn : Network<Image<1, 28, 28>,
                          Sequential<Conv2d<16, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,
                                     MaxPool2d<Kernel<2>>,  // (16, 14, 14)
                                     Conv2d<32, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,
                                     MaxPool2d<Kernel<2>>,  // (32, 7, 7)
                                     Conv2d<48, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,
                                     Flatten, Linear<Classes>>> {};

}  // namespace tandem::models

// ---- tandem/models/vgg.hpp

/// @file
/// VGG-16: thirteen 3×3 convolutions between five pools; as it is trained on CIFAR-10, with batch
/// norm and one linear layer, and the original for 224×224 images with its three.
///
///   convolutions         image of 32×32        image of 224×224
///   64, 64, pool         (64, 16, 16)          (64, 112, 112)
///   128, 128, pool       (128, 8, 8)           (128, 56, 56)
///   256, 256, 256, pool  (256, 4, 4)           (256, 28, 28)
///   512, 512, 512, pool  (512, 2, 2)           (512, 14, 14)
///   512, 512, 512, pool  (512, 1, 1)           (512, 7, 7)
///   linear               512, Classes          25088, 4096, 4096, Classes
///
/// Source: Simonyan, Zisserman, arXiv:1409.1556, table 1, column D.

namespace tandem::models {

namespace detail {

/// A 3×3 convolution that keeps height and width, with bias, and ReLU.
template <int Out>
struct VggConv : Sequential<Conv2d<Out, Kernel<3>, Padding<1>>, ReLU> {};

/// The same with batch norm between the two.
template <int Out>
struct VggNormConv : Sequential<Conv2d<Out, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU> {};

using VggPool = MaxPool2d<Kernel<2>>;

}  // namespace detail

/// VGG-16 with batch norm for CIFAR: 14,728,266 parameters and 313 M multiply-accumulates a sample
/// with 10 classes; 20 top-level layers. Convolution biases included, as in the widely used
/// version.
template <int Classes>
struct Vgg16Bn
    : Network<Image<3, 32, 32>, Sequential<detail::VggNormConv<64>, detail::VggNormConv<64>,  // 0
                                           detail::VggPool,                                   // 2
                                           detail::VggNormConv<128>, detail::VggNormConv<128>,
                                           detail::VggPool,  // 5
                                           detail::VggNormConv<256>, detail::VggNormConv<256>,
                                           detail::VggNormConv<256>, detail::VggPool,  // 9
                                           detail::VggNormConv<512>, detail::VggNormConv<512>,
                                           detail::VggNormConv<512>, detail::VggPool,  // 13
                                           detail::VggNormConv<512>, detail::VggNormConv<512>,
                                           detail::VggNormConv<512>, detail::VggPool,  // 17
                                           Flatten, Linear<Classes>>> {};

/// VGG-16 for ImageNet: 138,357,544 parameters, of which the first linear layer has 102,764,544,
/// and 15.47 G multiply-accumulates a sample with 1000 classes; 26 top-level layers.
template <int Classes>
struct Vgg16 : Network<Image<3, 224, 224>,
                       Sequential<detail::VggConv<64>, detail::VggConv<64>, detail::VggPool,    // 0
                                  detail::VggConv<128>, detail::VggConv<128>, detail::VggPool,  // 3
                                  detail::VggConv<256>, detail::VggConv<256>, detail::VggConv<256>,
                                  detail::VggPool,  // 9
                                  detail::VggConv<512>, detail::VggConv<512>, detail::VggConv<512>,
                                  detail::VggPool,  // 13
                                  detail::VggConv<512>, detail::VggConv<512>, detail::VggConv<512>,
                                  detail::VggPool,                         // 17 (512, 7, 7)
                                  Flatten, Linear<4096>, ReLU, Dropout<>,  // 18
                                  Linear<4096>, ReLU, Dropout<>,           // 22
                                  Linear<Classes>>> {};                    // 25

}  // namespace tandem::models

// ---- tandem/ops/check_layer.hpp

/// @file
/// check_layer: a layer's gradients against finite differences, in double. For tests, the library's
/// and its users'.

namespace tandem {

/// What check_layer found; `problem` is one sentence, empty if all is well.
struct LayerCheck {
  std::string problem;
  double worst = 0.0;  ///< largest error seen, relative to 1 + |computed| + |expected|

  [[nodiscard]] bool ok() const { return problem.empty(); }
};

struct LayerCheckOptions {
  int batch = 3;
  double step = 1e-5;       ///< of the central differences
  double tolerance = 1e-6;  ///< relative to 1 + |computed| + |expected|
  int elements = 64;        ///< checked of each tensor, spread evenly
  std::uint64_t seed = 1;
};

namespace detail {

/// A layer with random inputs, and L = Σ r y for a random r, whose gradients are compared.
template <class L>
class LayerChecker {
  using Backend = BasicHost<Portable, Fp64>;

 public:
  LayerChecker(Shape in, LayerCheckOptions const& options)
      : options_{options},
        node_{.kind = NodeKind::layer,
              .needs_gradient = true,
              .edges = 1,
              .in = in,
              .out = L::output(in)},
        list_{parameters_of<L>(in)},
        device_{1},
        op_{OpSetup{node_, 1, &node_.in, options.batch, 1}} {
    x_ = random(in.elements() * options.batch, -1.0, 1.0);
    y_ = std::vector<double>(size(node_.out.elements() * options.batch));
    weights_ = random(node_.out.elements() * options.batch, -1.0, 1.0);
    for (int p = 0; p < list_.count; ++p) {
      bool const statistic = list_.item[p].role == Role::statistic;
      parameters_.push_back(
          random(list_.item[p].shape.elements(), statistic ? 0.5 : -1.0, statistic ? 1.5 : 1.0));
      gradients_.emplace_back(parameters_.back().size(), poison);
    }
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      parameter_.push_back(parameters_[p].data());
      gradient_.push_back(gradients_[p].data());
    }
    saved_ = Buffer{static_cast<std::size_t>(op_.needs().saved_bytes)};
    scratch_ = Buffer{static_cast<std::size_t>(op_.needs().scratch_bytes)};
    device_.scratch = scratch_.data();
  }

  LayerCheck run() {
    std::vector<double> dx(x_.size(), poison);
    double const* const x = x_.data();
    double* const dx_memory = dx.data();
    static_cast<void>(objective());
    check_written(y_, "forward leaves an element of y unwritten, or makes it not finite");
    Operands<double> const o = operands(&x, &dx_memory);
    op_.input_gradient(o, pass(false));
    check_written(dx, "input_gradient leaves an element of dx unwritten, or makes it not finite");
    compare(dx, x_, "x");
    if constexpr (requires { op_.weight_gradient(o, pass(false)); }) {
      if (list_.count > 0) {
        check_parameters(o);
      }
    }
    return result_;
  }

 private:
  using Buffer = host::Buffer;
  static constexpr double poison = std::numeric_limits<double>::quiet_NaN();
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  std::vector<double> random(std::int64_t n, double low, double high) {
    std::vector<double> values(size(n));
    for (double& value : values) {
      auto const word = philox(options_.seed, RandomUse::user, drawn_++, 0).word[0];
      value = low + (high - low) * double{uniform(word)};
    }
    return values;
  }

  [[nodiscard]] Pass<host::Device> pass(bool accumulate) {
    return {.device = device_, .batch = options_.batch, .state = &state_, .accumulate = accumulate};
  }
  Operands<double> operands(double const* const* x, double* const* dx) {
    return {.x = x,
            .y = y_.data(),
            .dy = weights_.data(),
            .dx = dx,
            .parameter = parameter_.data(),
            .gradient = gradient_.data(),
            .saved = saved_.data()};
  }

  double objective() {
    double const* const x = x_.data();
    for (double& y : y_) {
      y = poison;
    }
    op_.forward(operands(&x, nullptr), pass(false));
    double sum = 0.0;
    for (std::size_t i = 0; i < y_.size(); ++i) {
      sum += weights_[i] * y_[i];
    }
    return sum;
  }

  void check_parameters(Operands<double> const& o) {
    op_.weight_gradient(o, pass(false));
    std::vector<std::vector<double>> const once = gradients_;
    op_.weight_gradient(o, pass(true));
    for (std::size_t p = 0; p < once.size(); ++p) {
      std::string const name = list_.item[p].name;
      check_written(once[p], "weight_gradient leaves an element of the gradient of " + name +
                                 " unwritten, or makes it not finite");
      for (std::size_t i = 0; i < once[p].size(); ++i) {
        note(gradients_[p][i], 2.0 * once[p][i], "a second, accumulating gradient of " + name, i);
      }
      if (list_.item[p].role == Role::weight) {
        compare(once[p], parameters_[p], name);
      }
    }
  }

  // Central differences of the objective over `variable`, against `computed`.
  void compare(std::vector<double> const& computed, std::vector<double>& variable,
               std::string const& name) {
    auto const stride = std::max<std::size_t>(1, variable.size() / size(options_.elements));
    for (std::size_t i = 0; i < variable.size(); i += stride) {
      double const middle = variable[i];
      variable[i] = middle + options_.step;
      double const above = objective();
      variable[i] = middle - options_.step;
      double const below = objective();
      variable[i] = middle;
      note(computed[i], (above - below) / (2.0 * options_.step), "the gradient of " + name, i);
    }
    static_cast<void>(objective());  // y and saved as they were
  }

  void check_written(std::vector<double> const& values, std::string const& problem) {
    for (double const value : values) {
      if (!std::isfinite(value) && result_.ok()) {
        result_.problem = problem;
      }
    }
  }

  void note(double computed, double expected, std::string const& what, std::size_t element) {
    double const error =
        std::abs(computed - expected) / (1.0 + std::abs(computed) + std::abs(expected));
    result_.worst = !(error <= result_.worst) ? error : result_.worst;
    if (!(error <= options_.tolerance) && result_.ok()) {
      result_.problem = what + " at element " + std::to_string(element) + " is " +
                        std::to_string(computed) + ", but finite differences give " +
                        std::to_string(expected);
    }
  }

  LayerCheckOptions options_;
  StepState state_{.seed = options_.seed};
  Node node_;
  Parameters list_;
  host::Device device_;
  Op<L, Backend> op_;
  std::uint64_t drawn_ = 0;
  std::vector<double> x_;
  std::vector<double> y_;
  std::vector<double> weights_;
  std::vector<std::vector<double>> parameters_;
  std::vector<std::vector<double>> gradients_;
  std::vector<double*> parameter_;
  std::vector<double*> gradient_;
  Buffer saved_;
  Buffer scratch_;
  LayerCheck result_;
};

}  // namespace detail

/// Checks layer L on random inputs of type @p Input: forward writes all of y, gradients of x and of
/// every weight equal central differences, and gradients accumulate when asked to.
///
///   REQUIRE(check_layer<MyLayer, Image<3, 8, 8>>().ok());
///
/// Cost: two forward passes an element checked. A kink (as ReLU's) hit by chance is an error that
/// another seed does not have.
template <Layer L, class Input>
LayerCheck check_layer(LayerCheckOptions const& options = {}) {
  return detail::LayerChecker<L>{Input::shape, options}.run();
}

}  // namespace tandem

// ---- tandem/ops/host/all.hpp

/// @file
/// All ops of the portable Host backend.

// ---- tandem/ops/host/activation.hpp

/// @file
/// ReLU and Dropout on Host, portable kernels.

// ---- tandem/kernels/host/activation.hpp

/// @file
/// The rectifier and its gradient, which needs the output only, so that a layer may work in place.

// ---- tandem/kernels/functors/rectifier.hpp

/// @file
/// Rectify and RectifyGradient: one element of a ReLU, the same on every backend.

namespace tandem {

/// max(x, 0); a NaN stays a NaN.
struct Rectify {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};

/// dy where y > 0, else 0; where y is a NaN the gradient passes, as in PyTorch.
struct RectifyGradient {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T y, T dy) const {
    return y <= T{0} ? T{0} : dy;
  }
};

}  // namespace tandem

namespace tandem::host {

/// y = max(x, 0); a NaN stays a NaN.
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_forward(Team& team, T const* x, T* y, std::int64_t n) {
  transform(team, n, [=](std::int64_t i) { y[i] = Rectify{}(x[i]); });
}

/// dx = dy where y > 0, else 0; where y is a NaN the gradient passes, as in PyTorch.
///
/// Shapes: y (n), the output of relu_forward; dy (n); dx (n), which may be dy.
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_gradient(Team& team, T const* y, T const* dy, T* dx, std::int64_t n) {
  transform(team, n, [=](std::int64_t i) { dx[i] = RectifyGradient{}(y[i], dy[i]); });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/dropout.hpp

/// @file
/// Dropout whose mask is never stored: it is drawn again, from the place of each element.

// ---- tandem/kernels/functors/dropout_mask.hpp

/// @file
/// The mask of a dropout, never stored: it is drawn again, from the place of each element.
///
/// The mask depends on the seed, the step, the layer, the sample's index in the global batch and
/// the element only, so that it is the same on every rank and backend, under every strategy and in
/// every microbatch.

namespace tandem {

/// Where a dropout mask is drawn. `first_sample` is the global index of the batch's first sample.
struct DropoutPlace {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  std::uint32_t first_sample = 0;
};

/// The four words for elements 4 q … 4 q + 3 of a sample, in order. An image's elements are counted
/// in the order (C, H, W), however a backend stores them.
///
/// The key is (seed, RandomUse::dropout); the counter is step · 2³² + layer (low 64 bits) and
/// sample · 2³² + q (high 64 bits).
TANDEM_HOST_DEVICE constexpr Random4 dropout_words(DropoutPlace const& place, std::int64_t sample,
                                                   std::int64_t q) {
  std::uint64_t const low = (static_cast<std::uint64_t>(place.step) << 32) | place.layer;
  std::uint64_t const row = static_cast<std::uint64_t>(sample) + place.first_sample;
  return philox(place.seed, RandomUse::dropout, low, (row << 32) | static_cast<std::uint64_t>(q));
}

/// x · scale where an element with this random word is kept, else 0.
template <class T>
TANDEM_HOST_DEVICE constexpr T dropped(std::uint32_t word, float rate, T scale, T x) {
  return uniform(word) >= rate ? x * scale : T{0};
}

/// What the kept elements are multiplied by: 1 / (1 - rate).
template <class T>
TANDEM_HOST_DEVICE constexpr T dropout_scale(float rate) {
  return T{1} / (T{1} - static_cast<T>(rate));
}

}  // namespace tandem

namespace tandem::host {

/// y = x / (1 - rate) where the element is kept, else 0; kept is uniform(word) >= rate.
///
/// Shapes: x (B, elements); y (B, elements), which may be x.
/// Cost:   one Philox block of 10 rounds for each four elements; bound by arithmetic.
/// @pre    0 <= rate < 1; elements < 2³⁴
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 15 (2014), section 10
///         (the "inverted" form, scaled in training)
template <class T>
TANDEM_NOINLINE void dropout_forward(Team& team, int batch, std::int64_t elements,
                                     DropoutPlace const& place, float rate, T const* x, T* y) {
  T const scale = dropout_scale<T>(rate);
  std::int64_t const blocks = (elements + 3) / 4;
  team.parallel_for(batch * blocks, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::int64_t const sample = b / blocks;
      std::int64_t const q = b % blocks;
      Random4 const random = dropout_words(place, sample, q);
      for (std::int64_t j = 0; j < 4 && 4 * q + j < elements; ++j) {
        std::int64_t const i = sample * elements + 4 * q + j;
        y[i] = dropped(random.word[j], rate, scale, x[i]);
      }
    }
  });
}

/// dx = dy / (1 - rate) where the element was kept, else 0: the same map, with the same mask.
///
/// Shapes: dy (B, elements); dx (B, elements), which may be dy.
template <class T>
TANDEM_NOINLINE void dropout_gradient(Team& team, int batch, std::int64_t elements,
                                      DropoutPlace const& place, float rate, T const* dy, T* dx) {
  dropout_forward(team, batch, elements, place, rate, dy, dx);
}

}  // namespace tandem::host

namespace tandem {

namespace host {

template <class T>
class ReluOp {
 public:
  explicit ReluOp(OpSetup const& setup) : elements_{setup.node.out.elements()} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true, .in_place = true}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    relu_forward(p.device.team, o.x[0], o.y, p.batch * elements_);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    relu_gradient(p.device.team, o.y, o.dy, o.dx[0], p.batch * elements_);
  }

 private:
  std::int64_t elements_;
};

template <class T>
class DropoutOp {
 public:
  DropoutOp(OpSetup const& setup, double rate)
      : elements_{setup.node.out.elements()},
        layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)} {}

  [[nodiscard]] OpNeeds needs() const { return {.in_place = true}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    dropout_forward(p.device.team, p.batch, elements_, place(p), p.training ? rate_ : 0.0F, o.x[0],
                    o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    dropout_gradient(p.device.team, p.batch, elements_, place(p), rate_, o.dy, o.dx[0]);
  }

 private:
  [[nodiscard]] DropoutPlace place(Pass<Device> const& p) const {
    return {p.state->seed, static_cast<std::uint32_t>(p.state->step), layer_,
            static_cast<std::uint32_t>(p.first_sample)};
  }

  std::int64_t elements_;
  std::uint32_t layer_;
  float rate_;
};

}  // namespace host

template <class Precision>
struct Op<ReLU, BasicHost<Portable, Precision>> : host::ReluOp<typename Precision::Scalar> {
  using host::ReluOp<typename Precision::Scalar>::ReluOp;
};

template <class Rate, class Precision>
struct Op<Dropout<Rate>, BasicHost<Portable, Precision>>
    : host::DropoutOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::DropoutOp<typename Precision::Scalar>{setup, Dropout<Rate>::rate} {}
};

}  // namespace tandem

// ---- tandem/ops/host/batch_norm.hpp

/// @file
/// BatchNorm2d on Host, portable kernels.

// ---- tandem/kernels/host/batch_norm.hpp

/// @file
/// Batch normalisation of each channel over (B, pixels), in training, with the batch's statistics.
///
/// The kernels with constant statistics stand in batch_norm_evaluation.hpp.
/// Source: Ioffe, Szegedy, arXiv:1502.03167, section 3.

namespace tandem::host {

namespace detail {

/// Calls f(i) for each element i of one channel.
template <class Function>
void each_of_channel(int batch, int channels, std::int64_t pixels, std::int64_t channel,
                     Function const& f) {
  for (std::int64_t s = 0; s < batch; ++s) {
    std::int64_t const first = (s * channels + channel) * pixels;
    for (std::int64_t i = first; i < first + pixels; ++i) {
      f(i);
    }
  }
}

}  // namespace detail

/// y = (x - mean(x)) / sqrt(var(x) + epsilon) * gain + bias, each channel over B and pixels.
///
/// Shapes: x (B, C, pixels), gain (C), bias (C); y (B, C, pixels), which may be x if x is not
/// needed
///         again; mean (C), inverse_deviation (C), variance (C).
/// Saves:  mean and 1 / sqrt(var + epsilon) for the gradients; `variance` is the biased one, which
///         batch_norm_statistics needs.
/// Cost:   reads x three times, writes y once; bound by memory.
/// Order:  two passes (mean, then squares of x - mean); each map in 16 lanes in T, then the samples
///         in order in double.
template <class T>
TANDEM_NOINLINE void batch_norm_forward(Team& team, int batch, int channels, std::int64_t pixels,
                                        T const* x, T const* gain, T const* bias, T epsilon, T* y,
                                        T* mean, T* inverse_deviation, T* variance) {
  double const count = static_cast<double>(batch * pixels);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      T const center = static_cast<T>(total([=](std::int64_t i) { return x[i]; }) / count);
      double const spread = total([=](std::int64_t i) {
                              T const distance = x[i] - center;
                              return distance * distance;
                            }) /
                            count;
      T const inverse = static_cast<T>(1.0 / std::sqrt(spread + static_cast<double>(epsilon)));
      mean[c] = center;
      inverse_deviation[c] = inverse;
      variance[c] = static_cast<T>(spread);
      T const scale = inverse * gain[c];
      T const shift = bias[c];
      detail::each_of_channel(batch, channels, pixels, c,
                              [=](std::int64_t i) { y[i] = (x[i] - center) * scale + shift; });
    }
  });
}

/// The gradient of batch_norm_forward to x, through mean and variance also:
/// dx = gain / deviation * (dy - mean(dy) - xhat mean(dy xhat)), xhat = (x - mean) / deviation.
///
/// Shapes: x, dy (B, C, pixels), gain, mean, inverse_deviation (C); dx (B, C, pixels), may be dy.
/// Cost:   reads x and dy twice, writes dx once; bound by memory.
/// Order:  the sums as in batch_norm_forward.
template <class T>
TANDEM_NOINLINE void batch_norm_input_gradient(Team& team, int batch, int channels,
                                               std::int64_t pixels, T const* x, T const* dy,
                                               T const* gain, T const* mean,
                                               T const* inverse_deviation, T* dx) {
  double const count = static_cast<double>(batch * pixels);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      T const inverse = inverse_deviation[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      double const sum_dy = total([=](std::int64_t i) { return dy[i]; });
      double const sum_dy_x = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
      T const offset = static_cast<T>(sum_dy / count);
      T const slope = static_cast<T>(sum_dy_x / count) * inverse * inverse;
      T const scale = inverse * gain[c];
      detail::each_of_channel(batch, channels, pixels, c, [=](std::int64_t i) {
        T const rest = dy[i] - offset;
        dx[i] = (rest - (x[i] - center) * slope) * scale;
      });
    }
  });
}

/// dgain = [+=] sum(dy xhat), dbias = [+=] sum(dy), each channel over B and pixels.
///
/// Shapes: x, dy (B, C, pixels), mean, inverse_deviation (C); dgain, dbias (C).
/// Cost:   reads x and dy once; bound by memory.
/// Order:  as batch_norm_forward; with @p accumulate the batch's sum is added as one term.
template <class T>
TANDEM_NOINLINE void batch_norm_parameter_gradient(Team& team, int batch, int channels,
                                                   std::int64_t pixels, T const* x, T const* dy,
                                                   T const* mean, T const* inverse_deviation,
                                                   T* dgain, T* dbias, bool accumulate) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      T const sum_dy = static_cast<T>(total([=](std::int64_t i) { return dy[i]; }));
      double const sum_dy_x = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
      T const sum_dy_xhat = static_cast<T>(sum_dy_x * static_cast<double>(inverse_deviation[c]));
      dgain[c] = accumulate ? dgain[c] + sum_dy_xhat : sum_dy_xhat;
      dbias[c] = accumulate ? dbias[c] + sum_dy : sum_dy;
    }
  });
}

/// out_mean = [+=] weight * mean, out_variance = [+=] weight * variance * count / (count - 1).
///
/// What one batch (of `count` = B · pixels elements a channel) adds to the average of the
/// statistics over all the batches of a step; the outputs travel with the gradients. A count of 1
/// has no unbiased variance and passes the biased one, 0.
///
/// Shapes: mean, variance (biased), out_mean, out_variance (C).
template <class T>
TANDEM_NOINLINE void batch_norm_statistics(Team& team, int channels, std::int64_t count, T weight,
                                           T const* mean, T const* variance, T* out_mean,
                                           T* out_variance, bool accumulate) {
  double const unbiased =
      count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1.0;
  T const factor = static_cast<T>(static_cast<double>(weight) * unbiased);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      out_mean[c] = weight * mean[c] + (accumulate ? out_mean[c] : T{0});
      out_variance[c] = factor * variance[c] + (accumulate ? out_variance[c] : T{0});
    }
  });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/batch_norm_evaluation.hpp

/// @file
/// Batch normalisation with running statistics, which are constants to the gradients.
///
/// Each element is a fixed affine map of itself, so nothing depends on the batch's neighbours.

namespace tandem::host {

namespace detail {

template <class T>
T inverse_deviation_of(T variance, T epsilon) {
  return static_cast<T>(1.0 /
                        std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon)));
}

}  // namespace detail

/// y = (x - running_mean) / sqrt(running_variance + epsilon) * gain + bias.
///
/// Shapes: x (B, C, pixels), the others (C); y (B, C, pixels), which may be x.
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_evaluation_forward(Team& team, int batch, int channels,
                                                   std::int64_t pixels, T const* x, T const* gain,
                                                   T const* bias, T const* running_mean,
                                                   T const* running_variance, T epsilon, T* y) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const scale = detail::inverse_deviation_of(running_variance[c], epsilon) * gain[c];
      T const center = running_mean[c];
      T const shift = bias[c];
      detail::each_of_channel(batch, channels, pixels, c,
                              [=](std::int64_t i) { y[i] = (x[i] - center) * scale + shift; });
    }
  });
}

/// dx = dy * gain / sqrt(running_variance + epsilon).
///
/// Shapes: dy (B, C, pixels), gain, running_variance (C); dx (B, C, pixels), which may be dy.
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_evaluation_input_gradient(Team& team, int batch, int channels,
                                                          std::int64_t pixels, T const* dy,
                                                          T const* gain, T const* running_variance,
                                                          T epsilon, T* dx) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const scale = detail::inverse_deviation_of(running_variance[c], epsilon) * gain[c];
      detail::each_of_channel(batch, channels, pixels, c,
                              [=](std::int64_t i) { dx[i] = dy[i] * scale; });
    }
  });
}

/// dgain = [+=] sum(dy (x - running_mean) / deviation), dbias = [+=] sum(dy), each channel.
///
/// Shapes: x, dy (B, C, pixels), running_mean, running_variance (C); dgain, dbias (C).
/// Cost:   reads x and dy once; bound by memory.
/// Order:  each map in 16 lanes in T, then the samples in order in double.
template <class T>
TANDEM_NOINLINE void batch_norm_evaluation_parameter_gradient(Team& team, int batch, int channels,
                                                              std::int64_t pixels, T const* x,
                                                              T const* dy, T const* running_mean,
                                                              T const* running_variance, T epsilon,
                                                              T* dgain, T* dbias, bool accumulate) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = running_mean[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      T const inverse = detail::inverse_deviation_of(running_variance[c], epsilon);
      T const sum_dy = static_cast<T>(total([=](std::int64_t i) { return dy[i]; }));
      double const sum_dy_x = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
      T const sum_dy_xhat = static_cast<T>(sum_dy_x * static_cast<double>(inverse));
      dgain[c] = accumulate ? dgain[c] + sum_dy_xhat : sum_dy_xhat;
      dbias[c] = accumulate ? dbias[c] + sum_dy : sum_dy;
    }
  });
}

}  // namespace tandem::host

namespace tandem {

namespace host {

/// Statistics of the microbatch in training; running ones in evaluation and where frozen.
///
/// saved holds mean, inverse deviation and biased variance, (C) each. The gradient slots of the
/// running statistics receive share * (mean, unbiased variance), so that the sum over a step's
/// microbatches is their average, whoever computed them.
template <class T>
class BatchNormOp {
 public:
  BatchNormOp(OpSetup const& setup, double epsilon)
      : channels_{setup.node.in[0]},
        pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        frozen_{setup.node.frozen},
        epsilon_{static_cast<T>(epsilon)} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true, .saved_bytes = 3 * channels_ * static_cast<std::int64_t>(sizeof(T))};
  }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    if (p.training && !frozen_) {
      Saved const s = saved(o);
      batch_norm_forward(p.device.team, p.batch, channels_, pixels_, o.x[0], gain(o), bias(o),
                         epsilon_, o.y, s.mean, s.inverse_deviation, s.variance);
    } else {
      batch_norm_evaluation_forward(p.device.team, p.batch, channels_, pixels_, o.x[0], gain(o),
                                    bias(o), running_mean(o), running_variance(o), epsilon_, o.y);
    }
  }

  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    if (frozen_) {
      batch_norm_evaluation_input_gradient(p.device.team, p.batch, channels_, pixels_, o.dy,
                                           gain(o), running_variance(o), epsilon_, o.dx[0]);
    } else {
      Saved const s = saved(o);
      batch_norm_input_gradient(p.device.team, p.batch, channels_, pixels_, o.x[0], o.dy, gain(o),
                                s.mean, s.inverse_deviation, o.dx[0]);
    }
  }

  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    Saved const s = saved(o);
    batch_norm_parameter_gradient(p.device.team, p.batch, channels_, pixels_, o.x[0], o.dy, s.mean,
                                  s.inverse_deviation, o.gradient[0], o.gradient[1], p.accumulate);
    batch_norm_statistics(p.device.team, channels_, p.batch * pixels_, static_cast<T>(p.share),
                          s.mean, s.variance, o.gradient[2], o.gradient[3], p.accumulate);
  }

 protected:
  struct Saved {
    T* mean;
    T* inverse_deviation;
    T* variance;
  };

  [[nodiscard]] Saved saved(Operands<T> const& o) const {
    T* const memory = reinterpret_cast<T*>(o.saved);
    return {memory, memory + channels_, memory + 2 * channels_};
  }
  static T const* gain(Operands<T> const& o) { return o.parameter[0]; }
  static T const* bias(Operands<T> const& o) { return o.parameter[1]; }
  static T const* running_mean(Operands<T> const& o) { return o.parameter[2]; }
  static T const* running_variance(Operands<T> const& o) { return o.parameter[3]; }

  int channels_;
  std::int64_t pixels_;
  bool frozen_;
  T epsilon_;
};

}  // namespace host

template <class... Options, class Precision>
struct Op<BatchNorm2d<Options...>, BasicHost<Portable, Precision>>
    : host::BatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::BatchNormOp<typename Precision::Scalar>{setup, BatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem

// ---- tandem/ops/host/convolution.hpp

/// @file
/// Conv2d and Linear on Host, portable kernels.

// ---- tandem/kernels/host/convolution.hpp

/// @file
/// The three passes of a convolution: convolution_forward, convolution_input_gradient and
/// convolution_weight_gradient; and convolution_scratch.

// ---- tandem/kernels/host/convolution_forward.hpp

/// @file
/// Convolution: a product of the weights and the matrix of patches; with convolution_scratch.

// ---- tandem/kernels/host/panels.hpp

/// @file
/// The matrix product under gemm and convolution: packed panels, a register tile, a blocked loop.
///
/// A panel holds 6 rows of the left matrix or 32 columns of the right one, k outermost, zeros
/// behind the last row or column. Every element is computed in a whole tile, also at the edges, so
/// that its bits do not depend on where it stands. Source: Goto, van de Geijn, ACM TOMS 34
/// (2008) 3.

namespace tandem::host::detail {

/// Rows and columns of the register tile: 12 vectors of 16 floats. Both plain loops below vectorise
/// on g++ 12 and clang 14; a tile of 16 columns does not on g++ (measured: 11 against 257 Gflop/s).
inline constexpr int tile_rows = 6;
inline constexpr int tile_columns = 32;

/// A block of the left matrix (120 x 256) and of the right one (256 x 512) fit the second-level
/// cache.
inline constexpr std::int64_t block_depth = 256;
inline constexpr std::int64_t block_rows = 20 * tile_rows;
inline constexpr std::int64_t block_columns = 16 * tile_columns;
inline constexpr std::int64_t left_block = block_rows * block_depth;
inline constexpr std::int64_t right_block = block_depth * block_columns;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// A range of rows or of columns.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

/// The rows and columns of member @p part of @p parts: a range of whole panels of the longer side.
struct Part {
  Range rows;
  Range columns;

  constexpr Part(std::int64_t m, std::int64_t n, std::int64_t part, std::int64_t parts)
      : rows{0, m}, columns{0, n} {
    std::int64_t const row_panels = (m + tile_rows - 1) / tile_rows;
    std::int64_t const column_panels = (n + tile_columns - 1) / tile_columns;
    if (row_panels > column_panels) {
      rows = {std::min(m, row_panels * part / parts * tile_rows),
              std::min(m, row_panels * (part + 1) / parts * tile_rows)};
    } else {
      columns = {std::min(n, column_panels * part / parts * tile_columns),
                 std::min(n, column_panels * (part + 1) / parts * tile_columns)};
    }
  }
};

/// tile = the product of a left panel (depth, 6) and a right panel (depth, 32).
///
/// Order: each element is one sum in the order of k, from 0.
template <class T>
TANDEM_NOINLINE void multiply_panels(std::int64_t depth, T const* left, T const* right, T* tile) {
  T total[tile_rows][tile_columns];
  for (int i = 0; i < tile_rows; ++i) {
    for (int j = 0; j < tile_columns; ++j) {
      total[i][j] = T{0};
    }
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    for (int i = 0; i < tile_rows; ++i) {
      for (int j = 0; j < tile_columns; ++j) {
        total[i][j] += left[i] * right[j];
      }
    }
    left += tile_rows;
    right += tile_columns;
  }
  for (int i = 0; i < tile_rows; ++i) {
    for (int j = 0; j < tile_columns; ++j) {
      tile[i * tile_columns + j] = total[i][j];
    }
  }
}

/// panel[p * Width + i] = x[i * stride + p * step] for i < count, else 0. One of the strides is 1.
template <int Width, class T>
void pack_panel(std::int64_t count, std::int64_t depth, T const* x, std::int64_t stride,
                std::int64_t step, T* panel) {
  if (count < Width) {
    std::fill(panel, panel + depth * Width, T{0});
  }
  if (stride == 1 && count == Width) {
    for (std::int64_t p = 0; p < depth; ++p) {
      for (int i = 0; i < Width; ++i) {
        panel[p * Width + i] = x[p * step + i];
      }
    }
  } else if (stride == 1) {
    for (std::int64_t p = 0; p < depth; ++p) {
      std::copy(x + p * step, x + p * step + count, panel + p * Width);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t p = 0; p < depth; ++p) {
        panel[p * Width + i] = x[i * stride + p * step];
      }
    }
  }
}

/// Where the panels of a block of the left matrix lie: panel q at first + q * stride.
template <class T>
struct LeftPanels {
  T const* first;
  std::int64_t stride;
};

/// Stores tiles into a row-major matrix: c = [+=] the product.
template <class T>
struct MatrixStore {
  T* c;
  std::int64_t stride;
  bool accumulate;

  void operator()(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  bool first, T const* tile) const {
    for (std::int64_t i = row; i < row + rows; ++i, tile += tile_columns) {
      T* const to = c + i * stride + column;
      if (first && !accumulate) {
        std::copy(tile, tile + columns, to);
      } else {
        for (std::int64_t j = 0; j < columns; ++j) {
          to[j] += tile[j];
        }
      }
    }
  }
};

/// Computes the elements of a product in @p part, of depth @p k, and hands them out in tiles.
///
/// left(row, rows, p, depth) returns the LeftPanels of a block; right(column, columns, p, depth,
/// panel) writes one panel; store(row, rows, column, columns, first, tile) gets the sum over one
/// block of k: to be assigned if `first`, to be added else.
///
/// Order: k in blocks of 256 from 0, each summed in order; store gets them in order.
template <class T, class Left, class Right, class Store>
void multiply_blocks(Part const& part, std::int64_t k, Left const& left, Right const& right,
                     Store&& store, T* scratch) {
  T tile[tile_rows * tile_columns];
  auto const [row_begin, row_end] = part.rows;
  auto const [column_begin, column_end] = part.columns;
  for (std::int64_t n = column_begin; n < column_end; n += block_columns) {
    std::int64_t const n_end = std::min(n + block_columns, column_end);
    for (std::int64_t p = 0; p == 0 || p < k; p += block_depth) {  // once for k == 0: zeros
      std::int64_t const depth = std::min(block_depth, k - p);
      for (std::int64_t j = n; j < n_end && depth > 0; j += tile_columns) {
        right(j, std::min<std::int64_t>(tile_columns, n_end - j), p, depth,
              scratch + (j - n) * depth);
      }
      for (std::int64_t m = row_begin; m < row_end; m += block_rows) {
        std::int64_t const m_end = std::min(m + block_rows, row_end);
        LeftPanels<T> const panels = left(m, m_end - m, p, depth);
        for (std::int64_t j = n; j < n_end; j += tile_columns) {
          T const* panel = panels.first;
          for (std::int64_t i = m; i < m_end; i += tile_rows, panel += panels.stride) {
            multiply_panels(depth, panel, scratch + (j - n) * depth, tile);
            store(i, std::min<std::int64_t>(tile_rows, m_end - i), j,
                  std::min<std::int64_t>(tile_columns, n_end - j), p == 0, tile);
          }
        }
      }
    }
  }
}

}  // namespace tandem::host::detail

// ---- tandem/kernels/host/patches.hpp

/// @file
/// The matrix of patches of a convolution ("im2col"), never stored: its panels are read off the
/// image.
///
/// Its rows are taps (channel, row, column of the kernel), its columns positions (sample, row,
/// column of the grid). Source: Chellapilla, Puri, Simard, IWFHR 2006, section 4.

namespace tandem::host::detail {

/// How patches lie on an image: tap (u, v) at grid position (i, j) is pixel
/// (first.height + i stride.height + u, first.width + j stride.width + v), zero outside the image.
struct Patches {
  Extent2d image;
  Extent2d taps;
  Extent2d grid;
  Extent2d stride;
  Extent2d first;

  [[nodiscard]] constexpr std::int64_t positions() const {
    return std::int64_t{grid.height} * grid.width;
  }
  [[nodiscard]] constexpr std::int64_t pixels() const {
    return std::int64_t{image.height} * image.width;
  }
  [[nodiscard]] constexpr std::int64_t tap_count() const {
    return std::int64_t{taps.height} * taps.width;
  }
};

/// What the forward pass reads.
constexpr Patches patches_of(ConvolutionGeometry const& g) {
  return {g.in,
          g.window.kernel,
          g.out,
          g.window.stride,
          {-g.window.padding.height, -g.window.padding.width}};
}

/// The same convolution, on images of one row where the kernel is one cell that visits every pixel.
constexpr ConvolutionGeometry flattened(ConvolutionGeometry g) {
  if (g.window == Window{}) {
    g.in = g.out = {1, g.in.height * g.in.width};
  }
  return g;
}

/// Positions that are neighbours in one row of one sample's grid.
struct Run {
  std::int64_t sample;
  int row, column;   // of the first position, on the grid
  int begin, count;  // where it stands among the positions asked for
};

/// Splits the positions [first, first + count) of a batch into runs; returns how many there are.
///
/// @pre runs has room for @p count elements
inline int split_into_runs(Extent2d grid, std::int64_t first, int count, Run* runs) {
  std::int64_t const positions = std::int64_t{grid.height} * grid.width;
  std::int64_t sample = first / positions;
  int row = static_cast<int>(first % positions) / grid.width;
  int column = static_cast<int>(first % positions) % grid.width;
  int length = 0;
  for (int begin = 0; begin < count; ++length) {
    int const run = std::min(count - begin, grid.width - column);
    runs[length] = {sample, row, column, begin, run};
    begin += run;
    column = 0;
    if (++row == grid.height) {
      row = 0;
      ++sample;
    }
  }
  return length;
}

/// What one tap sees of one run: positions [low, high) are inside the image, the pixel under the
/// run's first position is `pixel` elements after the start of a channel, if it is inside.
struct View {
  int low, high;
  std::int64_t pixel;

  constexpr View(Patches const& patches, Run const& run, int tap) : low{0}, high{0}, pixel{0} {
    int const u = tap / patches.taps.width;
    int const v = tap % patches.taps.width;
    int const stride = patches.stride.width;
    int const h = patches.first.height + run.row * patches.stride.height + u;
    int const w = patches.first.width + run.column * stride + v;
    pixel = std::int64_t{h} * patches.image.width + w;
    if (h >= 0 && h < patches.image.height) {
      int const room = patches.image.width - w;
      low = std::min(run.count, w < 0 ? (stride - 1 - w) / stride : 0);
      high = std::clamp(room > 0 ? (room + stride - 1) / stride : 0, low, run.count);
    }
  }
};

/// The batch that patches are read from, one group of its channels.
template <class T>
struct PatchSource {
  T const* x;           // the group's first channel in sample 0
  std::int64_t sample;  // elements from sample to sample
  T const* begin;       // the whole tensor
  T const* end;
};

/// Copies @p rows rows of @p count elements; a count that is a power of two needs no call.
template <class T>
void copy_rows(std::int64_t rows, int count, T const* x, std::int64_t x_stride, T* to,
               std::int64_t to_stride) {
  auto const each = [=](auto bytes) {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::memcpy(to + i * to_stride, x + i * x_stride, bytes());
    }
  };
  switch (count) {
    case 8:
      return each([] { return 8 * sizeof(T); });
    case 16:
      return each([] { return 16 * sizeof(T); });
    case 32:
      return each([] { return 32 * sizeof(T); });
    default:
      return each([count] { return static_cast<std::size_t>(count) * sizeof(T); });
  }
}

/// Packs taps [k, k + depth) of positions [column, column + columns) as a right panel: k is the
/// tap.
template <class T>
void pack_patches(Patches const& patches, PatchSource<T> const& source, std::int64_t column,
                  std::int64_t columns, std::int64_t k, std::int64_t depth, T* panel) {
  Run runs[tile_columns];
  int const length = split_into_runs(patches.grid, column, static_cast<int>(columns), runs);
  if (columns < tile_columns) {
    std::fill(panel, panel + depth * tile_columns, T{0});
  }
  int const taps = static_cast<int>(patches.tap_count());
  std::int64_t const pixels = patches.pixels();
  std::int64_t const to_stride = std::int64_t{taps} * tile_columns;
  for (int tap = 0; tap < taps; ++tap) {
    // Rows k + p, p + taps, p + 2 taps, … are this tap of one channel after the other.
    std::int64_t const p = ((tap - k) % taps + taps) % taps;
    std::int64_t const channels = p < depth ? (depth - p + taps - 1) / taps : 0;
    if (channels == 0) {
      continue;
    }
    for (Run const* run = runs; run != runs + length; ++run) {
      View const view{patches, *run, tap};
      T const* const channel = source.x + run->sample * source.sample + (k + p) / taps * pixels;
      T* const to = panel + p * tile_columns + run->begin;
      int low = view.low;
      int high = view.high;
      if (low < high && patches.stride.width == 1) {
        // A whole run, with what the tensor holds around the image, where there is such a thing.
        std::int64_t const before = channel - source.begin + view.pixel;
        std::int64_t const last = before + (channels - 1) * pixels + run->count;
        if (before >= 0 && last <= source.end - source.begin) {
          copy_rows(channels, run->count, source.begin + before, pixels, to, to_stride);
        } else {
          copy_rows(channels, high - low, channel + (view.pixel + low), pixels, to + low,
                    to_stride);
        }
      } else {
        for (std::int64_t c = 0; c < channels; ++c) {
          for (int j = low; j < high; ++j) {
            to[c * to_stride + j] =
                channel[c * pixels + view.pixel + std::int64_t{j} * patches.stride.width];
          }
        }
      }
      for (std::int64_t c = 0; c < channels && high - low < run->count; ++c) {
        std::fill(to + c * to_stride, to + c * to_stride + low, T{0});
        std::fill(to + c * to_stride + high, to + c * to_stride + run->count, T{0});
      }
    }
  }
}

/// Packs positions [k, k + depth) of taps [column, column + columns) as a right panel: k is the
/// position, as the weight gradient sums over them.
template <class T>
void pack_patches_transposed(Patches const& patches, PatchSource<T> const& source,
                             std::int64_t column, std::int64_t columns, std::int64_t k,
                             std::int64_t depth, T* panel) {
  Run runs[block_depth];
  int const length = split_into_runs(patches.grid, k, static_cast<int>(depth), runs);
  if (columns < tile_columns) {
    std::fill(panel, panel + depth * tile_columns, T{0});
  }
  std::int64_t const taps = patches.tap_count();
  for (std::int64_t j = 0; j < columns; ++j) {
    T const* const channel = source.x + (column + j) / taps * patches.pixels();
    int const tap = static_cast<int>((column + j) % taps);
    for (Run const* run = runs; run != runs + length; ++run) {
      View const view{patches, *run, tap};
      std::int64_t const from = run->sample * source.sample + view.pixel;
      T* const to = panel + std::int64_t{run->begin} * tile_columns + j;
      for (int i = 0; i < view.low; ++i) {
        to[i * tile_columns] = T{0};
      }
      for (int i = view.low; i < view.high; ++i) {
        to[i * tile_columns] = channel[from + std::int64_t{i} * patches.stride.width];
      }
      for (int i = view.high; i < run->count; ++i) {
        to[i * tile_columns] = T{0};
      }
    }
  }
}

}  // namespace tandem::host::detail

namespace tandem::host {

/// Elements of T that each of the three convolution kernels needs as scratch for a Team of
/// @p threads: the blocks of each thread and one packed copy of the weights. Independent of the
/// batch.
template <class T>
constexpr std::int64_t convolution_scratch(ConvolutionGeometry const& g, int threads) {
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const weights = std::max(detail::round_up(out, detail::tile_rows) * in,
                                        detail::round_up(in, detail::tile_rows) * out) *
                               g.window.kernel.height * g.window.kernel.width * g.groups;
  return threads * (detail::left_block + detail::right_block) + weights;
}

namespace detail {

/// One product with a matrix of patches: to = [bias +] left * patches of from.
///
/// @p to points to the first channel of the group in sample 0. Position (i, j) of the
/// grid is pixel (corner.height + i step.height, corner.width + j step.width) of `to`.
template <class T>
struct Correlation {
  Patches patches{};
  std::int64_t rows = 0;    // channels of `to`
  std::int64_t depth = 0;   // channels of `from` times taps
  T const* left = nullptr;  // packed panels of the whole depth
  T const* bias = nullptr;  // (rows), or null
  PatchSource<T> from{};
  T* to = nullptr;
  std::int64_t to_sample = 0;
  Extent2d to_image{};
  Extent2d corner{0, 0};
  Extent2d step{1, 1};
};

/// Stores tiles of a Correlation into its maps; keeps the runs of the panel of columns it is in.
template <class T>
class CorrelationStore {
 public:
  explicit CorrelationStore(Correlation<T> const& correlation) : c_{correlation} {}

  void operator()(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  bool first, T const* tile) {
    if (column != column_) {
      length_ = split_into_runs(c_.patches.grid, column, static_cast<int>(columns), runs_);
      column_ = column;
    }
    std::int64_t const pixels = std::int64_t{c_.to_image.height} * c_.to_image.width;
    for (std::int64_t i = 0; i < rows; ++i, tile += tile_columns) {
      T const bias = c_.bias != nullptr ? c_.bias[row + i] : T{0};
      for (Run const* run = runs_; run != runs_ + length_; ++run) {
        T* const to =
            c_.to + run->sample * c_.to_sample + (row + i) * pixels +
            std::int64_t{c_.corner.height + run->row * c_.step.height} * c_.to_image.width +
            c_.corner.width + run->column * c_.step.width;
        store_run(to, tile + run->begin, run->count, first, bias);
      }
    }
  }

 private:
  void store_run(T* to, T const* tile, int count, bool first, T bias) const {
    std::int64_t const step = c_.step.width;
    if (step == 1 && first) {
      for (int j = 0; j < count; ++j) {
        to[j] = bias + tile[j];
      }
    } else if (step == 1) {
      for (int j = 0; j < count; ++j) {
        to[j] += tile[j];
      }
    } else {
      for (int j = 0; j < count; ++j) {
        to[j * step] = (first ? bias : to[j * step]) + tile[j];
      }
    }
  }

  Correlation<T> const& c_;
  std::int64_t column_ = -1;
  int length_ = 0;
  Run runs_[tile_columns];
};

/// One member's part of a Correlation over a batch. @p scratch: right_block elements.
template <class T>
void correlate(Correlation<T> const& c, int batch, std::int64_t member, std::int64_t members,
               T* scratch) {
  auto const left = [&](std::int64_t row, std::int64_t, std::int64_t p, std::int64_t) {
    return LeftPanels<T>{c.left + row * c.depth + p * tile_rows, tile_rows * c.depth};
  };
  auto const right = [&](std::int64_t column, std::int64_t columns, std::int64_t p,
                         std::int64_t depth, T* panel) {
    pack_patches(c.patches, c.from, column, columns, p, depth, panel);
  };
  Part const part{c.rows, batch * c.patches.positions(), member, members};
  multiply_blocks(part, c.depth, left, right, CorrelationStore<T>{c}, scratch);
}

}  // namespace detail

/// y = convolution of x with the weights, plus the bias.
///
/// Shapes: x (B, in_channels, in), weight (out_channels, in_channels / groups, kernel), bias
///         (out_channels) or null; y (B, out_channels, out); scratch (convolution_scratch).
/// Cost:   B g.macs() multiply-accumulates; measured in bench/kernels/convolution_bench.cpp.
/// Order:  for each element the bias, then the taps (channel, row, column) in blocks of 256, each
///         summed in order. A sample's bits do not depend on its batch.
/// Source: LeCun, Bottou, Bengio, Haffner, Proc. IEEE 86 (1998); "convolution" is a correlation
/// here
template <class T>
TANDEM_NOINLINE void convolution_forward(Team& team, ConvolutionGeometry const& geometry, int batch,
                                         T const* x, T const* weight, T const* bias, T* y,
                                         T* scratch) {
  ConvolutionGeometry const g = detail::flattened(geometry);
  detail::Patches const patches = detail::patches_of(g);
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const depth = in * patches.tap_count();
  std::int64_t const panels = (out + detail::tile_rows - 1) / detail::tile_rows;
  std::int64_t const group_left = panels * detail::tile_rows * depth;
  T* const packed = scratch + team.size() * (detail::left_block + detail::right_block);
  team.parallel_for(g.groups * panels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t q = begin; q < end; ++q) {
      std::int64_t const row = q % panels * detail::tile_rows;
      detail::pack_panel<detail::tile_rows>(std::min<std::int64_t>(detail::tile_rows, out - row),
                                            depth, weight + (q / panels * out + row) * depth, depth,
                                            1, packed + q * detail::tile_rows * depth);
    }
  });
  std::int64_t const members = team.size();
  std::int64_t const in_sample = g.in_channels * patches.pixels();
  std::int64_t const out_pixels = patches.positions();
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    for (std::int64_t group = 0; group < g.groups; ++group) {
      detail::Correlation<T> c{};
      c.patches = patches;
      c.rows = out;
      c.depth = depth;
      c.left = packed + group * group_left;
      c.bias = bias != nullptr ? bias + group * out : nullptr;
      c.from = {x + group * in * patches.pixels(), in_sample, x, x + batch * in_sample};
      c.to = y + group * out * out_pixels;
      c.to_sample = g.out_channels * out_pixels;
      c.to_image = g.out;
      detail::correlate(c, batch, member, members, scratch + member * detail::right_block);
    }
  });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/convolution_input_gradient.hpp

/// @file
/// The gradient of a convolution to its input, as convolutions of dy: one for each phase of the
/// stride.
///
/// With stride s, the pixels h of x with (h + padding) mod s = r only meet the kernel's rows r, r +
/// s, r + 2 s, …, and neighbours among them meet neighbours in dy. So each of the s·s phases is a
/// convolution of stride 1 with every s-th tap, mirrored; no sum is scattered and no product
/// wasted.

namespace tandem::host {

namespace detail {

/// One axis of one phase: which pixels it writes, which taps it uses and where it reads dy.
struct PhaseAxis {
  int offset;  // r
  int corner;  // its first pixel; the next ones follow at the stride
  int count;   // of pixels
  int taps;    // kernel rows r, r + s, …
  int first;   // the row of dy under the last of these taps, at the first pixel

  constexpr PhaseAxis(int r, int in, int kernel, int stride, int padding)
      : offset{r},
        corner{((r - padding) % stride + stride) % stride},
        count{corner < in ? (in - corner + stride - 1) / stride : 0},
        taps{r < kernel ? (kernel - r + stride - 1) / stride : 0},
        first{(corner + padding - r) / stride - (taps - 1)} {}
};

/// Calls f(rows, columns, taps before) for each phase; the last says how many taps went before.
template <class Function>
void each_phase(ConvolutionGeometry const& g, Function const& f) {
  Window const& w = g.window;
  std::int64_t taps = 0;
  for (int r = 0; r < w.stride.height; ++r) {
    PhaseAxis const rows{r, g.in.height, w.kernel.height, w.stride.height, w.padding.height};
    for (int c = 0; c < w.stride.width; ++c) {
      PhaseAxis const columns{c, g.in.width, w.kernel.width, w.stride.width, w.padding.width};
      f(rows, columns, taps);
      taps += std::int64_t{rows.taps} * columns.taps;
    }
  }
}

/// Packs the weights of input channels [channel, channel + 6) of one group, which @p weight points
/// to, as a left panel of a phase; k is (output channel, mirrored tap).
template <class T>
void pack_mirrored(ConvolutionGeometry const& g, T const* weight, std::int64_t channel,
                   PhaseAxis const& rows, PhaseAxis const& columns, T* panel) {
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  Window const& w = g.window;
  std::int64_t const area = std::int64_t{w.kernel.height} * w.kernel.width;
  for (std::int64_t o = 0; o < out; ++o) {
    for (int a = rows.taps - 1; a >= 0; --a) {
      for (int b = columns.taps - 1; b >= 0; --b) {
        std::int64_t const row = rows.offset + std::int64_t{a} * w.stride.height;
        std::int64_t const tap = row * w.kernel.width + columns.offset + b * w.stride.width;
        for (std::int64_t i = channel; i < channel + tile_rows; ++i) {
          *panel++ = i < in ? weight[(o * in + i) * area + tap] : T{0};
        }
      }
    }
  }
}

}  // namespace detail

/// dx = the gradient of convolution_forward to x.
///
/// Shapes: weight (out_channels, in_channels / groups, kernel), dy (B, out_channels, out);
///         dx (B, in_channels, in), overwritten; scratch (convolution_scratch).
/// Cost:   B g.macs() multiply-accumulates.
/// Order:  for each element the taps (output channel, mirrored row, mirrored column) in blocks of
/// 256,
///         each summed in order. A sample's bits do not depend on its batch.
template <class T>
TANDEM_NOINLINE void convolution_input_gradient(Team& team, ConvolutionGeometry const& geometry,
                                                int batch, T const* weight, T const* dy, T* dx,
                                                T* scratch) {
  ConvolutionGeometry const g = detail::flattened(geometry);
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  std::int64_t const out_sample = g.out_channels * out_pixels;
  std::int64_t const group_weights = in * out * g.window.kernel.height * g.window.kernel.width;
  std::int64_t const panels = (in + detail::tile_rows - 1) / detail::tile_rows;
  std::int64_t const members = team.size();
  // The panels of (phase, group, row of panels), as packed: all taps before, then this phase's.
  std::int64_t const tap_panels = g.groups * panels * detail::tile_rows * out;
  T* const packed = scratch + members * (detail::left_block + detail::right_block);
  team.parallel_for(g.groups * panels, [=](std::int64_t begin, std::int64_t end) {
    detail::each_phase(g, [=](auto const& rows, auto const& columns, std::int64_t before) {
      std::int64_t const depth = out * rows.taps * columns.taps;
      for (std::int64_t q = begin; q < end; ++q) {
        detail::pack_mirrored(g, weight + q / panels * group_weights,
                              q % panels * detail::tile_rows, rows, columns,
                              packed + before * tap_panels + q * detail::tile_rows * depth);
      }
    });
  });
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    detail::each_phase(g, [=](auto const& rows, auto const& columns, std::int64_t before) {
      std::int64_t const depth = out * rows.taps * columns.taps;
      for (std::int64_t group = 0; group < g.groups; ++group) {
        detail::Correlation<T> c{};
        c.patches = {g.out,
                     {rows.taps, columns.taps},
                     {rows.count, columns.count},
                     {1, 1},
                     {rows.first, columns.first}};
        c.rows = in;
        c.depth = depth;
        c.left = packed + before * tap_panels + group * panels * detail::tile_rows * depth;
        c.from = {dy + group * out * out_pixels, out_sample, dy, dy + batch * out_sample};
        c.to = dx + group * in * in_pixels;
        c.to_sample = g.in_channels * in_pixels;
        c.to_image = g.in;
        c.corner = {rows.corner, columns.corner};
        c.step = g.window.stride;
        detail::correlate(c, batch, member, members, scratch + member * detail::right_block);
      }
    });
  });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/convolution_weight_gradient.hpp

/// @file
/// The gradients of a convolution to its weights and its bias.
///
/// A product of dy and the transposed matrix of patches, whose k runs over all positions of the
/// batch. The members of a Team divide the weights among them, never the positions.

namespace tandem::host {

namespace detail {

/// Packs positions [k, k + depth) of @p count channels as a left panel.
///
/// @p y is the first of these channels in sample 0; the samples stand @p sample_stride apart.
template <class T>
void pack_positions(std::int64_t pixels, T const* y, std::int64_t sample_stride, std::int64_t count,
                    std::int64_t k, std::int64_t depth, T* panel) {
  for (std::int64_t begin = 0; begin < depth;) {
    std::int64_t const pixel = (k + begin) % pixels;
    std::int64_t const run = std::min(depth - begin, pixels - pixel);
    pack_panel<tile_rows>(count, run, y + (k + begin) / pixels * sample_stride + pixel, pixels, 1,
                          panel + begin * tile_rows);
    begin += run;
  }
}

}  // namespace detail

/// dweight = [+=] the gradient to the weights, dbias = [+=] the sum of dy over batch and positions.
///
/// Shapes: x (B, in_channels, in), dy (B, out_channels, out); dweight (out_channels,
///         in_channels / groups, kernel), dbias (out_channels) or null; scratch
///         (convolution_scratch).
/// Cost:   B g.macs() multiply-accumulates.
/// Order:  for each weight the positions (sample, row, column) in blocks of 256, each summed in
/// order,
///         the blocks added to the old value (accumulate) or to each other in order. dbias adds
///         each map in 16 lanes in T, then the samples in order in double.
template <class T>
TANDEM_NOINLINE void convolution_weight_gradient(Team& team, ConvolutionGeometry const& geometry,
                                                 int batch, T const* x, T const* dy, T* dweight,
                                                 T* dbias, bool accumulate, T* scratch) {
  ConvolutionGeometry const g = detail::flattened(geometry);
  detail::Patches const patches = detail::patches_of(g);
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const pixels = patches.positions();
  std::int64_t const in_sample = g.in_channels * patches.pixels();
  std::int64_t const taps = in * patches.tap_count();
  std::int64_t const members = team.size();
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    T* const left_scratch = scratch + member * (detail::left_block + detail::right_block);
    for (std::int64_t group = 0; group < g.groups; ++group) {
      detail::PatchSource<T> const source{x + group * in * patches.pixels(), in_sample, x,
                                          x + batch * in_sample};
      T const* const group_dy = dy + group * out * pixels;
      T* const group_dweight = dweight + group * out * taps;
      auto const left = [=](std::int64_t row, std::int64_t rows, std::int64_t k,
                            std::int64_t depth) {
        for (std::int64_t i = 0; i < rows; i += detail::tile_rows) {
          detail::pack_positions(pixels, group_dy + (row + i) * pixels, g.out_channels * pixels,
                                 std::min<std::int64_t>(detail::tile_rows, rows - i), k, depth,
                                 left_scratch + i * depth);
        }
        return detail::LeftPanels<T>{left_scratch, detail::tile_rows * depth};
      };
      auto const right = [=](std::int64_t column, std::int64_t columns, std::int64_t k,
                             std::int64_t depth, T* panel) {
        detail::pack_patches_transposed(patches, source, column, columns, k, depth, panel);
      };
      detail::MatrixStore<T> const store{group_dweight, taps, accumulate};
      detail::multiply_blocks(detail::Part{out, taps, member, members}, batch * pixels, left, right,
                              store, left_scratch + detail::left_block);
    }
  });
  if (dbias == nullptr) {
    return;
  }
  team.parallel_for(g.out_channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const total = static_cast<T>(detail::channel_sum<T>(batch, g.out_channels, pixels, c,
                                                            [=](std::int64_t i) { return dy[i]; }));
      dbias[c] = accumulate ? dbias[c] + total : total;
    }
  });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/linear.hpp

/// @file
/// y = x Wᵀ + b, and its gradients; three calls of gemm.

// ---- tandem/kernels/host/gemm.hpp

/// @file
/// C = [+=] op(A) op(B), row-major with leading dimensions.
///
/// Each member of the Team computes a range of the rows or of the columns of C alone, with its own
/// packed copies of A and B.

namespace tandem::host {

enum class Transpose : bool { no, yes };

/// Elements of T that gemm needs as scratch for a Team of @p threads, whatever the sizes.
template <class T>
constexpr std::int64_t gemm_scratch(int threads) {
  return threads * (detail::left_block + detail::right_block);
}

/// C = [+=] op(A) op(B), op(X) = X or Xᵀ.
///
/// Shapes: op(A) (m, k), op(B) (k, n), C (m, n); scratch (gemm_scratch(team.size())). All
/// row-major;
///         lda, ldb, ldc are the distances between rows of A, B, C as they lie in memory.
/// Cost:   m n k multiply-accumulates; measured in bench/kernels/gemm_bench.cpp.
/// Order:  k in blocks of 256, each summed in order from 0 and added to C in order. The bits of an
///         element depend on its row of op(A), its column of op(B) and, with accumulate, its old
///         value.
/// @pre    C overlaps neither A nor B
template <class T>
TANDEM_NOINLINE void gemm(Team& team, Transpose transpose_a, Transpose transpose_b, int m, int n,
                          int k, T const* a, int lda, T const* b, int ldb, T* c, int ldc,
                          bool accumulate, T* scratch) {
  std::int64_t const a_row = transpose_a == Transpose::yes ? 1 : lda;
  std::int64_t const a_step = transpose_a == Transpose::yes ? lda : 1;
  std::int64_t const b_column = transpose_b == Transpose::yes ? ldb : 1;
  std::int64_t const b_step = transpose_b == Transpose::yes ? 1 : ldb;
  std::int64_t const members = team.size();
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    T* const left_scratch = scratch + member * (detail::left_block + detail::right_block);
    auto const left = [=](std::int64_t row, std::int64_t rows, std::int64_t p, std::int64_t depth) {
      for (std::int64_t i = 0; i < rows; i += detail::tile_rows) {
        detail::pack_panel<detail::tile_rows>(std::min<std::int64_t>(detail::tile_rows, rows - i),
                                              depth, a + (row + i) * a_row + p * a_step, a_row,
                                              a_step, left_scratch + i * depth);
      }
      return detail::LeftPanels<T>{left_scratch, detail::tile_rows * depth};
    };
    auto const right = [=](std::int64_t column, std::int64_t columns, std::int64_t p,
                           std::int64_t depth, T* panel) {
      detail::pack_panel<detail::tile_columns>(columns, depth, b + column * b_column + p * b_step,
                                               b_column, b_step, panel);
    };
    detail::MatrixStore<T> const store{c, ldc, accumulate};
    detail::multiply_blocks(detail::Part{m, n, member, members}, k, left, right, store,
                            left_scratch + detail::left_block);
  });
}

}  // namespace tandem::host

namespace tandem::host {

/// Elements of T that each of the three kernels needs as scratch for a Team of @p threads.
template <class T>
constexpr std::int64_t linear_scratch(int threads) {
  return gemm_scratch<T>(threads);
}

/// y = x Wᵀ + b.
///
/// Shapes: x (B, In), weight (Out, In), bias (Out) or null; y (B, Out).
/// Cost:   B In Out multiply-accumulates.
/// Order:  as gemm, then the bias; a sample's bits do not depend on its batch.
template <class T>
TANDEM_NOINLINE void linear_forward(Team& team, int batch, int in, int out, T const* x,
                                    T const* weight, T const* bias, T* y, T* scratch) {
  gemm(team, Transpose::no, Transpose::yes, batch, out, in, x, in, weight, in, y, out, false,
       scratch);
  if (bias == nullptr) {
    return;
  }
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T* const row = y + s * out;
      for (int j = 0; j < out; ++j) {
        row[j] += bias[j];
      }
    }
  });
}

/// dx = dy W.
///
/// Shapes: weight (Out, In), dy (B, Out); dx (B, In).
/// Cost:   B In Out multiply-accumulates.
/// Order:  as gemm; a sample's bits do not depend on its batch.
template <class T>
TANDEM_NOINLINE void linear_input_gradient(Team& team, int batch, int in, int out, T const* weight,
                                           T const* dy, T* dx, T* scratch) {
  gemm(team, Transpose::no, Transpose::no, batch, in, out, dy, out, weight, in, dx, in, false,
       scratch);
}

/// dweight = [+=] dyᵀ x, dbias = [+=] the sum of dy over the batch.
///
/// Shapes: x (B, In), dy (B, Out); dweight (Out, In), dbias (Out) or null.
/// Cost:   B In Out multiply-accumulates.
/// Order:  as gemm, the k of which is the sample; dbias adds the samples in order.
template <class T>
TANDEM_NOINLINE void linear_weight_gradient(Team& team, int batch, int in, int out, T const* x,
                                            T const* dy, T* dweight, T* dbias, bool accumulate,
                                            T* scratch) {
  gemm(team, Transpose::yes, Transpose::no, out, in, batch, dy, out, x, in, dweight, in, accumulate,
       scratch);
  if (dbias == nullptr) {
    return;
  }
  team.parallel_for(out, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      T total{0};
      for (std::int64_t s = 0; s < batch; ++s) {
        total += dy[s * out + j];
      }
      dbias[j] = accumulate ? dbias[j] + total : total;
    }
  });
}

}  // namespace tandem::host

namespace tandem {

namespace host {

/// Any convolution: one type for all, so that kernels are compiled once.
template <class T, bool Bias>
class ConvolutionOp {
 public:
  ConvolutionOp(OpSetup const& setup, ConvolutionGeometry const& geometry)
      : geometry_{geometry},
        scratch_{convolution_scratch<T>(geometry, setup.threads) *
                 static_cast<std::int64_t>(sizeof(T))} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = scratch_}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    convolution_forward(p.device.team, geometry_, p.batch, o.x[0], o.parameter[0],
                        Bias ? o.parameter[1] : nullptr, o.y, p.device.scratch_as<T>());
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    convolution_input_gradient(p.device.team, geometry_, p.batch, o.parameter[0], o.dy, o.dx[0],
                               p.device.scratch_as<T>());
  }
  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    convolution_weight_gradient(p.device.team, geometry_, p.batch, o.x[0], o.dy, o.gradient[0],
                                Bias ? o.gradient[1] : nullptr, p.accumulate,
                                p.device.scratch_as<T>());
  }

 private:
  ConvolutionGeometry geometry_;
  std::int64_t scratch_;
};

template <class T, bool Bias>
class LinearOp {
 public:
  explicit LinearOp(OpSetup const& setup)
      : in_{setup.node.in[0]},
        out_{setup.node.out[0]},
        scratch_{linear_scratch<T>(setup.threads) * static_cast<std::int64_t>(sizeof(T))} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = scratch_}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    linear_forward(p.device.team, p.batch, in_, out_, o.x[0], o.parameter[0],
                   Bias ? o.parameter[1] : nullptr, o.y, p.device.scratch_as<T>());
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    linear_input_gradient(p.device.team, p.batch, in_, out_, o.parameter[0], o.dy, o.dx[0],
                          p.device.scratch_as<T>());
  }
  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    linear_weight_gradient(p.device.team, p.batch, in_, out_, o.x[0], o.dy, o.gradient[0],
                           Bias ? o.gradient[1] : nullptr, p.accumulate, p.device.scratch_as<T>());
  }

 private:
  int in_;
  int out_;
  std::int64_t scratch_;
};

}  // namespace host

template <int Out, class... Options, class Precision>
struct Op<Conv2d<Out, Options...>, BasicHost<Portable, Precision>>
    : host::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias> {
  explicit Op(OpSetup const& setup)
      : host::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias>{
            setup, Conv2d<Out, Options...>::geometry(setup.node.in)} {}
};

template <int Out, class... Options, class Precision>
struct Op<Linear<Out, Options...>, BasicHost<Portable, Precision>>
    : host::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias> {
  using host::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias>::LinearOp;
};

}  // namespace tandem

// ---- tandem/ops/host/join.hpp

/// @file
/// The joins of a graph on Host: Concat copies channels, Add sums its inputs.

// ---- tandem/kernels/host/concat.hpp

/// @file
/// Concatenation along the channels: each part is one contiguous slice of each sample.

namespace tandem::host {

/// Writes one part into its slice of the concatenated tensor.
///
/// Shapes: x (B, part); y (B, whole), of which [offset, offset + part) of each sample is written.
/// Cost:   reads and writes B part elements; bound by memory.
/// @pre    0 <= offset and offset + part <= whole, all in elements of one sample
template <class T>
TANDEM_NOINLINE void concat_forward(Team& team, int batch, std::int64_t part, std::int64_t offset,
                                    std::int64_t whole, T const* x, T* y) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      std::copy(x + s * part, x + (s + 1) * part, y + s * whole + offset);
    }
  });
}

/// Reads one part's gradient out of its slice of the concatenated gradient.
///
/// Shapes: dy (B, whole); dx (B, part).
/// Cost:   reads and writes B part elements; bound by memory.
/// @pre    0 <= offset and offset + part <= whole, all in elements of one sample
template <class T>
TANDEM_NOINLINE void concat_gradient(Team& team, int batch, std::int64_t part, std::int64_t offset,
                                     std::int64_t whole, T const* dy, T* dx) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T const* const slice = dy + s * whole + offset;
      std::copy(slice, slice + part, dx + s * part);
    }
  });
}

}  // namespace tandem::host

namespace tandem {

template <class Precision>
class Op<ConcatJoin, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup) : whole_{setup.node.out.elements()} {
    for (int i = 0; i < setup.node.edges; ++i) {
      parts_.push_back(setup.inputs[i].elements());
    }
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts_.size(); offset += parts_[i], ++i) {
      host::concat_forward(p.device.team, p.batch, parts_[i], offset, whole_, o.x[i], o.y);
    }
  }
  void input_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts_.size(); offset += parts_[i], ++i) {
      if (o.dx[i] != nullptr) {
        host::concat_gradient(p.device.team, p.batch, parts_[i], offset, whole_, o.dy, o.dx[i]);
      }
    }
  }

 private:
  std::int64_t whole_;
  std::vector<std::int64_t> parts_;  // elements of each input, a sample
};

/// Its gradient is a view: the engine gives both inputs the gradient of the sum.
template <class Precision>
class Op<AddJoin, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup) : elements_{setup.node.out.elements()} {}

  [[nodiscard]] OpNeeds needs() const { return {.in_place = true}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    host::sum(p.device.team, o.x, 2, o.y, p.batch * elements_);
  }

 private:
  std::int64_t elements_;
};

}  // namespace tandem

// ---- tandem/ops/host/loss.hpp

/// @file
/// SoftmaxCrossEntropy, MeanSquaredError and top-k accuracy on Host, portable kernels.

// ---- tandem/kernels/host/mean_squared_error.hpp

/// @file
/// The sum of squared errors, and its gradient. The mean is the caller's division.

namespace tandem::host {

/// Adds the sum over all elements of (y - t)² to @p total.
///
/// Shapes: y, t (B, elements); losses (B), each sample's sum.
/// Order:  the elements of a sample in 16 lanes in double; then the samples are added one by one,
/// so
///         that a batch gives the same bits in one call or in several.
template <class T>
TANDEM_NOINLINE void mean_squared_error_forward(Team& team, int batch, std::int64_t elements,
                                                T const* y, T const* t, double* losses,
                                                double& total) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      losses[s] = detail::lane_sum<double>(elements, [=](std::int64_t i) {
        std::int64_t const at = s * elements + i;
        double const error = static_cast<double>(y[at]) - static_cast<double>(t[at]);
        return error * error;
      });
    }
  });
  for (std::int64_t s = 0; s < batch; ++s) {
    total += losses[s];
  }
}

/// dy = 2 (y - t) * scale.
///
/// Shapes: y, t (n); dy (n), which may be y.
template <class T>
TANDEM_NOINLINE void mean_squared_error_gradient(Team& team, T const* y, T const* t, T scale, T* dy,
                                                 std::int64_t n) {
  T const twice = 2 * scale;
  transform(team, n, [=](std::int64_t i) { dy[i] = (y[i] - t[i]) * twice; });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/softmax_cross_entropy.hpp

/// @file
/// Softmax, cross entropy with label smoothing, and the counts of correct answers, in one pass.
///
/// With C classes and smoothing e the target is q = (1 - e) [c == label] + e / C, as in PyTorch.

namespace tandem {

/// Sums over samples: divide by the number of samples for means.
struct ClassificationSums {
  double loss = 0;
  std::int64_t correct = 0;        ///< samples whose largest logit is the label's
  std::int64_t correct_top_k = 0;  ///< samples whose label is among the k largest logits
};

}  // namespace tandem

namespace tandem::host {

namespace detail {

/// What all of a row's losses and gradients share: its largest logit and sum of exp(z - largest).
struct SoftmaxRow {
  double largest;
  double total;
};

template <class T>
SoftmaxRow softmax_row(int classes, T const* z) {
  T largest = z[0];
  for (int c = 1; c < classes; ++c) {
    largest = z[c] > largest ? z[c] : largest;
  }
  double total = 0;
  for (int c = 0; c < classes; ++c) {
    total += static_cast<double>(std::exp(z[c] - largest));
  }
  return {static_cast<double>(largest), total};
}

/// How many logits stand before the label's in the ranking; `classes` if any logit is a NaN.
template <class T>
int rank_of_label(int classes, T const* z, std::int32_t label) {
  int before = 0;
  for (int c = 0; c < classes; ++c) {
    if (z[c] != z[c]) {
      return classes;
    }
    before += static_cast<int>(z[c] > z[label] || (z[c] == z[label] && c < label));
  }
  return before;
}

}  // namespace detail

/// Adds each sample's loss, -sum_c q_c log softmax(z)_c, and its counts to @p sums.
///
/// Shapes: logits (B, C), labels (B); losses (B), each sample's loss.
/// Cost:   B C exponentials.
/// Order:  the classes of a sample in order, in double; then the samples are added to sums.loss one
///         by one, so that a batch gives the same bits in one call or in several.
/// @pre    0 <= labels[s] < C; k >= 1. A row with a NaN is never correct, and its loss is a NaN;
///         of equal logits the lowest class ranks first.
/// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, arXiv:1512.00567, section 7 (smoothing)
template <class T>
TANDEM_NOINLINE void softmax_cross_entropy_forward(Team& team, int batch, int classes,
                                                   T const* logits, std::int32_t const* labels,
                                                   double smoothing, int k, double* losses,
                                                   ClassificationSums& sums) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T const* const z = logits + s * classes;
      auto const [largest, total] = detail::softmax_row(classes, z);
      double const log_normaliser = largest + std::log(total);
      double loss = (1 - smoothing) * (log_normaliser - static_cast<double>(z[labels[s]]));
      if (smoothing != 0) {
        double distances = 0;
        for (int c = 0; c < classes; ++c) {
          distances += log_normaliser - static_cast<double>(z[c]);
        }
        loss += smoothing / classes * distances;
      }
      losses[s] = loss;
    }
  });
  for (std::int64_t s = 0; s < batch; ++s) {
    int const before = detail::rank_of_label(classes, logits + s * classes, labels[s]);
    sums.loss += losses[s];
    sums.correct += before < 1 ? 1 : 0;
    sums.correct_top_k += before < std::min(k, classes) ? 1 : 0;
  }
}

/// dlogits = (softmax(z) - q) * scale.
///
/// Shapes: logits (B, C), labels (B); dlogits (B, C), which may be logits.
/// Cost:   2 B C exponentials.
/// Order:  the classes of a sample in order, in double.
/// @pre    0 <= labels[s] < C
template <class T>
TANDEM_NOINLINE void softmax_cross_entropy_gradient(Team& team, int batch, int classes,
                                                    T const* logits, std::int32_t const* labels,
                                                    double smoothing, double scale, T* dlogits) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    double const elsewhere = smoothing / classes;
    for (std::int64_t s = begin; s < end; ++s) {
      T const* const z = logits + s * classes;
      T* const dz = dlogits + s * classes;
      auto const [largest, total] = detail::softmax_row(classes, z);
      T const shift = static_cast<T>(largest);
      for (int c = 0; c < classes; ++c) {
        double const p = static_cast<double>(std::exp(z[c] - shift)) / total;
        double const q = c == labels[s] ? 1 - smoothing + elsewhere : elsewhere;
        dz[c] = static_cast<T>((p - q) * scale);
      }
    }
  });
}

}  // namespace tandem::host

namespace tandem {

/// A loss op sums the losses of a microbatch in sample order, in double; gradient multiplies by
/// @p scale, which the engine sets to 1 / global batch.
template <class Smoothing, class Precision>
class LossOp<SoftmaxCrossEntropy<Smoothing>, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;
  using L = SoftmaxCrossEntropy<Smoothing>;

 public:
  LossOp(Shape output, int batch)
      : classes_{static_cast<int>(output.elements())},
        scratch_{batch * static_cast<std::int64_t>(sizeof(double))} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_; }

  void forward(Pass<host::Device> const& p, T const* output, std::int32_t const* labels,
               double* loss) const {
    ClassificationSums sums{};
    host::softmax_cross_entropy_forward(p.device.team, p.batch, classes_, output, labels,
                                        L::smoothing, 1, p.device.template scratch_as<double>(),
                                        sums);
    *loss = sums.loss;
  }
  void gradient(Pass<host::Device> const& p, T const* output, std::int32_t const* labels,
                double scale, T* dy) const {
    host::softmax_cross_entropy_gradient(p.device.team, p.batch, classes_, output, labels,
                                         L::smoothing, scale, dy);
  }

 private:
  int classes_;
  std::int64_t scratch_;
};

template <class Precision>
class LossOp<MeanSquaredError, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  LossOp(Shape output, int batch) : elements_{output.elements()}, batch_{batch} {}

  // Losses in double, then the targets in T.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return batch_ * (static_cast<std::int64_t>(sizeof(double)) +
                     elements_ * static_cast<std::int64_t>(sizeof(T)));
  }

  void forward(Pass<host::Device> const& p, T const* output, float const* targets,
               double* loss) const {
    double total = 0.0;
    host::mean_squared_error_forward(p.device.team, p.batch, elements_, output,
                                     converted(p, targets), p.device.template scratch_as<double>(),
                                     total);
    *loss = total / static_cast<double>(elements_);
  }
  void gradient(Pass<host::Device> const& p, T const* output, float const* targets, double scale,
                T* dy) const {
    host::mean_squared_error_gradient(p.device.team, output, converted(p, targets),
                                      static_cast<T>(scale / static_cast<double>(elements_)), dy,
                                      p.batch * elements_);
  }

 private:
  T const* converted(Pass<host::Device> const& p, float const* targets) const {
    if constexpr (std::is_same_v<T, float>) {
      return targets;
    } else {
      T* const copy = reinterpret_cast<T*>(p.device.template scratch_as<double>() + batch_);
      for (std::int64_t i = 0; i < p.batch * elements_; ++i) {
        copy[i] = static_cast<T>(targets[i]);
      }
      return copy;
    }
  }

  std::int64_t elements_;
  std::int64_t batch_;
};

/// TopK and Accuracy of any loss with one integer label a sample; a NaN never counts as right.
template <class M, class L, class Kernels, class Precision>
  requires(requires { M::k; } && std::is_same_v<typename L::Target, std::int32_t>)
class MetricOp<M, L, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit MetricOp(Shape output) : classes_{static_cast<int>(output.elements())} {}

  void count(Pass<host::Device> const& p, T const* output, std::int32_t const* labels,
             double* sum) const {
    std::int64_t right = 0;
    for (int s = 0; s < p.batch; ++s) {
      T const* const y = output + std::int64_t{s} * classes_;
      T const own = y[labels[s]];
      int ahead = own == own ? 0 : M::k;  // outputs that come before the label's
      for (int c = 0; c < classes_; ++c) {
        ahead += !(y[c] <= own) || (y[c] == own && c < labels[s]) ? 1 : 0;
      }
      right += ahead < M::k ? 1 : 0;
    }
    *sum = static_cast<double>(right);
  }

 private:
  int classes_;
};

}  // namespace tandem

// ---- tandem/ops/host/pool.hpp

/// @file
/// MaxPool2d, AvgPool2d, GlobalAvgPool and Subsample2d on Host, portable kernels.

// ---- tandem/kernels/host/avg_pool.hpp

/// @file
/// The mean under each position of a window, with padding counted as zeros or not counted.

// ---- tandem/kernels/functors/window_cells.hpp

/// @file
/// Which cells a window covers, and which windows cover a cell.

namespace tandem {

/// The rows [first_row, last_row) and columns [first_column, last_column), none if one is empty.
struct CellRange {
  int first_row, last_row, first_column, last_column;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int count() const {
    int const rows = last_row - first_row;
    int const columns = last_column - first_column;
    return (rows > 0 ? rows : 0) * (columns > 0 ? columns : 0);
  }
};

/// The cells of the image under the window at (@p oh, @p ow), without padding.
TANDEM_HOST_DEVICE constexpr CellRange cells_under(PoolGeometry const& g, int oh, int ow) {
  Window const& window = g.window;
  int const top = oh * window.stride.height - window.padding.height;
  int const left = ow * window.stride.width - window.padding.width;
  int const bottom = top + window.kernel.height;
  int const right = left + window.kernel.width;
  return {top > 0 ? top : 0, bottom < g.in.height ? bottom : g.in.height, left > 0 ? left : 0,
          right < g.in.width ? right : g.in.width};
}

/// The positions of the window under which the cell at (@p h, @p w) lies.
TANDEM_HOST_DEVICE constexpr CellRange windows_over(PoolGeometry const& g, int h, int w) {
  Window const& window = g.window;
  int const row = h + window.padding.height;
  int const column = w + window.padding.width;
  int const before_row = row - window.kernel.height;  // the last row of windows that end above it
  int const before_column = column - window.kernel.width;
  int const last_row = row / window.stride.height + 1;
  int const last_column = column / window.stride.width + 1;
  return {before_row < 0 ? 0 : before_row / window.stride.height + 1,
          last_row < g.out.height ? last_row : g.out.height,
          before_column < 0 ? 0 : before_column / window.stride.width + 1,
          last_column < g.out.width ? last_column : g.out.width};
}

/// What the sum of @p cells is divided by: the kernel's area, or the number of cells of the image.
TANDEM_HOST_DEVICE constexpr int mean_count(PoolGeometry const& g, bool count_include_pad,
                                            CellRange const& cells) {
  return count_include_pad ? g.window.kernel.height * g.window.kernel.width : cells.count();
}

}  // namespace tandem

namespace tandem::host {

/// y = mean of x under the window; 0 where the mean is over no cell.
///
/// Shapes: x (B, C, in); y (B, C, out).
/// Cost:   kernel area reads an output.
/// Order:  the cells of a window in row order, in T.
/// Source: as PyTorch's avg_pool2d with ceil_mode off; `count_include_pad` divides by the kernel's
///         area everywhere, else by the number of cells inside the image
template <class T>
TANDEM_NOINLINE void avg_pool_forward(Team& team, PoolGeometry const& g, int batch,
                                      bool count_include_pad, T const* x, T* y) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T const* const from = x + map * in_pixels;
      T* to = y + map * out_pixels;
      for (int oh = 0; oh < g.out.height; ++oh) {
        for (int ow = 0; ow < g.out.width; ++ow) {
          CellRange const cells = cells_under(g, oh, ow);
          int const count = mean_count(g, count_include_pad, cells);
          T total{0};
          for (int h = cells.first_row; h < cells.last_row; ++h) {
            for (int w = cells.first_column; w < cells.last_column; ++w) {
              total += from[std::int64_t{h} * g.in.width + w];
            }
          }
          *to++ = count > 0 ? total / static_cast<T>(count) : T{0};
        }
      }
    }
  });
}

/// dx = for each cell, the sum over its windows of dy divided as in the forward pass.
///
/// Shapes: dy (B, C, out); dx (B, C, in), overwritten.
/// Cost:   kernel area additions an output.
/// Order:  the windows that share a cell are added in row order.
template <class T>
TANDEM_NOINLINE void avg_pool_gradient(Team& team, PoolGeometry const& g, int batch,
                                       bool count_include_pad, T const* dy, T* dx) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T const* from = dy + map * out_pixels;
      T* const to = dx + map * in_pixels;
      std::fill(to, to + in_pixels, T{0});
      for (int oh = 0; oh < g.out.height; ++oh) {
        for (int ow = 0; ow < g.out.width; ++ow) {
          CellRange const cells = cells_under(g, oh, ow);
          int const count = mean_count(g, count_include_pad, cells);
          T const share = count > 0 ? *from / static_cast<T>(count) : T{0};
          ++from;
          for (int h = cells.first_row; h < cells.last_row; ++h) {
            for (int w = cells.first_column; w < cells.last_column; ++w) {
              to[std::int64_t{h} * g.in.width + w] += share;
            }
          }
        }
      }
    }
  });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/global_avg_pool.hpp

/// @file
/// The mean of each map, and its gradient.

namespace tandem::host {

/// y = mean(x) of each map.
///
/// Shapes: x (B, C, pixels); y (B, C).
/// Cost:   reads each element once; bound by memory.
/// Order:  the pixels of a map in 16 lanes, in T.
/// Source: Lin, Chen, Yan, arXiv:1312.4400, section 3.2
template <class T>
TANDEM_NOINLINE void global_avg_pool_forward(Team& team, int batch, int channels,
                                             std::int64_t pixels, T const* x, T* y) {
  std::int64_t const maps = std::int64_t{batch} * channels;
  team.parallel_for(maps, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T const* const from = x + map * pixels;
      T const total = detail::lane_sum<T>(pixels, [=](std::int64_t i) { return from[i]; });
      y[map] = total / static_cast<T>(pixels);
    }
  });
}

/// dx = dy / pixels at each pixel of a map.
///
/// Shapes: dy (B, C); dx (B, C, pixels).
/// Cost:   writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void global_avg_pool_gradient(Team& team, int batch, int channels,
                                              std::int64_t pixels, T const* dy, T* dx) {
  std::int64_t const maps = std::int64_t{batch} * channels;
  team.parallel_for(maps, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      std::fill(dx + map * pixels, dx + (map + 1) * pixels, dy[map] / static_cast<T>(pixels));
    }
  });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/max_pool.hpp

/// @file
/// The largest element under each position of a window; padding counts as minus infinity.
///
/// The forward pass saves which cell was the largest, so that the gradient has no tie to break.

// ---- tandem/kernels/functors/largest_cell.hpp

/// @file
/// LargestCell: the running maximum under a window, and where it stands.

namespace tandem {

/// Starts as minus infinity at cell -1. Of equals the first offered is kept, a NaN always wins.
/// Source: as PyTorch's max_pool2d
template <class T>
struct LargestCell {
  T best = -std::numeric_limits<T>::infinity();
  std::int32_t where = -1;

  TANDEM_HOST_DEVICE constexpr void offer(T value, std::int32_t cell) {
    if (value > best || value != value || where < 0) {  // value != value: a NaN
      best = value;
      where = cell;
    }
  }
};

}  // namespace tandem

namespace tandem::host {

namespace detail {

/// One map of max_pool_forward.
template <class T>
void max_pool_map(PoolGeometry const& g, T const* x, T* y, std::int32_t* index) {
  for (int oh = 0; oh < g.out.height; ++oh) {
    for (int ow = 0; ow < g.out.width; ++ow) {
      CellRange const cells = cells_under(g, oh, ow);
      LargestCell<T> largest;
      for (int h = cells.first_row; h < cells.last_row; ++h) {
        for (int w = cells.first_column; w < cells.last_column; ++w) {
          std::int32_t const cell = h * g.in.width + w;
          largest.offer(x[cell], cell);
        }
      }
      *y++ = largest.best;
      *index++ = largest.where;
    }
  }
}

}  // namespace detail

/// y = max of x under the window; a tie goes to the first cell in row order, a NaN wins.
///
/// Shapes: x (B, C, in); y (B, C, out); index (B, C, out), the chosen cell of its map: row times
/// the
///         width of `in` plus column, or -1 (and y = -inf) where a window holds nothing but
///         padding.
/// Saves:  index, 4 bytes an output, until the gradient.
/// Cost:   kernel area reads an output.
/// Source: as PyTorch's max_pool2d, also for NaN and ties
template <class T>
TANDEM_NOINLINE void max_pool_forward(Team& team, PoolGeometry const& g, int batch, T const* x,
                                      T* y, std::int32_t* index) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      detail::max_pool_map(g, x + map * in_pixels, y + map * out_pixels, index + map * out_pixels);
    }
  });
}

/// dx = for each cell, the sum of dy over the windows that chose it.
///
/// Shapes: dy (B, C, out); index (B, C, out), from the forward pass; dx (B, C, in), overwritten.
/// Cost:   writes dx once, reads dy and index once.
/// Order:  the windows that share a cell are added in row order.
template <class T>
TANDEM_NOINLINE void max_pool_gradient(Team& team, PoolGeometry const& g, int batch, T const* dy,
                                       std::int32_t const* index, T* dx) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T* const to = dx + map * in_pixels;
      std::fill(to, to + in_pixels, T{0});
      for (std::int64_t i = map * out_pixels; i < (map + 1) * out_pixels; ++i) {
        if (index[i] >= 0) {
          to[index[i]] += dy[i];
        }
      }
    }
  });
}

}  // namespace tandem::host

// ---- tandem/kernels/host/subsample.hpp

/// @file
/// The shortcut without parameters of a ResNet ("option A"): every s-th pixel, new channels zero.

// ---- tandem/kernels/functors/subsample_geometry.hpp

/// @file
/// SubsampleGeometry: the sizes of the shortcut without parameters.

namespace tandem {

/// The sizes of a subsampling shortcut: x (B, in_channels, in), y (B, out_channels, out()).
struct SubsampleGeometry {
  int in_channels = 0;
  int out_channels = 0;
  Extent2d in{};
  int stride = 1;

  /// Rows and columns 0, s, 2 s, … of the input: its extent divided by s, rounded up.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr Extent2d out() const {
    return {(in.height + stride - 1) / stride, (in.width + stride - 1) / stride};
  }

  /// Channels of zeros before the copied ones; an odd one more stands behind them.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int first() const {
    return (out_channels - in_channels) / 2;
  }
};

}  // namespace tandem

namespace tandem::host {

/// y[c] = x[c - first] at [::s, ::s]; the channels before and behind are zero.
///
/// Shapes: x (B, in_channels, in); y (B, out_channels, out).
/// Cost:   writes each element of y once; bound by memory.
/// @pre    in_channels <= out_channels
/// Source: He, Zhang, Ren, Sun, CVPR 2016, section 3.3, option (A)
template <class T>
TANDEM_NOINLINE void subsample_forward(Team& team, SubsampleGeometry const& g, int batch,
                                       T const* x, T* y) {
  Extent2d const out = g.out();
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{out.height} * out.width;
  team.parallel_for(
      std::int64_t{batch} * g.out_channels, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t map = begin; map < end; ++map) {
          std::int64_t const c = map % g.out_channels - g.first();
          T* to = y + map * out_pixels;
          if (c < 0 || c >= g.in_channels) {
            std::fill(to, to + out_pixels, T{0});
            continue;
          }
          T const* const from = x + (map / g.out_channels * g.in_channels + c) * in_pixels;
          for (int h = 0; h < out.height; ++h) {
            T const* const row = from + std::int64_t{h} * g.stride * g.in.width;
            for (int w = 0; w < out.width; ++w) {
              *to++ = row[std::int64_t{w} * g.stride];
            }
          }
        }
      });
}

/// The gradient of subsample_forward: dx is dy at the pixels that were read, else 0.
///
/// Shapes: dy (B, out_channels, out); dx (B, in_channels, in).
/// Cost:   writes each element of dx once; bound by memory.
/// @pre    in_channels <= out_channels
template <class T>
TANDEM_NOINLINE void subsample_gradient(Team& team, SubsampleGeometry const& g, int batch,
                                        T const* dy, T* dx) {
  Extent2d const out = g.out();
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{out.height} * out.width;
  team.parallel_for(std::int64_t{batch} * g.in_channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      std::int64_t const c = map % g.in_channels + g.first();
      T const* from = dy + (map / g.in_channels * g.out_channels + c) * out_pixels;
      T* const to = dx + map * in_pixels;
      std::fill(to, to + in_pixels, T{0});
      for (int h = 0; h < out.height; ++h) {
        T* const row = to + std::int64_t{h} * g.stride * g.in.width;
        for (int w = 0; w < out.width; ++w) {
          row[std::int64_t{w} * g.stride] = *from++;
        }
      }
    }
  });
}

}  // namespace tandem::host

namespace tandem {

namespace host {

/// saved holds the winning cell of every window, so neither x nor y is read by backward.
template <class T>
class MaxPoolOp {
 public:
  MaxPoolOp(OpSetup const& setup, PoolGeometry const& geometry)
      : geometry_{geometry},
        saved_{setup.batch * setup.node.out.elements() *
               static_cast<std::int64_t>(sizeof(std::int32_t))} {}

  [[nodiscard]] OpNeeds needs() const { return {.saved_bytes = saved_}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    max_pool_forward(p.device.team, geometry_, p.batch, o.x[0], o.y,
                     reinterpret_cast<std::int32_t*>(o.saved));
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    max_pool_gradient(p.device.team, geometry_, p.batch, o.dy,
                      reinterpret_cast<std::int32_t const*>(o.saved), o.dx[0]);
  }

 private:
  PoolGeometry geometry_;
  std::int64_t saved_;
};

template <class T>
class AvgPoolOp {
 public:
  AvgPoolOp(PoolGeometry const& geometry, bool count_padding)
      : geometry_{geometry}, count_padding_{count_padding} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    avg_pool_forward(p.device.team, geometry_, p.batch, count_padding_, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    avg_pool_gradient(p.device.team, geometry_, p.batch, count_padding_, o.dy, o.dx[0]);
  }

 private:
  PoolGeometry geometry_;
  bool count_padding_;
};

template <class T>
class GlobalAvgPoolOp {
 public:
  explicit GlobalAvgPoolOp(OpSetup const& setup)
      : channels_{setup.node.in[0]}, pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    global_avg_pool_forward(p.device.team, p.batch, channels_, pixels_, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    global_avg_pool_gradient(p.device.team, p.batch, channels_, pixels_, o.dy, o.dx[0]);
  }

 private:
  int channels_;
  std::int64_t pixels_;
};

template <class T>
class SubsampleOp {
 public:
  SubsampleOp(OpSetup const& setup, int step)
      : geometry_{setup.node.in[0], setup.node.out[0], {setup.node.in[1], setup.node.in[2]}, step} {
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    subsample_forward(p.device.team, geometry_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    subsample_gradient(p.device.team, geometry_, p.batch, o.dy, o.dx[0]);
  }

 private:
  SubsampleGeometry geometry_;
};

}  // namespace host

template <class... Options, class Precision>
struct Op<MaxPool2d<Options...>, BasicHost<Portable, Precision>>
    : host::MaxPoolOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::MaxPoolOp<typename Precision::Scalar>{
            setup, MaxPool2d<Options...>::geometry(setup.node.in)} {}
};

template <class... Options, class Precision>
struct Op<AvgPool2d<Options...>, BasicHost<Portable, Precision>>
    : host::AvgPoolOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::AvgPoolOp<typename Precision::Scalar>{AvgPool2d<Options...>::geometry(setup.node.in),
                                                    AvgPool2d<Options...>::options.count_padding} {}
};

template <class Precision>
struct Op<GlobalAvgPool, BasicHost<Portable, Precision>>
    : host::GlobalAvgPoolOp<typename Precision::Scalar> {
  using host::GlobalAvgPoolOp<typename Precision::Scalar>::GlobalAvgPoolOp;
};

template <int Out, int Step, class Precision>
struct Op<Subsample2d<Out, Step>, BasicHost<Portable, Precision>>
    : host::SubsampleOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup) : host::SubsampleOp<typename Precision::Scalar>{setup, Step} {}
};

}  // namespace tandem

// ---- tandem/ops/host/sync_batch_norm.hpp

/// @file
/// SyncBatchNorm2d on Host, portable kernels.

// ---- tandem/kernels/functors/batch_norm_sums.hpp

/// @file
/// BatchNormSums: what replicas add to normalise a batch that is spread over them.
///
/// Forward adds the sums of x - shift and of (x - shift)² in double, the shift being the running
/// mean, which all replicas have alike. Backward adds those of dy and of dy (x - mean).

namespace tandem {

/// Two sums of each channel and the number of its values, one behind another.
struct BatchNormSums {
  double* first;   ///< (C)
  double* second;  ///< (C)
  double* count;   ///< one

  static constexpr std::int64_t elements(int channels) { return 2 * std::int64_t{channels} + 1; }
  static BatchNormSums at(double* memory, int channels) {
    return {memory, memory + channels, memory + 2 * std::int64_t{channels}};
  }
};

/// Mean and biased variance of a channel, in double.
struct ChannelMoments {
  double mean;
  double variance;
};

/// The sums of @p count values of x - shift and of (x - shift)², which can be added to others'.
TANDEM_HOST_DEVICE inline void set_shifted_sums(BatchNormSums const& sums, std::int64_t c,
                                                double count, ChannelMoments const& moments,
                                                double shift) {
  double const distance = moments.mean - shift;
  sums.first[c] = count * distance;
  sums.second[c] = count * (moments.variance + distance * distance);
}

/// The moments of all values that have been added. Of double's 16 digits the variance loses as many
/// as (mean - shift)² / variance has, and no more: the moments of each replica were exact.
TANDEM_HOST_DEVICE inline ChannelMoments moments_of(BatchNormSums const& sums, std::int64_t c,
                                                    double shift) {
  double const distance = sums.first[c] / *sums.count;
  double const variance = sums.second[c] / *sums.count - distance * distance;
  return {shift + distance, variance < 0 ? 0.0 : variance};  // a NaN stays one
}

/// count / (count - 1); a single value has no unbiased variance and passes the biased one.
TANDEM_HOST_DEVICE inline double unbiased_factor(double count) {
  return count > 1 ? count / (count - 1) : 1.0;
}

}  // namespace tandem

// ---- tandem/kernels/host/synchronized_batch_norm.hpp

/// @file
/// The halves of a batch normalisation whose batch is spread over replicas: sums of the own part,
/// then, when they have been added, what follows from the sums of all.
///
/// With the statistics of all, forward is batch_norm_evaluation_forward, and the gradients to gain
/// and bias are batch_norm_parameter_gradient of the own part.

namespace tandem::host {

/// The sums of x - shift and of its square, each channel over B and pixels, and their number.
///
/// Shapes: x (B, C, pixels), shift (C).
/// Cost:   reads x twice; bound by memory.
/// Order:  mean and variance as in batch_norm_forward, then the sums from them in double.
/// @pre    B and pixels are 1 or more
template <class T>
TANDEM_NOINLINE void batch_norm_local_sums(Team& team, int batch, int channels, std::int64_t pixels,
                                           T const* x, T const* shift, BatchNormSums const& sums) {
  double const count = static_cast<double>(batch * pixels);
  *sums.count = count;
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      T const center = static_cast<T>(total([=](std::int64_t i) { return x[i]; }) / count);
      double const spread = total([=](std::int64_t i) {
                              T const distance = x[i] - center;
                              return distance * distance;
                            }) /
                            count;
      set_shifted_sums(sums, c, count, {static_cast<double>(center), spread},
                       static_cast<double>(shift[c]));
    }
  });
}

/// The statistics of all that has been added to @p sums; (C) each.
template <class T>
void batch_norm_joint_statistics(int channels, T const* shift, BatchNormSums const& sums, T epsilon,
                                 T* mean, T* inverse_deviation, T* variance) {
  for (int c = 0; c < channels; ++c) {
    ChannelMoments const joint = moments_of(sums, c, static_cast<double>(shift[c]));
    mean[c] = static_cast<T>(joint.mean);
    variance[c] = static_cast<T>(joint.variance);
    inverse_deviation[c] = detail::inverse_deviation_of(variance[c], epsilon);
  }
}

/// The sums of dy and of dy (x - mean), each channel over B and pixels, and their number.
///
/// Shapes: x, dy (B, C, pixels), mean (C).
/// Cost:   reads x and dy; bound by memory.
/// Order:  the sums as in batch_norm_forward.
template <class T>
TANDEM_NOINLINE void batch_norm_local_gradient_sums(Team& team, int batch, int channels,
                                                    std::int64_t pixels, T const* x, T const* dy,
                                                    T const* mean, BatchNormSums const& sums) {
  *sums.count = static_cast<double>(batch * pixels);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      sums.first[c] = total([=](std::int64_t i) { return dy[i]; });
      sums.second[c] = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
    }
  });
}

/// batch_norm_input_gradient with the sums of dy and dy (x - mean) over all replicas.
///
/// Shapes: x, dy (B, C, pixels), gain, mean, inverse_deviation (C); dx (B, C, pixels), may be dy.
/// Cost:   reads x and dy, writes dx; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_joint_input_gradient(Team& team, int batch, int channels,
                                                     std::int64_t pixels, T const* x, T const* dy,
                                                     T const* gain, T const* mean,
                                                     T const* inverse_deviation,
                                                     BatchNormSums const& sums, T* dx) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      T const inverse = inverse_deviation[c];
      T const offset = static_cast<T>(sums.first[c] / *sums.count);
      T const slope = static_cast<T>(sums.second[c] / *sums.count) * inverse * inverse;
      T const scale = inverse * gain[c];
      detail::each_of_channel(batch, channels, pixels, c, [=](std::int64_t i) {
        T const rest = dy[i] - offset;
        dx[i] = (rest - (x[i] - center) * slope) * scale;
      });
    }
  });
}

}  // namespace tandem::host

namespace tandem {

namespace host {

/// BatchNormOp, and the same with the passes cut in halves; between them the engine adds sums()
/// over the replicas. An engine with nothing to add calls BatchNormOp's own passes.
template <class T>
class SyncBatchNormOp : public BatchNormOp<T> {
 public:
  using BatchNormOp<T>::BatchNormOp;

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = BatchNormOp<T>::needs();
    needs.saved_bytes = sums_offset() + BatchNormSums::elements(this->channels_) *
                                            static_cast<std::int64_t>(sizeof(double));
    return needs;
  }

  /// What is added over the replicas, in forward and in backward: part of what is saved.
  [[nodiscard]] std::span<double> sums(Operands<T> const& o) const {
    return {reinterpret_cast<double*>(o.saved + sums_offset()),
            static_cast<std::size_t>(BatchNormSums::elements(this->channels_))};
  }

  void local_sums(Operands<T> const& o, Pass<Device> const& p) const {
    batch_norm_local_sums(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                          this->running_mean(o), joint(o));
  }

  void forward_synchronized(Operands<T> const& o, Pass<Device> const& p) const {
    auto const s = this->saved(o);
    batch_norm_joint_statistics(this->channels_, this->running_mean(o), joint(o), this->epsilon_,
                                s.mean, s.inverse_deviation, s.variance);
    batch_norm_evaluation_forward(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                  this->gain(o), this->bias(o), s.mean, s.variance, this->epsilon_,
                                  o.y);
  }

  void local_gradient_sums(Operands<T> const& o, Pass<Device> const& p) const {
    batch_norm_local_gradient_sums(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                   o.dy, this->saved(o).mean, joint(o));
  }

  void input_gradient_synchronized(Operands<T> const& o, Pass<Device> const& p) const {
    auto const s = this->saved(o);
    batch_norm_joint_input_gradient(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                    o.dy, this->gain(o), s.mean, s.inverse_deviation, joint(o),
                                    o.dx[0]);
  }

  /// Gain and bias of the own samples, which the engine adds over the replicas later; of the
  /// statistics of all the share of the own samples.
  void weight_gradient_synchronized(Operands<T> const& o, Pass<Device> const& p) const {
    auto const s = this->saved(o);
    batch_norm_parameter_gradient(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                  o.dy, s.mean, s.inverse_deviation, o.gradient[0], o.gradient[1],
                                  p.accumulate);
    batch_norm_statistics(p.device.team, this->channels_,
                          static_cast<std::int64_t>(*joint(o).count), static_cast<T>(p.share),
                          s.mean, s.variance, o.gradient[2], o.gradient[3], p.accumulate);
  }

 private:
  [[nodiscard]] std::int64_t sums_offset() const {
    return (BatchNormOp<T>::needs().saved_bytes + 7) / 8 * 8;
  }
  [[nodiscard]] BatchNormSums joint(Operands<T> const& o) const {
    return BatchNormSums::at(sums(o).data(), this->channels_);
  }
};

}  // namespace host

template <class... Options, class Precision>
struct Op<SyncBatchNorm2d<Options...>, BasicHost<Portable, Precision>>
    : host::SyncBatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::SyncBatchNormOp<typename Precision::Scalar>{setup,
                                                          SyncBatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem

// ---- tandem/ops/host/user_layer.hpp

/// @file
/// A user's own layer, loss and metric on Host: static functions of the type itself become ops.
///
/// A layer gives `forward(auto const& call)`, `input_gradient(auto const& call)` and, with
/// parameters, `weight_gradient(auto const& call)`, where call is a LayerCall<float> or <double>.

namespace tandem {

/// What a user's layer sees of one pass over one microbatch of `batch` samples.
///
/// forward writes y; input_gradient writes dx; weight_gradient *adds* to gradient(i). x and y are
/// there in all three.
template <class T>
struct LayerCall {
  int batch = 0;
  Shape in{};
  Shape out{};
  bool training = true;
  std::span<T const> x{};   ///< (batch, in)
  std::span<T> y{};         ///< (batch, out)
  std::span<T const> dy{};  ///< (batch, out)
  std::span<T> dx{};        ///< (batch, in)
  T* const* parameter_memory = nullptr;
  T* const* gradient_memory = nullptr;
  Parameters const* list = nullptr;

  [[nodiscard]] std::span<T const> parameter(int i) const {
    return {parameter_memory[i], elements(i)};
  }
  [[nodiscard]] std::span<T> gradient(int i) const { return {gradient_memory[i], elements(i)}; }

 private:
  [[nodiscard]] std::size_t elements(int i) const {
    return static_cast<std::size_t>(list->item[i].shape.elements());
  }
};

/// A layer that brings its own passes for Host.
template <class L, class T>
concept HostLayer = Layer<L> && requires(LayerCall<T> const& call) {
  L::forward(call);
  L::input_gradient(call);
};

template <class L, class Precision>
  requires HostLayer<L, typename Precision::Scalar>
class Op<L, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup)
      : in_{setup.node.in}, out_{setup.node.out}, list_{parameters_of<L>(setup.node.in)} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .output = true}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const { L::forward(call(o, p)); }
  void input_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    L::input_gradient(call(o, p));
  }
  void weight_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    LayerCall<T> const c = call(o, p);
    if (!p.accumulate) {
      for (int i = 0; i < list_.count; ++i) {
        std::ranges::fill(c.gradient(i), T{0});
      }
    }
    L::weight_gradient(c);
  }

 private:
  [[nodiscard]] LayerCall<T> call(Operands<T> const& o, Pass<host::Device> const& p) const {
    auto const in = static_cast<std::size_t>(p.batch * in_.elements());
    auto const out = static_cast<std::size_t>(p.batch * out_.elements());
    T* const dx = o.dx != nullptr ? o.dx[0] : nullptr;
    return {.batch = p.batch,
            .in = in_,
            .out = out_,
            .training = p.training,
            .x = {o.x[0], in},
            .y = {o.y, out},
            .dy = {o.dy, o.dy != nullptr ? out : 0},
            .dx = {dx, dx != nullptr ? in : 0},
            .parameter_memory = o.parameter,
            .gradient_memory = o.gradient,
            .list = &list_};
  }

  Shape in_;
  Shape out_;
  Parameters list_;
};

/// A loss that brings `double value(output, target)` and `void gradient(output, target, dy)` of one
/// sample, spans of T and Target; dy is to be written, not scaled by the batch.
template <class L, class T>
concept HostLoss = Loss<L> &&
    requires(std::span<T const> output, std::span<typename L::Target const> target,
             std::span<T> dy) {
  { L::value(output, target) } -> std::convertible_to<double>;
  L::gradient(output, target, dy);
};

template <class L, class Precision>
  requires HostLoss<L, typename Precision::Scalar>
class LossOp<L, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;
  using Target = typename L::Target;

 public:
  LossOp(Shape output, int /*batch*/)
      : outputs_{static_cast<std::size_t>(output.elements())},
        targets_{static_cast<std::size_t>(L::targets(output))} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return 0; }

  void forward(Pass<host::Device> const& p, T const* output, Target const* target,
               double* loss) const {
    *loss = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(p.batch); ++s) {
      *loss += L::value(std::span{output + s * outputs_, outputs_},
                        std::span{target + s * targets_, targets_});
    }
  }
  void gradient(Pass<host::Device> const& p, T const* output, Target const* target, double scale,
                T* dy) const {
    for (std::size_t s = 0; s < static_cast<std::size_t>(p.batch); ++s) {
      std::span<T> const sample{dy + s * outputs_, outputs_};
      L::gradient(std::span{output + s * outputs_, outputs_},
                  std::span{target + s * targets_, targets_}, sample);
      for (T& element : sample) {
        element *= static_cast<T>(scale);
      }
    }
  }

 private:
  std::size_t outputs_;
  std::size_t targets_;
};

/// A metric that brings `double value(output, target)` of one sample.
template <class M, class L, class T>
concept HostMetric = Metric<M> &&
    requires(std::span<T const> output, std::span<typename L::Target const> target) {
  { M::value(output, target) } -> std::convertible_to<double>;
};

template <class M, class L, class Precision>
  requires HostMetric<M, L, typename Precision::Scalar>
class MetricOp<M, L, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit MetricOp(Shape output)
      : outputs_{static_cast<std::size_t>(output.elements())},
        targets_{static_cast<std::size_t>(L::targets(output))} {}

  void count(Pass<host::Device> const& p, T const* output, typename L::Target const* target,
             double* sum) const {
    *sum = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(p.batch); ++s) {
      *sum += M::value(std::span{output + s * outputs_, outputs_},
                       std::span{target + s * targets_, targets_});
    }
  }

 private:
  std::size_t outputs_;
  std::size_t targets_;
};

/// No metric: nothing is counted.
struct NoMetric {
  static constexpr std::string_view name = "";
  template <class T, class Target>
  static double value(std::span<T const>, std::span<Target const>) {
    return 0.0;
  }
};

}  // namespace tandem

// ---- tandem/ops/null.hpp

/// @file
/// Ops of the Null backend: every layer, loss and metric, computing nothing.

// ---- tandem/runtime/null.hpp

/// @file
/// Null: a backend whose kernels are empty, to count what the engine itself costs.

namespace tandem {

/// Computes nothing; memory, tables and the engine's loop are those of Host.
struct Null {
  using Scalar = float;
  using Master = float;
  using Device = host::Device;
  using Buffer = host::Buffer;
  using Stream = host::Queue;
  static constexpr char const* name = "null";
};

}  // namespace tandem

namespace tandem {

template <class L>
struct Op<L, Null> {
  explicit Op(OpSetup const&) {}
  [[nodiscard]] OpNeeds needs() const { return {}; }
  void forward(Operands<float> const&, Pass<host::Device> const&) const {}
  void input_gradient(Operands<float> const&, Pass<host::Device> const&) const {}
  void weight_gradient(Operands<float> const&, Pass<host::Device> const&) const {}
};

template <class L>
struct LossOp<L, Null> {
  using Target = typename L::Target;
  LossOp(Shape, int) {}
  [[nodiscard]] std::int64_t scratch_bytes() const { return 0; }
  void forward(Pass<host::Device> const&, float const*, Target const*, double*) const {}
  void gradient(Pass<host::Device> const&, float const*, Target const*, double, float*) const {}
};

template <class M, class L>
struct MetricOp<M, L, Null> {
  explicit MetricOp(Shape) {}
  void count(Pass<host::Device> const&, float const*, typename L::Target const*, double*) const {}
};

template <>
struct Verbs<Null> {
  static void zero(host::Device&, float*, std::int64_t) {}
  static void add(host::Device&, float const*, float*, std::int64_t) {}
  static void copy(host::Device&, float const*, float*, std::int64_t) {}
  static void sum(host::Device&, float const* const*, int, float*, std::int64_t) {}
  static double sum_of_squares(host::Device&, float const*, std::int64_t) { return 0.0; }
  template <class Functor>
  static void each(host::Device&, std::int64_t, Functor const&) {}
};

}  // namespace tandem

// ---- tandem/runtime/cuda/backend.hpp

/// @file
/// BasicCuda: the backend that computes on NVIDIA GPUs, as a type only.
///
/// Any compiler may name it; its kernels, buffers and streams come with <tandem/cuda.cuh>, which
/// needs nvcc.

namespace tandem {

namespace cuda {

struct RankDevice;
class Buffer;
class Stream;
class Event;

}  // namespace cuda

/// Convolutions by cuDNN 9; everything else as in the portable backend.
struct CuDnn {
  static constexpr char const* name = "cudnn";
};

/// NVIDIA GPUs, one a rank. Activations are stored channels-last.
/// @tparam Kernels    Portable (CUDA Toolkit alone) or CuDnn
/// @tparam Precision  Fp32, Tf32, Bf16, or Fp64 (Portable only)
template <class Kernels = Portable, class Precision = Fp32>
struct BasicCuda {
  using Scalar = typename Precision::Scalar;
  using Master = typename Precision::Master;
  using Device = cuda::RankDevice;
  using Buffer = cuda::Buffer;
  using Stream = cuda::Stream;
  static constexpr Rewrites rewrites{.fuse_relu = true, .channels_last = true};
  static constexpr char const* name = "cuda";
};

/// The default GPU backend: with cuDNN where CMake has found it.
#if defined(TANDEM_CUDNN)
using Cuda = BasicCuda<CuDnn>;
#else
using Cuda = BasicCuda<Portable>;
#endif

}  // namespace tandem

// ---- tandem/strategy/data_parallel.hpp

/// @file
/// SingleDevice and DataParallel: strategies as types, each lowered to a Batching.

// ---- tandem/strategy/checkpoint_rule.hpp

/// @file
/// CheckpointRule: which activations are computed again in the backward pass instead of being kept.

namespace tandem {

/// Keeps what enters each run of `every` top-level layers of a stage, or of the whole stage.
struct CheckpointRule {
  static constexpr int none = 0;
  static constexpr int boundaries = -1;
  int every = none;
};

/// Of each node: the number of its run, ascending; -1 where all is kept.
template <int Nodes>
struct CheckpointSegments {
  int of[Nodes] = {};
};

template <GraphSize Size>
constexpr CheckpointSegments<Size.nodes> checkpoint_segments(Graph<Size> const& graph,
                                                             CheckpointRule rule) {
  CheckpointSegments<Size.nodes> segments;
  int segment = 0;
  int first_top = -1;  // of the run at work
  for (int n = 0; n < Size.nodes; ++n) {
    Node const& node = graph.node[n];
    bool const new_stage = n > 0 && node.stage != graph.node[n - 1].stage;
    bool const full =
        rule.every > 0 && first_top >= 0 && !node.is_end() && node.top - first_top >= rule.every;
    if (new_stage || full) {
      ++segment;
      first_top = -1;
    }
    if (first_top < 0 && !node.is_end()) {  // a tensor from elsewhere has a top from elsewhere
      first_top = node.top;
    }
    segments.of[n] = rule.every == CheckpointRule::none ? -1 : segment;
  }
  return segments;
}

}  // namespace tandem

// ---- tandem/strategy/model_shape.hpp

/// @file
/// How a strategy cuts a network: the stages, where they are, and what each device does in a step.
///
/// A strategy has `devices` of a model replica, `copies` of the model in it, `checkpoint`, and
/// Cut<Net> with three constexpr values: `partition` (node → part), `map` (part → device) and
/// `table` (rows of actions, messages included).

// ---- tandem/strategy/lower_table.hpp

/// @file
/// lower(): puts the messages between the passes of an action table.
///
/// RECV_F stands directly before the forward that needs it and SEND_F directly behind the one that
/// made it; RECV_B and SEND_B stand likewise around B (or I). An action of a stage sends, or
/// receives, all that the stage has for other devices, in ascending order of edges.

// ---- tandem/strategy/stage_edges.hpp

/// @file
/// StageEdges: the edges of each stage as lists, those that cross to another device apart.

namespace tandem::detail {

/// Each list is in ascending order of edges and ends with -1: the first of a stage, then next of
/// each edge. Messages of one action are sent and received in this order.
class StageEdges {
 public:
  constexpr explicit StageEdges(StageMapView const& map)
      : first_{4 * map.stages, -1},
        next_{2 * map.edges},
        crossing_in{first_.data()},
        crossing_out{crossing_in + map.stages},
        local_in{crossing_out + map.stages},
        local_out{local_in + map.stages},
        next_in{next_.data()},
        next_out{next_in + map.edges} {
    for (int e = map.edges - 1; e >= 0; --e) {
      StageEdge const edge = map.edge[e];
      int* const in = map.crosses(e) ? crossing_in : local_in;
      int* const out = map.crosses(e) ? crossing_out : local_out;
      next_in[e] = in[edge.to];
      in[edge.to] = e;
      next_out[e] = out[edge.from];
      out[edge.from] = e;
    }
  }

 private:
  Scratch<int> first_;
  Scratch<int> next_;

 public:
  int* const crossing_in;
  int* const crossing_out;
  int* const local_in;
  int* const local_out;
  int* const next_in;
  int* const next_out;
};

}  // namespace tandem::detail

namespace tandem {

namespace detail {

/// Whether some link carries the messages of several edges, so that their order matters.
constexpr bool shares_links(StageMapView const& map) {
  Scratch<int> edges_of_link{map.links};
  for (int e = 0; e < map.edges; ++e) {
    if (map.crosses(e) && ++edges_of_link[map.edge[e].link] > 1) {
      return true;
    }
  }
  return false;
}

constexpr bool is_backward_pass(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::input_gradient;
}

/// Lowers one table. Where links are shared, the messages of each link and direction are listed in
/// the order in which they are sent; a receive that is not the next is put behind the receives of
/// those before it.
template <class Table, class Sink>
class TableLowering {
 public:
  constexpr TableLowering(Table const& table, StageMapView const& map, Sink& sink)
      : table_{table},
        map_{map},
        sink_{sink},
        edges_{map},
        shared_{shares_links(map)},
        microbatches_{shared_ ? count_microbatches() : 0},
        channels_{shared_ ? 2 * map.links : 0},
        received_{2 * map.stages * microbatches_},
        taken_{2 * map.edges},
        message_{2 * map.edges * microbatches_},
        next_{channels_},
        end_{channels_},
        limit_{channels_} {
    for (int e = 0; shared_ && e < map.edges; ++e) {
      for (int way = 0; map.crosses(e) && way < 2; ++way) {
        limit_[2 * map.edge[e].link + way] += microbatches_;
      }
    }
    for (int c = 0, begin = 0; c < channels_; ++c) {
      next_[c] = end_[c] = begin;
      begin = limit_[c] += begin;
    }
  }

  constexpr void run() {
    for (int d = 0; shared_ && d < devices_of(table_); ++d) {
      list_messages(d);
    }
    for (int d = 0; d < devices_of(table_); ++d) {
      for (Action const& action : row_of(table_, d)) {
        lower(d, action);
      }
    }
  }

 private:
  struct Message {
    int edge;
    int microbatch;
  };

  constexpr bool known(Action const& action) const {
    return action.stage >= 0 && action.stage < map_.stages && action.index >= 0;
  }

  constexpr int count_microbatches() const {
    int count = 0;
    for (int d = 0; d < devices_of(table_); ++d) {
      for (Action const& action : row_of(table_, d)) {
        count = std::max(count, known(action) ? action.index + 1 : 0);
      }
    }
    return count;
  }

  constexpr void list_messages(int device) {
    for (Action const& action : row_of(table_, device)) {
      bool const forward = action.kind == ActionKind::forward;
      if (!known(action) || (!forward && !is_backward_pass(action.kind))) {
        continue;
      }
      int e = forward ? edges_.crossing_out[action.stage] : edges_.crossing_in[action.stage];
      for (; e >= 0; e = forward ? edges_.next_out[e] : edges_.next_in[e]) {
        int const channel = 2 * map_.edge[e].link + (forward ? 0 : 1);
        if (end_[channel] < limit_[channel]) {  // else some pass stands there twice
          message_[end_[channel]++] = {e, action.index};
        }
      }
    }
  }

  constexpr void lower(int device, Action const& action) {
    bool const forward = action.kind == ActionKind::forward;
    if (!known(action) || (!forward && !is_backward_pass(action.kind))) {
      sink_(device, action);
      return;
    }
    receive(device, forward, action.stage, action.index);
    sink_(device, action);
    if ((forward ? edges_.crossing_out : edges_.crossing_in)[action.stage] >= 0) {
      sink_(device, {.kind = forward ? ActionKind::send_forward : ActionKind::send_backward,
                     .stage = action.stage,
                     .index = action.index});
    }
  }

  constexpr void receive(int device, bool forward, int stage, int microbatch) {
    int const first = (forward ? edges_.crossing_in : edges_.crossing_out)[stage];
    if (first < 0) {
      return;
    }
    if (shared_) {
      int& received = received_[(2 * stage + (forward ? 0 : 1)) * microbatches_ + microbatch];
      if (received != 0) {
        return;
      }
      received = 1;
      for (int e = first; e >= 0; e = forward ? edges_.next_in[e] : edges_.next_out[e]) {
        receive_up_to(device, forward, e, microbatch);
      }
    }
    sink_(device, {.kind = forward ? ActionKind::receive_forward : ActionKind::receive_backward,
                   .stage = static_cast<std::int16_t>(stage),
                   .index = microbatch});
  }

  constexpr void receive_up_to(int device, bool forward, int edge, int microbatch) {
    int const channel = 2 * map_.edge[edge].link + (forward ? 0 : 1);
    while (taken_[2 * edge + (forward ? 0 : 1)] <= microbatch - first_of(edge) &&
           next_[channel] < end_[channel]) {
      Message const next = message_[next_[channel]++];
      ++taken_[2 * next.edge + (forward ? 0 : 1)];
      StageEdge const of = map_.edge[next.edge];
      receive(device, forward, forward ? of.to : of.from, next.microbatch);
    }
  }

  // A copy's microbatches begin at a multiple of the replica's share.
  constexpr int first_of(int edge) const {
    return map_.first_microbatch(map_.edge[edge].from, microbatches_);
  }

  Table const& table_;
  StageMapView map_;
  Sink& sink_;
  StageEdges edges_;
  bool shared_;
  int microbatches_;
  int channels_;  // links and directions
  Scratch<int> received_;
  Scratch<int> taken_;        // messages of each edge and direction
  Scratch<Message> message_;  // of one channel after another
  Scratch<int> next_;         // of each channel, the next to receive
  Scratch<int> end_;
  Scratch<int> limit_;
};

template <class Table, class Sink>
constexpr void lower_table(Table const& table, StageMapView const& map, Sink& sink) {
  expects(is_sound(map) && map.devices == devices_of(table),
          "lower(table, map): give a map with as many devices as the table has rows, in which "
          "every edge leads from a lower stage to a higher one of the same copy");
  TableLowering<Table, Sink>{table, map, sink}.run();
}

}  // namespace detail

/// The rows with messages; passes keep their order.
template <int Devices, int Length>
constexpr auto lower(ActionTable<Devices, Length> const& table, StageMapView const& map) {
  ActionTable<Devices, 3 * Length> lowered;  // a receive, a pass and a send each
  auto sink = [&lowered](int device, Action action) { lowered.add(device, action); };
  detail::lower_table(table, map, sink);
  return lowered;
}

/// @throws ContractError  the map is not one, or not of this table
template <class = void>  // compiled where it is called, not by every include
ActionRows lower(ActionRows const& table, StageMapView const& map) {
  ActionRows lowered(table.size());
  auto sink = [&lowered](int device, Action action) {
    lowered[static_cast<std::size_t>(device)].push_back(action);
  };
  detail::lower_table(table, map, sink);
  return lowered;
}

}  // namespace tandem

// ---- tandem/strategy/partition.hpp

/// @file
/// Partition: which part of the model each node of a network belongs to.

namespace tandem {

/// Parts are numbered so that tensors go from lower ones to higher ones only. The network's input
/// is in part 0, but every part that reads it is fed with it.
template <int Nodes>
struct Partition {
  int parts = 1;
  std::int16_t part[Nodes] = {};
};

/// Consecutive top-level parts of the network: the first @p counts[0] of them, the next
/// @p counts[1], …
template <GraphSize Size>
constexpr Partition<Size.nodes> cut_tops(Graph<Size> const& graph, int const* counts, int parts) {
  Partition<Size.nodes> partition{.parts = parts};
  for (int n = 0; n < Size.nodes; ++n) {
    int part = 0;
    for (int end = counts[0]; part < parts - 1 && graph.node[n].top >= end; end += counts[part]) {
      ++part;
    }
    partition.part[n] = static_cast<std::int16_t>(part);
  }
  return partition;
}

/// A device for each node of a network.
template <int Nodes>
struct NodePlaces {
  std::int16_t device[Nodes] = {};
};

/// A placed network's parts: runs of nodes on one device, as long as they can be with transfers to
/// them at their beginning and from them at their end, so that a tensor leaves as soon as it is
/// made and comes as late as it can.
template <GraphSize Size>
struct PlacedParts {
  Partition<Size.nodes> partition{.parts = 0};
  std::int16_t device[Size.nodes] = {};  ///< of each part
  StageEdge edge[Size.edges] = {};       ///< one a pair of parts, ascending
  int edges = 0;
  int links = 0;  ///< one an edge between devices
};

namespace detail {

/// Cuts a placed network.
template <GraphSize Size>
struct PlacementCutter {
  Graph<Size> const& graph;
  NodePlaces<Size.nodes> const& places;
  PlacedParts<Size> parts{};
  int reader[Size.edges > 0 ? Size.edges : 1] = {};   // of an edge
  int arrival[Size.edges > 0 ? Size.edges : 1] = {};  // of an edge between devices: the first that
                                                      // brings the tensor to that device
  bool leaves[Size.nodes] = {};  // the node's output is wanted on another device

  constexpr PlacedParts<Size> cut() {
    find_arrivals();
    int open[Size.nodes];  // of a device: its part at work, or -1
    for (int& part : open) {
      part = -1;
    }
    for (int n = 0; n < Size.nodes; ++n) {
      int const first = graph.node[n].first_edge;
      int const end = first + graph.node[n].edges;
      bool receives = false;
      for (int e = first; e < end; ++e) {
        receives = receives || (crosses(e) && arrival[e] == e);
      }
      int& part = open[device(n)];
      if (part < 0 || receives) {
        part = parts.partition.parts++;
        parts.device[part] = static_cast<std::int16_t>(device(n));
      }
      parts.partition.part[n] = static_cast<std::int16_t>(part);
      for (int e = first; e < end; ++e) {
        connect(e);
      }
      part = leaves[n] ? -1 : part;
    }
    number_links();
    return parts;
  }

 private:
  [[nodiscard]] constexpr int device(int node) const { return places.device[node]; }
  [[nodiscard]] constexpr int part(int node) const { return parts.partition.part[node]; }
  [[nodiscard]] constexpr bool is_input(int edge) const {
    return graph.node[graph.source[edge]].kind == NodeKind::input;
  }
  [[nodiscard]] constexpr bool crosses(int edge) const {
    return !is_input(edge) && device(graph.source[edge]) != device(reader[edge]);
  }

  constexpr void find_arrivals() {
    for (int n = 0; n < Size.nodes; ++n) {
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        reader[e] = n;
        arrival[e] = e;
        leaves[graph.source[e]] = leaves[graph.source[e]] || crosses(e);
        for (int before = 0; crosses(e) && before < e && arrival[e] == e; ++before) {
          if (graph.source[before] == graph.source[e] && device(reader[before]) == device(n)) {
            arrival[e] = before;
          }
        }
      }
    }
  }

  // A tensor that has come before is read where it came to.
  constexpr void connect(int edge) {
    int const from =
        part(crosses(edge) && arrival[edge] != edge ? reader[arrival[edge]] : graph.source[edge]);
    int const to = part(reader[edge]);
    bool known = from == to || is_input(edge);
    for (int i = 0; !known && i < parts.edges; ++i) {
      known = parts.edge[i].from == from && parts.edge[i].to == to;
    }
    if (!known) {
      int at = parts.edges++;
      for (; at > 0 && parts.edge[at - 1].to == to && parts.edge[at - 1].from > from; --at) {
        parts.edge[at] = parts.edge[at - 1];
      }
      parts.edge[at] = {static_cast<std::int16_t>(from), static_cast<std::int16_t>(to), 0};
    }
  }

  // One an edge, so that what one stage sends waits for nothing that another sends.
  constexpr void number_links() {
    for (int i = 0; i < parts.edges; ++i) {
      StageEdge& own = parts.edge[i];
      bool const between = parts.device[own.from] != parts.device[own.to];
      own.link = between ? static_cast<std::int16_t>(parts.links++) : std::int16_t{-1};
    }
  }
};

}  // namespace detail

/// Cuts a network whose nodes have been placed on devices.
template <GraphSize Size>
constexpr PlacedParts<Size> cut_placed(Graph<Size> const& graph,
                                       NodePlaces<Size.nodes> const& places) {
  return detail::PlacementCutter<Size>{graph, places}.cut();
}

}  // namespace tandem

namespace tandem {

/// Rows of a model without a pipeline: each microbatch goes forward through all stages and back
/// before the next begins.
/// @tparam Length  the most passes of a device, 2 * microbatches * its stages
template <int Devices, int Length>
constexpr auto sequential_table(StageMapView const& map, int microbatches) {
  ActionTable<Devices, Length> table;
  auto const add = [&](ActionKind kind, int stage, int m) {
    table.add(map.device[stage],
              {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = m});
  };
  for (int m = 0; m < microbatches; ++m) {
    for (int s = 0; s < map.stages; ++s) {
      add(ActionKind::forward, s, m);
    }
    for (int s = map.stages - 1; s >= 0; --s) {
      add(ActionKind::backward, s, m);
    }
  }
  return table;
}

/// A model that one device has whole.
template <int Microbatches>
struct OneDeviceModel {
  static constexpr int devices = 1;
  static constexpr int copies = 1;
  static constexpr CheckpointRule checkpoint{};

  template <class Net>
  struct Cut {
    static constexpr Partition<graph<Net>.nodes> partition{};
    static constexpr auto map = chain_map<1>();
    static constexpr auto table = sequential_table<1, 2 * Microbatches>(map, Microbatches);
  };
};

}  // namespace tandem

namespace tandem {

/// A way to train: `ranks` devices, `devices` of them for each replica of the model, `copies` of
/// the model in a replica; how the batch is spread over the replicas, what is computed again, and
/// how a network is cut (see model_shape.hpp).
template <class S>
concept Strategy = requires {
  { S::ranks } -> std::convertible_to<int>;
  { S::devices } -> std::convertible_to<int>;
  { S::copies } -> std::convertible_to<int>;
  { S::batching } -> std::convertible_to<Batching>;
  { S::checkpoint } -> std::convertible_to<CheckpointRule>;
  typename S::template Cut<void>;
};

/// Everything on one device. Options: Microbatches, Weighted (as many weights as shards, for the
/// same microbatches as a weighted DataParallel), Reproducible, BucketBytes.
///
///   rank 0 | parameters | F0 B0 F1 B1 … | update
///
/// The primary template is the error path.
template <class... Options>
struct SingleDevice : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static_assert((BatchingOption<Options> && ...),
                "SingleDevice<Options...>: options are Microbatches, Weighted, Reproducible and "
                "BucketBytes");
};

template <class... Options>
  requires(BatchingOption<Options>&&...)
struct SingleDevice<Options...>
    : OneDeviceModel<detail::gather_batching<1, Options...>().microbatches> {
  static constexpr int ranks = 1;
  static constexpr Batching batching = detail::gather_batching<1, Options...>();
  static_assert(
      batching.shards == 0 ||
          batching.microbatches % (batching.shards + (batching.shards == 0)) == 0,
      "SingleDevice<Microbatches<n>, Weighted<...>>: n must be a multiple of the number of "
      "weights");
  static_assert(detail::leaves_fit(batching),
                "Reproducible<Leaves>: the leaves must be a power of two that divides the "
                "microbatches; write Reproducible<1> for one leaf, or other Microbatches");
};

/// A replica on each of N devices; each trains on its shard of the batch, and gradients are summed.
///
///   rank 0 | all parameters | microbatches 0 … k-1     | all-reduce by buckets, update
///   rank 1 | all parameters | microbatches k … 2k-1    | all-reduce by buckets, update
///
/// The global batch is split, never multiplied. Comm: one all-reduce a step of all gradients and
/// statistics, in buckets in the order in which backward makes them, while it goes on.
/// Options: Microbatches<k>, Weighted<w0, …> (N weights; largest remainder first, then lower rank),
/// Reproducible, Wire, BucketBytes. The primary template is the error path.
template <int N, class... Options>
struct DataParallel : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static_assert(N >= 1 && N <= 4096, "DataParallel<N>: N must be from 1 to 4096");
  static_assert((BatchingOption<Options> && ...),
                "DataParallel<N, Options...>: options are Microbatches, Weighted, Reproducible, "
                "Wire and BucketBytes");
};

template <int N, class... Options>
  requires(N >= 1 && N <= 4096 && (BatchingOption<Options> && ...))
struct DataParallel<N, Options...>
    : OneDeviceModel<detail::gather_batching<N, Options...>().microbatches> {
  static constexpr int ranks = N;
  static constexpr Batching batching = detail::gather_batching<N, Options...>();
  static_assert(batching.shards == 0 || batching.shards == N,
                "DataParallel<N, Weighted<...>>: give N weights, one a device");
  static_assert(
      detail::leaves_fit(batching),
      "Reproducible<Leaves>: the leaves of one replica (Leaves / N) must be a power of two "
      "that divides its microbatches; write Reproducible<N> for one leaf a replica");
  static_assert(
      !batching.reproducible || batching.wire == WireFormat::exact,
      "DataParallel<N, Wire<E>, Reproducible<>>: rounding on the way changes the bits with "
      "the number of devices; leave one of the two out");
};

}  // namespace tandem

// ---- tandem/strategy/fits.hpp

/// @file
/// fits: whether a training step fits into the memory of each device, for a static_assert.
///
///   static_assert(fits<Net, DataParallel<2>, AdamW, Fp32>(256, std::int64_t{16} << 30));

// ---- tandem/strategy/device_memory.hpp

/// @file
/// DeviceMemory: how much memory the tensors of a device take at most, known to the compiler.
///
/// Logical sizes: each value and each gradient in memory of its own, though an engine lets many
/// share. Left out is what only a backend knows: scratch memory, packed weights, batches on their
/// way, and what layers of the user's own save; the start-up plan (MemoryReport) has all of it.

namespace tandem {

/// Bytes; upper bounds.
struct DeviceMemory {
  std::int64_t parameters = 0;
  std::int64_t weights = 0;    ///< their copy in the type of products, where that is another
  std::int64_t gradients = 0;  ///< 1 + log2(leaves of a copy of the model) buffers
  std::int64_t optimizer_state = 0;
  std::int64_t kept = 0;                  ///< activations of all live microbatches
  std::int64_t recomputed = 0;            ///< of one run of layers: in its first pass, and again
  std::int64_t activation_gradients = 0;  ///< of one backward pass, or of those not yet retired

  [[nodiscard]] constexpr std::int64_t total() const {
    return parameters + weights + gradients + optimizer_state + kept + recomputed +
           activation_gradients;
  }
};

namespace detail {

/// Sizes of the tensors of a device's graph.
template <GraphSize Size>
struct LogicalSizes {
  Graph<Size> const& graph;
  std::int64_t batch;
  std::int64_t element_bytes;
  int uses[Size.nodes] = {};  // edges that carry a node's output

  constexpr LogicalSizes(Graph<Size> const& g, std::int64_t b, std::int64_t bytes)
      : graph{g}, batch{b}, element_bytes{bytes} {
    for (int e = 0; e < Size.edges; ++e) {
      ++uses[graph.source[e]];
    }
  }

  static constexpr std::int64_t line(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

  [[nodiscard]] constexpr std::int64_t output(int n) const {
    return line(graph.node[n].out.elements() * batch * element_bytes);
  }
  /// Of a node: its output, and what its op saves: the winners of a pool, the statistics of a batch
  /// norm (a few numbers a channel).
  [[nodiscard]] constexpr std::int64_t value(int n) const {
    Node const& node = graph.node[n];
    bool const stored = node.kind == NodeKind::receive || (!node.is_end() && !node.view);
    std::int64_t const winners =
        node.layer == LayerKind::pool ? line(node.out.elements() * batch * 4) : 0;
    std::int64_t const statistics =
        node.layer == LayerKind::batch_norm ? line(64 * (node.in[0] + 2)) : 0;
    return (stored ? output(n) : 0) + winners + statistics;
  }
  /// One from each reader, and their sum; what is sent back has memory of its own.
  [[nodiscard]] constexpr std::int64_t gradient(int n) const {
    Node const& node = graph.node[n];
    if (!node.needs_gradient || node.kind == NodeKind::send) {
      return 0;
    }
    int const most = node.kind == NodeKind::receive ? 2 * uses[n] : uses[n] + 1;
    return output(n) * (uses[n] > 1 ? most : 1);
  }
};

/// Whether a value is kept under a CheckpointRule: it is read beyond its run of nodes.
template <GraphSize Size>
struct KeptNodes {
  bool of[Size.nodes] = {};

  constexpr KeptNodes(Graph<Size> const& graph, int const* segment) {
    for (int n = 0; n < Size.nodes; ++n) {
      bool const received = graph.node[n].kind == NodeKind::receive;
      of[n] = of[n] || segment[n] < 0 || received || n == graph.result;
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        int const source = root_of(graph, graph.source[e]);
        bool const leaves = graph.node[n].kind == NodeKind::send;
        of[source] = of[source] || leaves || segment[source] != segment[n];
      }
    }
  }
};

/// Of device @p Device::device.
template <class Device, class Precision>
constexpr DeviceMemory device_memory(int batch, int states) {
  using Whole = typename Device::Program;
  using Master = typename Precision::Master;
  using Scalar = typename Precision::Scalar;
  constexpr auto const& graph = Device::graph;
  constexpr Batching const& batching = Whole::batching;
  constexpr int copies = Whole::map.copies;
  LogicalSizes const sizes{graph, largest_microbatch(batch, batching), sizeof(Scalar)};
  KeptNodes const kept{graph, Device::segments.of};

  int buffers = 1;
  for (int leaves = batching.leaves_of_copy(copies); leaves > 1; leaves /= 2) {
    ++buffers;
  }
  std::int64_t const trained = Device::layout.trained * std::int64_t{sizeof(Master)};
  DeviceMemory memory{.parameters = Device::layout.elements * std::int64_t{sizeof(Master)},
                      .weights = std::is_same_v<Master, Scalar>
                                     ? 0
                                     : Device::layout.elements * std::int64_t{sizeof(Scalar)},
                      .gradients = trained * buffers,
                      .optimizer_state = trained * states};
  int deferred = 1;
  std::int64_t segment = 0;
  for (LocalStage const& stage : Device::stages.stage) {
    int const live = live_microbatches(Whole::table, Whole::map, stage.id);
    deferred = std::max(deferred, deferred_microbatches(Whole::table, Whole::map, stage.id));
    for (int n = stage.first; n < stage.last; ++n) {
      bool const begins = n == stage.first || Device::segments.of[n] != Device::segments.of[n - 1];
      segment = begins ? 0 : segment;
      if (kept.of[n]) {
        memory.kept += live * sizes.value(n);
      }
      if (Device::segments.of[n] >= 0) {
        segment += sizes.value(n);
        memory.recomputed = std::max(memory.recomputed, 2 * segment);
      }
      memory.activation_gradients += sizes.gradient(n);
    }
  }
  memory.activation_gradients *= deferred;
  return memory;
}

}  // namespace detail

}  // namespace tandem

// ---- tandem/strategy/program.hpp

/// @file
/// Program: a network, a strategy and an element size lowered to everything that an engine runs.
///
/// Each step is a constexpr variable of its own, and none is a template argument: three variables
/// get three budgets of the compiler, and symbols stay short.

// ---- tandem/strategy/device_program.hpp

/// @file
/// DeviceProgram: what one device of a model replica runs, known to the compiler.

// ---- tandem/strategy/device_graph.hpp

/// @file
/// device_graph: the part of a network that one device of a model replica computes, as a graph.
///
/// A tensor that comes from a stage elsewhere is a node of kind `receive` before its first reader;
/// one that leaves ends in a node of kind `send` for each device that wants it. The gradient of a
/// `receive` is what goes back, that of a `send` is what comes back.

namespace tandem {

namespace detail {

/// Walks over the nodes of a device; without a graph to fill it counts. Each node's readers are
/// listed once, so that the walk is about linear in the edges.
template <GraphSize Whole, class Map>
struct DeviceCutter {
  Graph<Whole> const& network;
  Partition<Whole.nodes> const& partition;
  Map const& map;
  int device;
  bool apart;  ///< gradients of several readers elsewhere are sent one by one, not their sum
  GraphSize size{};
  std::int16_t local[Whole.nodes] = {};    // of the copy at work: index here plus one, or 0
  int reader[Whole.edges + 1] = {};        // of an edge
  int first_reading[Whole.nodes] = {};     // of a node: the first edge that carries its output …
  int next_reading[Whole.edges + 1] = {};  // … and of an edge: the next one, or -1

  template <class G>
  constexpr void cut(G* graph) {
    list_readings();
    for (int copy = 0; copy < map.copies; ++copy) {
      for (std::int16_t& index : local) {
        index = 0;
      }
      for (int n = 0; n < Whole.nodes; ++n) {
        if (device_of(copy, n) == device) {
          add_inputs(graph, copy, n);
          add_node(graph, copy, n);
          add_sends(graph, copy, n);
        }
      }
    }
  }

 private:
  [[nodiscard]] constexpr int stage_of(int copy, int n) const {
    return copy * map.parts() + partition.part[n];
  }
  [[nodiscard]] constexpr int device_of(int copy, int n) const {
    return map.device[stage_of(copy, n)];
  }
  [[nodiscard]] static constexpr bool is_input(Node const& node) {
    return node.kind == NodeKind::input;
  }

  constexpr void list_readings() {
    for (int& first : first_reading) {
      first = -1;
    }
    for (int n = Whole.nodes - 1; n >= 0; --n) {
      for (int e = network.node[n].first_edge + network.node[n].edges - 1;
           e >= network.node[n].first_edge; --e) {
        reader[e] = n;
        next_reading[e] = first_reading[network.source[e]];
        first_reading[network.source[e]] = e;
      }
    }
  }

  template <class G>
  constexpr int add(G* graph, Node node, int stage, int edges) {
    node.stage = stage;
    node.first_edge = size.edges;
    node.edges = edges;
    if (graph != nullptr) {
      graph->node[size.nodes] = node;
    }
    return size.nodes++;
  }
  template <class G>
  constexpr void add_edge(G* graph, int source, int origin) {
    if (graph != nullptr) {
      graph->source[size.edges] = source;
      graph->edge_origin[size.edges] = origin;
    }
    ++size.edges;
  }

  // What node n reads and is not here yet, in ascending order: as it is sent.
  template <class G>
  constexpr void add_inputs(G* graph, int copy, int n) {
    Node const& node = network.node[n];
    for (int left = node.edges; left > 0; --left) {
      int source = Whole.nodes;
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        bool const here = local[network.source[e]] != 0;
        source = !here && network.source[e] < source ? network.source[e] : source;
      }
      if (source == Whole.nodes) {
        return;
      }
      Node end = network.node[source];
      if (!is_input(end)) {
        end = transfer(NodeKind::receive, end, stage_of(copy, source));
      }
      local[source] = static_cast<std::int16_t>(1 + add(graph, end, stage_of(copy, n), 0));
    }
  }

  template <class G>
  constexpr void add_node(G* graph, int copy, int n) {
    Node node = network.node[n];
    node.first_parameter = size.parameters;
    for (int p = 0; p < node.parameters; ++p, ++size.parameters) {
      if (graph != nullptr) {
        graph->parameter[size.parameters] = network.parameter[network.node[n].first_parameter + p];
        graph->parameter[size.parameters].node = size.nodes;
      }
    }
    local[n] = static_cast<std::int16_t>(1 + add(graph, node, stage_of(copy, n), node.edges));
    for (int e = network.node[n].first_edge, end = e + node.edges; e < end; ++e) {
      add_edge(graph, local[network.source[e]] - 1, e);
    }
    if (graph != nullptr && n == Whole.nodes - 1) {
      graph->result = local[n] - 1;
    }
  }

  // To each device that reads the output of n, in ascending order.
  template <class G>
  constexpr void add_sends(G* graph, int copy, int n) {
    for (int last = -1; !is_input(network.node[n]);) {
      int to = map.devices;
      for (int e = first_reading[n]; e >= 0; e = next_reading[e]) {
        int const there = device_of(copy, reader[e]);
        to = there != device && there > last && there < to ? there : to;
      }
      if (to == map.devices) {
        return;
      }
      add_send(graph, copy, n, to);
      last = to;
    }
  }
  template <class G>
  constexpr void add_send(G* graph, int copy, int n, int to) {
    int edges = 0;
    int first = -1;
    for (int e = first_reading[n]; e >= 0; e = next_reading[e]) {
      if (device_of(copy, reader[e]) == to) {
        first = edges++ == 0 ? e : first;
      }
    }
    edges = apart ? edges : 1;
    add(graph, transfer(NodeKind::send, network.node[n], stage_of(copy, reader[first])),
        stage_of(copy, n), edges);
    for (int e = first; edges > 0; e = next_reading[e]) {
      if (device_of(copy, reader[e]) == to) {
        add_edge(graph, local[n] - 1, e);
        --edges;
      }
    }
  }

  static constexpr Node transfer(NodeKind kind, Node const& of, int peer) {
    Node end{.kind = kind, .needs_gradient = of.needs_gradient, .top = of.top};
    end.origin = of.origin;
    end.peer = peer;
    end.in = end.out = of.out;
    end.name = kind == NodeKind::send ? "Send" : "Receive";
    end.path = of.path;
    return end;
  }
};

}  // namespace detail

/// How large the graph of @p device is. See device_graph().
template <GraphSize Whole, class Map>
constexpr GraphSize device_graph_size(Graph<Whole> const& network,
                                      Partition<Whole.nodes> const& partition, Map const& map,
                                      int device, bool apart) {
  detail::DeviceCutter<Whole, Map> cutter{network, partition, map, device, apart};
  cutter.cut(static_cast<Graph<Whole>*>(nullptr));
  return cutter.size;
}

/// The graph of one device: its stages' nodes, copy by copy, each in the network's order.
/// @param apart  the gradients that several readers on one device give a tensor from another are
///               sent one by one, so that they are added in the network's order
template <GraphSize Own, GraphSize Whole, class Map>
constexpr Graph<Own> device_graph(Graph<Whole> const& network,
                                  Partition<Whole.nodes> const& partition, Map const& map,
                                  int device, bool apart) {
  Graph<Own> graph;
  graph.tops = network.tops;
  graph.result = -1;
  detail::DeviceCutter<Whole, Map> cutter{network, partition, map, device, apart};
  cutter.cut(&graph);
  return graph;
}

}  // namespace tandem

namespace tandem {

namespace detail {

/// Reproducible bits must not depend on which siblings a device has, so it computes them one by
/// one.
constexpr Rewrites allowed(Rewrites wanted, bool reproducible) {
  wanted.merge_pointwise = wanted.merge_pointwise && !reproducible;
  return wanted;
}

constexpr bool rewrites_anything(Rewrites r) {
  return r.fuse_relu || r.channels_last || r.merge_pointwise || r.place_concat;
}

/// A device's part of the network before rewrites; of one that has all of it, the network itself.
template <class Program, int D>
struct CutGraph {
  static constexpr GraphSize size = device_graph_size(
      Program::network, Program::partition, Program::map, D, Program::batching.reproducible);
  static constexpr auto graph = device_graph<size>(Program::network, Program::partition,
                                                   Program::map, D, Program::batching.reproducible);
};
template <class Program, int D>
  requires(Program::map.stages == 1)
struct CutGraph<Program, D> {
  static constexpr auto const& graph = Program::network;
};

template <class Program, int D, bool Rewrites>
struct RewrittenGraph : CutGraph<Program, D> {};
template <class Program, int D>
struct RewrittenGraph<Program, D, true> {
  static constexpr auto graph = rewrite(CutGraph<Program, D>::graph,
                                        allowed(Program::rewrites, Program::batching.reproducible));
};

}  // namespace detail

/// What device @p D of each replica does. Each step is a constexpr variable of its own, and none is
/// a template argument.
template <class ProgramType, int D>
struct DeviceProgram {
  using Program = ProgramType;
  using Network = typename Program::Network;
  static constexpr int device = D;
  static constexpr Batching batching = Program::batching;
  static constexpr auto const& graph =
      detail::RewrittenGraph<Program, D, detail::rewrites_anything(Program::rewrites)>::graph;
  static constexpr auto stages =
      detail::find_stages<detail::count_stages(graph)>(graph, Program::map.parts());
  static constexpr auto layout = lay_out_parameters(
      graph, Program::element_bytes, batching.first_bucket_bytes, batching.bucket_bytes);
  /// Gradients are summed over the replicas of each of the model's copies.
  static constexpr int gradient_replicas = batching.replicas * Program::map.copies;
  static constexpr bool has_result = graph.result >= 0;
  static constexpr bool has_input = [] {
    bool has = false;
    for (int n = 0; n < graph.nodes; ++n) {
      has = has || graph.node[n].kind == NodeKind::input;
    }
    return has;
  }();
  /// Of a node: which run of its stage's nodes is computed again together before their backward
  /// pass.
  static constexpr auto segments = checkpoint_segments(graph, Program::checkpoint);
};

}  // namespace tandem

// ---- tandem/strategy/hybrid.hpp

/// @file
/// Hybrid: a strategy within a strategy, on the product of their devices.

// ---- tandem/strategy/hybrid_checks.hpp

/// @file
/// The sentences for strategies that cannot stand within each other.

// ---- tandem/strategy/model_checks.hpp

/// @file
/// The sentences for arguments of ModelParallel that do not go together, and for leaves that cannot
/// be kept; pipeline_checks.hpp has those of Pipeline.

// ---- tandem/strategy/model_options.hpp

/// @file
/// What stands between the brackets of ModelParallel and Pipeline: how the model is cut, and
/// options.

// ---- tandem/strategy/balance.hpp

/// @file
/// balance: a cut into consecutive top-level parts of the network that cost about the same.

namespace tandem {

/// What an element of an activation costs besides products, in multiply-accumulates: in a training
/// step it is written and read about six times, 24 bytes in fp32, and devices do about five
/// multiply-accumulates in the time of a byte (a core with AVX2: 48 G/s at 8 GB/s; H200 in fp32:
/// 33 T/s at 4.8 TB/s).
inline constexpr std::int64_t macs_per_activation = 120;

/// Static cost of a node for one sample's training step: backward multiplies twice as much as
/// forward.
constexpr std::int64_t static_cost(Node const& node) {
  bool const stored = !node.is_end() && !node.view;
  return 3 * node.macs + (stored ? macs_per_activation * node.out.elements() : 0);
}

namespace detail {

/// Counts of consecutive items, one a part, such that no cut has a lighter heaviest part; among
/// those, items stand as late as they can, since the first stages of a pipeline hold most
/// activations. Halves the interval of possible weights: items × log2(sum of weights) steps.
/// @param counts  of @p parts
/// @pre 1 <= parts <= items, weights are not negative
constexpr void balance(std::int64_t const* weight, int items, int parts, int* counts) {
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (int i = 0; i < items; ++i) {
    least = weight[i] > least ? weight[i] : least;
    most += weight[i];
  }
  auto const parts_of = [&](std::int64_t limit) {
    int needed = 1;
    std::int64_t sum = 0;
    for (int i = 0; i < items; ++i) {
      needed += sum + weight[i] > limit ? 1 : 0;
      sum = sum + weight[i] > limit ? weight[i] : sum + weight[i];
    }
    return needed;
  };
  while (least < most) {
    std::int64_t const middle = least + (most - least) / 2;
    if (parts_of(middle) <= parts) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  int left = items;
  for (int part = parts - 1; part >= 0; --part) {
    std::int64_t sum = 0;
    counts[part] = 0;
    while (left > part && (counts[part] == 0 || sum + weight[left - 1] <= most)) {
      sum += weight[--left];
      ++counts[part];
    }
  }
}

}  // namespace detail

/// How many top-level parts each of @p Parts parts has.
template <int Parts>
struct TopCounts {
  int of[Parts] = {};
};

/// The cut whose costliest part is cheapest. @pre Parts <= graph.tops
template <int Parts, GraphSize Size>
constexpr TopCounts<Parts> balanced_tops(Graph<Size> const& graph) {
  detail::Scratch<std::int64_t> cost{graph.tops};
  for (int n = 0; n < Size.nodes; ++n) {
    cost[graph.node[n].top] += static_cost(graph.node[n]);
  }
  TopCounts<Parts> counts;
  detail::balance(cost.data(), graph.tops, Parts, counts.of);
  return counts;
}

}  // namespace tandem

namespace tandem {

namespace detail {

template <int Count>
struct SplitIsSound {
  static constexpr bool value = true;
  static_assert(Count >= 1, "Split<Count>: give a positive number of top-level layers");
};
template <int Count>
struct EveryIsSound {
  static constexpr bool value = true;
  static_assert(Count >= 1, "Every<Count>: give a positive number of top-level layers");
};

}  // namespace detail

/// The next Count top-level layers of the network.
template <int Count>
struct Split {
  static constexpr int tops = Count;
  static_assert(detail::SplitIsSound<Count>::value);
};

namespace detail {

template <int Parts>
struct AutoIsSound {
  static constexpr bool value = true;
  static_assert(Parts >= 1, "Auto<Parts>: give a positive number of parts");
};

// What a network must be for the parts: both numbers are printed.
template <class Net, int Parts, int TopLevelLayers>
struct AutoFits {
  static constexpr bool value = true;
  static_assert(Parts <= TopLevelLayers,
                "Auto<Parts>: the network has fewer top-level layers than Parts; give fewer parts, "
                "or write nested Sequentials out (AutoFits names both numbers)");
};

}  // namespace detail

/// The network's top-level layers in Parts runs, cut by the compiler so that the costliest run is
/// as cheap as it can be. Costs are static: see balance.hpp.
template <int Parts>
struct Auto {
  static constexpr int parts = Parts >= 1 ? Parts : 1;

  template <class Net>
  static constexpr auto partition() {
    static_assert(detail::AutoFits<Net, parts, graph<Net>.tops>::value);
    if constexpr (parts <= graph<Net>.tops) {
      return cut_tops(graph<Net>, balanced_tops<parts>(graph<Net>).of, parts);
    } else {
      return Partition<graph<Net>.nodes>{.parts = parts};
    }
  }
  static_assert(detail::AutoIsSound<Parts>::value);
};

/// Runs of @p Count top-level layers of a stage are computed again in the backward pass: only what
/// enters them is kept. Source: Chen et al. 2016.
template <int Count>
struct Every {
  static constexpr int every = Count;
  static_assert(detail::EveryIsSound<Count>::value);
};

/// Only what enters a stage is kept, and all of it is computed again.
struct Boundaries {
  static constexpr int every = CheckpointRule::boundaries;
};

namespace detail {

template <class What>
concept CheckpointWhat = requires {
  { What::every } -> std::convertible_to<int>;
};

template <class What>
struct CheckpointIsSound {
  static constexpr bool value = true;
  static_assert(
      CheckpointWhat<What>,
      "Checkpoint<What>: What is Every<k>, for runs of k top-level layers, or Boundaries, "
      "for whole stages");
};

}  // namespace detail

/// Activations are computed again in the backward pass instead of being kept: memory for time, one
/// more forward pass. The same dropout masks and batch statistics; running statistics count once.
/// The primary template is the error path.
template <class What>
struct Checkpoint {
  static constexpr CheckpointRule rule{};
  static_assert(detail::CheckpointIsSound<What>::value);
};

template <detail::CheckpointWhat What>
struct Checkpoint<What> {
  static constexpr CheckpointRule rule{What::every};
};

namespace detail {

template <class T>
concept IsSplit = requires {
  T::tops;
};
template <class T>
concept IsCheckpoint = requires {
  T::rule.every;
};
/// A number of parts, and which top-level layers each has.
template <class T>
concept CutsTops = requires {
  { T::parts } -> std::convertible_to<int>;
};
template <class T>
concept IsMicrobatches = requires {
  T::microbatches;
};
/// Behind the words that cut a model.
template <class T>
concept ModelOption = IsCheckpoint<T> || requires {
  T::leaves;
} || requires {
  T::first_bucket;
};

template <class... Options>
constexpr CheckpointRule checkpoint_of() {
  CheckpointRule rule{};
  [[maybe_unused]] auto const take = [&]<class Option>(Option const*) {
    if constexpr (IsCheckpoint<Option>) {
      rule = Option::rule;
    }
  };
  (take(static_cast<Options const*>(nullptr)), ...);
  return rule;
}

// What a network must be for the counts: both are printed.
template <class Net, int Counted, int TopLevelLayers>
struct SplitsCover {
  static constexpr bool value = true;
  static_assert(Counted >= TopLevelLayers,
                "Split<...>: the counts do not cover the network; add what is missing to the last, "
                "or one more Split (SplitsCover names the sum and the network's layers)");
  static_assert(Counted <= TopLevelLayers,
                "Split<...>: the counts exceed the network's top-level layers; take away from the "
                "last (SplitsCover names the sum and the network's layers)");
};

// Given counts of top-level layers; empty until the first.
template <int... Tops>
struct TopSplits {
  static constexpr int parts = sizeof...(Tops);
  static constexpr int tops[] = {Tops..., 0};

  template <class Net>
  static constexpr auto partition() {
    static_assert(SplitsCover<Net, (0 + ... + Tops), graph<Net>.tops>::value);
    return cut_tops(graph<Net>, tops, parts);
  }
};

template <int... A, int... B>
constexpr TopSplits<A..., B...> operator+(TopSplits<A...>, TopSplits<B...>) {
  return {};
}

template <class Argument>
constexpr auto splits_of() {
  if constexpr (IsSplit<Argument>) {
    return TopSplits<Argument::tops>{};
  } else {
    return TopSplits<>{};
  }
}

// How the model is cut: by Split<…>s, or as the first argument says.
template <class... Arguments>
struct Cutting {
  using type = void;
};
template <class First, class... Rest>
struct Cutting<First, Rest...> {
  using type = First;
};
template <IsSplit First, class... Rest>
struct Cutting<First, Rest...> {
  using type = decltype((splits_of<First>() + ... + splits_of<Rest>()));
};

}  // namespace detail

}  // namespace tandem

// ---- tandem/strategy/placed.hpp

/// @file
/// place: a table of which device has which part of a network, for ModelParallel<Placed<table>>.

// ---- tandem/strategy/verify.hpp

/// @file
/// verify(): whether an action table can be run, at compile time or at run time.
///
/// The rows are executed with counters in place of tensors: a device goes on as long as it can and
/// is then woken by what it waits for; a SEND waits for a free place, a RECV for data. Since a
/// stage's actions of one kind stand in ascending order of microbatches, one counter of each kind
/// says all that was done.

// ---- tandem/strategy/verdict.hpp

/// @file
/// Verdict: what is wrong with an action table, and where; verify_message.hpp has the sentence.

namespace tandem {

enum class Flaw : std::uint8_t {
  none,
  unsound_map,           ///< stages or edges that cannot be, or rows of other devices
  uneven_copies,         ///< the copies of the model cannot have equal runs of the microbatches
  foreign_action,        ///< neither a pass nor a message of synchronous training
  unknown_stage,         ///< `action` is of a stage that the map does not have
  wrong_device,          ///< `action` stands in the row of `rank`, its stage is on `other_rank`
  unknown_microbatch,    ///< `action` is of none of its copy's microbatches
  missing,               ///< `action` is nowhere in its row; `other` needs it, if it has an index
  doubled,               ///< `action` was done before
  out_of_order,          ///< `action` stands before `other`, of an earlier microbatch
  retired_out_of_order,  ///< the same, of the backward (or W) that ends a microbatch
  before_its_input,      ///< `action` stands before `other`, whose result it needs
  nothing_to_send,       ///< all that `action` could send stays on its device
  nothing_to_receive,    ///< all that `action` could receive is made on its device
  unmatched_send,        ///< `action` sends, and `other` of `other_rank`, its receive, is not there
  unmatched_receive,     ///< `action` receives, and `other` of `other_rank` is not there
  out_of_fifo_order,     ///< `action` receives, but the next of its link is from `other`
  deadlock,              ///< `action` waits for `other`, which is behind what `other_rank` waits at
};

struct Verdict {
  Flaw flaw = Flaw::none;
  int rank = 0;
  int position = 0;  ///< of `action` in its row; where it is missing, of what needs it, or the end
  Action action = {};
  Action other = {.index = -1};
  int other_rank = -1;
  Action waiting = {};  ///< of a deadlock: what `other_rank` waits at
  int first = 0;        ///< of what the flaw is about, the numbers allowed: stages, microbatches
  int count = 0;
  int depth = 1;

  /// Whether the table is valid.
  constexpr explicit operator bool() const { return flaw == Flaw::none; }
};

}  // namespace tandem

// ---- tandem/strategy/verify_messages.hpp

/// @file
/// MessageVerification: the rules of verify() for messages, which a device may have to wait for.

// ---- tandem/strategy/verify_channels.hpp

/// @file
/// Channels: the messages in flight while a table is verified. A channel is a link in one
/// direction.

namespace tandem::detail {

/// A message is known by its edge: those of one edge are sent and taken in ascending order.
class Channels {
 public:
  constexpr Channels(StageMapView const& map, int microbatches, int depth)
      : map_{map},
        capacity_{std::max(1, std::min(depth, microbatches * map.edges))},
        memory_{2 * map.links * (capacity_ + 2) + 2 * map.edges},
        message_{memory_.data()},
        sent_{message_ + 2 * map.links * capacity_},
        gone_{sent_ + 2 * map.links},
        taken_{gone_ + 2 * map.links} {}

  constexpr int of(int edge, bool forward) const {
    return 2 * map_.edge[edge].link + (forward ? 0 : 1);
  }
  constexpr bool empty(int channel) const { return sent_[channel] == gone_[channel]; }
  constexpr bool full(int channel) const { return sent_[channel] - gone_[channel] == capacity_; }

  /// The edge of the next message. @pre not empty
  constexpr int next(int channel) const {
    return message_[channel * capacity_ + gone_[channel] % capacity_];
  }
  constexpr void send(int channel, int edge) {
    message_[channel * capacity_ + sent_[channel]++ % capacity_] = edge;
  }
  constexpr void take(int channel) {
    ++taken_[2 * next(channel) + channel % 2];
    ++gone_[channel];
  }
  /// Messages of an edge that were taken.
  constexpr int taken(int edge, bool forward) const { return taken_[2 * edge + (forward ? 0 : 1)]; }

 private:
  StageMapView map_;
  int capacity_;
  Scratch<int> memory_;
  int* message_;  // the edges of those in flight, a ring for each channel
  int* sent_;
  int* gone_;
  int* taken_;
};

}  // namespace tandem::detail

// ---- tandem/strategy/verify_passes.hpp

/// @file
/// PassVerification: the rules of verify() for a device's passes, which wait for nothing: what a
/// pass needs was done before in its own row, or the row is wrong.

namespace tandem::detail {

template <class Table>
class PassVerification {
 protected:
  constexpr PassVerification(Table const& table, StageMapView const& map, int microbatches,
                             int depth)
      : table_{table},
        map_{map},
        share_{microbatches / map.copies},
        depth_{depth},
        edges_{map},
        memory_{7 * map.stages + map.devices},
        forwarded_{memory_.data()},
        backed_{forwarded_ + map.stages},
        retired_{backed_ + map.stages},
        moved_{retired_ + map.stages},
        position_{moved_ + 4 * map.stages} {
    for (int s = 0; s < map.stages; ++s) {
      int const first = first_microbatch(s);
      forwarded_[s] = backed_[s] = retired_[s] = first;
      for (int k = 0; k < 4; ++k) {
        moved_[4 * s + k] = first;
      }
    }
  }

  constexpr int first_microbatch(int stage) const {
    return map_.copies == 1 ? 0 : stage / map_.parts() * share_;
  }

  enum class Step { done, waiting, failed };

  constexpr Step fail(Flaw flaw, int device, Action action, Action other = {.index = -1}) {
    verdict_.flaw = flaw;
    verdict_.rank = device;
    verdict_.position = position_[device];
    verdict_.action = action;
    verdict_.other = other;
    verdict_.depth = depth_;
    return Step::failed;
  }

  static constexpr Action same(Action action, ActionKind kind, int stage) {
    return {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = action.index};
  }

  constexpr bool in_row(int device, int from, Action const& wanted) const {
    ActionSpan const row = row_of(table_, device);
    for (int i = from; i < row.size; ++i) {
      if (row[i] == wanted) {
        return true;
      }
    }
    return false;
  }

  // The counter does not stand at the action's microbatch.
  constexpr Step not_its_turn(int d, Action action, int next, ActionKind kind) {
    if (action.index < next) {
      return fail(Flaw::doubled, d, action);
    }
    Action earlier = same(action, kind, action.stage);
    earlier.index = next;
    Action split = earlier;  // a backward may stand there in two parts
    split.kind = kind == ActionKind::backward ? ActionKind::input_gradient : kind;
    if (!in_row(d, position_[d], earlier)) {
      if (!in_row(d, position_[d], split)) {
        return fail(Flaw::missing, d, earlier, action);
      }
      earlier = split;
    }
    bool const ends = action.kind == ActionKind::backward || kind == ActionKind::weight_gradient;
    return fail(ends ? Flaw::retired_out_of_order : Flaw::out_of_order, d, action, earlier);
  }

  // What the action needs was not done before.
  constexpr Step lacks(int d, Action action, ActionKind kind, int stage) {
    Action needed = same(action, kind, stage);
    Action split = needed;
    split.kind = kind == ActionKind::backward ? ActionKind::input_gradient : kind;
    if (!in_row(d, position_[d], needed)) {
      if (!in_row(d, position_[d], split)) {
        return fail(Flaw::missing, d, needed, action);
      }
      needed = split;
    }
    return fail(Flaw::before_its_input, d, action, needed);
  }

  // The next microbatch that the stage sends or receives.
  constexpr int& moved(ActionKind kind, int stage) {
    return moved_[4 * stage + static_cast<int>(kind) - static_cast<int>(ActionKind::send_forward)];
  }

  constexpr Step forward(int d, Action const& action) {
    int const s = action.stage;
    if (forwarded_[s] != action.index) {
      return not_its_turn(d, action, forwarded_[s], ActionKind::forward);
    }
    if (edges_.crossing_in[s] >= 0 && moved(ActionKind::receive_forward, s) <= action.index) {
      return lacks(d, action, ActionKind::receive_forward, s);
    }
    for (int e = edges_.local_in[s]; e >= 0; e = edges_.next_in[e]) {
      if (forwarded_[map_.edge[e].from] <= action.index) {
        return lacks(d, action, ActionKind::forward, map_.edge[e].from);
      }
    }
    ++forwarded_[s];
    return Step::done;
  }

  constexpr Step backward(int d, Action const& action) {
    int const s = action.stage;
    if (backed_[s] != action.index) {
      return not_its_turn(d, action, backed_[s], action.kind);
    }
    if (action.kind == ActionKind::backward && retired_[s] != action.index) {
      return not_its_turn(d, action, retired_[s], ActionKind::weight_gradient);
    }
    if (forwarded_[s] <= action.index) {
      return lacks(d, action, ActionKind::forward, s);
    }
    if (edges_.crossing_out[s] >= 0 && moved(ActionKind::receive_backward, s) <= action.index) {
      return lacks(d, action, ActionKind::receive_backward, s);
    }
    for (int e = edges_.local_out[s]; e >= 0; e = edges_.next_out[e]) {
      if (backed_[map_.edge[e].to] <= action.index) {
        return lacks(d, action, ActionKind::backward, map_.edge[e].to);
      }
    }
    ++backed_[s];
    if (action.kind == ActionKind::backward) {
      ++retired_[s];
    }
    return Step::done;
  }

  constexpr Step weight_gradient(int d, Action const& action) {
    int const s = action.stage;
    if (retired_[s] != action.index) {
      return not_its_turn(d, action, retired_[s], ActionKind::weight_gradient);
    }
    if (backed_[s] <= action.index) {
      return lacks(d, action, ActionKind::input_gradient, s);
    }
    ++retired_[s];
    return Step::done;
  }

  Table const& table_;
  StageMapView map_;
  int share_;  // microbatches of a copy
  int depth_;
  StageEdges edges_;
  Scratch<int> memory_;
  int* forwarded_;  // of each stage, the next microbatch to go forward
  int* backed_;     // … to go backward, by B or I
  int* retired_;    // … to end, by B or W
  int* moved_;      // … to send and receive, forward and backward
  int* position_;   // of each device in its row
  Verdict verdict_;
};

}  // namespace tandem::detail

namespace tandem::detail {

template <class Table>
class MessageVerification : protected PassVerification<Table> {
 protected:
  using Base = PassVerification<Table>;
  using Base::backed_;
  using Base::depth_;
  using Base::edges_;
  using Base::fail;
  using Base::forwarded_;
  using Base::map_;
  using Base::position_;
  using Base::table_;
  using typename Base::Step;

  constexpr MessageVerification(Table const& table, StageMapView const& map, int microbatches,
                                int depth)
      : Base{table, map, microbatches, depth},
        channels_{map, microbatches, depth},
        waits_{4 * map.devices, -1},
        part_{waits_.data()},
        waits_for_{part_ + map.devices},
        offered_{waits_for_ + map.devices},
        queue_{offered_ + map.devices} {}

  constexpr int first_out(int stage, bool forward) const {
    return forward ? edges_.crossing_out[stage] : edges_.crossing_in[stage];
  }
  constexpr int next_out(int edge, bool forward) const {
    return forward ? edges_.next_out[edge] : edges_.next_in[edge];
  }

  // The device at the other end of an edge, seen from its lower stage or from its higher one.
  constexpr int far_end(int edge, bool from_lower) const {
    return map_.device[from_lower ? map_.edge[edge].to : map_.edge[edge].from];
  }

  constexpr Step wait(int d, int channel) {
    waits_for_[d] = channel;
    return Step::waiting;
  }
  constexpr void wake(int d, int channel) {
    if (waits_for_[d] == channel) {
      waits_for_[d] = -1;
      queue_[queued_++ % map_.devices] = d;
    }
  }

  constexpr Step send(int d, Action const& action, bool forward) {
    int const s = action.stage;
    int& moved = this->moved(action.kind, s);
    if (part_[d] < 0) {
      if (moved != action.index) {
        return this->not_its_turn(d, action, moved, action.kind);
      }
      if (first_out(s, forward) < 0) {
        return fail(Flaw::nothing_to_send, d, action);
      }
      if ((forward ? forwarded_ : backed_)[s] <= action.index) {
        return this->lacks(d, action, forward ? ActionKind::forward : ActionKind::backward, s);
      }
      part_[d] = first_out(s, forward);
    }
    for (; part_[d] >= 0; part_[d] = next_out(part_[d], forward)) {
      int const channel = channels_.of(part_[d], forward);
      if (offered_[d] < 0) {
        if (channels_.full(channel)) {
          return wait(d, channel);
        }
        channels_.send(channel, part_[d]);
        wake(far_end(part_[d], forward), channel);
        offered_[d] = depth_ == 0 ? part_[d] : -1;
      }
      if (offered_[d] >= 0 && !channels_.empty(channel)) {
        return wait(d, channel);
      }
      offered_[d] = -1;
    }
    moved = action.index + 1;
    return Step::done;
  }

  constexpr Step receive(int d, Action const& action, bool forward) {
    int& moved = this->moved(action.kind, action.stage);
    if (part_[d] < 0) {
      if (moved != action.index) {
        return this->not_its_turn(d, action, moved, action.kind);
      }
      part_[d] = first_out(action.stage, !forward);
      if (part_[d] < 0) {
        return fail(Flaw::nothing_to_receive, d, action);
      }
    }
    for (; part_[d] >= 0; part_[d] = next_out(part_[d], !forward)) {
      int const channel = channels_.of(part_[d], forward);
      if (channels_.empty(channel)) {
        return wait(d, channel);
      }
      if (channels_.next(channel) != part_[d]) {
        return fail(Flaw::out_of_fifo_order, d, action, next_message(channel, true));
      }
      channels_.take(channel);
      wake(far_end(part_[d], !forward), channel);
    }
    moved = action.index + 1;
    return Step::done;
  }

  // The action that sent, or that will receive, the next message in flight.
  constexpr Action next_message(int channel, bool sender) const {
    int const e = channels_.next(channel);
    bool const forward = channel % 2 == 0;
    StageEdge const edge = map_.edge[e];
    return {.kind = forward ? (sender ? ActionKind::send_forward : ActionKind::receive_forward)
                            : (sender ? ActionKind::send_backward : ActionKind::receive_backward),
            .stage = forward == sender ? edge.from : edge.to,
            .index = this->first_microbatch(edge.from) + channels_.taken(e, forward)};
  }

  // What the action of a device that waits is waiting for.
  constexpr Action awaited(int d) const {
    Action const action = row_of(table_, d)[position_[d]];
    bool const forward =
        action.kind == ActionKind::send_forward || action.kind == ActionKind::receive_forward;
    if (sends(action)) {
      return next_message(channels_.of(part_[d], forward), false);
    }
    StageEdge const edge = map_.edge[part_[d]];
    return {.kind = forward ? ActionKind::send_forward : ActionKind::send_backward,
            .stage = forward ? edge.from : edge.to,
            .index = action.index};
  }

  static constexpr bool sends(Action const& action) {
    return action.kind == ActionKind::send_forward || action.kind == ActionKind::send_backward;
  }

  Channels channels_;
  Scratch<int> waits_;
  int* part_;       // of each device, the edge that its message waits at, or -1
  int* waits_for_;  // … the channel that it waits for, or -1
  int* offered_;    // at depth 0: the edge whose message lies there to be taken, or -1
  int* queue_;      // a ring of the devices that can go on, each at most once
  int queued_ = 0;  // all that ever were
};

}  // namespace tandem::detail

namespace tandem {

namespace detail {

template <class Table>
class Verification : MessageVerification<Table> {
  using Base = MessageVerification<Table>;
  using typename Base::Step;

 public:
  constexpr Verification(Table const& table, StageMapView const& map, int microbatches, int depth)
      : Base{table, map, microbatches, depth} {}

  constexpr Verdict run() {
    for (int d = 0; d < map_.devices; ++d) {
      queue_[queued_++] = d;
    }
    for (int next = 0; next < queued_; ++next) {
      int const d = queue_[next % map_.devices];
      ActionSpan const row = row_of(table_, d);
      for (int& at = position_[d]; at < row.size; ++at) {
        Step const step = advance(d, row.data[at]);
        if (step == Step::failed) {
          return verdict_;
        }
        if (step == Step::waiting) {
          break;
        }
      }
    }
    for (int d = 0; d < map_.devices; ++d) {
      if (position_[d] < row_of(table_, d).size) {
        return stuck();
      }
    }
    return complete();
  }

 private:
  using Base::awaited;
  using Base::backed_;
  using Base::fail;
  using Base::forwarded_;
  using Base::in_row;
  using Base::map_;
  using Base::position_;
  using Base::queue_;
  using Base::queued_;
  using Base::retired_;
  using Base::sends;
  using Base::table_;
  using Base::verdict_;

  constexpr Step advance(int d, Action const& action) {
    if (action.kind > ActionKind::receive_backward || action.version != 0) {
      return fail(Flaw::foreign_action, d, action);
    }
    int const s = action.stage;
    if (s < 0 || s >= map_.stages) {
      verdict_.count = map_.stages;
      return fail(Flaw::unknown_stage, d, action);
    }
    if (map_.device[s] != d) {
      verdict_.other_rank = map_.device[s];
      return fail(Flaw::wrong_device, d, action);
    }
    int const first = this->first_microbatch(s);
    if (action.index < first || action.index >= first + this->share_) {
      verdict_.first = first;
      verdict_.count = this->share_;
      return fail(Flaw::unknown_microbatch, d, action);
    }
    switch (action.kind) {
      case ActionKind::forward:
        return this->forward(d, action);
      case ActionKind::weight_gradient:
        return this->weight_gradient(d, action);
      case ActionKind::send_forward:
        return this->send(d, action, true);
      case ActionKind::receive_forward:
        return this->receive(d, action, true);
      case ActionKind::send_backward:
        return this->send(d, action, false);
      case ActionKind::receive_backward:
        return this->receive(d, action, false);
      default:
        return this->backward(d, action);
    }
  }

  constexpr Verdict stuck() {
    int at = 0;
    for (int d = 0; d < map_.devices; ++d) {
      if (position_[d] == row_of(table_, d).size) {
        continue;
      }
      at = d;
      Action const wanted = awaited(d);
      int const peer = map_.device[wanted.stage];
      if (!in_row(peer, position_[peer], wanted)) {
        Action const action = row_of(table_, d)[position_[d]];
        fail(sends(action) ? Flaw::unmatched_send : Flaw::unmatched_receive, d, action, wanted);
        verdict_.other_rank = peer;
        return verdict_;
      }
    }
    for (int d = 0; d < map_.devices; ++d) {  // each waits for another: on to those in a circle
      at = map_.device[awaited(at).stage];
    }
    Action const wanted = awaited(at);
    fail(Flaw::deadlock, at, row_of(table_, at)[position_[at]], wanted);
    verdict_.other_rank = map_.device[wanted.stage];
    verdict_.waiting = row_of(table_, verdict_.other_rank)[position_[verdict_.other_rank]];
    return verdict_;
  }

  // All rows have ended: were all microbatches passed through all stages?
  constexpr Verdict complete() {
    for (int s = 0; s < map_.stages && verdict_; ++s) {
      int const end = this->first_microbatch(s) + this->share_;
      auto const stage = static_cast<std::int16_t>(s);
      if (forwarded_[s] < end) {
        fail(Flaw::missing, map_.device[s], {ActionKind::forward, 0, stage, forwarded_[s]});
      } else if (backed_[s] < end) {
        fail(Flaw::missing, map_.device[s], {ActionKind::backward, 0, stage, backed_[s]});
      } else if (retired_[s] < end) {
        fail(Flaw::missing, map_.device[s], {ActionKind::weight_gradient, 0, stage, retired_[s]});
      }
    }
    return verdict_;
  }
};

}  // namespace detail

/// Whether every forward and backward (B, or I and W) of each stage stands once for each microbatch
/// of its copy, on the stage's device, behind what it needs; whether messages are sent and received
/// in one order, and none is left over; and whether no device waits forever. A stage's actions of
/// one kind must stand in ascending order of microbatches.
///
/// Cost: about linear in the actions.
/// @param table  lowered: passes and messages, no reductions and no update
/// @param depth  messages that may be in flight in each link and direction; at 0, a SEND ends
///               together with its RECV
/// @throws ContractError  microbatches < 1 or depth < 0
template <class Table>
constexpr Verdict verify(Table const& table, StageMapView const& map, int microbatches,
                         int depth = 1) {
  expects(microbatches >= 1 && depth >= 0,
          "verify(table, map, microbatches, depth): give 1 microbatch or more, depth 0 or more");
  if (!is_sound(map) || map.devices != devices_of(table)) {
    return {.flaw = Flaw::unsound_map, .rank = devices_of(table), .count = map.devices};
  }
  if (microbatches % map.copies != 0) {
    return {.flaw = Flaw::uneven_copies, .first = microbatches, .count = map.copies};
  }
  return detail::Verification<Table>{table, map, microbatches, depth}.run();
}

}  // namespace tandem

namespace tandem {

/// All nodes below a path go to a device: {"3.1", 1} places 3.1, 3.1.0, 3.1.1, … but not 3.10.
/// Paths are those of parameter names: "3", "3.1", "4.body.0"; "" is the whole network.
struct Placement {
  std::string_view path;
  int device = 0;
};

enum class PlacementFault : std::uint8_t { none, unknown_path, negative_device, unused_device };

/// A device for each node of @p Net; made by place<Net>.
template <class Net>
struct PlacementTable {
  using Network = Net;
  NodePlaces<graph<Net>.nodes> places{};
  int devices = 1;
  PlacementFault fault = PlacementFault::none;
  int entry = 0;   ///< at fault, of the list
  int device = 0;  ///< at fault
};

namespace detail {

/// Whether @p path is @p prefix or below it.
constexpr bool is_below(Path const& path, std::string_view prefix) {
  auto const takes = [&](std::string_view word) {
    bool const fits =
        prefix.starts_with(word) && (prefix.size() == word.size() || prefix[word.size()] == '.');
    prefix.remove_prefix(fits ? word.size() : 0);
    return fits;
  };
  for (int i = 0; i < path.depth && !prefix.empty(); ++i) {
    char digits[8] = {};
    int first = 8;
    for (int number = path.part[i]; first == 8 || number > 0; number /= 10) {
      digits[--first] = static_cast<char>('0' + (number > 0 ? number % 10 : 0));
    }
    std::string_view const number{digits + first, static_cast<std::size_t>(8 - first)};
    if (!takes(path.part[i] == Path::body       ? "body"
               : path.part[i] == Path::shortcut ? "shortcut"
                                                : number)) {
      return false;
    }
    bool const more = prefix.size() > 1;  // not a point alone
    prefix.remove_prefix(more ? 1 : 0);
  }
  return prefix.empty();
}

}  // namespace detail

/// The table in which the nodes below each path are on that device, later entries before earlier
/// ones, and all others on device 0:
///
///   inline constexpr auto table = place<Net>({{"3.1", 1}, {"3.2", 1}, {"4", 1}});
///
/// The join of a Concat or a Residual has the path of the block. The network's input is wherever it
/// is read. What is wrong with a table, ModelParallel<Placed<table>> says.
template <class Net>
constexpr PlacementTable<Net> place(std::initializer_list<Placement> list) {
  constexpr auto const& network = graph<Net>;
  PlacementTable<Net> table;
  auto const fail = [&](PlacementFault fault, int entry, int device) {
    if (table.fault == PlacementFault::none) {
      table.fault = fault;
      table.entry = entry;
      table.device = device;
    }
  };
  int entry = 0;
  for (Placement const& placement : list) {
    bool found = false;
    for (int n = 1; n < network.nodes; ++n) {
      if (detail::is_below(network.node[n].path, placement.path)) {
        table.places.device[n] = static_cast<std::int16_t>(placement.device);
        found = true;
      }
    }
    if (!found) {
      fail(PlacementFault::unknown_path, entry, placement.device);
    } else if (placement.device < 0) {
      fail(PlacementFault::negative_device, entry, placement.device);
    }
    table.devices = table.devices > placement.device ? table.devices : placement.device + 1;
    ++entry;
  }
  for (int device = 0; device < table.devices && table.fault == PlacementFault::none; ++device) {
    bool used = false;
    for (int n = 1; n < network.nodes; ++n) {
      used = used || table.places.device[n] == device;
    }
    if (!used) {
      fail(PlacementFault::unused_device, 0, device);
    }
  }
  if (table.fault != PlacementFault::none) {  // so that what uses it does not complain too
    table.places = {};
    table.devices = 1;
  }
  table.places.device[0] = table.places.device[network.nodes > 1 ? 1 : 0];
  return table;
}

namespace detail {

template <class T>
concept IsPlacementTable = requires(T const& table) {
  typename T::Network;
  { table.fault } -> std::convertible_to<PlacementFault>;
};

template <class Net, PlacementFault Fault, int Entry, int Device>
struct PlacementIsSound {
  static constexpr bool value = true;
  static_assert(Fault != PlacementFault::unknown_path,
                "place<Net>: the network has no such path; give paths as in parameter names, "
                "\"3.1\" or \"4.body.0\" (PlacementIsSound names the entry, counted from 0)");
  static_assert(Fault != PlacementFault::negative_device,
                "place<Net>: a device's number is 0 or more (PlacementIsSound names the entry, "
                "counted from 0, and its device)");
  static_assert(Fault != PlacementFault::unused_device,
                "place<Net>: a device has no part of the network; number devices from 0 without a "
                "gap, and leave something on 0 (PlacementIsSound names the device)");
};

template <class Table>
struct PlacedIsATable {
  static constexpr bool value = true;
  static_assert(IsPlacementTable<Table>,
                "Placed<table>: make the table with `inline constexpr auto table = "
                "place<Net>({{\"3.1\", 1}, ...});`");
};

template <auto const& Table>
concept TableReference = IsPlacementTable<std::remove_cvref_t<decltype(Table)>>;

}  // namespace detail

/// Each node of the network on the device that @p Table, made by place<Net>, says.
/// The primary template is the error path.
template <auto const& Table>
struct Placed {
  static constexpr bool is_placement = true;
  static constexpr int devices = 1;
  static_assert(detail::PlacedIsATable<std::remove_cvref_t<decltype(Table)>>::value);
};

template <auto const& Table>
  requires detail::TableReference<Table>
struct Placed<Table> {
  using Network = typename std::remove_cvref_t<decltype(Table)>::Network;
  static constexpr bool is_placement = true;
  static constexpr auto const& table = Table;
  static constexpr int devices = Table.devices;
  static_assert(detail::PlacementIsSound<Network, Table.fault, Table.entry, Table.device>::value);
};

namespace detail {

template <class T>
concept IsPlacement = requires {
  T::is_placement;
};

template <int Stages, int Edges, GraphSize Size>
constexpr StageMap<Stages, Edges> placed_map(PlacedParts<Size> const& parts, int devices) {
  StageMap<Stages, Edges> map{.devices = devices, .links = parts.links};
  for (int s = 0; s < Stages; ++s) {
    map.device[s] = parts.device[s];
  }
  for (int e = 0; e < Edges; ++e) {
    map.edge[e] = parts.edge[e];
  }
  return map;
}

/// Most stages of a device.
constexpr int most_stages(StageMapView const& map) {
  Scratch<int> count{map.devices};
  int most = 0;
  for (int s = 0; s < map.stages; ++s) {
    int const own = ++count[map.device[s]];
    most = own > most ? own : most;
  }
  return most;
}

template <class Net, class TableNet>
struct PlacedForThisNetwork {
  static constexpr bool value = true;
  static_assert(std::same_as<Net, TableNet>,
                "Placed<table>: the table is of another network; make it with place<Net> of the "
                "network that is trained");
};

template <bool Runs>
struct PlacementRuns {
  static constexpr bool value = true;
  static_assert(Runs,
                "Placed<table>: the devices would wait for each other forever; place fewer "
                "parts apart");
};

/// A placed network's stages, each microbatch through all of them and back before the next.
template <class How, int Microbatches>
struct PlacedModel {
  static constexpr int devices = How::devices;
  static constexpr int copies = 1;

  template <class Net>
  struct Cut : OneDeviceModel<1>::Cut<Net> {
    static_assert(PlacedForThisNetwork<Net, typename How::Network>::value);
  };
  template <std::same_as<typename How::Network> Net>
  struct Cut<Net> {
    static constexpr auto parts = cut_placed(graph<Net>, How::table.places);
    static constexpr auto const& partition = parts.partition;
    static constexpr auto map = placed_map<parts.partition.parts, parts.edges>(parts, devices);
    static constexpr auto table = lower(
        sequential_table<devices, 2 * Microbatches * most_stages(map)>(map, Microbatches), map);
    static constexpr Verdict verdict = verify(table, map, Microbatches);
    static_assert(PlacementRuns<static_cast<bool>(verdict)>::value);
  };
};

}  // namespace detail

}  // namespace tandem

namespace tandem {

namespace detail {

/// What a strategy at fault is, so that its sentence stays the only error.
struct NoModel : OneDeviceModel<1> {
  using Model = OneDeviceModel<1>;
  static constexpr int ranks = 1;
  template <int, class...>
  static constexpr Batching batching_for{};
  static constexpr Batching batching{};
};

/// Whether @p First says how to cut: the next Split, a number of parts, a table.
template <class... Arguments>
struct BeginsWithACut {
  static constexpr bool value = false;
};
template <class First, class... Rest>
struct BeginsWithACut<First, Rest...> {
  static constexpr bool value = IsSplit<First> || CutsTops<First> || IsPlacement<First>;
};

/// Whether all behind it are options, or further Splits.
template <class... Arguments>
struct RestIsOptions {
  static constexpr bool value = false;
};
template <class First, class... Rest>
struct RestIsOptions<First, Rest...> {
  static constexpr bool value =
      ((ModelOption<Rest> || IsMicrobatches<Rest> || (IsSplit<First> && IsSplit<Rest>)) && ...);
};

template <class... Arguments>
inline constexpr bool counts_microbatches = (IsMicrobatches<Arguments> || ...);

template <class... Arguments>
inline constexpr bool recomputes_placed = (IsPlacement<Arguments> || ...) &&
                                          (IsCheckpoint<Arguments> || ...);

template <class... Arguments>
concept ModelArguments = BeginsWithACut<Arguments...>::value &&
    RestIsOptions<Arguments...>::value && !recomputes_placed<Arguments...>;

template <class... Arguments>
struct ModelArgumentsAreSound {
  static constexpr bool value = true;
  static constexpr bool begins = BeginsWithACut<Arguments...>::value;
  static constexpr bool options = !begins || RestIsOptions<Arguments...>::value;
  static_assert(begins,
                "ModelParallel<How, Options...>: say first how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts> or Placed<table>");
  static_assert(options,
                "ModelParallel<How, Options...>: options behind Split<a>, Split<b>, ... or "
                "Auto<Parts> or Placed<table> are Microbatches, Reproducible, Checkpoint and "
                "BucketBytes");
  static_assert(!options || !recomputes_placed<Arguments...>,
                "ModelParallel<Placed<table>, Checkpoint<...>>: a placed network's activations "
                "are kept; leave Checkpoint out, or cut by Split or Auto");
};

// The numbers are of one replica.
template <bool Reproducible, int Leaves, int Microbatches, int Copies>
struct ModelKeepsLeaves {
  static constexpr Batching checked(Batching const& batching) { return batching; }
  static_assert(
      !Reproducible ||
          (Microbatches % Copies == 0 && Leaves >= Copies && Leaves % Copies == 0 &&
           leaves_fit({.microbatches = Microbatches / Copies, .leaves = Leaves / Copies})),
      "Reproducible<Leaves>: the leaves of one copy of the model (Leaves / replicas, and half of "
      "that in Chimera) must be a power of two that divides its microbatches; write other Leaves "
      "(ModelKeepsLeaves names the leaves, microbatches and copies of a replica)");
};

}  // namespace detail

}  // namespace tandem

namespace tandem {

namespace detail {

/// Cuts the model, and can be in several replicas.
template <class S>
concept CutsModel = requires {
  typename S::Model;
  { S::devices } -> std::convertible_to<int>;
};

template <int N, class... Options>
concept ReplicatesModels = N >= 1 && N <= 4096 && (BatchingOption<Options> && ...) &&
                           !counts_microbatches<Options...>;

/// A DataParallel; not looked into, since alone it may not be sound.
template <class S>
struct Outer {
  static constexpr bool is = false;
  static constexpr bool counts = false;
  static constexpr bool sound = true;
};
template <int N, class... Options>
struct Outer<DataParallel<N, Options...>> {
  static constexpr bool is = true;
  static constexpr bool counts = counts_microbatches<Options...>;
  static constexpr bool sound = N >= 1 && N <= 4096 && (BatchingOption<Options> && ...);
};

template <class... Parts>
struct HybridIsNested {
  static constexpr bool value = true;
  static_assert(sizeof...(Parts) >= 2,
                "Hybrid<Outer, ..., Inner>: give a strategy and another within it, such as "
                "Hybrid<DataParallel<2>, ModelParallel<Split<a>, Split<b>>>");
};

template <class Part, bool Last>
struct HybridPart {
  static constexpr bool value = true;
  static_assert(Last || Outer<Part>::is,
                "Hybrid<Outer, ..., Inner>: all but the last must be DataParallel; replicas stand "
                "outside, and the model that is cut inside");
  static_assert(!Last || !Outer<Part>::is,
                "Hybrid<Outer, ..., Inner>: the last must be ModelParallel or Pipeline; for "
                "replicas of a whole model write DataParallel alone");
  static_assert(!Last || Outer<Part>::is || CutsModel<Part>,
                "Hybrid<Outer, ..., Inner>: the last must be a strategy that cuts the model: "
                "ModelParallel or Pipeline");
  static_assert(Last || !Outer<Part>::counts,
                "Hybrid<DataParallel<N, Microbatches<k>>, Inner>: give the microbatches to the "
                "model inside, as ModelParallel<..., Microbatches<k>> or as Pipeline's Count");
};

/// A DataParallel whose own arguments are at fault has its own sentence.
template <class Part, bool Sound = Outer<Part>::sound>
struct OuterIsSound {
  static constexpr bool value = true;
};
template <class Part>
struct OuterIsSound<Part, false> {
  static constexpr bool value = true;
  static constexpr int ranks = Part::ranks;
  static_assert(ranks >= 1);
};

/// One sentence: of the first part at fault, from the outermost on.
template <bool Goes, class... Parts>
struct PartsAreNested {
  static constexpr bool value = true;
};
template <class First, class... Rest>
struct PartsAreNested<true, First, Rest...> {
  static constexpr bool value = true;
  static constexpr bool last = sizeof...(Rest) == 0;
  static constexpr bool goes = Outer<First>::is && !Outer<First>::counts && Outer<First>::sound;
  static_assert(HybridPart<First, last>::value);
  static_assert(last || OuterIsSound<First>::value);
  static_assert(PartsAreNested < goes && !last, Rest... > ::value);
};

template <class First, class Second, class... Rest>
struct HybridIsNested<First, Second, Rest...> {
  static constexpr bool value = true;
  static_assert(PartsAreNested<true, First, Second, Rest...>::value);
};

template <int Replicas, int Weights>
struct WeighsEachReplica {
  static constexpr bool value = true;
  static_assert(Weights == 0 || Weights == Replicas,
                "Hybrid<DataParallel<N, Weighted<...>>, Inner>: give one weight a replica of the "
                "model (WeighsEachReplica names the replicas and the weights)");
};

template <bool Rounds, bool Reproducible>
struct HybridIsExact {
  static constexpr bool value = true;
  static_assert(!Rounds || !Reproducible,
                "Hybrid<DataParallel<N, Wire<E>>, ...> and Reproducible: rounding on the way "
                "changes the bits with the number of devices; leave one of the two out");
};

template <int Replicas, int Weights, bool Rounds, bool Reproducible>
struct HybridIsSound {
  static constexpr Batching checked(Batching const& batching) { return batching; }
  static_assert(WeighsEachReplica<Replicas, Weights>::value);
  static_assert(HybridIsExact<Rounds, Reproducible>::value);
};

}  // namespace detail

}  // namespace tandem

namespace tandem {

/// Replicas of a model that is itself cut over devices.
///
///   Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>
///
///   rank 0 | replica 0, device 0        rank 2 | replica 1, device 0
///   rank 1 | replica 0, device 1        rank 3 | replica 1, device 1
///
/// The first part is the slowest in the order of the ranks. Several DataParallels multiply. The
/// gradients of a part of the model are summed over the ranks that have it. Options of DataParallel
/// but Microbatches, which goes to the model inside; as many weights as there are replicas.
/// Source: Pal et al. 2019. The primary template is the error path.
template <class... Parts>
struct Hybrid : detail::NoModel {
  static_assert(detail::HybridIsNested<Parts...>::value);
};

template <int N, class... Options, class Inner>
  requires detail::ReplicatesModels<N, Options...> && detail::CutsModel<Inner>
struct Hybrid<DataParallel<N, Options...>, Inner> {
  using Model = Inner;
  static constexpr int devices = Inner::devices;
  static constexpr int copies = Inner::copies;
  static constexpr int ranks = N * Inner::ranks;
  static constexpr CheckpointRule checkpoint = Inner::checkpoint;
  template <int Replicas, class... More>
  static constexpr Batching batching_for =
      Inner::template batching_for<N * Replicas, Options..., More...>;
  static constexpr Batching batching =
      detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves,
                               batching_for<1>.microbatches, copies>::
          checked(detail::HybridIsSound<batching_for<1>.replicas, batching_for<1>.shards,
                                        batching_for<1>.wire != WireFormat::exact,
                                        batching_for<1>.reproducible>::checked(batching_for<1>));

  template <class Net>
  using Cut = typename Inner::template Cut<Net>;
};

template <int N, class... Options, class Second, class... Rest>
  requires detail::ReplicatesModels<N, Options...> &&(sizeof...(Rest) >= 1) &&
      detail::CutsModel<Hybrid<Second, Rest...>> struct Hybrid<DataParallel<N, Options...>, Second,
                                                               Rest...>
      : Hybrid<DataParallel<N, Options...>, Hybrid<Second, Rest...>> {
  };

}  // namespace tandem

// ---- tandem/strategy/model_parallel.hpp

/// @file
/// ModelParallel: one model cut over several devices, one microbatch at a time.

namespace tandem {

namespace detail {

// How is a TopSplits, an Auto or a Placed.
template <class How, int Microbatches>
struct SequentialModel {
  static constexpr int devices = How::parts;
  static constexpr int copies = 1;

  template <class Net>
  struct Cut {
    static constexpr auto partition = How::template partition<Net>();
    static constexpr auto map = chain_map<devices>();
    static constexpr auto table =
        lower(sequential_table<devices, 2 * Microbatches>(map, Microbatches), map);
  };
};
template <IsPlacement How, int Microbatches>
struct SequentialModel<How, Microbatches> : PlacedModel<How, Microbatches> {};

}  // namespace detail

/// The model is cut; each device has a part of it, and one of them works at a time.
///
///   device 0 | layers 0 … a-1 | F0             B0 | F1 …
///   device 1 | the rest       |    F0       B0    |
///
/// How: ModelParallel<Split<a>, Split<b>, …> by consecutive top-level layers, the counts adding up
/// to the network's; ModelParallel<Auto<M>> likewise, the compiler balancing static costs;
/// ModelParallel<Placed<table>> any node on any device, so that branches run at the same time.
/// Options behind it: Microbatches, Reproducible, Checkpoint, BucketBytes.
/// Memory: a device has the parameters and the activations of its part only.
/// Comm: each tensor that crosses, and its gradient, once a microbatch.
/// The primary template is the error path.
template <class... Arguments>
struct ModelParallel : detail::NoModel {
  static_assert(detail::ModelArgumentsAreSound<Arguments...>::value);
};

template <class... Arguments>
  requires detail::ModelArguments<Arguments...>
struct ModelParallel<Arguments...>
    : detail::SequentialModel<typename detail::Cutting<Arguments...>::type,
                              detail::gather_batching<1, Arguments...>().microbatches> {
  using Model = detail::SequentialModel<typename detail::Cutting<Arguments...>::type,
                                        detail::gather_batching<1, Arguments...>().microbatches>;
  static constexpr int ranks = Model::devices;
  static constexpr CheckpointRule checkpoint = detail::checkpoint_of<Arguments...>();
  /// In so many replicas, with options of the strategy around it.
  template <int Replicas, class... More>
  static constexpr Batching batching_for =
      detail::gather_batching<Replicas, Arguments..., More...>();
  static constexpr Batching batching =
      detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves,
                               batching_for<1>.microbatches, 1>::checked(batching_for<1>);
};

}  // namespace tandem

// ---- tandem/strategy/pipeline.hpp

/// @file
/// Pipeline: one model cut over several devices that work on different microbatches at a time.

// ---- tandem/strategy/pipeline_checks.hpp

/// @file
/// The sentences for arguments of Pipeline that do not go together.

// ---- tandem/strategy/pipeline_schedule.hpp

/// @file
/// PipelineSchedule: in which order each device runs the passes of its stages.
///
/// A schedule is a type that generates compute actions only, for any number of devices and
/// microbatches; lower_table.hpp adds the messages, verify.hpp checks the result. In the orders
/// below, p is the number of devices, m of microbatches, r a device.

namespace tandem {

namespace detail {

/// A sink that does nothing: what the concept calls generate() with.
struct NoSink {
  constexpr void operator()(int, Action) const {}
};

constexpr Action pass(ActionKind kind, int stage, int microbatch) {
  return {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = microbatch};
}

}  // namespace detail

/// - `name`: as files and messages write it
/// - `chunks`: stages that a device has of one copy of the model; `copies`: of each stage
/// - `splits_backward`: I and W in place of B
/// - `fits(devices, microbatches)`: whether the order is defined for these
/// - `generate(devices, microbatches, sink)`: sink(device, action) in each device's order; a
/// stage's
///   forwards, backwards and weight gradients each in ascending order of microbatches
template <class S>
concept PipelineSchedule = requires(int devices, int microbatches, detail::NoSink& sink) {
  { S::name } -> std::convertible_to<char const*>;
  { S::chunks } -> std::convertible_to<int>;
  { S::copies } -> std::convertible_to<int>;
  { S::splits_backward } -> std::convertible_to<bool>;
  { S::fits(devices, microbatches) } -> std::same_as<bool>;
  { S::generate(devices, microbatches, sink) } -> std::same_as<void>;
};

namespace detail {

template <PipelineSchedule S, int Devices, int Microbatches>
struct ScheduleFits {
  static constexpr bool value = true;
  static_assert(S::fits(Devices, Microbatches),
                "schedule_table<S, Devices, Microbatches>(): the schedule has no order for these "
                "numbers; Interleaved takes a multiple of Devices as Microbatches, Chimera takes "
                "an even number of both");
};

}  // namespace detail

/// The stages of schedule @p S: a chain, or two in opposite directions.
template <PipelineSchedule S, int Devices>
constexpr auto schedule_map() {
  if constexpr (S::copies == 2) {
    return bidirectional_map<Devices>();
  } else {
    return chain_map<Devices, S::chunks>();
  }
}

/// The passes of each device in their order; no messages.
template <PipelineSchedule S, int Devices, int Microbatches>
constexpr auto schedule_table() {
  static_assert(detail::ScheduleFits<S, Devices, Microbatches>::value);
  constexpr int length = S::chunks * Microbatches * (S::splits_backward ? 3 : 2);
  ActionTable<Devices, length> table;
  auto sink = [&table](int device, Action action) { table.add(device, action); };
  if (S::fits(Devices, Microbatches)) {
    S::generate(Devices, Microbatches, sink);
  }
  return table;
}

}  // namespace tandem

namespace tandem {

namespace detail {

template <class... Arguments>
struct BeginsWithAChain {
  static constexpr bool value = false;
};
template <class First, class... Rest>
struct BeginsWithAChain<First, Rest...> {
  static constexpr bool value = IsSplit<First> || CutsTops<First>;
};

template <class Schedule, class... Arguments>
inline constexpr bool recomputes_split_backward = false;
template <PipelineSchedule Schedule, class... Arguments>
inline constexpr bool recomputes_split_backward<Schedule, Arguments...> =
    Schedule::splits_backward && (IsCheckpoint<Arguments> || ...);

template <class... Arguments>
concept PipelineArguments = BeginsWithAChain<Arguments...>::value &&
    RestIsOptions<Arguments...>::value && !counts_microbatches<Arguments...>;

/// @p Parts of the model on a schedule's devices.
template <class Schedule, int Parts, int Count>
concept FitsSchedule = PipelineSchedule<Schedule> && Count >= 1 && Parts % Schedule::chunks == 0 &&
                       Schedule::fits(Parts / Schedule::chunks, Count);

template <class How>
inline constexpr int parts_of = 0;
template <CutsTops How>
inline constexpr int parts_of<How> = How::parts;

template <class Schedule, int Count, class... Arguments>
struct PipelineArgumentsAreSound {
  static constexpr bool value = true;
  static constexpr bool begins = BeginsWithAChain<Arguments...>::value;
  static constexpr bool once = !counts_microbatches<Arguments...>;
  static constexpr bool options = !begins || !once || RestIsOptions<Arguments...>::value;
  static_assert(PipelineSchedule<Schedule>,
                "Pipeline<Schedule, Count, ...>: Schedule is GPipe, OneFOneB, Interleaved<v>, "
                "ZeroBubbleH1 or Chimera");
  static_assert(Count >= 1,
                "Pipeline<Schedule, Count, ...>: Count is the number of microbatches of a "
                "replica; give 1 or more");
  static_assert(begins,
                "Pipeline<Schedule, Count, How, Options...>: say how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts>; Placed<table> is for ModelParallel");
  static_assert(once,
                "Pipeline<Schedule, Count, ...>: Count is the number of microbatches already; "
                "leave Microbatches out");
  static_assert(options,
                "Pipeline<Schedule, Count, How, Options...>: options behind Split<a>, Split<b>, "
                "... or Auto<Parts> are Reproducible, Checkpoint and BucketBytes");
  static_assert(!recomputes_split_backward<Schedule, Arguments...>,
                "Pipeline<ZeroBubbleH1, Count, ..., Checkpoint<...>>: its weight gradients need "
                "activations for longer than they are computed again; leave Checkpoint out, or "
                "take OneFOneB");
};

// Each schedule's own rule; both numbers are printed.
template <class Schedule, int Parts, int Count>
struct ScheduleTakes {
  static constexpr bool value = true;
};
template <PipelineSchedule Schedule, int Parts, int Count>
  requires(Parts >= 1 && Count >= 1)
struct ScheduleTakes<Schedule, Parts, Count> {
  static constexpr bool value = true;
  static constexpr std::string_view name = Schedule::name;
  static constexpr bool whole = Parts % Schedule::chunks == 0;
  static constexpr bool fits = !whole || Schedule::fits(Parts / Schedule::chunks, Count);
  static_assert(whole,
                "Pipeline<Interleaved<v>, Count, ...>: the parts of the model must be a multiple "
                "of v; give v Splits a device");
  static_assert(name != "interleaved" || fits,
                "Pipeline<Interleaved<v>, Count, ...>: Count must be a multiple of the devices, "
                "which are the parts of the model / v");
  static_assert(name != "chimera" || fits,
                "Pipeline<Chimera, Count, ...>: the parts of the model and Count must be even, 2 "
                "or more");
  static_assert(name == "interleaved" || name == "chimera" || fits,
                "Pipeline<Schedule, Count, ...>: the schedule has no order for so many parts and "
                "microbatches; see its fits()");
};

template <bool Runs>
struct ScheduleRuns {
  static constexpr bool value = true;
  static_assert(Runs,
                "Pipeline<Schedule, Count, ...>: the devices would wait for each other forever, "
                "or leave passes out; Cut<Net>::verdict says where");
};

}  // namespace detail

}  // namespace tandem

// ---- tandem/strategy/schedules/chimera.hpp

/// @file
/// Chimera: two pipelines in opposite directions on the same devices.

namespace tandem {

namespace detail {

/// `each` microbatches down and as many up, both in the order of 1F1B, merged in steps of one pass.
/// Where both directions could go on, a backward goes before a forward, and of two alike that of
/// the later stage. (Without the first rule, two devices may block each other's sends.)
template <class Sink>
class ChimeraMerge {
 public:
  constexpr ChimeraMerge(int devices, int each, Sink& sink)
      : devices_{devices},
        each_{each},
        sink_{sink},
        forwards_{2 * devices},
        backwards_{2 * devices},
        chosen_{devices} {}

  constexpr void run() {
    for (int left = 4 * each_ * devices_; left > 0;) {
      for (int r = 0; r < devices_; ++r) {  // all choose before any goes on
        int const down = r;
        int const up = 2 * devices_ - 1 - r;
        bool const alike = forward_next(down) == forward_next(up);
        bool const down_first = alike ? r >= devices_ / 2 : forward_next(up);
        int const first = down_first ? down : up;
        int const second = down_first ? up : down;
        chosen_[r] = ready(first) ? first : ready(second) ? second : -1;
      }
      for (int r = 0; r < devices_; ++r) {
        if (chosen_[r] >= 0) {
          emit(r, chosen_[r]);
          --left;
        }
      }
    }
  }

 private:
  // Whether 1F1B has a forward next on this stage.
  constexpr bool forward_next(int stage) const {
    int const warm_up = std::min(devices_ - 1 - stage % devices_, each_);
    return forwards_[stage] < each_ && forwards_[stage] - backwards_[stage] <= warm_up;
  }

  constexpr bool ready(int stage) const {
    int const part = stage % devices_;
    if (forward_next(stage)) {
      return part == 0 || forwards_[stage - 1] > forwards_[stage];
    }
    return backwards_[stage] < forwards_[stage] &&
           (part == devices_ - 1 || backwards_[stage + 1] > backwards_[stage]);
  }

  constexpr void emit(int device, int stage) {
    int const first = stage / devices_ * each_;
    if (forward_next(stage)) {
      sink_(device, pass(ActionKind::forward, stage, first + forwards_[stage]++));
    } else {
      sink_(device, pass(ActionKind::backward, stage, first + backwards_[stage]++));
    }
  }

  int devices_;
  int each_;
  Sink& sink_;
  Scratch<int> forwards_;  // done so far, of each stage
  Scratch<int> backwards_;
  Scratch<int> chosen_;  // stage that goes on, of each device
};

}  // namespace detail

/// Stage k of the first copy is on device k, of the second on device p - 1 - k; each copy takes
/// half of the microbatches.
///
/// Idle for p - 2 passes where 1F1B is for 2 (p - 1), if F = B and m >= p: the next microbatches of
/// one direction fill the gaps of the other. Each device has two stages' parameters; p / 2 + 1 to p
/// microbatches are live on it if m = p, and p + 1 at most if there are more.
/// @pre    devices and microbatches are even
/// Source: Li and Hoefler, arXiv:2107.06925
struct Chimera {
  static constexpr char const* name = "chimera";
  static constexpr int chunks = 1;
  static constexpr int copies = 2;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 2 && devices % 2 == 0 && microbatches >= 2 && microbatches % 2 == 0;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    detail::ChimeraMerge<Sink>{devices, microbatches / 2, sink}.run();
  }
};

}  // namespace tandem

// ---- tandem/strategy/schedules/gpipe.hpp

/// @file
/// GPipe: all forwards, then all backwards.

namespace tandem {

/// Each device: F0 F1 … B0 B1 …, the backwards too in ascending order.
///
/// Idle for (p - 1)(F + B) of (m + p - 1)(F + B); every microbatch is live at once.
/// Source: Huang et al., arXiv:1811.06965
struct GPipe {
  static constexpr char const* name = "gpipe";
  static constexpr int chunks = 1;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= 1;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      for (int i = 0; i < microbatches; ++i) {
        sink(r, detail::pass(ActionKind::forward, r, i));
      }
      for (int i = 0; i < microbatches; ++i) {
        sink(r, detail::pass(ActionKind::backward, r, i));
      }
    }
  }
};

}  // namespace tandem

// ---- tandem/strategy/schedules/interleaved.hpp

/// @file
/// Interleaved: 1F1B on several stages a device, which shortens the idle time.

namespace tandem {

namespace detail {

template <int Chunks>
struct ChunksIsSound {
  static constexpr bool value = true;
  static_assert(Chunks >= 1, "Interleaved<Chunks>: give a positive number of stages a device");
};

/// A device's k-th forward in the order in which microbatches come in groups of p, each group going
/// through all chunks; the k-th backward goes through them from the last to the first.
constexpr Action interleaved_pass(ActionKind kind, int devices, int chunks, int device, int k) {
  int const group = devices * chunks;
  int const forward_chunk = k % group / devices;
  int const chunk = kind == ActionKind::forward ? forward_chunk : chunks - 1 - forward_chunk;
  return pass(kind, chunk * devices + device, k / group * devices + k % devices);
}

template <class Sink>
constexpr void generate_interleaved(int devices, int microbatches, int chunks, Sink& sink) {
  int const passes = microbatches * chunks;
  for (int r = 0; r < devices; ++r) {
    int const warm_up = std::min(2 * (devices - r - 1) + (chunks - 1) * devices, passes);
    for (int k = 0; k < warm_up; ++k) {
      sink(r, interleaved_pass(ActionKind::forward, devices, chunks, r, k));
    }
    for (int k = 0; k < passes; ++k) {
      if (warm_up + k < passes) {
        sink(r, interleaved_pass(ActionKind::forward, devices, chunks, r, warm_up + k));
      }
      sink(r, interleaved_pass(ActionKind::backward, devices, chunks, r, k));
    }
  }
}

}  // namespace detail

/// Device r has the stages r, p + r, … of p * Chunks, each a Chunks-th of a 1F1B stage.
///
/// Idle for (p - 1)(F + B) / Chunks; sends Chunks times as much as 1F1B. With v = Chunks, a device
/// has at most min(2 (p - 1 - r) + (v - 1) p + 1, m v) microbatches live, summed over its stages.
/// @pre    the microbatches are a multiple of the devices
/// Source: Narayanan et al., arXiv:2104.04473
template <int Chunks>
struct Interleaved {
  static constexpr char const* name = "interleaved";
  static constexpr int chunks = Chunks >= 1 ? Chunks : 1;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= 1 && microbatches % devices == 0;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    detail::generate_interleaved(devices, microbatches, chunks, sink);
  }

  static_assert(detail::ChunksIsSound<Chunks>::value);
};

}  // namespace tandem

// ---- tandem/strategy/schedules/one_f_one_b.hpp

/// @file
/// OneFOneB: one forward, one backward, after a warm-up that fills the pipeline.

namespace tandem {

/// Device r: min(p - r - 1, m) forwards, then a forward and a backward in turn, then the backwards
/// that are left.
///
/// Idle for (p - 1)(F + B), as GPipe, but at most min(m, p - r) microbatches are live.
/// Source: Narayanan et al., arXiv:2006.09503 (PipeDream-Flush); Fan et al., DAPPLE
struct OneFOneB {
  static constexpr char const* name = "one_f_one_b";
  static constexpr int chunks = 1;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= 1;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      int const warm_up = std::min(devices - r - 1, microbatches);
      for (int i = 0; i < warm_up; ++i) {
        sink(r, detail::pass(ActionKind::forward, r, i));
      }
      for (int i = 0; i < microbatches; ++i) {
        if (warm_up + i < microbatches) {
          sink(r, detail::pass(ActionKind::forward, r, warm_up + i));
        }
        sink(r, detail::pass(ActionKind::backward, r, i));
      }
    }
  }
};

}  // namespace tandem

// ---- tandem/strategy/schedules/zero_bubble_h1.hpp

/// @file
/// ZeroBubbleH1: 1F1B with the weight gradients deferred to where a device would be idle.

namespace tandem {

/// Device r: min(p - r, m) forwards, then I, W once more than r are deferred, and F in turn; the
/// weight gradients that are left stand at the end.
///
/// Idle for (p - 1)(F + I - W), a third of 1F1B if F = I = W. At most min(m, p) microbatches are
/// live on each device, and on the last ones most of them wait for W alone.
/// Source: Qi et al., arXiv:2401.10241 (H1)
struct ZeroBubbleH1 {
  static constexpr char const* name = "zero_bubble_h1";
  static constexpr int chunks = 1;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = true;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= 1;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      int const warm_up = std::min(devices - r, microbatches);
      int retired = 0;
      for (int i = 0; i < warm_up; ++i) {
        sink(r, detail::pass(ActionKind::forward, r, i));
      }
      for (int i = 0; i < microbatches; ++i) {
        sink(r, detail::pass(ActionKind::input_gradient, r, i));
        if (i + 1 - retired > r) {
          sink(r, detail::pass(ActionKind::weight_gradient, r, retired++));
        }
        if (warm_up + i < microbatches) {
          sink(r, detail::pass(ActionKind::forward, r, warm_up + i));
        }
      }
      while (retired < microbatches) {
        sink(r, detail::pass(ActionKind::weight_gradient, r, retired++));
      }
    }
  }
};

}  // namespace tandem

namespace tandem {

namespace detail {

template <PipelineSchedule Schedule, int Microbatches, class How>
struct PipelineModel {
  static constexpr int devices = How::parts / Schedule::chunks;
  static constexpr int copies = Schedule::copies;

  template <class Net>
  struct Cut {
    static constexpr auto partition = How::template partition<Net>();
    static constexpr auto map = schedule_map<Schedule, devices>();
    static constexpr auto table = lower(schedule_table<Schedule, devices, Microbatches>(), map);
    static constexpr Verdict verdict = verify(table, map, Microbatches);
    static_assert(ScheduleRuns<static_cast<bool>(verdict)>::value);
  };
};

// On one device there is nothing to wait for: one stage, one live microbatch.
template <PipelineSchedule Schedule, int Microbatches, class How>
  requires(How::parts == Schedule::chunks && Schedule::copies == 1)
struct PipelineModel<Schedule, Microbatches, How> : OneDeviceModel<Microbatches> {
  template <class Net>
  struct Cut : OneDeviceModel<Microbatches>::template Cut<Net> {
    static_assert(How::template partition<Net>().parts == How::parts);
  };
};

}  // namespace detail

/// The model is cut as in ModelParallel, and the devices work on Count microbatches in the order of
/// the schedule: GPipe, OneFOneB, Interleaved<v> (v parts a device), ZeroBubbleH1, Chimera.
///
///   device 0 | F0 F1 F2 B0 F3 B1 B2 B3     Pipeline<OneFOneB, 4, Split<a>, Split<b>, Split<c>>
///   device 1 |    F0 F1 B0 F2 B1 F3 B2 B3
///
/// How: Split<a>, Split<b>, … or Auto<Parts>. Options behind it: Reproducible, Checkpoint,
/// BucketBytes. The same losses and parameters as one device with Microbatches<Count>.
/// docs/strategies.md has idle times and memory. The primary template is the error path.
template <class Schedule, int Count, class... Arguments>
struct Pipeline : detail::NoModel {
  static_assert(detail::PipelineArgumentsAreSound<Schedule, Count, Arguments...>::value);
  static_assert(
      detail::ScheduleTakes<
          Schedule, detail::parts_of<typename detail::Cutting<Arguments...>::type>, Count>::value);
};

template <class Schedule, int Count, class... Arguments>
  requires detail::PipelineArguments<Arguments...> &&
      (!detail::recomputes_split_backward<Schedule, Arguments...>)&&detail::FitsSchedule<
          Schedule, detail::parts_of<typename detail::Cutting<Arguments...>::type>,
          Count> struct Pipeline<Schedule, Count, Arguments...>
      : detail::PipelineModel<Schedule, Count, typename detail::Cutting<Arguments...>::type> {
    using Model =
        detail::PipelineModel<Schedule, Count, typename detail::Cutting<Arguments...>::type>;
    static constexpr int ranks = Model::devices;
    static constexpr CheckpointRule checkpoint = detail::checkpoint_of<Arguments...>();
    /// In so many replicas, with options of the strategy around it.
    template <int Replicas, class... More>
    static constexpr Batching batching_for =
        detail::gather_batching<Replicas, Arguments..., More...>(Count);
    static constexpr Batching batching =
        detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves, Count,
                                 Model::copies>::checked(batching_for<1>);
  };

}  // namespace tandem

namespace tandem {

namespace detail {

template <GraphSize Size>
constexpr bool synchronizes_statistics(Graph<Size> const& graph) {
  bool any = false;
  for (int n = 0; n < Size.nodes; ++n) {
    any = any || graph.node[n].synchronizes;
  }
  return any;
}

template <bool Synchronizes, bool IsReproducible, int Replicas, int Copies>
struct StatisticsAreSound {
  static constexpr bool value = true;
  static_assert(!Synchronizes || !IsReproducible,
                "SyncBatchNorm2d with Reproducible<>: its statistics are sums over the replicas, "
                "whose bits depend on how many there are; use BatchNorm2d, or leave out "
                "Reproducible<>");
  static_assert(!Synchronizes || IsReproducible || Replicas == 1 || Copies == 1,
                "SyncBatchNorm2d with Chimera: replicas of a stage run different microbatches at a "
                "time, so that they never meet; use another schedule, or BatchNorm2d");
};

}  // namespace detail

/// What each rank does, known to the compiler. Rank r is device r % devices of replica r / devices.
/// @tparam ElementBytes  of a parameter
/// @tparam R             what the backend wants of the graph
template <class Net, class S, int ElementBytes, Rewrites R = Rewrites{}>
struct Program {
  using Network = Net;
  using Strategy = S;
  using Cut = typename S::template Cut<Net>;
  static constexpr int element_bytes = ElementBytes;
  static constexpr Rewrites rewrites = R;
  static constexpr Batching batching = S::batching;
  static constexpr CheckpointRule checkpoint = S::checkpoint;
  static constexpr int ranks = S::ranks;
  static constexpr int devices = S::devices;  ///< of one replica of the model
  static constexpr auto const& network = tandem::graph<Net>;
  static constexpr auto const& partition = Cut::partition;
  static constexpr auto const& map = Cut::map;
  static constexpr auto const& table = Cut::table;
  static_assert(
      detail::StatisticsAreSound<detail::synchronizes_statistics(network), batching.reproducible,
                                 batching.replicas, map.copies>::value);

  /// What device @p D of each replica does.
  template <int D>
  using Device = DeviceProgram<Program, D>;
};

}  // namespace tandem

namespace tandem {

namespace detail {

/// Arrays of an optimizer's state; where its settings decide (Sgd: momentum), one.
template <class Optimizer>
constexpr int most_states() {
  if constexpr (requires { Optimizer::states(); }) {
    return Optimizer::states();
  } else {
    return 1;
  }
}

}  // namespace detail

/// What device @p device of a replica needs at most for steps of a global batch of @p batch
/// samples; see DeviceMemory for what is not counted.
/// @throws ContractError  batch < 1, or there is no such device
template <class Net, Strategy S, class Optimizer, class Precision>
constexpr DeviceMemory device_memory(int batch, int device) {
  expects(batch >= 1 && device >= 0 && device < S::devices,
          "device_memory(batch, device): give 1 sample or more, and a device of the replica");
  using P = Program<Net, S, static_cast<int>(sizeof(typename Precision::Master))>;
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    DeviceMemory memory;
    static_cast<void>(
        ((D == device && (memory = detail::device_memory<typename P::template Device<D>, Precision>(
                              batch, detail::most_states<Optimizer>()),
                          true)) ||
         ...));
    return memory;
  }
  (std::make_integer_sequence<int, S::devices>{});
}

/// Whether no device needs more than @p bytes for a global batch of @p batch samples: never true
/// where the tensors do not fit, but leave room for scratch memory and packed weights.
template <class Net, Strategy S, class Optimizer, class Precision>
constexpr bool fits(int batch, std::int64_t bytes) {
  for (int device = 0; device < S::devices; ++device) {
    if (device_memory<Net, S, Optimizer, Precision>(batch, device).total() > bytes) {
      return false;
    }
  }
  return true;
}

}  // namespace tandem

// ---- tandem/train/trainer.hpp

/// @file
/// Trainer: a network, a strategy and a backend put to work on data.

// ---- tandem/train/batch_check.hpp

/// @file
/// Checks of a batch before any rank sees it: sizes, microbatches, batch norm, labels.

namespace tandem {

/// @throws ContractError  the training batch cannot be split as the strategy says, or leaves a
/// batch
///                        norm with one value a channel
template <class Program>
void check_training_batch(int batch, Batching const& batching) {
  int const all = batching.all_microbatches();
  if (batch < all) {
    throw ContractError{"a training batch of " + std::to_string(batch) +
                        " samples cannot be split into " + std::to_string(all) +
                        " microbatches; use a larger batch, fewer microbatches or devices, or "
                        ".drop_last = true for the last batch of an epoch"};
  }
  for (int n = 0; n < Program::network.nodes; ++n) {
    Node const& node = Program::network.node[n];
    if (!node.normalizes || node.out[1] * node.out[2] > 1) {
      continue;
    }
    int const apart = node.synchronizes ? batching.microbatches : all;  // the others are together
    for (int m = 0; m < apart; ++m) {
      int samples = 0;
      for (int i = m; i < all; i += apart) {
        samples += microbatch_size(batch, i, batching);
      }
      if (samples == 1) {
        throw ContractError{"batch norm '" + to_string(node.path) +
                            "' has one value a channel in microbatch " + std::to_string(m) +
                            " of a batch of " + std::to_string(batch) +
                            " samples: it has no variance; use a larger batch or fewer "
                            "microbatches, or .drop_last = true"};
      }
    }
  }
}

/// Where targets are labels, each must be the index of an output; other integers may be any.
/// @throws ContractError  one is not; the message names the sample of the batch
template <class LossType, class MetricType>
void check_labels(std::span<typename LossType::Target const> labels, std::int64_t outputs) {
  if constexpr (targets_are_labels<LossType, MetricType>) {
    for (std::size_t s = 0; s < labels.size(); ++s) {
      if (labels[s] < 0 || labels[s] >= outputs) {
        throw ContractError{"label " + std::to_string(labels[s]) + " of sample " +
                            std::to_string(s) + " of the batch is out of range: the network has " +
                            std::to_string(outputs) + " outputs"};
      }
    }
  }
}

/// Every batch of an epoch over @p samples, the last one included unless it is dropped.
/// @throws ContractError  as check_training_batch, or there is no batch at all
template <class Program>
void check_epoch(std::int64_t samples, int batch, bool drop_last, Batching const& batching) {
  if (samples >= batch) {
    check_training_batch<Program>(batch, batching);
  } else if (samples == 0 || drop_last) {
    throw ContractError{"an epoch of " + std::to_string(samples) +
                        " samples has no batch to train on: .batch is " + std::to_string(batch) +
                        (drop_last ? " and .drop_last leaves out a smaller one" : "")};
  }
  auto const last = static_cast<int>(samples % batch);
  if (last != 0 && !drop_last) {
    check_training_batch<Program>(last, batching);
  }
}

/// Asked for where a function begins, so that its sentence stands before what follows of it.
template <class D, class LossType>
struct TargetsFit {
  static constexpr bool value = true;
  static_assert(std::is_same_v<typename D::Target, typename LossType::Target>,
                "Trainer: the dataset's Target must be the loss's: std::int32_t labels for "
                "SoftmaxCrossEntropy, float for MeanSquaredError");
};

/// @throws ContractError  the samples of @p data are not what a network takes, or its loss wants
template <class LossType, Dataset D>
void check_dataset(D const& data, Shape input, Shape output) {
  if (data.shape() != input || data.targets() != LossType::targets(output)) {
    throw ContractError{"the dataset has samples of " + to_string(data.shape()) + " with " +
                        std::to_string(data.targets()) + " targets, but the network takes " +
                        to_string(input) + " and its loss " +
                        std::to_string(LossType::targets(output)) +
                        "; augment(data, PadTo{...}) changes a sample's shape"};
  }
}

/// Checks a batch of the caller's own; returns the number of its samples.
/// @throws ContractError  it has no whole samples with targets, or more than @p most
template <class Program, class LossType, class T, class Target>
int check_batch(std::span<T const> x, std::span<Target const> targets, int most,
                Batching const& batching) {
  std::int64_t const inputs = Program::network.node[0].out.elements();
  auto const samples = static_cast<std::int64_t>(x.size()) / inputs;
  expects(static_cast<std::int64_t>(x.size()) == samples * inputs &&
              static_cast<std::int64_t>(targets.size()) ==
                  samples * LossType::targets(Program::network.output().out),
          "step(x, targets): x must be whole samples, with targets for each");
  expects(samples <= most,
          "step(x, targets): more samples than TrainerOptions::batch, for which memory is planned");
  check_training_batch<Program>(static_cast<int>(samples), batching);
  return static_cast<int>(samples);
}

/// What train() and step() throw when a loss is not finite.
template <class = void>  // compiled where it is called, not by every include
NonFiniteLoss non_finite_loss(std::int64_t step, int microbatch, int rank) {
  return NonFiniteLoss{
      "step " + std::to_string(step) + ": the loss of microbatch " + std::to_string(microbatch) +
      " on rank " + std::to_string(rank) +
      " is not finite; parameters are those of before the step: lower the learning rate, or set "
      "clip_norm"};
}

}  // namespace tandem

// ---- tandem/train/check_options.hpp

/// @file
/// checked(): TrainerOptions that are within their bounds.

// ---- tandem/train/options.hpp

/// @file
/// TrainerOptions: everything about training that does not change types; and what it gives back.

// ---- tandem/optim/schedule.hpp

/// @file
/// Learning-rate schedules: functions of the step that give a factor of the learning rate.
///
/// In steps, not epochs, so that a schedule depends on nothing but the step and resumes exactly.

namespace tandem {

/// Always 1.
struct Constant {
  [[nodiscard]] static constexpr double at(std::int64_t) { return 1.0; }
};

/// factor^floor(step / every).
struct StepDecay {
  std::int64_t every = 1;
  double factor = 0.1;
  [[nodiscard]] double at(std::int64_t step) const {
    expects(every >= 1, "StepDecay: `every` must be 1 or more");
    return std::pow(factor, static_cast<double>(step / every));
  }
};

/// final + (1 - final) (1 + cos(π step / steps)) / 2, and `final` after `steps`.
/// Source: Loshchilov, Hutter, arXiv:1608.03983, without restarts.
struct Cosine {
  std::int64_t steps = 1;
  double final = 0.0;
  [[nodiscard]] double at(std::int64_t step) const {
    expects(steps >= 1, "Cosine: `steps` must be 1 or more");
    double const part = step < steps ? static_cast<double>(step) / static_cast<double>(steps) : 1.0;
    return final + (1.0 - final) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
  }
};

/// A schedule after a linear warm-up: (step + 1) / warm_up for the first `warm_up` steps, then the
/// schedule counted from there.
struct Schedule {
  std::variant<Constant, StepDecay, Cosine> after = Constant{};
  std::int64_t warm_up = 0;

  Schedule() = default;
  template <class S>
    requires(std::same_as<S, Constant> || std::same_as<S, StepDecay> || std::same_as<S, Cosine>)
  Schedule(S schedule, std::int64_t warm_up_steps = 0) : after{schedule}, warm_up{warm_up_steps} {}

  /// The factor for step @p step, counted from 0.
  template <class = void>  // compiled where it is called, not by every include
  [[nodiscard]] double factor(std::int64_t step) const {
    if (step < warm_up) {
      return static_cast<double>(step + 1) / static_cast<double>(warm_up);
    }
    return std::visit([&](auto const& s) { return s.at(step - warm_up); }, after);
  }
};

}  // namespace tandem

namespace tandem {

/// Trainer<Net, Strategy, Host> trainer{{.batch = 128, .optimizer = Sgd{.learning_rate = 0.1F}}};
struct TrainerOptions {
  int batch = 128;  ///< global batch: the strategy splits it, never multiplies it
  Optimizer optimizer = Sgd{};
  Schedule schedule{};     ///< factor of the learning rate by step
  double clip_norm = 0.0;  ///< largest global norm of the gradient; 0: no clipping
  std::vector<ParameterGroup> groups{};
  std::uint64_t seed = 0;  ///< of initial weights, order, augmentation and dropout
  bool shuffle = true;
  bool drop_last = false;      ///< leave out an epoch's last batch if it is not full
  int threads_per_device = 0;  ///< 0: the machine's threads shared out evenly
  std::chrono::milliseconds timeout =
      std::chrono::minutes{10};  ///< for a rank to reach a collective
  /// Rows of actions for the devices of a replica, in place of the strategy's table: passes only,
  /// or with messages; verified at start-up. Its microbatches take the place of the strategy's.
  ActionRows rows{};
  World world{};       ///< processes that train together, and which this one is
  bool record = true;  ///< on a GPU: record a step as a CUDA graph and replay it; off to debug
};

/// One pass over the training data.
struct EpochResult {
  double loss = 0.0;      ///< mean over the samples, each at the parameters of its step
  double accuracy = 0.0;  ///< of the trainer's metric, likewise
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double seconds = 0.0;

  [[nodiscard]] double samples_per_second() const {
    return seconds > 0.0 ? static_cast<double>(samples) / seconds : 0.0;
  }
};

/// Adds one step to the sums of an epoch that began at @p start; mean() makes means of them.
template <class = void>  // compiled where it is called, not by every include
void add(EpochResult& sum, StepResult const& step, std::chrono::steady_clock::time_point start) {
  sum.loss += step.loss * step.samples;
  sum.accuracy += step.metric * step.samples;
  sum.samples += step.samples;
  ++sum.steps;
  sum.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class = void>
EpochResult mean(EpochResult sum) {
  if (sum.samples > 0) {
    sum.loss /= static_cast<double>(sum.samples);
    sum.accuracy /= static_cast<double>(sum.samples);
  }
  return sum;
}

/// One pass over evaluation data.
struct Evaluation {
  double loss = 0.0;
  double accuracy = 0.0;  ///< mean of the trainer's metric: accuracy unless another was chosen
  std::int64_t samples = 0;
};

/// Which epoch of how many.
struct Epoch {
  std::int64_t index = 0;
  std::int64_t total = 0;

  constexpr Epoch() = default;
  constexpr Epoch(std::int64_t epoch, std::int64_t of = 0) : index{epoch}, total{of} {}
};

/// for (auto epoch : epochs(10)) trainer.train(data.train(), epoch, Progress{});
class Epochs {
 public:
  struct Iterator {
    Epoch epoch;
    constexpr Epoch operator*() const { return epoch; }
    constexpr Iterator& operator++() {
      ++epoch.index;
      return *this;
    }
    constexpr bool operator!=(Iterator const& other) const {
      return epoch.index != other.epoch.index;
    }
  };

  constexpr explicit Epochs(std::int64_t count) : count_{count} {}
  [[nodiscard]] constexpr Iterator begin() const { return {{0, count_}}; }
  [[nodiscard]] constexpr Iterator end() const { return {{count_, count_}}; }

 private:
  std::int64_t count_;
};

constexpr Epochs epochs(std::int64_t count) { return Epochs{count}; }

}  // namespace tandem

namespace tandem {

/// @throws ContractError  an option is out of range, or a parameter group matches nothing
template <GraphSize Size>
TrainerOptions checked(TrainerOptions options, Graph<Size> const& graph) {
  expects(options.batch >= 1, "TrainerOptions: batch must be 1 or more");
  expects(options.clip_norm >= 0.0, "TrainerOptions: clip_norm must be 0 (off) or more");
  expects(options.threads_per_device >= 0,
          "TrainerOptions: threads_per_device must be 0 (shared out) or more");
  check_groups(graph, options.groups);
  return options;
}

}  // namespace tandem

// ---- tandem/train/checkpoint.hpp

/// @file
/// Checkpoints: one logical, unsharded safetensors file that every strategy writes and reads.
///
/// Tensors: each parameter and statistic under its name ("1.0.0.weight", "1.0.1.running_mean"),
/// each optimizer state as "optimizer.<state>.<name>" ("optimizer.momentum_buffer.1.0.0.weight"),
/// and the position as 64-bit integers of one element: tandem.step, tandem.epoch, tandem.position
/// (samples of the epoch already trained on), tandem.seed. Shapes are those of PyTorch's layers of
/// the same name.

// ---- tandem/train/safetensors.hpp

/// @file
/// Files of named tensors in the safetensors format, which Python's `safetensors` reads and writes.
///
/// `Safetensors::read(path)` gives views of the tensors; `write_safetensors(path, tensors,
/// metadata)` and `SafetensorsWriter` make a file that appears whole or not at all. Only bytes
/// move: nothing here converts numbers, and a host that is not little-endian must swap them itself.

// ---- tandem/train/safetensors_dtype.hpp

/// @file
/// Dtype: the element types of the safetensors format, their names and sizes.
///
/// The types of less than a byte and the complex one, which few readers know, are left out.

namespace tandem {

/// How the bytes of a tensor are to be read, little-endian. F8_E4M3 and F8_E5M2 are eight-bit
/// floats; the file's name for each is the enumerator's.
enum class Dtype {
  F64,
  F32,
  F16,
  BF16,
  F8_E4M3,
  F8_E5M2,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL
};

namespace detail {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::int64_t bytes;
};

inline constexpr std::array<DtypeRow, 15> dtype_table{{{Dtype::F64, "F64", 8},
                                                       {Dtype::F32, "F32", 4},
                                                       {Dtype::F16, "F16", 2},
                                                       {Dtype::BF16, "BF16", 2},
                                                       {Dtype::F8_E4M3, "F8_E4M3", 1},
                                                       {Dtype::F8_E5M2, "F8_E5M2", 1},
                                                       {Dtype::I64, "I64", 8},
                                                       {Dtype::I32, "I32", 4},
                                                       {Dtype::I16, "I16", 2},
                                                       {Dtype::I8, "I8", 1},
                                                       {Dtype::U64, "U64", 8},
                                                       {Dtype::U32, "U32", 4},
                                                       {Dtype::U16, "U16", 2},
                                                       {Dtype::U8, "U8", 1},
                                                       {Dtype::BOOL, "BOOL", 1}}};

/// The Dtype of a C++ type; no value where the format has no such type.
template <class T>
inline constexpr std::optional<Dtype> dtype_of_type{};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<double>{Dtype::F64};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<float>{Dtype::F32};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int64_t>{Dtype::I64};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int32_t>{Dtype::I32};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int16_t>{Dtype::I16};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::int8_t>{Dtype::I8};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint64_t>{Dtype::U64};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint32_t>{Dtype::U32};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint16_t>{Dtype::U16};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<std::uint8_t>{Dtype::U8};
template <>
inline constexpr std::optional<Dtype> dtype_of_type<bool>{Dtype::BOOL};

}  // namespace detail

/// Bytes of one element.
constexpr std::int64_t dtype_bytes(Dtype dtype) {
  return detail::dtype_table[static_cast<std::size_t>(dtype)].bytes;
}

/// The name in a file: "F32".
constexpr std::string_view dtype_name(Dtype dtype) {
  return detail::dtype_table[static_cast<std::size_t>(dtype)].name;
}

/// The Dtype with this name, if there is one.
constexpr std::optional<Dtype> find_dtype(std::string_view name) {
  for (detail::DtypeRow const& row : detail::dtype_table) {
    if (row.name == name) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

/// The Dtype that holds a T: F32 for float, I64 for std::int64_t.
template <class T>
  requires(detail::dtype_of_type<std::remove_const_t<T>>.has_value())
inline constexpr Dtype dtype_of = *detail::dtype_of_type<std::remove_const_t<T>>;

}  // namespace tandem

// ---- tandem/train/safetensors_layout.hpp

/// @file
/// What a safetensors file says of a tensor: its name, type and shape; and how many bytes they
/// take.

namespace tandem {

/// A tensor of a file, without its data. An empty shape is a scalar; an extent may be 0.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;
};

/// A tensor and its data: row-major, little-endian, and aligned to nothing, so copy it out with
/// memcpy. The bytes belong to somebody else.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;
  std::span<std::byte const> data;
};

/// Free text about a file, as keys and values, in the order of the file.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

namespace detail {

/// The key of the metadata, which no tensor may have as its name.
inline constexpr std::string_view metadata_key = "__metadata__";

/// Longest header, in bytes, that readers of this format accept.
inline constexpr std::uint64_t longest_header = 100'000'000;

/// One of @p names that occurs twice, if there is one.
template <class = void>  // compiled where it is called, not by every include
std::optional<std::string_view> find_duplicate(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  auto const place = std::adjacent_find(names.begin(), names.end());
  return place == names.end() ? std::nullopt : std::optional{*place};
}

}  // namespace detail

/// Bytes of a tensor of this type and shape; nothing if an extent is negative or the number of
/// bytes, multiplied up from the left, goes beyond 2^63 - 1.
constexpr std::optional<std::int64_t> tensor_bytes(Dtype dtype,
                                                   std::span<std::int64_t const> shape) {
  std::int64_t product = dtype_bytes(dtype);
  for (std::int64_t const extent : shape) {
    if (extent < 0 || (extent > 0 && product > std::numeric_limits<std::int64_t>::max() / extent)) {
      return std::nullopt;
    }
    product *= extent;
  }
  return product;
}

}  // namespace tandem

// ---- tandem/train/safetensors_reader.hpp

/// @file
/// Safetensors: a parsed safetensors file, its tensors as views of the bytes.
///
/// Every statement of the file is checked before it is used: a file that parses has tensors that
/// cover its data once, without hole or overlap. What the numbers mean is not checked.
/// Source: the format description in the README of the safetensors project.

// ---- tandem/train/json_string.hpp

/// @file
/// UTF-8 and the quoting of strings, as JSON wants them: checked, appended, written.
///
/// Everything here takes bytes as they come from a file and trusts none of them.

namespace tandem::detail {

/// Bytes of the UTF-8 sequence at the front of @p text; 0 if it is malformed or @p text is empty.
///
/// Malformed are: a stray continuation byte, a sequence that is cut off or longer than it need be,
/// a surrogate, and what lies above U+10FFFF.
/// Source: The Unicode Standard 15.0, table 3-7.
constexpr std::size_t utf8_length(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  auto const at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const lead = at(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return 0;
  }
  std::size_t const length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) {
    return 0;
  }
  unsigned const low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned const high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF) {
      return 0;
    }
  }
  return length;
}

/// Whether all of @p text is well-formed UTF-8.
constexpr bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

/// Appends the code point @p point.
/// @pre point <= 0x10FFFF and no surrogate
inline void append_utf8(std::string& out, std::uint32_t point) {
  auto const put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
    return;
  }
  if (point < 0x800) {
    put(0xC0 | (point >> 6));
  } else {
    if (point < 0x10000) {
      put(0xE0 | (point >> 12));
    } else {
      put(0xF0 | (point >> 18));
      put(0x80 | ((point >> 12) & 0x3F));
    }
    put(0x80 | ((point >> 6) & 0x3F));
  }
  put(0x80 | (point & 0x3F));
}

/// Appends @p text in quotes, with the shortest escape of what JSON does not allow in them.
/// Other characters, also those outside ASCII, stand as they are.
inline void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::string_view special = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  out += '"';
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (std::size_t const which = special.find(c); which != std::string_view::npos) {
      out += '\\';
      out += letters[which];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 0xF];
    } else {
      out += c;
    }
  }
  out += '"';
}

/// @p text quoted for an error message: at most 64 bytes of it, and "..." if there are more.
/// @pre text is UTF-8
inline std::string json_quoted(std::string_view text) {
  constexpr std::size_t most = 64;
  std::size_t end = text.size();
  if (end > most) {
    end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;  // not inside a sequence
    }
  }
  std::string out;
  append_json_string(out, text.substr(0, end));
  return end < text.size() ? out + "..." : out;
}

}  // namespace tandem::detail

// ---- tandem/train/safetensors_file.hpp

/// @file
/// Reads a whole file into memory, with an error for each way in which that can fail.
///
/// Not a memory map: a file that another process cuts short meanwhile is an error here, there a
/// signal.

namespace tandem::detail {

struct FileBytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;

  [[nodiscard]] std::span<std::byte const> span() const noexcept { return {bytes.get(), size}; }
};

/// Closes a descriptor that was only read from, where an error of close() means nothing.
class ReadDescriptor {
 public:
  explicit ReadDescriptor(int descriptor) noexcept : descriptor_{descriptor} {}
  ReadDescriptor(ReadDescriptor const&) = delete;
  ReadDescriptor& operator=(ReadDescriptor const&) = delete;
  ~ReadDescriptor() {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(descriptor_));
    }
  }

  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

/// @throws FileError  there is no regular file at @p path, it cannot be read, it shrinks while it
/// is
///                    read, or memory for it is lacking
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] FileBytes read_whole_file(std::string const& path) {
  auto const fail = [&](char const* what, int error) {
    throw FileError{path, std::string{what} + ": " + std::generic_category().message(error)};
  };
  // O_NONBLOCK: a pipe at this path is refused below, not waited for.
  ReadDescriptor const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.get() < 0) {
    fail("cannot open the file", errno);
  }
  struct ::stat status {};
  if (::fstat(file.get(), &status) != 0) {
    fail("cannot ask for the size of the file", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError{path, "this is a folder or a device, not a regular file"};
  }
  FileBytes result;
  result.size = static_cast<std::size_t>(status.st_size);
  result.bytes.reset(new (std::nothrow) std::byte[result.size]);
  if (result.bytes == nullptr) {
    throw FileError{path, "there is no memory for its " + std::to_string(result.size) + " bytes"};
  }
  constexpr std::size_t most = std::size_t{1} << 30;  // some systems refuse 2 GiB in one call
  for (std::size_t have = 0; have < result.size;) {
    std::size_t const missing = result.size - have;
    ::ssize_t const got =
        ::read(file.get(), result.bytes.get() + have, missing < most ? missing : most);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail("cannot read the file", errno);
    }
    if (got == 0) {
      throw FileError{path, "the file became shorter while it was read"};
    }
    have += static_cast<std::size_t>(got);
  }
  return result;
}

}  // namespace tandem::detail

// ---- tandem/train/safetensors_header.hpp

/// @file
/// Reads the JSON header of a safetensors file, and trusts nothing that it reads.
///
/// The header is `{"__metadata__": {key: text, …}, name: {"dtype": "F32", "shape": [2, 3],
/// "data_offsets": [begin, end]}, …}`; the offsets count from the first byte of the data. Whether
/// the tensors cover the data is checked in safetensors_reader.hpp.

// ---- tandem/train/json.hpp

/// @file
/// JsonReader: reads the JSON that the caller expects, value by value, and refuses any other.
///
/// It knows objects, arrays, strings and non-negative integers, which is what the header of a
/// safetensors file holds; floats, `true`, `false` and `null` are errors. It builds no tree and
/// never calls itself: values nest as deep as the caller's own calls do, so a deep file costs no
/// stack.

namespace tandem::detail {

/// A position in a JSON text. The text must outlive the reader.
class JsonReader {
 public:
  /// @p path names the file in errors; the text begins at its byte @p first_byte.
  JsonReader(std::string_view text, std::string const& path, std::size_t first_byte)
      : text_{text}, path_{path}, first_byte_{first_byte} {}

  /// Reads an object; calls @p member(key) after each `key:`, which must read the value.
  template <class Member>
  void object(Member&& member) {
    expect('{', "an object");
    if (accept('}')) {
      return;
    }
    do {
      std::string key = string();
      expect(':', "':' after the key");
      member(std::move(key));
    } while (accept(','));
    expect('}', "',' or '}'");
  }

  /// Reads an array; calls @p element() at each element, which must read it.
  template <class Element>
  void array(Element&& element) {
    expect('[', "an array");
    if (accept(']')) {
      return;
    }
    do {
      element();
    } while (accept(','));
    expect(']', "',' or ']'");
  }

  /// Reads a string; the result is UTF-8, its escapes resolved.
  [[nodiscard]] std::string string() {
    expect('"', "a string");
    std::string out;
    while (true) {
      if (at_ == text_.size()) {
        fail("the string is not closed");
      }
      char const c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (c == '\\') {
        append_escape(out);
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        fail("a control character in a string; write it as \\u and four digits");
      }
      std::size_t const length = utf8_length(text_.substr(at_));
      if (length == 0) {
        fail("the string is not UTF-8");
      }
      out += text_.substr(at_, length);
      at_ += length;
    }
  }

  /// Reads an integer from 0 to 2^63 - 1, without sign, fraction or exponent.
  [[nodiscard]] std::int64_t natural() {
    constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    skip_blanks();
    std::size_t const begin = at_;
    std::int64_t value = 0;
    for (; is_digit(peek()); ++at_) {
      std::int64_t const digit = peek() - '0';
      if (value > (largest - digit) / 10) {
        fail("the number is larger than 2^63 - 1");
      }
      value = 10 * value + digit;
    }
    if (at_ == begin) {
      fail(peek() == '-' ? "the number is negative; it must be a non-negative integer"
                         : "expected a non-negative integer");
    }
    if (text_[begin] == '0' && at_ > begin + 1) {
      fail("the number begins with a zero");
    }
    if (peek() == '.' || peek() == 'e' || peek() == 'E') {
      fail("the number has a fraction or an exponent; it must be a non-negative integer");
    }
    return value;
  }

  /// Checks that only blanks are left.
  void end() {
    skip_blanks();
    if (at_ != text_.size()) {
      fail("expected nothing more");
    }
  }

  /// @throws FileError  always: "the header is wrong at byte N: @p what"
  [[noreturn]] void fail(std::string const& what) const {
    throw FileError{
        path_, "the header is wrong at byte " + std::to_string(first_byte_ + at_) + ": " + what};
  }

 private:
  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

  /// The next character, or NUL, which JSON does not allow outside strings, at the end.
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') {
      ++at_;
    }
  }

  bool accept(char token) {
    skip_blanks();
    if (peek() != token) {
      return false;
    }
    ++at_;
    return true;
  }

  void expect(char token, char const* what) {
    if (!accept(token)) {
      fail(std::string{at_ == text_.size() ? "the text ends, expected " : "expected "} + what);
    }
  }

  void append_escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meaning = "\"\\/\b\f\n\r\t";
    char const letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (std::size_t const which = letters.find(letter); which != std::string_view::npos) {
      out += meaning[which];
      at_ += 2;
      return;
    }
    std::uint32_t point = escaped_unit();
    if (point >= 0xD800 && point < 0xDC00) {  // the first half of a surrogate pair
      std::uint32_t const low = escaped_unit();
      if (low < 0xDC00 || low > 0xDFFF) {
        fail("half of a surrogate pair in a string");
      }
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    } else if (point >= 0xDC00 && point <= 0xDFFF) {
      fail("half of a surrogate pair in a string");
    }
    append_utf8(out, point);
  }

  /// Reads `\uXXXX`.
  std::uint32_t escaped_unit() {
    if (text_.substr(at_, 2) != "\\u" || text_.size() - at_ < 6) {
      fail("expected an escape: one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t, or \\u and four digits");
    }
    std::uint32_t unit = 0;
    for (std::size_t const end = (at_ += 2) + 4; at_ < end; ++at_) {
      char const c = text_[at_];
      char const lower = static_cast<char>(c | 0x20);
      bool const letter = lower >= 'a' && lower <= 'f';
      if (!is_digit(c) && !letter) {
        fail("expected a hexadecimal digit");
      }
      unit = 16 * unit + static_cast<std::uint32_t>(letter ? lower - 'a' + 10 : c - '0');
    }
    return unit;
  }

  std::string_view text_;
  std::string path_;
  std::size_t first_byte_;
  std::size_t at_ = 0;
};

}  // namespace tandem::detail

namespace tandem::detail {

/// A tensor of the header. Between its offsets lie exactly the bytes of its type and shape.
struct SafetensorsEntry {
  TensorSpec spec;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
};

/// Reads the value of one tensor: {"dtype": …, "shape": …, "data_offsets": …}, in any order.
template <class = void>  // compiled where it is called, not by every include
SafetensorsEntry read_safetensors_entry(JsonReader& json, std::string name) {
  std::optional<Dtype> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;
  std::string const of = " of tensor " + json_quoted(name);
  auto const numbers = [&](std::optional<std::vector<std::int64_t>>& list) {
    list.emplace();
    json.array([&] { list->push_back(json.natural()); });
  };
  json.object([&](std::string const& field) {
    bool const twice = (field == "dtype" && dtype) || (field == "shape" && shape) ||
                       (field == "data_offsets" && offsets);
    if (twice) {
      json.fail("the field " + json_quoted(field) + of + " occurs twice");
    }
    if (field == "dtype") {
      std::string const type = json.string();
      dtype = find_dtype(type);
      if (!dtype) {
        json.fail("the dtype " + json_quoted(type) + of + " is unknown");
      }
    } else if (field == "shape") {
      numbers(shape);
    } else if (field == "data_offsets") {
      numbers(offsets);
    } else {
      json.fail("the field " + json_quoted(field) + of + " is unknown");
    }
  });
  if (!dtype || !shape || !offsets) {
    json.fail(std::string{"the field "} +
              (!dtype   ? "\"dtype\""
               : !shape ? "\"shape\""
                        : "\"data_offsets\"") +
              of + " is missing");
  }
  if (offsets->size() != 2) {
    json.fail("the field \"data_offsets\"" + of + " has " + std::to_string(offsets->size()) +
              " numbers, not 2");
  }
  std::int64_t const begin = (*offsets)[0];
  std::int64_t const end = (*offsets)[1];
  std::optional<std::int64_t> const bytes = tensor_bytes(*dtype, *shape);
  if (!bytes) {
    json.fail("the shape" + of + " has more than 2^63 - 1 bytes");
  }
  if (end < begin) {
    json.fail("the data_offsets" + of + " are reversed");
  }
  if (end - begin != *bytes) {
    json.fail("the data_offsets" + of + " span " + std::to_string(end - begin) +
              " bytes, but its dtype and shape make " + std::to_string(*bytes));
  }
  return {{std::move(name), *dtype, std::move(*shape)}, begin, end};
}

/// Reads a header. @p text begins at byte @p first_byte of the file @p path.
/// @throws FileError  with the byte of the file, for any text but a header
template <class = void>
SafetensorsHeader read_safetensors_header(std::string_view text, std::string const& path,
                                          std::size_t first_byte) {
  SafetensorsHeader header;
  bool has_metadata = false;
  JsonReader json{text, path, first_byte};
  if (!text.starts_with('{')) {
    json.fail("expected '{' as the first character");
  }
  json.object([&](std::string name) {
    if (name != metadata_key) {
      header.entries.push_back(read_safetensors_entry(json, std::move(name)));
      return;
    }
    if (std::exchange(has_metadata, true)) {
      json.fail("the key " + json_quoted(name) + " occurs twice");
    }
    json.object(
        [&](std::string key) { header.metadata.emplace_back(std::move(key), json.string()); });
  });
  json.end();

  std::vector<std::string_view> names;
  for (SafetensorsEntry const& entry : header.entries) {
    names.push_back(entry.spec.name);
  }
  if (auto const name = find_duplicate(names)) {
    throw FileError{path, "the tensor " + json_quoted(*name) + " occurs twice in the header"};
  }
  names.clear();
  for (auto const& [key, value] : header.metadata) {
    names.push_back(key);
  }
  if (auto const key = find_duplicate(names)) {
    throw FileError{path, "the key " + json_quoted(*key) + " occurs twice in the metadata"};
  }
  return header;
}

}  // namespace tandem::detail

namespace tandem {

/// The tensors and the metadata of a file. Moving it leaves the views valid.
class Safetensors {
 public:
  /// Reads the whole file at @p path into memory and parses it; the result owns the bytes.
  ///
  /// Cost: one allocation of the file's size.
  /// @throws FileError  the file cannot be read or is not a valid safetensors file
  template <class = void>  // compiled where it is called, not by every include
  [[nodiscard]] static Safetensors read(std::string const& path) {
    detail::FileBytes file = detail::read_whole_file(path);
    Safetensors parsed = parse(file.span(), path);
    parsed.owned_ = std::move(file.bytes);
    return parsed;
  }

  /// Parses @p bytes, which must outlive the result; @p path names them in errors.
  ///
  /// Cost: O(header) + O(n log n) comparisons of names and offsets for n tensors; no data is read.
  /// @throws FileError  the bytes are not a valid safetensors file; the text says where and why
  template <class = void>
  [[nodiscard]] static Safetensors parse(std::span<std::byte const> bytes,
                                         std::string const& path) {
    std::uint64_t const length = header_length(bytes, path);
    std::span<std::byte const> const header = bytes.subspan(8, static_cast<std::size_t>(length));
    std::span<std::byte const> const data = bytes.subspan(8 + header.size());
    detail::SafetensorsHeader parsed = detail::read_safetensors_header(
        {reinterpret_cast<char const*>(header.data()), header.size()}, path, 8);
    check_cover(parsed.entries, static_cast<std::int64_t>(data.size()), path);

    Safetensors result{path, std::move(parsed.metadata)};
    result.tensors_.reserve(parsed.entries.size());
    for (detail::SafetensorsEntry& entry : parsed.entries) {
      result.tensors_.push_back({std::move(entry.spec.name), entry.spec.dtype,
                                 std::move(entry.spec.shape),
                                 data.subspan(static_cast<std::size_t>(entry.begin),
                                              static_cast<std::size_t>(entry.end - entry.begin))});
    }
    result.sort_names();
    return result;
  }

  /// In the order of the header.
  [[nodiscard]] std::vector<TensorView> const& tensors() const noexcept { return tensors_; }

  /// The tensor of this name, or null. O(log n).
  template <class = void>
  [[nodiscard]] TensorView const* find(std::string_view name) const noexcept {
    auto const place = std::lower_bound(
        by_name_.begin(), by_name_.end(), name,
        [&](std::size_t i, std::string_view n) { return tensors_[i].name.compare(n) < 0; });
    return place != by_name_.end() && tensors_[*place].name == name ? &tensors_[*place] : nullptr;
  }

  /// The tensor of this name.
  /// @throws FileError  there is none
  template <class = void>
  [[nodiscard]] TensorView const& at(std::string_view name) const {
    TensorView const* const tensor = find(name);
    if (tensor == nullptr) {
      throw FileError{path_, "there is no tensor " + detail::json_quoted(name) + " among the " +
                                 std::to_string(tensors_.size()) + " of this file"};
    }
    return *tensor;
  }

  /// In the order of the header.
  [[nodiscard]] SafetensorsMetadata const& metadata() const noexcept { return metadata_; }

  /// The metadata under this key, or null. O(n).
  [[nodiscard]] std::string const* find_metadata(std::string_view key) const noexcept {
    for (auto const& [name, value] : metadata_) {
      if (name == key) {
        return &value;
      }
    }
    return nullptr;
  }

 private:
  template <class = void>
  Safetensors(std::string path, SafetensorsMetadata metadata)
      : path_{std::move(path)}, metadata_{std::move(metadata)} {}

  template <class = void>
  static std::uint64_t header_length(std::span<std::byte const> bytes, std::string const& path) {
    if (bytes.size() < 8) {
      throw FileError{path, "the file has " + std::to_string(bytes.size()) +
                                " bytes; a safetensors file begins with an 8-byte length"};
    }
    std::uint64_t length = 0;
    for (std::size_t byte = 8; byte-- > 0;) {
      length = length << 8 | std::to_integer<std::uint64_t>(bytes[byte]);
    }
    if (length > detail::longest_header) {
      throw FileError{path,
                      "the header claims " + std::to_string(length) +
                          " bytes, more than the 100,000,000 that are allowed; it is probably "
                          "not a safetensors file"};
    }
    if (length > bytes.size() - 8) {
      throw FileError{path, "the header claims " + std::to_string(length) + " bytes, but only " +
                                std::to_string(bytes.size() - 8) + " follow; the file is cut off"};
    }
    return length;
  }

  /// The tensors, sorted by their place, must lie end to end from 0 to @p size.
  template <class = void>
  static void check_cover(std::span<detail::SafetensorsEntry const> entries, std::int64_t size,
                          std::string const& path) {
    std::vector<detail::SafetensorsEntry const*> sorted;
    for (detail::SafetensorsEntry const& entry : entries) {
      if (entry.end > size) {
        throw FileError{path, "tensor " + detail::json_quoted(entry.spec.name) + " ends at byte " +
                                  std::to_string(entry.end) + " of the data, which has only " +
                                  std::to_string(size) + "; the file is cut off or damaged"};
      }
      sorted.push_back(&entry);
    }
    std::sort(sorted.begin(), sorted.end(), [](auto const* a, auto const* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
    });
    std::int64_t covered = 0;
    for (detail::SafetensorsEntry const* const entry : sorted) {
      if (entry->begin != covered) {
        throw FileError{path, "tensor " + detail::json_quoted(entry->spec.name) +
                                  " begins at byte " + std::to_string(entry->begin) +
                                  " of the data, but " +
                                  (entry->begin < covered ? "overlaps" : "leaves a hole after") +
                                  " the tensors that end at byte " + std::to_string(covered)};
      }
      covered = entry->end;
    }
    if (covered != size) {
      throw FileError{path, "the file goes on for " + std::to_string(size - covered) +
                                " bytes after the last tensor"};
    }
  }

  template <class = void>
  void sort_names() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      by_name_.push_back(i);
    }
    std::sort(by_name_.begin(), by_name_.end(),
              [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
  }

  std::string path_;
  SafetensorsMetadata metadata_;
  std::vector<TensorView> tensors_;
  std::vector<std::size_t> by_name_;
  std::unique_ptr<std::byte[]> owned_;  // null after parse(): then the caller owns the bytes
};

}  // namespace tandem

// ---- tandem/train/safetensors_writer.hpp

/// @file
/// SafetensorsWriter: writes a safetensors file tensor by tensor, with no second copy of the data.
///
/// The header comes first, so the names, types and shapes of all tensors are needed at the start;
/// the data may then be gathered piece by piece. The file appears whole or not at all (AtomicFile).

// ---- tandem/train/atomic_file.hpp

/// @file
/// AtomicFile: a file that appears whole under its name, or not at all.
///
/// The bytes go to a temporary file in the same folder, which commit() flushes to the disk and
/// renames. A process that dies before that leaves the previous file as it was, and the temporary
/// file beside it. A symbolic link at the name is replaced, not followed.

namespace tandem {

namespace detail {

/// Writes all of @p bytes to @p descriptor; returns 0, or the errno of the call that failed.
[[nodiscard]] inline int write_all(int descriptor, std::span<std::byte const> bytes) noexcept {
  constexpr std::size_t most = std::size_t{1} << 30;  // some systems refuse 2 GiB in one call
  while (!bytes.empty()) {
    std::size_t const ask = bytes.size() < most ? bytes.size() : most;
    ::ssize_t const wrote = ::write(descriptor, bytes.data(), ask);
    if (wrote < 0 && errno == EINTR) {
      continue;
    }
    if (wrote <= 0) {
      return wrote < 0 ? errno : EIO;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return 0;
}

/// Flushes a folder, so that a rename in it survives a power failure; returns 0 or an errno.
/// EINVAL counts as success: it is how a file system says that it has nothing to flush.
[[nodiscard]] inline int sync_folder(char const* folder) noexcept {
  int const descriptor = ::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return errno;
  }
  int const error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  static_cast<void>(::close(descriptor));
  return error;
}

}  // namespace detail

/// Writes a file through a temporary one; only commit() gives it its name.
///
/// Any call that throws has removed the temporary file already; afterwards the object is closed.
/// Two AtomicFiles of one path do not mix: the last commit() wins.
class [[nodiscard]] AtomicFile {
 public:
  /// Creates the temporary file `<path>.tmp-<process>-<n>`.
  /// @throws FileError  the folder does not exist or cannot be written
  template <class = void>  // compiled where it is called, not by every include
  explicit AtomicFile(std::string path) : path_{std::move(path)} {
    std::string const stem = path_ + ".tmp-" + std::to_string(::getpid()) + "-";
    for (int n = 0; descriptor_ < 0; ++n) {
      temporary_ = stem + std::to_string(n);
      descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST && errno != EINTR) {
        temporary_.clear();
        fail("cannot create a temporary file beside it", errno);
      }
    }
  }

  AtomicFile(AtomicFile const&) = delete;
  AtomicFile& operator=(AtomicFile const&) = delete;

  /// Without a commit(): removes the temporary file.
  ~AtomicFile() { discard(); }

  /// Appends @p bytes.
  /// @throws FileError  the disk is full or broken; the previous file is untouched
  void write(std::span<std::byte const> bytes) {
    expects_open();
    if (int const error = detail::write_all(descriptor_, bytes); error != 0) {
      fail("cannot write the new content", error);
    }
  }

  /// Flushes the bytes to the disk and gives the file its name. Call it once, as the last verb.
  /// @throws FileError  some step failed; the text says whether the previous file is untouched
  void commit() {
    expects_open();
    if (::fsync(descriptor_) != 0) {
      fail("cannot flush the new content to the disk", errno);
    }
    if (::close(std::exchange(descriptor_, -1)) != 0) {  // closed also if it fails
      fail("cannot close the new content", errno);
    }
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail("cannot rename the new content to this name", errno);
    }
    temporary_.clear();
    if (int const error = detail::sync_folder(folder().c_str()); error != 0) {
      throw FileError{path_, "the new content is in place, but its folder cannot be flushed (" +
                                 std::generic_category().message(error) +
                                 "): a power failure may bring the previous file back"};
    }
  }

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  void expects_open() const {
    expects(descriptor_ >= 0,
            "AtomicFile: this file is closed, after commit() or a call that threw; make another");
  }

  [[noreturn]] void fail(char const* what, int error) {
    discard();
    throw FileError{path_, std::string{what} + ": " + std::generic_category().message(error) +
                               "; the previous file, if there was one, is untouched"};
  }

  void discard() noexcept {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(std::exchange(descriptor_, -1)));
    }
    if (!temporary_.empty()) {
      static_cast<void>(::unlink(temporary_.c_str()));
      temporary_.clear();
    }
  }

  [[nodiscard]] std::string folder() const {
    std::size_t const slash = path_.rfind('/');
    return slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  }

  std::string path_;
  std::string temporary_;  // empty once it has been renamed or removed
  int descriptor_ = -1;
};

}  // namespace tandem

namespace tandem {

namespace detail {

/// The first bytes of a file with these tensors one after the other: length, JSON, and blanks up to
/// a multiple of 8. Only a test gives another @p longest length than that of the format.
///
/// @throws ContractError  a name that is not UTF-8, occurs twice or is `__metadata__`; a negative
///                        extent; a header or data too long for the format
template <class = void>  // compiled where it is called, not by every include
std::string write_safetensors_header(std::span<TensorSpec const> tensors,
                                     SafetensorsMetadata const& metadata,
                                     std::uint64_t longest = longest_header) {
  std::string json = "{";
  std::vector<std::string_view> names;
  auto const append_key = [&](std::string_view key) {
    expects(is_utf8(key), "safetensors: every name and metadata key must be UTF-8");
    json += json.back() == '{' ? "" : ",";
    append_json_string(json, key);
    json += ':';
    names.push_back(key);
  };
  if (!metadata.empty()) {
    append_key(metadata_key);
    json += '{';
    names.clear();
    for (auto const& [key, value] : metadata) {
      append_key(key);
      expects(is_utf8(value), "safetensors: every metadata value must be UTF-8");
      append_json_string(json, value);
    }
    json += '}';
    expects(!find_duplicate(names), "safetensors: a metadata key occurs twice");
  }
  names.clear();
  std::int64_t begin = 0;
  for (TensorSpec const& tensor : tensors) {
    std::optional<std::int64_t> const bytes = tensor_bytes(tensor.dtype, tensor.shape);
    expects(bytes && *bytes <= std::numeric_limits<std::int64_t>::max() - begin,
            "safetensors: a negative extent, or more than 2^63 - 1 bytes of data");
    expects(tensor.name != metadata_key, "safetensors: no tensor may be named __metadata__");
    append_key(tensor.name);
    json += "{\"dtype\":\"" + std::string{dtype_name(tensor.dtype)} + "\",\"shape\":[";
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      json += (axis > 0 ? "," : "") + std::to_string(tensor.shape[axis]);
    }
    json += "],\"data_offsets\":[" + std::to_string(begin) + ',' + std::to_string(begin + *bytes) +
            "]}";
    begin += *bytes;
  }
  expects(!find_duplicate(names), "safetensors: two tensors have the same name");
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  expects(json.size() <= longest, "safetensors: the header is longer than 100,000,000 bytes");

  std::string file;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    file += static_cast<char>((json.size() >> (8 * byte)) & 0xFF);
  }
  return file + json;
}

}  // namespace detail

/// Writes the data of the tensors that it was made for, in their order.
class [[nodiscard]] SafetensorsWriter {
 public:
  /// Writes the header of the file that finish() will put at @p path.
  ///
  /// @throws ContractError  two names are the same, or name, shape or metadata do not fit the
  /// format
  /// @throws FileError      the folder cannot be written
  template <class = void>
  SafetensorsWriter(std::string path, std::vector<TensorSpec> tensors,
                    SafetensorsMetadata const& metadata = {})
      : SafetensorsWriter{detail::write_safetensors_header(tensors, metadata), std::move(path),
                          std::move(tensors)} {}

  /// Appends @p bytes to the data of the first tensor that still lacks some. One call never serves
  /// two tensors, so that a tensor of the wrong size does not shift those after it.
  /// @throws ContractError  the tensor does not need so many bytes, or no tensor needs any
  /// @throws FileError      the disk is full or broken; the previous file is untouched
  void write(std::span<std::byte const> bytes) {
    auto const size = static_cast<std::int64_t>(bytes.size());
    expects(size <= missing_, "SafetensorsWriter: more bytes than the current tensor's shape has");
    file_.write(bytes);
    missing_ -= size;
    to_next_incomplete();
  }

  /// Gives the file its name. Without it the previous file stays.
  /// @throws ContractError  a tensor still lacks bytes
  /// @throws FileError      the disk is full or broken; the text says which file is there now
  void finish() {
    expects(missing_ == 0, "SafetensorsWriter: finish() before every tensor was written whole");
    file_.commit();
  }

 private:
  template <class = void>
  SafetensorsWriter(std::string const& header, std::string path, std::vector<TensorSpec> tensors)
      : file_{std::move(path)}, tensors_{std::move(tensors)} {
    file_.write(std::as_bytes(std::span{header}));
    to_next_incomplete();
  }

  template <class = void>
  void to_next_incomplete() {
    for (; missing_ == 0 && next_ < tensors_.size(); ++next_) {
      missing_ = *tensor_bytes(tensors_[next_].dtype, tensors_[next_].shape);
    }
  }

  AtomicFile file_;
  std::vector<TensorSpec> tensors_;
  std::size_t next_ = 0;      // the first tensor whose size is not in missing_ yet
  std::int64_t missing_ = 0;  // bytes that the current tensor lacks; 0: all are complete
};

/// Writes @p tensors, in their order, to a new file at @p path, or leaves the file there as it was.
///
/// @throws ContractError  the data of a tensor is not as long as its type and shape say, two names
/// are
///                        the same, or name, shape or metadata do not fit the format
/// @throws FileError      the disk is full or broken; the text says which file is there now
template <class = void>
void write_safetensors(std::string const& path, std::span<TensorView const> tensors,
                       SafetensorsMetadata const& metadata = {}) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (TensorView const& tensor : tensors) {
    expects(
        tensor_bytes(tensor.dtype, tensor.shape) == static_cast<std::int64_t>(tensor.data.size()),
        "write_safetensors: the data of a tensor must be as long as its dtype and shape say");
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  SafetensorsWriter writer{path, std::move(specs), metadata};
  for (TensorView const& tensor : tensors) {
    if (!tensor.data.empty()) {
      writer.write(tensor.data);
    }
  }
  writer.finish();
}

}  // namespace tandem

namespace tandem {

/// Where training stands. Random numbers need nothing else.
struct TrainingPosition {
  std::int64_t step = 0;      ///< steps taken
  std::int64_t epoch = 0;     ///< the epoch at work
  std::int64_t position = 0;  ///< samples of it already trained on
  std::int64_t seed = 0;
};

namespace detail {

struct PositionField {
  char const* name;
  std::int64_t TrainingPosition::*field;
};
inline constexpr PositionField position_fields[] = {
    {"tandem.step", &TrainingPosition::step},
    {"tandem.epoch", &TrainingPosition::epoch},
    {"tandem.position", &TrainingPosition::position},
    {"tandem.seed", &TrainingPosition::seed}};

template <class = void>  // compiled where it is called, not by every include
std::vector<std::int64_t> extents(Shape const& shape) {
  std::vector<std::int64_t> list;
  for (int axis = 0; axis < shape.rank; ++axis) {
    list.push_back(shape[axis]);
  }
  return list;
}

template <class T>
TensorView view_of(std::string name, Shape const& shape, std::span<T> values) {
  return {std::move(name), dtype_of<T>, extents(shape), std::as_bytes(values)};
}

// Every tensor of a checkpoint: name, shape and where its values are in memory.
template <class T>
std::vector<TensorView> checkpoint_tensors(std::vector<NamedParameter<T>> const& parameters,
                                           std::vector<std::string> const& state_names) {
  std::vector<TensorView> tensors;
  for (NamedParameter<T> const& p : parameters) {
    tensors.push_back(view_of(p.name, p.shape, p.value));
  }
  for (std::size_t s = 0; s < state_names.size(); ++s) {
    for (NamedParameter<T> const& p : parameters) {
      if (s < p.states.size()) {
        tensors.push_back(
            view_of("optimizer." + state_names[s] + "." + p.name, p.shape, p.states[s]));
      }
    }
  }
  return tensors;
}

// The tensor of @p file that has the name, type and shape of @p wanted.
template <class = void>
TensorView const& matching(Safetensors const& file, std::string const& path,
                           TensorView const& wanted) {
  TensorView const* const found = file.find(wanted.name);
  if (found == nullptr) {
    throw FileError{path, "tensor '" + wanted.name +
                              "' is missing; the file is of another network or optimizer"};
  }
  if (found->dtype != wanted.dtype || found->shape != wanted.shape) {
    auto const text = [](TensorView const& t) {
      std::string s{dtype_name(t.dtype)};
      for (std::int64_t const extent : t.shape) {
        s += " " + std::to_string(extent);
      }
      return s;
    };
    throw FileError{path, "tensor '" + wanted.name + "' is (" + text(*found) +
                              "), but this trainer wants (" + text(wanted) + ")"};
  }
  return *found;
}

inline void copy_into(TensorView const& wanted, TensorView const& from) {
  std::memcpy(const_cast<std::byte*>(wanted.data.data()), from.data.data(), from.data.size());
}

}  // namespace detail

/// Writes a checkpoint; a file of that name is replaced only when the new one is whole and synced.
/// @throws FileError  anything fails; the old file is untouched
template <class T>
void save_checkpoint(std::string const& path, std::vector<NamedParameter<T>> const& parameters,
                     std::vector<std::string> const& state_names, TrainingPosition position,
                     std::string const& optimizer) {
  std::vector<TensorView> tensors = detail::checkpoint_tensors(parameters, state_names);
  for (detail::PositionField const& field : detail::position_fields) {
    tensors.push_back(detail::view_of(field.name, vector_shape(1),
                                      std::span<std::int64_t>{&(position.*field.field), 1}));
  }
  write_safetensors(path, tensors,
                    {{"format", "tandem"}, {"version", "1"}, {"optimizer", optimizer}});
}

/// Reads a checkpoint into @p ranks, the parameters of every rank. All is checked first: on an
/// error nothing has changed.
/// @param whole  all parameters of the network
/// @throws FileError  the file is corrupt, lacks a tensor, has one too many, or one of another
/// shape
template <class T>
TrainingPosition load_checkpoint(std::string const& path,
                                 std::vector<NamedParameter<T>> const& whole,
                                 std::vector<std::vector<NamedParameter<T>>> const& ranks,
                                 std::vector<std::string> const& state_names,
                                 std::string const& optimizer) {
  Safetensors const file = Safetensors::read(path);
  std::string const* const writer = file.find_metadata("optimizer");
  if (writer != nullptr && *writer != optimizer) {  // Adam and AdamW have states of the same names
    throw FileError{path, "the optimizer was " + *writer + ", but this trainer has " + optimizer +
                              "; load_weights() reads the parameters alone"};
  }
  std::vector<TensorView> const wanted = detail::checkpoint_tensors(whole, state_names);
  for (TensorView const& tensor : wanted) {
    static_cast<void>(detail::matching(file, path, tensor));
  }
  TrainingPosition position;
  for (detail::PositionField const& field : detail::position_fields) {
    std::int64_t& value = position.*field.field;
    std::span<std::int64_t> const memory{&value, 1};
    TensorView const own = detail::view_of(field.name, vector_shape(1), memory);
    detail::copy_into(own, detail::matching(file, path, own));
  }
  if (position.step < 0 || position.epoch < 0 || position.position < 0) {
    throw FileError{path, "a position is negative; the file is corrupt"};
  }
  for (TensorView const& tensor : file.tensors()) {
    bool const known =
        std::ranges::any_of(wanted, [&](TensorView const& w) { return w.name == tensor.name; }) ||
        std::ranges::any_of(detail::position_fields, [&](detail::PositionField const& field) {
          return tensor.name == field.name;
        });
    if (!known) {
      throw FileError{path, "tensor '" + tensor.name +
                                "' is not of this network and optimizer; load_weights() reads the "
                                "parameters alone"};
    }
  }
  for (auto const& rank : ranks) {
    for (TensorView const& own : detail::checkpoint_tensors(rank, state_names)) {
      detail::copy_into(own, *file.find(own.name));
    }
  }
  return position;
}

/// Reads parameters and statistics only, whoever wrote the file; other tensors are ignored.
/// @throws FileError  the file is corrupt, lacks a parameter, or has one of another shape
template <class T>
void load_parameters(std::string const& path, std::vector<NamedParameter<T>> const& whole,
                     std::vector<std::vector<NamedParameter<T>>> const& ranks) {
  Safetensors const file = Safetensors::read(path);
  std::vector<std::string> const no_states;
  for (TensorView const& tensor : detail::checkpoint_tensors(whole, no_states)) {
    static_cast<void>(detail::matching(file, path, tensor));
  }
  for (auto const& rank : ranks) {
    for (TensorView const& own : detail::checkpoint_tensors(rank, no_states)) {
      detail::copy_into(own, *file.find(own.name));
    }
  }
}

}  // namespace tandem

// ---- tandem/train/default_transport.hpp

/// @file
/// DefaultTransport: how the ranks of a backend talk to each other where the user names nothing.

namespace tandem {

/// Threads of this process, for devices that share the host's memory. GPUs have theirs in
/// train/cuda/default_transport.hpp.
template <class Backend>
struct DefaultTransport {
  template <int Ranks>
  using type = ThreadsTransport<Ranks>;
};

/// Whether a backend is all there.
template <class Backend>
struct BackendIsIncluded {
  static constexpr bool value = true;
  static_assert(
      requires { sizeof(typename Backend::Device); },
      "Trainer<Net, Strategy, Cuda>: include <tandem/cuda.cuh> and compile this file "
      "with nvcc");
};

#if !defined(TANDEM_ONEDNN)
template <class Precision>
struct BackendIsIncluded<BasicHost<OneDnn, Precision>> {
  static constexpr bool value = true;
  static_assert(sizeof(Precision) == 0,
                "BasicHost<OneDnn>: compile with -DTANDEM_ONEDNN=1 and link dnnl, or take "
                "BasicHost<Portable>");
};
#endif

}  // namespace tandem

// ---- tandem/train/imported_table.hpp

/// @file
/// ImportedTable: rows of actions that a program brings, checked before any rank runs them.

// ---- tandem/strategy/verify_message.hpp

/// @file
/// A Verdict as a sentence.

namespace tandem {

/// "rank 1: 2B3 stands before 2RECV_B3, which it needs".
template <class = void>  // compiled where it is called, not by every include
std::string to_string(Verdict const& v) {
  std::string const at = "rank " + std::to_string(v.rank) + ": ";
  std::string const action = to_string(v.action);
  std::string const other = to_string(v.other);
  std::string const peer = "rank " + std::to_string(v.other_rank);
  switch (v.flaw) {
    case Flaw::none:
      return "the action table is valid";
    case Flaw::unsound_map:
      return "the table has " + std::to_string(v.rank) + " rows and the map " +
             std::to_string(v.count) +
             " devices; give as many rows as devices, and a map whose edges lead from a lower "
             "stage "
             "to a higher one of the same copy, those of a link from one device to one other";
    case Flaw::uneven_copies:
      return std::to_string(v.first) + " microbatches cannot be dealt evenly to " +
             std::to_string(v.count) + " copies of the model; give a multiple of the copies";
    case Flaw::foreign_action:
      return at + action +
             " is neither a pass nor a message of weight version 0; leave reductions and updates "
             "out of the table";
    case Flaw::unknown_stage:
      return at + action + " is of a stage that does not exist; stages are 0 to " +
             std::to_string(v.count - 1);
    case Flaw::wrong_device:
      return at + action + " belongs to " + peer + ", which has its stage";
    case Flaw::unknown_microbatch:
      return at + action + " is of a microbatch that its stage does not have; it has " +
             std::to_string(v.first) + " to " + std::to_string(v.first + v.count - 1);
    case Flaw::missing:
      return at + action + " is missing" + (v.other.index >= 0 ? " before " + other : "");
    case Flaw::doubled:
      return at + action + " stands there although it was done before";
    case Flaw::out_of_order:
      return at + action + " stands before " + other +
             "; the microbatches of a stage must come in ascending order";
    case Flaw::retired_out_of_order:
      return at + action + " stands before " + other +
             "; the microbatches of a stage must be retired in ascending order";
    case Flaw::before_its_input:
      return at + action + " stands before " + other + ", which it needs";
    case Flaw::nothing_to_send:
      return at + action + " has nothing to send: no other device needs what it names";
    case Flaw::nothing_to_receive:
      return at + action + " has nothing to receive: no other device makes what it names";
    case Flaw::unmatched_send:
      return at + action + " waits for a free place, but " + peer + " has no " + other +
             " that would make one";
    case Flaw::unmatched_receive:
      return at + action + " waits for a message, but " + peer + " has no " + other +
             " that would send it";
    case Flaw::out_of_fifo_order:
      return at + action + " is not the next message of its link, which is that of " + other +
             "; receive in the order of the sends";
    case Flaw::deadlock:
      return at + action + " waits for " + other + ", but " + peer + " waits at " +
             to_string(v.waiting) + ": a deadlock with " + std::to_string(v.depth) +
             (v.depth == 1 ? " message" : " messages") + " in flight for each link and direction";
  }
  return at + action;
}

}  // namespace tandem

namespace tandem {

/// Rows with messages, and how many microbatches they are for; empty where there are none.
struct ImportedTable {
  ActionRows rows{};
  int microbatches = 0;
};

/// Lowers rows of passes, takes rows with messages as they are, and verifies both for the stages of
/// @p Program.
/// @throws ContractError  a table that cannot run, or does not fit the strategy; one sentence
template <class Program>
ImportedTable import_table(ActionRows const& rows) {
  ImportedTable table;
  if (rows.empty()) {
    return table;
  }
  StageMapView const map{Program::map};
  if (devices_of(rows) != map.devices) {
    throw ContractError{"TrainerOptions: .rows has " + std::to_string(rows.size()) +
                        " rows, but a replica of the strategy has " + std::to_string(map.devices) +
                        " devices; give a row for each"};
  }
  bool lowered = false;
  for (auto const& row : rows) {
    for (Action const& action : row) {
      table.microbatches = std::max(table.microbatches, action.index + 1);
      lowered = lowered || (action.kind >= ActionKind::send_forward &&
                            action.kind <= ActionKind::receive_backward);
    }
  }
  table.rows = lowered ? rows : lower(rows, map);
  Verdict const verdict = verify(table.rows, map, std::max(table.microbatches, 1));
  if (!verdict) {
    throw ContractError{"TrainerOptions: .rows cannot run: " + to_string(verdict)};
  }
  Batching batching = Program::batching;
  if (batching.reproducible && batching.leaves == batching.microbatches &&
      (table.microbatches & (table.microbatches - 1)) != 0) {
    throw ContractError{
        "TrainerOptions: .rows has " + std::to_string(table.microbatches) +
        " microbatches, of which Reproducible<> makes as many leaves: take a power of two"};
  }
  if (batching.reproducible && batching.leaves != batching.microbatches &&
      table.microbatches % batching.leaves != 0) {
    throw ContractError{"TrainerOptions: .rows has " + std::to_string(table.microbatches) +
                        " microbatches, which cannot be dealt to " +
                        std::to_string(batching.leaves) + " leaves; take a multiple"};
  }
  return table;
}

}  // namespace tandem

// ---- tandem/train/parameters.hpp

/// @file
/// Initial values of parameters, and those of all devices of a replica together.

namespace tandem {

/// Writes the initial values of parameter @p p; they depend on (seed, p, element) only.
template <class T>
void initialize(Parameter const& parameter, int p, std::uint64_t seed, std::span<T> values) {
  if (parameter.init.law == Init::Law::constant) {
    for (T& value : values) {
      value = static_cast<T>(parameter.init.value);
    }
    return;
  }
  float const bound = 1.0F / std::sqrt(static_cast<float>(parameter.init.fan_in));
  for (std::size_t i = 0; i < values.size(); i += 4) {
    Random4 const random =
        philox(seed, RandomUse::initial_weights, i / 4, static_cast<std::uint64_t>(p));
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
      values[i + j] = static_cast<T>((2.0F * uniform(random.word[j]) - 1.0F) * bound);
    }
  }
}

/// The network's @p all parameters in its order, from those of each device of a replica; where
/// several have one, the first counts.
/// @param of  of(device): the device's parameters
template <class F>
auto gather(int all, int devices, F const& of) {
  std::vector<typename std::invoke_result_t<F const&, int>::value_type> list(
      static_cast<std::size_t>(all));
  for (int device = devices - 1; device >= 0; --device) {
    for (auto& own : of(device)) {
      list[static_cast<std::size_t>(own.index)] = std::move(own);
    }
  }
  return list;
}

}  // namespace tandem

// ---- tandem/train/progress.hpp

/// @file
/// Progress: what training prints while it runs, on standard error.

namespace tandem {

/// A live line on a terminal, one plain line an epoch otherwise, nothing if silent.
struct Progress {
  bool silent = false;

  static constexpr Progress none() { return {.silent = true}; }
};

/// Prints one epoch's progress; the caller says when a step is done.
class ProgressLine {
 public:
  ProgressLine(Progress const& progress, Epoch epoch, std::int64_t samples)
      : silent_{progress.silent},
        live_{!progress.silent && isatty(STDERR_FILENO) == 1},
        epoch_{epoch},
        samples_{samples},
        last_{std::chrono::steady_clock::now() - std::chrono::seconds{1}} {}

  /// At most ten times a second, on a terminal only.
  void step(EpochResult const& so_far) {
    auto const now = std::chrono::steady_clock::now();
    if (live_ && now - last_ >= std::chrono::milliseconds{100}) {
      last_ = now;
      print(so_far, "\r", "\033[K");
    }
  }

  void finish(EpochResult const& result) {
    if (!silent_) {
      print(result, live_ ? "\r" : "", live_ ? "\033[K\n" : "\n");
    }
  }

 private:
  void print(EpochResult const& r, char const* before, char const* after) const {
    std::fprintf(stderr, "%sepoch %lld", before, static_cast<long long>(epoch_.index + 1));
    if (epoch_.total > 0) {
      std::fprintf(stderr, "/%lld", static_cast<long long>(epoch_.total));
    }
    std::fprintf(stderr, "  %lld/%lld samples  loss %.4f  accuracy %.4f  %.0f samples/s%s",
                 static_cast<long long>(r.samples), static_cast<long long>(samples_), r.loss,
                 r.accuracy, r.samples_per_second(), after);
    std::fflush(stderr);
  }

  bool silent_;
  bool live_;
  Epoch epoch_;
  std::int64_t samples_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tandem

// ---- tandem/train/step_queue.hpp

/// @file
/// StepQueue: training steps that have been handed to the ranks and whose results are still to
/// come.

namespace tandem {

/// Keeps a TrainingPosition true to what has been trained: it counts a step when it is queued, and
/// goes back to before the first that failed.
template <class Workers>
class StepQueue {
 public:
  using RankType = typename Workers::RankType;
  using Batch = typename RankType::Batch;
  using Verb = void (RankType::*)(StepState const&, Batch const&);
  /// Steps that may wait: one more, and a device would have to keep a third batch.
  static constexpr std::size_t most = Workers::steps_in_flight;

  StepQueue() { before_.reserve(most); }

  [[nodiscard]] bool empty() const { return before_.empty(); }
  [[nodiscard]] bool full() const { return before_.size() == most; }

  /// Queues one step on every rank. @pre !full()
  void push(Workers& workers, TrainerOptions const& options, TrainingPosition& position,
            Batch const& batch, Verb verb = &RankType::queue_training) {
    StepState const state{.seed = options.seed,
                          .step = position.step,
                          .learning_rate = learning_rate_of(options.optimizer) *
                                           options.schedule.factor(position.step),
                          .clip_norm = options.clip_norm};
    workers.run([&](RankType& rank) { (rank.*verb)(state, batch); });
    before_.push_back(position);
    ++position.step;
  }

  /// The result of the oldest step. @pre !empty()
  /// @throws NonFiniteLoss  and then no step is queued any more, nor has changed anything
  StepResult pop(Workers& workers, TrainingPosition& position) {
    StepResult const result = workers.run([](RankType& rank) { return rank.collect(); });
    if (result.non_finite >= 0) {
      position = before_.front();
      before_.clear();
      throw non_finite_loss(position.step, result.non_finite,
                            workers.rank_of_loss(result.non_finite));
    }
    before_.erase(before_.begin());
    return result;
  }

  /// Collects what is still queued, for when another error is on its way already.
  void drain(Workers& workers, TrainingPosition& position) noexcept {
    try {
      while (!empty()) {
        pop(workers, position);
      }
    } catch (...) {
      before_.clear();
    }
  }

 private:
  std::vector<TrainingPosition> before_;  // of before each step
};

}  // namespace tandem

// ---- tandem/train/trace.hpp

/// @file
/// Trace: one step's actions and collectives on a time line, for chrome://tracing and Perfetto.

namespace tandem {

/// What Trainer::trace_step() gives back; a process a rank, a thread a lane.
struct Trace {
  std::vector<TraceEvent> events{};

  /// The Trace Event Format's JSON object form, with complete events.
  template <class = void>  // compiled where it is called, not by every include
  [[nodiscard]] std::string json() const {
    std::string text = "{\"traceEvents\": [";
    char const* separator = "\n";
    for (TraceEvent const& event : events) {
      bool const computes = event.lane == Lane::compute;
      text.append(separator).append("{\"name\": ");
      detail::append_json_string(text, event.name);
      text.append(", \"cat\": ").append(computes ? "\"compute\"" : "\"communication\"");
      text.append(", \"ph\": \"X\", \"pid\": ").append(std::to_string(event.rank));
      text.append(", \"tid\": ").append(computes ? "0" : "1");
      text.append(", \"ts\": ").append(std::to_string(event.begin_us));
      text.append(", \"dur\": ").append(std::to_string(event.end_us - event.begin_us)).append("}");
      separator = ",\n";
    }
    return text + "\n]}\n";
  }

  /// @throws FileError  @p path cannot be written
  template <class = void>
  void write(std::string const& path) const {
    std::string const text = json();
    AtomicFile file{path};
    file.write(std::as_bytes(std::span{text}));
    file.commit();
  }
};

}  // namespace tandem

// ---- tandem/train/worker_group.hpp

/// @file
/// WorkerGroup: the ranks of one process, a thread each, that run steps in lockstep.

// ---- tandem/train/launch.hpp

/// @file
/// RankThreads: a worker thread for each rank of this process, and what happens when one throws.
///
/// The main thread is no rank, also when there is only one. Nothing here knows communicators; what
/// must be aborted when a rank fails is told by an OnError.

namespace tandem {

/// What to do as soon as the first rank has thrown: make the others stop waiting for it. Called
/// once a run, on that rank's thread; it must not throw.
struct OnError {
  void (*call)(void* context, int rank, char const* what) = nullptr;
  void* context = nullptr;
};

/// Aborts @p group, which must outlive the RankThreads, with the rank and its message.
template <class Group>
  requires requires(Group& group, int rank, char const* what) { group.abort(rank, what); }
OnError abort_on_error(Group& group) {
  return {[](void* context, int rank, char const* what) {
            static_cast<Group*>(context)->abort(rank, what);
          },
          std::addressof(group)};
}

/// One persistent worker thread a rank. Not copyable, not movable; used by one thread.
///
/// What a rank's streams and buffers are held by should outlive run(): a Queue that dies while its
/// rank's exception passes would wait for ranks that nobody has told yet.
class RankThreads {
 public:
  /// @param first_rank  what messages call the first of these threads
  /// @throws ContractError  ranks < 1
  template <class = void>  // compiled where it is called, not by every include
  explicit RankThreads(int ranks, OnError on_error = {}, int first_rank = 0)
      : on_error_{on_error}, first_rank_{first_rank} {
    expects(ranks >= 1, "RankThreads: there must be at least one rank");
    workers_.reserve(static_cast<std::size_t>(ranks));
    try {
      for (int rank = 0; rank < ranks; ++rank) {
        workers_.emplace_back([this, rank] { serve(rank); });
      }
    } catch (...) {  // the system has no more threads
      stop();
      throw;
    }
  }

  RankThreads(RankThreads const&) = delete;
  RankThreads& operator=(RankThreads const&) = delete;

  ~RankThreads() { stop(); }

  /// f(rank) on every rank's thread, all at once; returns when all have returned. No allocation.
  ///
  /// If ranks throw, all of them are awaited nevertheless. Then the first exception that was no
  /// AbortedError (or the first AbortedError, if there was nothing else) comes out as a RankError,
  /// whatever its type was; std::rethrow_if_nested gives the original. Another run() may follow.
  /// @pre    not called by a rank
  /// @throws RankError  a rank has thrown
  template <class F>
  void run(F&& f) {
    std::unique_lock lock{mutex_};
    f_ = const_cast<void*>(static_cast<void const*>(std::addressof(f)));
    call_ = [](void* object, int rank) {
      (*static_cast<std::remove_reference_t<F>*>(object))(rank);
    };
    error_told_ = false;
    running_ = size();
    ++runs_;
    start_.notify_all();
    end_.wait(lock, [this] { return running_ == 0; });
    if (error_ != nullptr) {
      rethrow(first_rank_ + error_rank_, std::exchange(error_, nullptr));
    }
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(workers_.size()); }

 private:
  template <class = void>
  void serve(int rank) {
    std::unique_lock lock{mutex_};
    for (std::uint64_t seen = 0;; ++seen) {
      start_.wait(lock, [this, seen] { return runs_ != seen || stop_; });
      if (stop_) {
        return;
      }
      lock.unlock();
      run_rank(rank);
      lock.lock();
      if (--running_ == 0) {
        end_.notify_one();
      }
    }
  }

  template <class = void>
  void run_rank(int rank) noexcept {
    try {
      call_(f_, rank);
    } catch (AbortedError const& error) {
      failed(rank, error.what(), true);
    } catch (std::exception const& error) {
      failed(rank, error.what(), false);
    } catch (...) {
      failed(rank, "an exception that is no std::exception", false);
    }
  }

  /// Called while the rank's exception is being handled.
  template <class = void>
  void failed(int rank, char const* what, bool aborted) {
    bool tell = false;
    {
      std::lock_guard const lock{mutex_};
      if (error_ == nullptr || (error_aborted_ && !aborted)) {
        error_ = std::current_exception();
        error_rank_ = rank;
        error_aborted_ = aborted;
      }
      tell = !std::exchange(error_told_, true);
    }
    if (tell && on_error_.call != nullptr) {
      on_error_.call(on_error_.context, first_rank_ + rank, what);
    }
  }

  template <class = void>
  [[noreturn]] static void rethrow(int rank, std::exception_ptr const& error) {
    try {
      std::rethrow_exception(error);
    } catch (std::exception const& original) {
      std::throw_with_nested(RankError{rank, original.what()});
    } catch (...) {
      std::throw_with_nested(RankError{rank, "an exception that is no std::exception"});
    }
  }

  void stop() noexcept {
    {
      std::lock_guard const lock{mutex_};
      stop_ = true;
    }
    start_.notify_all();
    for (std::thread& worker : workers_) {
      worker.join();
    }
  }

  OnError on_error_;
  int first_rank_;    // of this process, for messages
  std::mutex mutex_;  // guards all below; f_ and call_ do not change during a run
  std::condition_variable start_;
  std::condition_variable end_;
  std::uint64_t runs_ = 0;
  int running_ = 0;
  bool stop_ = false;
  void* f_ = nullptr;
  void (*call_)(void*, int) = nullptr;
  std::exception_ptr error_;
  int error_rank_ = 0;
  bool error_aborted_ = false;
  bool error_told_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tandem

namespace tandem {

/// Makes the ranks on their own threads and hands them steps; after a rank has failed it refuses
/// further work, since replicas may then differ.
template <class Program, class Backend, class LossType, class MetricType,
          template <int> class Transport>
class WorkerGroup {
 public:
  static constexpr int ranks = Program::ranks;
  using TransportType = Transport<ranks>;
  using Communicator = typename TransportType::Communicator;
  using RankType = RankInterface<typename Backend::Master, typename LossType::Target>;
  /// The rank that is device @p D of its replica.
  template <int D>
  using RankOf =
      Rank<typename Program::template Device<D>, Backend, LossType, MetricType, Communicator>;

  /// Steps that may be queued before the result of the first is collected.
  static constexpr int steps_in_flight = RankOf<0>::FeedType::steps_in_flight;

  /// @param options    of every rank but for the field `rank`, and of its device the ordinal
  /// @param transport  but for describe_progress
  WorkerGroup(RankOptions const& options, TransportOptions transport)
      : timeout_{transport.timeout},
        batching_{batching_with<Program>(options.microbatches)},
        transport_{described(std::move(transport))},
        ranks_(static_cast<std::size_t>(transport_.local_ranks())),
        threads_{transport_.local_ranks(), abort_on_error(transport_), transport_.first_rank()} {
    expects(
        transport_.local_ranks() % Program::devices == 0,
        "a process must have all devices of a replica, since it reads and writes the whole model: "
        "start fewer processes, so that the ranks of each are a multiple of the devices of the "
        "model");
    threads_.run([&](int local) {
      RankOptions own = options;
      own.rank = transport_.first_rank() + local;
      own.device.ordinal = transport_.device_of(local);
      if (own.device.threads == 0) {
        own.device.threads = host::threads_of_each(size());
      }
      auto& place = ranks_[static_cast<std::size_t>(local)];
      place = make_rank(own);
      for (int other = 0; other < size(); ++other) {
        place->share_with({.ordinal = transport_.device_of(other)});
      }
      place->report_progress_to(transport_.progress(own.rank));
      place->watch_with(
          {.look = look, .context = &transport_, .rank = own.rank, .timeout = timeout_});
    });
  }

  /// f(rank) on every rank's thread; gives the result of the first, if any. No allocation.
  /// @throws RankError  the first error of a rank; the group is unusable afterwards
  template <class F>
  auto run(F const& f) {
    return run_where([](int) { return true; }, f);
  }

  /// f(rank) on the thread of rank number @p local of this process only.
  template <class F>
  auto run_on(int local, F const& f) {
    return run_where([local](int l) { return l == local; }, f);
  }

  /// The rank that worked out the loss of a microbatch, counted over all replicas.
  [[nodiscard]] int rank_of_loss(int microbatch) const {
    int const replica = microbatch / batching_.microbatches;
    int const copy =
        microbatch % batching_.microbatches * Program::map.copies / batching_.microbatches;
    int const result = Program::partition.part[Program::network.nodes - 1];
    return replica * Program::devices + Program::map.device[copy * Program::map.parts() + result];
  }

  /// Of the table that the ranks run.
  [[nodiscard]] Batching const& batching() const { return batching_; }
  /// Ranks of this process.
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// The process's rank number @p local.
  [[nodiscard]] RankType& rank(int local) const { return *ranks_[static_cast<std::size_t>(local)]; }

 private:
  template <class Chosen, class F>
  auto run_where(Chosen const& chosen, F const& f) {
    expects(!failed_,
            "a rank of this trainer has failed, so its replicas may differ: make a new Trainer and "
            "load a checkpoint");
    using Result = std::invoke_result_t<F const&, RankType&>;
    std::conditional_t<std::is_void_v<Result>, char, Result> result{};
    failed_ = true;
    try {
      threads_.run([&](int local) {
        if (!chosen(local)) {
          return;
        }
        RankType& own = rank(local);
        if constexpr (std::is_void_v<Result>) {
          f(own);
        } else {
          Result const value = f(own);
          if (local == 0) {
            result = value;
          }
        }
      });
    } catch (...) {
      settle();
      throw;
    }
    failed_ = false;
    if constexpr (!std::is_void_v<Result>) {
      return result;
    }
  }

  // No task may still read a rank's memory when the first rank goes.
  void settle() noexcept {
    for (auto const& rank : ranks_) {
      if (rank) {
        rank->settle();
      }
    }
  }

  // Its type depends on which device of its replica it is.
  std::unique_ptr<RankType> make_rank(RankOptions const& options) {
    auto const connect = [&](int group) {
      return group == RankGroups<Program>::all ? transport_.communicator(options.rank)
                                               : transport_.communicator(options.rank, group);
    };
    std::unique_ptr<RankType> made;
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (void)((options.rank % Program::devices == D &&
              (made = std::make_unique<RankOf<D>>(options, connect), true)) ||
             ...);
    }
    (std::make_integer_sequence<int, Program::devices>{});
    return made;
  }

  static TransportOptions described(TransportOptions options) {
    options.groups = RankGroups<Program>::list();
    options.describe_progress = [](int /*rank*/, std::uint64_t action) {
      return to_string(unpack_action(action));
    };
    return options;
  }
  static void look(void* transport, int rank, Watch::Duration waited) {
    static_cast<TransportType*>(transport)->poll(rank, waited);
  }

  std::chrono::milliseconds timeout_;
  Batching batching_;
  TransportType transport_;
  std::vector<std::unique_ptr<RankType>> ranks_;
  bool failed_ = false;
  RankThreads threads_;  // last: joined before anything that it uses goes
};

}  // namespace tandem

namespace tandem {

/// Accuracy where targets are labels, nothing otherwise.
template <class LossType>
using DefaultMetric =
    std::conditional_t<std::is_integral_v<typename LossType::Target>, Accuracy, NoMetric>;

/// Trains Net under strategy S on Backend.
///
///   Trainer<Net, DataParallel<2>, Host> trainer{{.batch = 128}};
///   for (auto epoch : epochs(10)) trainer.train(data.train(), epoch, Progress{});
///   trainer.evaluate(data.test()).accuracy;
///
/// The process has one worker thread a rank; the calling thread is none of them. Not copyable, not
/// movable; used by one thread at a time. Another strategy, same microbatches: same numbers.
template <class Net, Strategy S, class Backend, Loss LossType = SoftmaxCrossEntropy<>,
          Metric MetricType = DefaultMetric<LossType>,
          template <int> class Transport = DefaultTransport<Backend>::template type>
class Trainer {
  static_assert(BackendIsIncluded<Backend>::value);

 public:
  /// Of parameters and of the data that the caller passes.
  using T = typename Backend::Master;
  using Target = typename LossType::Target;
  using ProgramType = Program<Net, S, static_cast<int>(sizeof(T)), rewrites_of<Backend>()>;
  using Workers = WorkerGroup<ProgramType, Backend, LossType, MetricType, Transport>;
  using RankType = typename Workers::RankType;
  static constexpr auto const& graph = ProgramType::network;
  static constexpr Shape input = graph.node[0].out;
  static constexpr Shape output = graph.output().out;

  /// Plans and allocates everything, and sets the initial parameters.
  /// @throws ContractError  an option is out of range, or a parameter group matches nothing
  explicit Trainer(TrainerOptions options = {})
      : options_{checked(std::move(options), graph)},
        table_{import_table<ProgramType>(options_.rows)},
        workers_{rank_options(options_, table_),
                 {.timeout = options_.timeout, .world = options_.world}} {
    position_.seed = static_cast<std::int64_t>(options_.seed);
    for (auto const& rank : all_parameters()) {
      for (NamedParameter<T> const& own : rank) {
        initialize<T>(graph.parameter[own.index].parameter, own.index, options_.seed, own.value);
      }
    }
    upload();
  }

  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;

  /// One epoch over @p data. After load(), epochs already trained return at once and the one that
  /// was interrupted goes on where it stopped.
  /// @throws NonFiniteLoss  names step and rank; parameters are those of before the step
  /// @throws ContractError  data does not fit the network, or its last batch the strategy
  template <Dataset D>
  EpochResult train(D const& data, Epoch epoch, Progress const& progress = Progress::none()) {
    static_assert(TargetsFit<D, LossType>::value);
    check_dataset<LossType>(data, input, output);
    check_epoch<ProgramType>(data.size(), options_.batch, options_.drop_last, workers_.batching());
    if (epoch.index < position_.epoch) {
      return {};
    }
    if (epoch.index > position_.epoch) {
      position_.epoch = epoch.index;
      position_.position = 0;
    }
    Loader<D, T> loader{data,
                        {.batch = options_.batch,
                         .seed = options_.seed,
                         .epoch = epoch.index,
                         .shuffle = options_.shuffle,
                         .drop_last = options_.drop_last,
                         .first = position_.position}};
    EpochResult result;
    ProgressLine line{leads() ? progress : Progress::none(), epoch,
                      data.size() - position_.position};
    auto const start = std::chrono::steady_clock::now();
    auto const collect = [&] {
      add(result, collect_step(), start);
      line.step(mean(result));
    };
    Drain const drain{*this};
    for (Batch<T, Target> batch; loader.next(batch);) {
      if (queue_.full()) {
        collect();
      }
      queue_step(batch.x, batch.y, batch.size);
      position_.position = batch.first + batch.size;
    }
    while (!queue_.empty()) {
      collect();
    }
    position_.epoch = epoch.index + 1;
    position_.position = 0;
    line.finish(mean(result));
    return mean(result);
  }

  /// Loss and accuracy on @p data, in its order and without random augmentation.
  /// @throws ContractError  data does not fit the network, or is empty
  template <Dataset D>
  Evaluation evaluate(D const& data) {
    expects(data.size() > 0, "evaluate(data): there are no samples, so no mean over them");
    Evaluation sum;
    for_batches(data, [&](Batch<T, Target> const& batch) {
      check_labels<LossType, MetricType>(targets_of(batch.y, batch.size), output.elements());
      StepResult const r = forward({.x = batch.x, .targets = batch.y, .size = batch.size});
      sum.loss += r.loss * r.samples;
      sum.accuracy += r.metric * r.samples;
      sum.samples += r.samples;
    });
    auto const samples = static_cast<double>(sum.samples);
    return {sum.loss / samples, sum.accuracy / samples, sum.samples};
  }

  /// The network's outputs in evaluation mode. Shapes: data (N, input); returns (N, output).
  template <Dataset D>
  std::vector<float> predict(D const& data) {
    std::vector<float> outputs;
    std::vector<T> memory(static_cast<std::size_t>(options_.batch * output.elements()));
    for_batches(data, [&](Batch<T, Target> const& batch) {
      forward({.x = batch.x, .outputs = memory.data(), .size = batch.size});
      auto const count = static_cast<std::ptrdiff_t>(batch.size * output.elements());
      outputs.insert(outputs.end(), memory.begin(), memory.begin() + count);
    });
    return outputs;
  }

  /// One step on the caller's own batch. Shapes: x (B, input); targets (B, targets a sample), for
  /// any B up to TrainerOptions::batch.
  StepResult step(std::span<T const> x, std::span<Target const> targets) {
    int const samples =
        check_batch<ProgramType, LossType>(x, targets, options_.batch, workers_.batching());
    queue_step(x.data(), targets.data(), samples);
    return collect_step();
  }

  /// One step like step(), and when each action and collective of every rank of this process began
  /// and ended. Walked, not replayed, and stamped: a little slower than the steps around it.
  Trace trace_step(std::span<T const> x, std::span<Target const> targets) {
    int const samples =
        check_batch<ProgramType, LossType>(x, targets, options_.batch, workers_.batching());
    queue_step(x.data(), targets.data(), samples, &RankType::queue_traced);
    collect_step();
    Trace trace;
    for (int local = 0; local < workers_.size(); ++local) {
      std::vector<TraceEvent> const own = workers_.rank(local).traced();
      trace.events.insert(trace.events.end(), own.begin(), own.end());
    }
    return trace;
  }

  /// Writes parameters, optimizer state and position; see train/checkpoint.hpp for the format.
  /// Of several processes the first writes.
  void save(std::string const& path) const {
    if (!leads()) {
      return;
    }
    save_checkpoint(path, parameters(), state_names(options_.optimizer), position_,
                    optimizer_name(options_.optimizer));
  }

  /// Continues where a checkpoint stopped, whatever strategy wrote it; resumes exactly if the
  /// options are the same. On an error nothing has changed.
  void load(std::string const& path) {
    position_ =
        load_checkpoint(path, parameters(), all_parameters(), state_names(options_.optimizer),
                        optimizer_name(options_.optimizer));
    options_.seed = static_cast<std::uint64_t>(position_.seed);
    upload();
  }

  /// Takes the parameters and statistics of a safetensors file, and nothing else of it.
  void load_weights(std::string const& path) {
    load_parameters(path, parameters(), all_parameters());
    upload();
  }

  /// The parameters of replica number @p local of this process (all replicas have the same), in the
  /// network's order, whichever ranks have them; a gradient is that of the last step, a state one
  /// of the optimizer's. On Host these are views of the memory; on a GPU copies, good until the
  /// next call for this replica.
  [[nodiscard]] std::vector<NamedParameter<T>> parameters(int local = 0) const {
    return gather(graph.parameters, ProgramType::devices,
                  [&](int device) { return parameters_of(local * ProgramType::devices + device); });
  }

  /// Memory of one rank's tensors, as planned and allocated.
  [[nodiscard]] MemoryReport memory(int rank = 0) const {
    return workers_.rank(rank).memory_report();
  }

  [[nodiscard]] TrainingPosition const& position() const { return position_; }
  [[nodiscard]] TrainerOptions const& options() const { return options_; }
  [[nodiscard]] Workers& workers() { return workers_; }

 private:
  static RankOptions rank_options(TrainerOptions const& options, ImportedTable const& table) {
    Batching const batching = batching_with<ProgramType>(table.microbatches);
    return {.largest_microbatch = largest_microbatch(options.batch, batching),
            .device = {.threads = options.threads_per_device},
            .optimizer = options.optimizer,
            .groups = options.groups,
            .rows = table.microbatches > 0 ? &table.rows : nullptr,
            .microbatches = table.microbatches,
            .record = options.record};
  }

  // Whether this process is the one that prints and writes.
  [[nodiscard]] bool leads() const { return options_.world.process == 0; }

  using Verb = typename StepQueue<Workers>::Verb;

  /// Queues one step; its result comes from collect_step(), in order.
  void queue_step(T const* x, Target const* targets, int size,
                  Verb verb = &RankType::queue_training) {
    check_labels<LossType, MetricType>(targets_of(targets, size), output.elements());
    queue_.push(workers_, options_, position_, {.x = x, .targets = targets, .size = size}, verb);
  }
  StepResult collect_step() { return queue_.pop(workers_, position_); }

  /// However train() ends, no step stays queued.
  struct Drain {
    Trainer& trainer;
    ~Drain() { trainer.queue_.drain(trainer.workers_, trainer.position_); }
  };

  StepResult forward(StepBatch<T, Target> const& batch) {
    StepState const state{.seed = options_.seed, .step = position_.step};
    return workers_.run([&](RankType& rank) { return rank.forward(state, batch); });
  }

  template <Dataset D, class F>
  void for_batches(D const& data, F const& f) {
    static_assert(TargetsFit<D, LossType>::value);
    check_dataset<LossType>(data, input, output);
    Loader<D, T> loader{data, {.batch = options_.batch, .shuffle = false, .augment = false}};
    for (Batch<T, Target> batch; loader.next(batch);) {
      f(batch);
    }
  }

  static std::span<Target const> targets_of(Target const* targets, int samples) {
    return {targets, static_cast<std::size_t>(samples * LossType::targets(output))};
  }

  // Those of one rank of this process.
  [[nodiscard]] std::vector<NamedParameter<T>> parameters_of(int local) const {
    workers_.run_on(local, [](RankType& rank) { rank.download(); });
    return workers_.rank(local).parameters();
  }
  [[nodiscard]] auto all_parameters() const {
    std::vector<std::vector<NamedParameter<T>>> list;
    for (int local = 0; local < workers_.size(); ++local) {
      list.push_back(parameters_of(local));
    }
    return list;
  }
  void upload() {
    workers_.run([](RankType& rank) { rank.upload(); });
  }

  TrainerOptions options_;
  ImportedTable table_;
  TrainingPosition position_;
  mutable Workers workers_;
  StepQueue<Workers> queue_;
};

}  // namespace tandem

// ---- tandem/train/world.hpp

/// @file
/// world_from_environment(): the World that mpirun, mpiexec, srun or torchrun has started.
///
/// The only header beside launch that reads environment variables, all of them in one call. Without
/// a launcher the program is one process.

// ---- tandem/comm/rendezvous.hpp

/// @file
/// rendezvous(): the first words between the processes of one program; process 0 tells the others
/// some bytes, such as the key with which NCCL connects them.
///
/// Over TCP, over files in a folder that all see, or over what the program already has. No MPI is
/// needed.

// ---- tandem/comm/rendezvous_file.hpp

/// @file
/// rendezvous() over files: three for each process but the first, none of which is left behind.
///
/// A process asks in PATH.<process>.hello, process 0 answers in PATH.<process>.answer, and the
/// process thanks by renaming its hello to PATH.<process>.done, which process 0 removes. Files of a
/// run that died answer nobody: their numbers are not those of this call.

// ---- tandem/comm/patience.hpp

/// @file
/// detail::Patience: how a host thread waits for something that it can only ask about.

namespace tandem::detail {

/// Gives way at first and sleeps a little later on, so that ranks that wait do not
/// take the CPU from ranks that queue work.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param yields   how often it gives way before it sleeps
  /// @param longest  how long it sleeps at most
  explicit Patience(std::chrono::milliseconds limit, int yields = 200,
                    std::chrono::milliseconds longest = std::chrono::milliseconds{1})
      : limit_{std::min<std::chrono::milliseconds>(limit, std::chrono::hours{8760})},
        yields_{yields},
        longest_{longest} {}

  /// Call it between two looks. Whether there may be another one.
  [[nodiscard]] bool pause() {
    if (looks_++ < yields_) {
      std::this_thread::yield();
      return true;
    }
    if (left_ms() == 0) {
      return false;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, longest_);
    return true;
  }

  /// What is left of the limit, at most an hour; 0 when it is over.
  [[nodiscard]] int left_ms() const {
    auto const left =
        std::chrono::duration_cast<std::chrono::milliseconds>(begin_ + limit_ - Clock::now());
    return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 3600000));
  }

 private:
  Clock::time_point begin_ = Clock::now();
  std::chrono::milliseconds limit_;
  std::chrono::microseconds sleep_{20};
  int yields_;
  std::chrono::microseconds longest_;
  int looks_ = 0;
};

/// "10 s" or "1500 ms"
template <class = void>  // compiled where it is called
std::string to_string(std::chrono::milliseconds time) {
  auto const ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace tandem::detail

// ---- tandem/comm/rendezvous_hello.hpp

/// @file
/// What processes say to each other at a rendezvous(), and process 0's list of who has come.

namespace tandem::detail {

inline constexpr std::size_t largest_rendezvous = 65536;

/// What a process asks process 0. Machines of the other byte order are no tandem to each other.
struct Hello {
  static constexpr std::uint64_t hello_magic = 0x74616E64656D0001;

  std::uint64_t magic = hello_magic;
  std::uint64_t token = 0;  ///< a hash of Rendezvous::token
  std::uint64_t nonce = 0;  ///< made up for this call
  std::uint64_t bytes = 0;
  std::int32_t processes = 0;
  std::int32_t process = 0;
};

/// Begins process 0's answer; `bytes` of data or of the text of a refusal follow.
struct Answer {
  static constexpr std::uint64_t answer_magic = 0x74616E64656D0002;

  std::uint64_t magic = answer_magic;
  std::uint64_t nonce = 0;  ///< that of the question
  std::uint64_t bytes = 0;
  std::uint64_t refused = 0;
};

/// FNV-1a.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (char const c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

/// A number that no other call has, other than 0.
inline std::uint64_t make_nonce() {
  std::uint64_t nonce = 0;
  if (::getentropy(&nonce, sizeof nonce) != 0 || nonce == 0) {
    auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
    nonce = hash_of(std::to_string(now) + " " + std::to_string(::getpid())) | 1U;
  }
  return nonce;
}

inline Hello hello_of(World const& world, std::size_t bytes) {
  return {.token = hash_of(world.rendezvous.token),
          .nonce = make_nonce(),
          .bytes = bytes,
          .processes = world.processes,
          .process = world.process};
}

/// Looks that are not so frequent that they would burden a file server.
inline Patience rendezvous_patience(std::chrono::milliseconds timeout) {
  return Patience{timeout, 0, std::chrono::milliseconds{20}};
}

/// "rendezvous at 'host:1234': "
inline std::string at_rendezvous(World const& world) {
  return "rendezvous at '" + world.rendezvous.address + "': ";
}

/// Process 0's view of one rendezvous: whom it has answered, and whom to answer what.
class RollCall {
 public:
  RollCall(World const& world, std::span<std::byte const> data)
      : world_{world}, data_{data}, answered_(static_cast<std::size_t>(world.processes)) {}

  /// Whether @p hello comes from a process of this program that has no answer yet. Others are
  /// ignored: they belong to another run, or to the next rendezvous of this one.
  [[nodiscard]] bool expected(Hello const& hello) const {
    return hello.magic == Hello::hello_magic && hello.token == hash_of(world_.rendezvous.token) &&
           hello.process > 0 && (hello.process >= world_.processes || !has_come(hello.process));
  }

  /// Why an expected @p hello cannot be answered, or "".
  [[nodiscard]] std::string fault(Hello const& hello) const {
    if (hello.processes != world_.processes) {
      return at_rendezvous(world_) + "process 0 was told that there are " +
             std::to_string(world_.processes) + " processes, but process " +
             std::to_string(hello.process) + " that there are " + std::to_string(hello.processes);
    }
    if (hello.process >= world_.processes || hello.bytes != data_.size()) {
      return at_rendezvous(world_) + "process " + std::to_string(hello.process) +
             " asks process 0 for " + std::to_string(hello.bytes) + " bytes instead of " +
             std::to_string(data_.size()) + ": do all processes run the same program?";
    }
    return {};
  }

  /// The bytes of the answer to @p hello.
  [[nodiscard]] std::vector<std::byte> answer(Hello const& hello, std::string const& fault) const {
    std::span<std::byte const> const body =
        fault.empty() ? data_ : std::as_bytes(std::span{fault.data(), fault.size()});
    Answer const head{
        .nonce = hello.nonce, .bytes = body.size(), .refused = fault.empty() ? 0U : 1U};
    std::vector<std::byte> bytes(sizeof head + body.size());
    std::memcpy(bytes.data(), &head, sizeof head);
    std::size_t at = sizeof head;
    for (std::byte const byte : body) {  // g++ 12 sees memcpy() overflow here
      bytes[at++] = byte;
    }
    return bytes;
  }

  void note(Hello const& hello) { answered_[static_cast<std::size_t>(hello.process)] = true; }
  [[nodiscard]] bool has_come(int process) const {
    return answered_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool complete() const { return missing().empty(); }

  /// @throws TimeoutError  always
  [[noreturn]] void time_out(std::chrono::milliseconds timeout) const {
    std::vector<int> const who = missing();
    std::string text = who.size() == 1 ? "process " : "processes ";
    for (std::size_t i = 0; i < who.size(); ++i) {
      text += (i == 0 ? "" : i + 1 == who.size() ? " and " : ", ") + std::to_string(who[i]);
    }
    throw TimeoutError{at_rendezvous(world_) + text + " of " + std::to_string(world_.processes) +
                       " did not come within " + to_string(timeout)};
  }

 private:
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> who;
    for (int process = 1; process < world_.processes; ++process) {
      if (!has_come(process)) {
        who.push_back(process);
      }
    }
    return who;
  }

  World const& world_;
  std::span<std::byte const> data_;
  std::vector<bool> answered_;
};

/// What a process takes from an answer to its @p hello. Whether it is one.
/// @throws ContractError  process 0 refuses
inline bool take_answer(Hello const& hello, std::span<std::byte const> answer,
                        std::span<std::byte> data) {
  Answer head;
  if (answer.size() < sizeof head) {
    return false;
  }
  std::memcpy(&head, answer.data(), sizeof head);
  auto const body = answer.subspan(sizeof head);
  if (head.magic != Answer::answer_magic || head.nonce != hello.nonce ||
      head.bytes != body.size()) {
    return false;
  }
  if (head.refused != 0) {
    throw ContractError{std::string{reinterpret_cast<char const*>(body.data()), body.size()}};
  }
  if (body.size() != data.size()) {
    return false;
  }
  if (!body.empty()) {
    std::memcpy(data.data(), body.data(), body.size());
  }
  return true;
}

}  // namespace tandem::detail

namespace tandem::detail {

/// The whole of a small file, or nothing if there is none or it is no plain file of this user's.
inline std::vector<std::byte> read_small_file(std::string const& path) {
  std::vector<std::byte> bytes;
  int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    return bytes;
  }
  bytes.resize(sizeof(Answer) + largest_rendezvous + 1);
  std::size_t size = 0;
  for (;;) {
    ::ssize_t const got = ::read(file, bytes.data() + size, bytes.size() - size);
    if (got <= 0 && !(got < 0 && errno == EINTR)) {
      break;
    }
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  static_cast<void>(::close(file));
  bytes.resize(size);
  return bytes;
}

/// Gives @p bytes the name @p path at once: nobody sees a part of them.
/// @throws FileError  the folder does not exist, or cannot be written
inline void write_small_file(std::string const& path, std::span<std::byte const> bytes,
                             std::uint64_t nonce) {
  auto const fail = [&path](int error) {
    throw FileError{
        path, "cannot be written for the rendezvous: " + std::generic_category().message(error)};
  };
  std::string const temporary = path + ".tmp-" + std::to_string(nonce);
  int const file =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) {
    fail(errno);
  }
  bool const whole =
      ::write(file, bytes.data(), bytes.size()) == static_cast<::ssize_t>(bytes.size());
  int error = whole ? 0 : errno != 0 ? errno : EIO;
  if (::close(file) != 0 && error == 0) {
    error = errno;
  }
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    static_cast<void>(::unlink(temporary.c_str()));
    fail(error);
  }
}

/// The hello in @p path; its magic is 0 if there is none.
inline Hello read_hello(std::string const& path) {
  auto const bytes = read_small_file(path);
  Hello hello{.magic = 0};
  if (bytes.size() == sizeof hello) {
    std::memcpy(&hello, bytes.data(), sizeof hello);
  }
  return hello;
}

/// Process 0's side: answers each process, again if it asks again, until it thanks.
inline void answer_over_files(World const& world, std::string const& path,
                              std::span<std::byte const> data, std::chrono::milliseconds timeout) {
  RollCall calls{world, data};
  std::vector<Hello> answered(static_cast<std::size_t>(world.processes), Hello{.magic = 0});
  Patience patience = rendezvous_patience(timeout);
  for (;;) {
    for (int process = 1; process < world.processes; ++process) {
      if (calls.has_come(process)) {
        continue;
      }
      Hello& last = answered[static_cast<std::size_t>(process)];
      std::string const name = path + "." + std::to_string(process);
      if (Hello const done = read_hello(name + ".done"); done.magic != 0) {
        static_cast<void>(::unlink((name + ".answer").c_str()));
        static_cast<void>(::unlink((name + ".done").c_str()));
        if (last.magic != 0 && done.nonce == last.nonce) {
          calls.note(last);
        }
        continue;
      }
      Hello const hello = read_hello(name + ".hello");
      if (hello.process != process || !calls.expected(hello) || hello.nonce == last.nonce) {
        continue;
      }
      std::string const fault = calls.fault(hello);
      write_small_file(name + ".answer", calls.answer(hello, fault), hello.nonce);
      if (!fault.empty()) {
        throw ContractError{fault};
      }
      last = hello;
    }
    if (calls.complete()) {
      return;
    }
    if (!patience.pause()) {
      calls.time_out(timeout);
    }
  }
}

/// Any other process's side.
inline void ask_over_files(World const& world, std::string const& path, std::span<std::byte> data,
                           std::chrono::milliseconds timeout) {
  Patience patience = rendezvous_patience(timeout);
  std::string const name = path + "." + std::to_string(world.process);
  auto const wait = [&](std::string const& what) {
    if (!patience.pause()) {
      static_cast<void>(::unlink((name + ".hello").c_str()));
      throw TimeoutError{at_rendezvous(world) + "process 0 did not " + what + " process " +
                         std::to_string(world.process) + " within " + to_string(timeout)};
    }
  };
  while (::access((name + ".done").c_str(), F_OK) == 0) {  // of an earlier rendezvous
    wait("answer");
  }
  Hello const hello = hello_of(world, data.size());
  write_small_file(name + ".hello", std::as_bytes(std::span{&hello, 1}), hello.nonce);
  try {
    while (!take_answer(hello, read_small_file(name + ".answer"), data)) {
      wait("answer");
    }
  } catch (ContractError const&) {
    static_cast<void>(::unlink((name + ".answer").c_str()));
    static_cast<void>(::unlink((name + ".hello").c_str()));
    throw;
  }
  if (std::rename((name + ".hello").c_str(), (name + ".done").c_str()) != 0) {
    throw FileError{name + ".hello",
                    "cannot be renamed: " + std::generic_category().message(errno) +
                        "; do two processes have the same number?"};
  }
}

inline void rendezvous_over_files(World const& world, std::span<std::byte> data,
                                  std::chrono::milliseconds timeout) {
  std::string const path = world.rendezvous.address.substr(5);
  expects(!path.empty() && path.back() != '/',
          "rendezvous: write file:PATH with the name of a file that need not exist");
  if (world.process == 0) {
    answer_over_files(world, path, data, timeout);
  } else {
    ask_over_files(world, path, data, timeout);
  }
}

}  // namespace tandem::detail

// ---- tandem/comm/rendezvous_socket.hpp

/// @file
/// rendezvous() over TCP: process 0 listens at host:port, the others ask it, as often as it takes.

namespace tandem::detail {

/// An open socket, or -1. Move-only.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_{descriptor} {}
  Socket(Socket&& other) noexcept : descriptor_{std::exchange(other.descriptor_, -1)} {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(descriptor_));
    }
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

using Addresses = std::unique_ptr<::addrinfo, void (*)(::addrinfo*)>;

/// Where "host:port" or "[host]:port" is; null, and what is wrong in @p why, if nobody knows.
inline Addresses resolve(std::string const& address, std::string& why) {
  std::size_t const colon = address.rfind(':');
  expects(colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
              address.find_first_not_of("0123456789", colon + 1) == std::string::npos,
          "rendezvous: write its address as host:port, with a number as the port, or as file:PATH");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  ::addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  ::addrinfo* found = nullptr;
  int const status = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (status != 0) {
    why = std::string{"the host is not known: "} + ::gai_strerror(status);
  }
  return {status == 0 ? found : nullptr, ::freeaddrinfo};
}

/// Waits until @p socket can be read or written, for @p ms at most.
inline bool ready(Socket const& socket, short events, int ms) {
  ::pollfd entry{socket.get(), events, 0};
  return ::poll(&entry, 1, ms) == 1;
}

/// All of @p bytes within two seconds. Whether it worked.
inline bool send_all(Socket const& socket, std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    ::ssize_t const sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (!(sent < 0 && (errno == EAGAIN || errno == EINTR) && ready(socket, POLLOUT, 2000))) {
      return false;
    }
  }
  return true;
}

/// The socket at which process 0 is asked.
/// @throws Error  the address is not this machine's, or its port is taken
inline Socket listen_at(World const& world) {
  std::string why;
  Addresses const addresses = resolve(world.rendezvous.address, why);
  for (auto const* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Socket socket{::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    int const yes = 1;
    static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    if (socket.get() >= 0 && ::bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        ::listen(socket.get(), 512) == 0) {
      return socket;
    }
    why = std::generic_category().message(errno);
  }
  throw Error{at_rendezvous(world) + "process 0 cannot listen there: " + why +
              "; it must be a free port of the machine of process 0"};
}

/// Someone who has connected to process 0, and what it has said so far.
struct Caller {
  Socket socket;
  std::array<std::byte, sizeof(Hello)> said{};
  std::size_t size = 0;

  /// Reads what there is. Whether there may be more to come.
  bool listen() {
    ::ssize_t const got = ::recv(socket.get(), said.data() + size, said.size() - size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
    return got > 0 && size < said.size();
  }
};

/// Answers @p caller if it has said a hello that is expected.
inline void answer_caller(RollCall& calls, Caller const& caller) {
  Hello hello;
  if (caller.size != sizeof hello) {
    return;
  }
  std::memcpy(&hello, caller.said.data(), sizeof hello);
  if (!calls.expected(hello)) {
    return;
  }
  std::string const fault = calls.fault(hello);
  bool const sent = send_all(caller.socket, calls.answer(hello, fault));
  if (!fault.empty()) {
    throw ContractError{fault};
  }
  if (sent) {
    calls.note(hello);
  }
}

/// Process 0's side. Those who connect and say nothing, or nonsense, hold nobody up.
inline void answer_over_tcp(World const& world, std::span<std::byte const> data,
                            std::chrono::milliseconds timeout) {
  constexpr std::size_t most_callers = 512;
  Socket const listener = listen_at(world);
  RollCall calls{world, data};
  std::vector<Caller> callers;
  Patience patience = rendezvous_patience(timeout);
  while (!calls.complete()) {
    for (;;) {
      Socket next{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (next.get() < 0) {
        break;
      }
      if (callers.size() == most_callers) {
        callers.erase(callers.begin());
      }
      callers.push_back({.socket = std::move(next)});
    }
    std::erase_if(callers, [&calls](Caller& caller) {
      if (caller.listen()) {
        return false;
      }
      answer_caller(calls, caller);
      return true;
    });
    if (!calls.complete() && !patience.pause()) {
      calls.time_out(timeout);
    }
  }
}

/// One attempt to ask process 0. Whether it has answered; if not, @p why says what went wrong.
/// @throws ContractError  process 0 refuses
inline bool ask_once(World const& world, Hello const& hello, std::span<std::byte> data, int ms,
                     std::string& why) {
  Addresses const addresses = resolve(world.rendezvous.address, why);
  Socket socket;
  for (auto const* at = addresses.get(); at != nullptr; at = at->ai_next) {
    socket = Socket{::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    int error = ::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      ::socklen_t size = sizeof error;
      if (!ready(socket, POLLOUT, std::min(ms, 2000))) {
        error = ETIMEDOUT;
      } else if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
      }
    }
    if (error == 0) {
      break;
    }
    why = std::generic_category().message(error);
    socket = Socket{};
  }
  if (socket.get() < 0 || !send_all(socket, std::as_bytes(std::span{&hello, 1}))) {
    return false;
  }
  std::vector<std::byte> answer(sizeof(Answer) + largest_rendezvous);
  std::size_t size = 0;
  while (size < answer.size() && ready(socket, POLLIN, ms)) {
    ::ssize_t const got = ::recv(socket.get(), answer.data() + size, answer.size() - size, 0);
    if (got <= 0) {
      break;
    }
    size += static_cast<std::size_t>(got);
  }
  why = "what listens there is no process 0 of this program";
  return take_answer(hello, std::span{answer}.first(size), data);
}

/// Any other process's side.
inline void ask_over_tcp(World const& world, std::span<std::byte> data,
                         std::chrono::milliseconds timeout) {
  Hello const hello = hello_of(world, data.size());
  Patience patience = rendezvous_patience(timeout);
  std::string why = "no answer";
  while (!ask_once(world, hello, data, patience.left_ms(), why)) {
    if (!patience.pause()) {
      throw TimeoutError{at_rendezvous(world) + "process 0 did not answer process " +
                         std::to_string(world.process) + " within " + to_string(timeout) + " (" +
                         why + ")"};
    }
  }
}

inline void rendezvous_over_tcp(World const& world, std::span<std::byte> data,
                                std::chrono::milliseconds timeout) {
  if (world.process == 0) {
    answer_over_tcp(world, data, timeout);
  } else {
    ask_over_tcp(world, data, timeout);
  }
}

}  // namespace tandem::detail

namespace tandem {

/// Every process leaves with process 0's @p data. All call it, as often and in the same order; each
/// returns when its own part is done. A single process returns at once.
///
/// Nothing of an earlier run can be mistaken for this one: each process asks with a number made up
/// for this call, and takes only an answer to it. Whoever else connects or leaves files is ignored.
/// @param data  its size agrees on all processes; at most 64 KiB
/// @throws TimeoutError   a process did not come; the message names it
/// @throws ContractError  the processes do not agree on their number or on the size of the data
/// @throws Error          the address cannot be used; the message says why
template <class = void>  // compiled where it is called, not by every include
void rendezvous(World const& world, std::span<std::byte> data, std::chrono::milliseconds timeout) {
  check_world(world);
  if (world.processes == 1) {
    return;
  }
  Rendezvous const& where = world.rendezvous;
  if (where.broadcast != nullptr) {
    where.broadcast(where.context, data.data(), data.size());
    return;
  }
  expects(timeout.count() > 0, "rendezvous: the timeout must be positive");
  expects(data.size() <= detail::largest_rendezvous,
          "rendezvous: the data may have 64 KiB at most");
  if (where.address.empty()) {
    throw Error{
        "rendezvous: this program was started as " + std::to_string(world.processes) +
        " processes, which do not know where to meet: set TANDEM_RENDEZVOUS to host:port, a free "
        "port of the machine of process 0, or to file:PATH on a disk that all see"};
  }
  if (where.address.rfind("file:", 0) == 0) {
    detail::rendezvous_over_files(world, data, timeout);
  } else {
    detail::rendezvous_over_tcp(world, data, timeout);
  }
}

}  // namespace tandem

namespace tandem {

namespace detail {

/// The value of an environment variable, or null.
using Lookup = char const* (*)(char const* name);

/// What a launcher calls a process's number, their count, and the number on its machine.
struct Launcher {
  char const* name;
  char const* rank;
  char const* size;
  char const* local_rank;
};

inline constexpr std::array<Launcher, 3> launchers{{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI (MPICH, Intel MPI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
}};

/// Reads one environment. Values that are no numbers, or only half there, are errors.
class EnvironmentReader {
 public:
  explicit EnvironmentReader(Lookup lookup) : lookup_{lookup} {}

  [[nodiscard]] std::string text(char const* name) const {
    char const* const value = lookup_(name);
    return value != nullptr ? value : "";
  }
  [[nodiscard]] bool has(char const* name) const { return !text(name).empty(); }

  /// -1 if it is not set.
  [[nodiscard]] int number(char const* name) const {
    std::string const value = text(name);
    if (value.empty()) {
      return -1;
    }
    if (value.size() > 9 || value.find_first_not_of("0123456789") != std::string::npos) {
      throw Error{"the environment says " + shown(name) + ", which is no number of a process"};
    }
    return std::stoi(value);
  }

  /// Whether @p launcher has started this process, and if so, as which.
  [[nodiscard]] bool read(Launcher const& launcher, World& world) const {
    int const rank = number(launcher.rank);
    int const size = number(launcher.size);
    if (rank < 0 && size < 0) {
      return false;
    }
    if (rank < 0 || size < 0) {
      throw Error{"the environment is that of " + std::string{launcher.name} + " with " +
                  shown(rank < 0 ? launcher.size : launcher.rank) + " but without " +
                  (rank < 0 ? launcher.rank : launcher.size) + "; set both or none"};
    }
    int const local = number(launcher.local_rank);
    world.processes = size;
    world.process = rank;
    world.local_process = local < 0 ? rank : local;  // else all are taken to be on one machine
    if (rank >= size || world.local_process > rank) {
      throw Error{"the environment of " + std::string{launcher.name} +
                  " contradicts itself: " + shown(launcher.rank) + ", " + shown(launcher.size) +
                  ", " + shown(launcher.local_rank)};
    }
    return true;
  }

  /// "RANK=3", or "no RANK"
  [[nodiscard]] std::string shown(char const* name) const {
    return has(name) ? name + ("=" + text(name)) : "no " + std::string{name};
  }

 private:
  Lookup lookup_;
};

/// Slurm's, which also leaves them to a program that srun has not started: then they mean nothing.
inline bool read_slurm(EnvironmentReader const& from, World& world) {
  bool const step = from.has("SLURM_STEP_ID") || from.has("SLURM_STEPID");
  if (!from.has("SLURM_PROCID") || (from.has("SLURM_JOB_ID") && !step)) {
    return false;
  }
  char const* const size =
      from.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  return from.read({"Slurm", "SLURM_PROCID", size, "SLURM_LOCALID"}, world);
}

/// What tells this start of the program from another and is the same for all its processes, or "".
inline std::string start_token(EnvironmentReader const& from) {
  for (char const* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (from.has(name)) {
      return from.text(name);
    }
  }
  if (from.has("TORCHELASTIC_RUN_ID")) {
    return from.text("TORCHELASTIC_RUN_ID") + "." + from.text("TORCHELASTIC_RESTART_COUNT");
  }
  if (from.has("SLURM_JOB_ID")) {
    return from.text("SLURM_JOB_ID") + "." + from.text("SLURM_STEP_ID");
  }
  return {};
}

/// Whether the launcher says that all processes are on this machine.
inline bool on_one_machine(EnvironmentReader const& from, World const& world) {
  for (char const* const name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"}) {
    if (from.has(name)) {
      return from.number(name) == world.processes;
    }
  }
  return from.number("SLURM_STEP_NUM_NODES") == 1;
}

inline std::string rendezvous_address(EnvironmentReader const& from, World const& world) {
  if (from.has("TANDEM_RENDEZVOUS")) {
    return from.text("TANDEM_RENDEZVOUS");
  }
  if (from.has("MASTER_ADDR") && from.has("MASTER_PORT")) {
    // torchrun itself listens at the port where it says that its agent has the store.
    int const port = from.number("MASTER_PORT");
    bool const taken = from.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    return from.text("MASTER_ADDR") + ":" + std::to_string(taken ? port + 1 : port);
  }
  if (std::string const& token = world.rendezvous.token;
      !token.empty() && on_one_machine(from, world)) {
    return "file:/tmp/tandem-" + std::to_string(::getuid()) + "-" + std::to_string(hash_of(token));
  }
  return {};
}

template <class = void>  // compiled where it is called, not by every include
World world_from(Lookup lookup) {
  EnvironmentReader const from{lookup};
  World world;
  Launcher const* found = nullptr;
  for (Launcher const& launcher : launchers) {
    World other;
    if (!from.read(launcher, other)) {
      continue;
    }
    if (found != nullptr &&
        (other.process != world.process || other.processes != world.processes)) {
      throw Error{"the environment names this process twice: " + from.shown(found->rank) + " of " +
                  from.shown(found->size) + " (" + found->name + "), but " +
                  from.shown(launcher.rank) + " of " + from.shown(launcher.size) + " (" +
                  launcher.name + "); unset the variables of one"};
    }
    if (found == nullptr) {
      found = &launcher;
      world = other;
    }
  }
  if (found == nullptr && !read_slurm(from, world)) {
    return {};
  }
  world.rendezvous.token = start_token(from);
  world.rendezvous.address = rendezvous_address(from, world);
  check_world(world);
  return world;
}

}  // namespace detail

/// The processes of this program, as its launcher has numbered them: Open MPI's or MPICH's mpirun,
/// Slurm's srun, torchrun, or one that sets RANK, WORLD_SIZE and LOCAL_RANK. Where they meet is
/// told by TANDEM_RENDEZVOUS ("host:port" or "file:PATH"), or by MASTER_ADDR and MASTER_PORT; on
/// one machine it need not be told.
/// @throws Error  the variables are malformed or contradict each other
template <class = void>  // compiled where it is called, not by every include
World world_from_environment() {
  return detail::world_from([](char const* name) -> char const* { return std::getenv(name); });
}

}  // namespace tandem

#if defined(TANDEM_ONEDNN)
// ---- tandem/ops/onednn/all.hpp

/// @file
/// All ops of the oneDNN Host backend; included where TANDEM_ONEDNN is defined.

// ---- tandem/ops/onednn/activation.hpp

/// @file
/// ReLU and Dropout on Host, channels-last. Both may work in place.

// ---- tandem/kernels/channels_last/dropout.hpp

/// @file
/// Dropout of channels-last images, with the mask that (C, H, W) order gives; it is never stored.

#include <algorithm>
#include <cstdint>

namespace tandem::host::channels_last {

namespace detail {

/// The words of elements [first, first + count) of a sample.
inline void dropout_row(DropoutPlace const& place, std::int64_t sample, std::int64_t first,
                        std::int64_t count, std::uint32_t* words) {
  for (std::int64_t i = first - first % 4; i < first + count; i += 4) {
    Random4 const random = dropout_words(place, sample, i / 4);
    for (std::int64_t j = std::max(i, first); j < std::min(i + 4, first + count); ++j) {
      words[j - first] = random.word[j - i];
    }
  }
}

}  // namespace detail

/// y = x / (1 - rate) where the element is kept, else 0; kept is uniform(word) >= rate.
///
/// Shapes: x (B, pixels, C); y (B, pixels, C), which may be x. Elements are counted as (C, pixels).
/// Cost:   one Philox block of 10 rounds for each four elements; bound by arithmetic.
/// @pre    0 <= rate < 1; C pixels < 2³⁴
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 15 (2014), section 10
///         (the "inverted" form, scaled in training)
template <class T>
TANDEM_NOINLINE void dropout_forward(Team& team, int batch, int channels, std::int64_t pixels,
                                     DropoutPlace const& place, float rate, T const* x, T* y) {
  // Squares of words: of a vector's elements 1 x 64, which are channels; of an image's 64 x 16.
  constexpr std::int64_t block = 64;
  constexpr int most = 16;
  int const wide = pixels == 1 ? static_cast<int>(block) : most;
  std::int64_t const pixel_blocks = (pixels + block - 1) / block;
  std::int64_t const channel_blocks = (channels + wide - 1) / wide;
  float const scale = dropout_scale<float>(rate);
  team.parallel_for(
      batch * pixel_blocks * channel_blocks, [=](std::int64_t begin, std::int64_t end) {
        std::uint32_t words[most * block];
        for (std::int64_t task = begin; task < end; ++task) {
          std::int64_t const sample = task / (pixel_blocks * channel_blocks);
          std::int64_t const first = task / channel_blocks % pixel_blocks * block;
          std::int64_t const count = std::min(block, pixels - first);
          int const channel = static_cast<int>(task % channel_blocks) * wide;
          int const own = std::min(wide, channels - channel);
          if (pixels == 1) {
            detail::dropout_row(place, sample, channel, own, words);
          } else {
            for (int c = 0; c < own; ++c) {
              detail::dropout_row(place, sample, (channel + c) * pixels + first, count,
                                  words + c * count);
            }
          }
          for (std::int64_t p = 0; p < count; ++p) {
            std::int64_t const at = (sample * pixels + first + p) * channels + channel;
            for (int c = 0; c < own; ++c) {
              y[at + c] = static_cast<T>(
                  dropped(words[c * count + p], rate, scale, static_cast<float>(x[at + c])));
            }
          }
        }
      });
}

/// dx = dy / (1 - rate) where the element was kept, else 0: the same map, with the same mask.
///
/// Shapes: dy (B, pixels, C); dx (B, pixels, C), which may be dy.
template <class T>
TANDEM_NOINLINE void dropout_gradient(Team& team, int batch, int channels, std::int64_t pixels,
                                      DropoutPlace const& place, float rate, T const* dy, T* dx) {
  channels_last::dropout_forward(team, batch, channels, pixels, place, rate, dy, dx);
}

}  // namespace tandem::host::channels_last

namespace tandem {

namespace host::channels_last {

template <class T, class P>
class ReluOp {
 public:
  explicit ReluOp(OpSetup const& setup) : elements_{setup.node.out.elements()} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::relu_forward(p.device.team, o.x[0], o.y, p.batch * elements_);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::relu_gradient(p.device.team, o.y, o.dy, o.dx[0], p.batch * elements_);
  }

 private:
  std::int64_t elements_;
};

/// The mask is the one that every backend draws: elements count in the order (C, H, W).
template <class T, class P>
class DropoutOp {
 public:
  DropoutOp(OpSetup const& setup, double rate)
      : channels_{setup.node.out[0]},
        pixels_{setup.node.out.elements() / setup.node.out[0]},
        layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    if (p.training) {
      channels_last::dropout_forward(p.device.team, p.batch, channels_, pixels_, place(p), rate_,
                                     o.x[0], o.y);
    } else {
      channels_last::convert(p.device.team, o.x[0], o.y, p.batch * channels_ * pixels_);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::dropout_gradient(p.device.team, p.batch, channels_, pixels_, place(p), rate_,
                                    o.dy, o.dx[0]);
  }

 private:
  [[nodiscard]] DropoutPlace place(Pass<Device> const& p) const {
    return {p.state->seed, static_cast<std::uint32_t>(p.state->step), layer_,
            static_cast<std::uint32_t>(p.first_sample)};
  }

  int channels_;
  std::int64_t pixels_;  // of a map; 1 for a vector, whose elements are channels
  std::uint32_t layer_;
  float rate_;
};

}  // namespace host::channels_last

template <class Precision>
struct Op<ReLU, BasicHost<OneDnn, Precision>>
    : host::channels_last::ReluOp<typename Precision::Scalar, typename Precision::Master> {
  using host::channels_last::ReluOp<typename Precision::Scalar, typename Precision::Master>::ReluOp;
};

template <class Rate, class Precision>
struct Op<Dropout<Rate>, BasicHost<OneDnn, Precision>>
    : host::channels_last::DropoutOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::DropoutOp<typename Precision::Scalar, typename Precision::Master>{
            setup, Dropout<Rate>::rate} {}
};

}  // namespace tandem

// ---- tandem/ops/onednn/batch_norm.hpp

/// @file
/// BatchNorm2d on Host, channels-last, with the ReLU behind it where the graph has fused one.

#include <algorithm>
#include <cstdint>

// ---- tandem/kernels/channels_last/batch_norm.hpp

/// @file
/// Batch normalisation of each channel over rows of pixels, and a ReLU behind it if asked for.
///
/// With the batch's statistics or running ones; rows may be slices of wider ones. The gradients
/// stand in batch_norm_gradient.hpp. Source: Ioffe, Szegedy, arXiv:1502.03167, section 3.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

// ---- tandem/kernels/channels_last/row_sums.hpp

/// @file
/// Sums of columns over many rows: how the rows are split, and where the sums stand.
///
/// A row is a pixel, a column a channel. The rows are cut into parts, a function of their number
/// only, which threads share out; within a part blocks are summed in float and added in double.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tandem::host::channels_last {

/// Rows that are summed in float before they are added in double.
inline constexpr std::int64_t block_rows = 256;

/// Bytes of a stream that are asked for ahead of their use. Measured at 25 MB on a Zen 5: sums of
/// all channels take 1.4 ms without, 1.07 with 4096, 0.84 with 8192 or 16384.
inline constexpr std::int64_t ahead_bytes = 8192;

/// The channel to hint at for the vector that for_vectors gives at @p c. The first one; but where
/// channels are covered again, the last: it may stand in a line of memory that no other vector
/// begins in (32768 slices of 24 channels: 1.3 ms without, 0.5 so).
constexpr int hinted_channel(int c) { return c % lanes == 0 ? c : c + lanes - 1; }

/// Rows that hold so many bytes.
template <class T>
constexpr std::int64_t rows_ahead(int channels) {
  return 1 + ahead_bytes / (channels * static_cast<std::int64_t>(sizeof(T)));
}

/// Where the sums of the channels from @p c on stand, @p c from for_vectors: a place of its own
/// also for the vector that covers some channels again.
constexpr std::int64_t slot_of_vector(int c) { return (c + lanes - 1) / lanes * lanes; }

/// At most 64 parts of at least block_rows rows.
struct RowParts {
  std::int64_t rows;
  std::int64_t each;   ///< of a part; the last may have fewer
  std::int64_t count;  ///< of parts

  explicit constexpr RowParts(std::int64_t all)
      : rows{all}, each{std::max(block_rows, (all + 63) / 64)}, count{(all + each - 1) / each} {}
};

/// Scratch of a pass over rows: constants of the channels, and three sums in float and two in
/// double for each part. Sums have 16 columns for each call of for_vectors.
class RowScratch {
 public:
  static constexpr int sums = 3;

  RowScratch(std::byte* memory, std::int64_t rows, int channels)
      : slots_{slots_of(channels)},
        totals_{reinterpret_cast<double*>(memory)},
        sums_{reinterpret_cast<float*>(totals_ + RowParts{rows}.count * 2 * slots_)},
        constants_{sums_ + RowParts{rows}.count * sums * slots_} {}

  /// For at most @p rows rows.
  static constexpr std::int64_t bytes(std::int64_t rows, int channels) {
    std::int64_t const parts = RowParts{rows}.count;
    return slots_of(channels) *
           (parts * (2 * std::int64_t{sizeof(double)} + sums * std::int64_t{sizeof(float)}) +
            4 * std::int64_t{sizeof(float)});
  }

  [[nodiscard]] std::int64_t slots() const { return slots_; }
  [[nodiscard]] double* total(std::int64_t part, int which) const {
    return totals_ + (part * 2 + which) * slots_;
  }
  /// `sums` arrays of slots() each, behind one another.
  [[nodiscard]] float* sum(std::int64_t part) const { return sums_ + part * sums * slots_; }
  /// One of four arrays.
  [[nodiscard]] float* constant(int which) const { return constants_ + which * slots_; }

  /// Where the sum of channel @p c stands: see slot_of_vector.
  [[nodiscard]] static constexpr std::int64_t slot(int c, int channels) {
    int const whole = channels - channels % lanes;
    return c < whole || channels < lanes ? c : whole + c - (channels - lanes);
  }

 private:
  static constexpr std::int64_t slots_of(int channels) {
    return (channels + lanes - 1) / lanes * std::int64_t{lanes};
  }

  std::int64_t slots_;
  double* totals_;
  float* sums_;
  float* constants_;
};

/// For each block of rows: block(first, count, sum) makes sums in float, fold(count, before, sum,
/// total0, total1) adds them to its part's totals, in which `before` rows already are.
///
/// Order: blocks in order within a part; the parts are left apart.
template <class Block, class Fold>
void row_sums(Team& team, std::int64_t rows, RowScratch const& scratch, Block const& block,
              Fold const& fold) {
  RowParts const parts{rows};
  team.parallel_for(parts.count, [&](std::int64_t begin, std::int64_t end) {
    float* const sum = scratch.sum(begin);  // one for all parts of this thread: it stays in cache
    for (std::int64_t part = begin; part < end; ++part) {
      std::int64_t const first = part * parts.each;
      std::int64_t const last = std::min(rows, first + parts.each);
      for (std::int64_t row = first; row < last; row += block_rows) {
        std::int64_t const count = std::min(block_rows, last - row);
        block(row, count, sum);
        fold(count, row - first, sum, scratch.total(part, 0), scratch.total(part, 1));
      }
    }
  });
}

}  // namespace tandem::host::channels_last

namespace tandem::host::channels_last {

/// What forward leaves to the gradients, and the sums of the gradients: (C) each.
struct BatchNormSaved {
  float* mean;
  float* inverse_deviation;  ///< 1 / sqrt(variance + epsilon)
  float* variance;           ///< biased
  float* sum_dy;             ///< dy here is behind the mask of a fused ReLU
  float* sum_dy_x;           ///< of dy (x - mean)

  static constexpr std::int64_t bytes(int channels) {
    return 5 * std::int64_t{channels} * static_cast<std::int64_t>(sizeof(float));
  }
  static BatchNormSaved at(std::byte* memory, int channels) {
    auto* const first = reinterpret_cast<float*>(memory);
    std::int64_t const c = channels;
    return {first, first + c, first + 2 * c, first + 3 * c, first + 4 * c};
  }
};

/// Rows of C channels, `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
};

/// y = (x - center) * scale + shift of each channel, (C) each.
///
/// Both forward and the mask of the gradients compute multiply_add(x - center, scale, shift), so
/// that a gradient is masked where forward has written a 0.
struct BatchNormAffine {
  float const* center;
  float const* scale;
  float const* shift;
};

inline float inverse_deviation_of(double variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
}

namespace detail {

/// Calls f<N>(row) so that rows row to row + N - 1 of all calls are all rows, each once.
///
/// N is 4 or 1. Four rows share the loads of the channels' constants; where `bytes` of traffic do
/// not fit the caches one is faster, as memory is then read and written in order (x and y of 25 MB:
/// 2.4 ms against 2.9; of 6 MB: 0.29 against 0.20).
template <class Function>
void for_rows(Team& team, std::int64_t rows, std::int64_t bytes, Function const& f) {
  team.parallel_for((rows + 3) / 4, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t const last = std::min(rows, 4 * end);
    std::int64_t row = 4 * begin;
    if (bytes <= (std::int64_t{1} << 24)) {
      for (; row + 4 <= last; row += 4) {
        f.template operator()<4>(row);
      }
    }
    for (; row < last; ++row) {
      f.template operator()<1>(row);
    }
  });
}

/// Sums of x - k and of their squares over rows, k being the first row; in @p sum: k, then those.
template <class T>
void batch_norm_block(Rows<T const> const& x, std::int64_t first, std::int64_t rows, int channels,
                      std::int64_t slots, float* sum) {
  T const* const start = x.data + first * x.stride;
  float* const squares = sum + 2 * slots;
  for_vectors(channels, [&](int c, auto width) {
    std::int64_t const slot = slot_of_vector(c);
    store(sum + slot, width.load(start + c));
    store(sum + slots + slot, Floats{0.0F});
    store(squares + slot, Floats{0.0F});
  });
  std::int64_t const ahead = rows_ahead<T>(channels) * x.stride;
  auto const add = [&]<int N>(T const* row) {
    for_vectors(channels, [&](int c, auto width) {
      std::int64_t const slot = slot_of_vector(c);
      Floats const k = load(sum + slot);
      Floats total = load(sum + slots + slot);
      Floats square = load(squares + slot);
      for (int i = 0; i < N; ++i) {
        T const* const p = row + i * x.stride + c;
        will_read(row + hinted_channel(c), ahead + i * x.stride);
        Floats const distance = width.load(p) - k;
        total += distance;
        square = multiply_add(distance, distance, square);
      }
      store(sum + slots + slot, total);
      store(squares + slot, square);
    });
  };
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    add.template operator()<4>(start + row * x.stride);
  }
  for (; row < rows; ++row) {
    add.template operator()<1>(start + row * x.stride);
  }
}

/// Adds `count` values of a mean and a sum of squared distances from it to those of `before`.
/// Source: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm, 1979, eq. 2.1.
inline void merge_moments(double before, double count, double mean, double squares,
                          double& all_mean, double& all_squares) {
  double const weight = count / (before + count);
  double const delta = before > 0 ? mean - all_mean : mean;
  all_mean = before > 0 ? all_mean + delta * weight : mean;
  all_squares = before > 0 ? all_squares + squares + delta * delta * weight * before : squares;
}

}  // namespace detail

/// mean, biased variance and inverse deviation of each channel over the rows.
///
/// Shapes: x (rows, C); the statistics (C).
/// Cost:   reads x once; bound by memory.
/// Order:  blocks of 256 rows in float, as distances from the block's first row, so that a mean far
///         from 0 costs no digits; blocks, then parts in order in double. A function of rows only.
/// @pre    scratch has RowScratch::bytes(rows, C); rows >= 1
template <class T>
TANDEM_NOINLINE void batch_norm_moments(Team& team, Rows<T const> x, std::int64_t rows,
                                        int channels, float epsilon, BatchNormSaved const& saved,
                                        std::byte* memory) {
  RowScratch const scratch{memory, rows, channels};
  std::int64_t const slots = scratch.slots();
  row_sums(
      team, rows, scratch,
      [&](std::int64_t first, std::int64_t count, float* sum) {
        detail::batch_norm_block(x, first, count, channels, slots, sum);
      },
      [slots](std::int64_t count, std::int64_t before, float const* sum, double* mean,
              double* squares) {
        auto const n = static_cast<double>(count);
        for (std::int64_t s = 0; s < slots; ++s) {
          double const total = static_cast<double>(sum[slots + s]);
          double const square = static_cast<double>(sum[2 * slots + s]);
          detail::merge_moments(static_cast<double>(before), n,
                                static_cast<double>(sum[s]) + total / n,
                                std::max(square - total * total / n, 0.0), mean[s], squares[s]);
        }
      });
  RowParts const parts{rows};
  team.parallel_for(channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      std::int64_t const s = RowScratch::slot(static_cast<int>(c), channels);
      double mean = 0;
      double squares = 0;
      for (std::int64_t part = 0; part < parts.count; ++part) {
        std::int64_t const before = part * parts.each;
        std::int64_t const count = std::min(rows - before, parts.each);
        detail::merge_moments(static_cast<double>(before), static_cast<double>(count),
                              scratch.total(part, 0)[s], scratch.total(part, 1)[s], mean, squares);
      }
      double const variance = squares / static_cast<double>(rows);
      saved.mean[c] = static_cast<float>(mean);
      saved.variance[c] = static_cast<float>(variance);
      saved.inverse_deviation[c] = inverse_deviation_of(variance, epsilon);
    }
  });
}

/// y = (x - center) * scale + shift of each channel; then max(y, 0) with @p relu.
///
/// Shapes: x, y (rows, C), which must not overlap; what lies between the rows is not touched.
/// Cost:   reads x, writes y; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_apply(Team& team, Rows<T const> x, std::int64_t rows, int channels,
                                      BatchNormAffine const& affine, bool relu, Rows<T> y) {
  std::int64_t const ahead = rows_ahead<T>(channels) / 2 + 1;
  std::int64_t const traffic = 2 * rows * channels * static_cast<std::int64_t>(sizeof(T));
  Floats const least{relu ? 0.0F : -std::numeric_limits<float>::infinity()};
  detail::for_rows(team, rows, traffic, [&]<int N>(std::int64_t row) {
    T const* const from = x.data + row * x.stride;
    T* const to = y.data + row * y.stride;
    for_vectors(channels, [&](int c, auto width) {
      Floats const center = width.load(affine.center + c);
      Floats const scale = width.load(affine.scale + c);
      Floats const shift = width.load(affine.shift + c);
      int const hint = hinted_channel(c);
      for (int i = 0; i < N; ++i) {
        will_read(from + hint, (i + ahead) * x.stride);
        will_write(to + hint, (i + ahead) * y.stride);
        Floats const distance = width.load(from + i * x.stride + c) - center;
        width.store(to + i * y.stride + c, max(multiply_add(distance, scale, shift), least));
      }
    });
  });
}

}  // namespace tandem::host::channels_last

// ---- tandem/kernels/channels_last/batch_norm_gradient.hpp

/// @file
/// The gradients of batch normalisation: one pass of sums, which both of them use, then each.
///
/// With a fused ReLU, dy below stands for dy where y > 0 and 0 elsewhere; y is computed again.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tandem::host::channels_last {

namespace detail {

/// dy, or 0 where a ReLU behind y = distance * scale + shift passes none.
template <bool Relu>
[[gnu::always_inline]] inline Floats behind_relu(Floats const& dy, Floats const& distance,
                                                 Floats const& scale, Floats const& shift) {
  if constexpr (Relu) {
    return where_positive(multiply_add(distance, scale, shift), dy);
  } else {
    return dy;
  }
}

/// Sums of dy and of dy (x - center) over rows, to the first two arrays of @p sum.
template <bool Relu, class T>
void batch_norm_gradient_block(Rows<T const> const& x, Rows<T const> const& dy, std::int64_t first,
                               std::int64_t rows, int channels, BatchNormAffine const& affine,
                               std::int64_t slots, float* sum) {
  std::fill(sum, sum + 2 * slots, 0.0F);
  std::int64_t const ahead = rows_ahead<T>(channels);
  auto const add = [&]<int N>(std::int64_t row) {
    T const* const x_row = x.data + row * x.stride;
    T const* const dy_row = dy.data + row * dy.stride;
    for_vectors(channels, [&](int c, auto width) {
      std::int64_t const slot = slot_of_vector(c);
      Floats const center = width.load(affine.center + c);
      Floats const scale = width.load(affine.scale + c);
      Floats const shift = width.load(affine.shift + c);
      int const hint = hinted_channel(c);
      Floats total = load(sum + slot);
      Floats product = load(sum + slots + slot);
      for (int i = 0; i < N; ++i) {
        will_read(x_row + hint, (i + ahead) * x.stride);
        will_read(dy_row + hint, (i + ahead) * dy.stride);
        Floats const distance = width.load(x_row + i * x.stride + c) - center;
        Floats const g =
            behind_relu<Relu>(width.load(dy_row + i * dy.stride + c), distance, scale, shift);
        total += g;
        product = multiply_add(g, distance, product);
      }
      store(sum + slot, total);
      store(sum + slots + slot, product);
    });
  };
  std::int64_t row = first;
  for (; row + 4 <= first + rows; row += 4) {
    add.template operator()<4>(row);
  }
  for (; row < first + rows; ++row) {
    add.template operator()<1>(row);
  }
}

template <bool Relu, class T>
void batch_norm_map_gradient(Team& team, Rows<T const> const& x, Rows<T const> const& dy,
                             std::int64_t rows, int channels, BatchNormAffine const& affine,
                             float const* slope, float const* offset, Rows<T> const& dx) {
  std::int64_t const ahead = rows_ahead<T>(channels) / 2 + 1;
  std::int64_t const traffic = 3 * rows * channels * static_cast<std::int64_t>(sizeof(T));
  for_rows(team, rows, traffic, [&]<int N>(std::int64_t row) {
    T const* const x_row = x.data + row * x.stride;
    T const* const dy_row = dy.data + row * dy.stride;
    T* const dx_row = dx.data + row * dx.stride;
    for_vectors(channels, [&](int c, auto width) {
      Floats const center = width.load(affine.center + c);
      Floats const scale = width.load(affine.scale + c);
      Floats const shift = width.load(affine.shift + c);
      int const hint = hinted_channel(c);
      Floats const a = width.load(slope + c);
      Floats const b = width.load(offset + c);
      for (int i = 0; i < N; ++i) {
        will_read(x_row + hint, (i + ahead) * x.stride);
        will_read(dy_row + hint, (i + ahead) * dy.stride);
        will_write(dx_row + hint, (i + ahead) * dx.stride);
        Floats const distance = width.load(x_row + i * x.stride + c) - center;
        Floats const g =
            behind_relu<Relu>(width.load(dy_row + i * dy.stride + c), distance, scale, shift);
        width.store(dx_row + i * dx.stride + c, (g + multiply_add(distance, a, b)) * scale);
      }
    });
  });
}

}  // namespace detail

/// saved.sum_dy = sum(dy), saved.sum_dy_x = sum(dy (x - mean)), each channel over the rows.
///
/// Shapes: x, dy (rows, C), affine as in forward.
/// Cost:   reads x and dy once; bound by memory.
/// Order:  blocks of 256 rows in float; blocks, then parts in order in double.
/// @pre    scratch has RowScratch::bytes(rows, C)
template <class T>
TANDEM_NOINLINE void batch_norm_gradient_sums(Team& team, Rows<T const> x, Rows<T const> dy,
                                              std::int64_t rows, int channels,
                                              BatchNormAffine const& affine, bool relu,
                                              BatchNormSaved const& saved, std::byte* memory) {
  RowScratch const scratch{memory, rows, channels};
  std::int64_t const slots = scratch.slots();
  row_sums(
      team, rows, scratch,
      [&](std::int64_t first, std::int64_t count, float* sum) {
        if (relu) {
          detail::batch_norm_gradient_block<true>(x, dy, first, count, channels, affine, slots,
                                                  sum);
        } else {
          detail::batch_norm_gradient_block<false>(x, dy, first, count, channels, affine, slots,
                                                   sum);
        }
      },
      [slots](std::int64_t, std::int64_t before, float const* sum, double* total, double* product) {
        for (std::int64_t s = 0; s < slots; ++s) {
          total[s] = (before > 0 ? total[s] : 0.0) + static_cast<double>(sum[s]);
          product[s] = (before > 0 ? product[s] : 0.0) + static_cast<double>(sum[slots + s]);
        }
      });
  std::int64_t const parts = RowParts{rows}.count;
  team.parallel_for(channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      std::int64_t const s = RowScratch::slot(static_cast<int>(c), channels);
      double total = 0;
      double product = 0;
      for (std::int64_t part = 0; part < parts; ++part) {
        total += scratch.total(part, 0)[s];
        product += scratch.total(part, 1)[s];
      }
      saved.sum_dy[c] = static_cast<float>(total);
      saved.sum_dy_x[c] = static_cast<float>(product);
    }
  });
}

/// dx = (dy + (x - center) * slope + offset) * scale of each channel, all (C).
///
/// Through the batch's statistics, with scale = gain / deviation: slope is -mean(dy (x - mean)) /
/// deviation² and offset -mean(dy). Where statistics are constants both are 0.
///
/// Shapes: x, dy, dx (rows, C); dx overlaps neither; between its rows nothing is touched.
/// Cost:   reads x and dy, writes dx; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_input_gradient(Team& team, Rows<T const> x, Rows<T const> dy,
                                               std::int64_t rows, int channels,
                                               BatchNormAffine const& affine, bool relu,
                                               float const* slope, float const* offset,
                                               Rows<T> dx) {
  if (relu) {
    detail::batch_norm_map_gradient<true>(team, x, dy, rows, channels, affine, slope, offset, dx);
  } else {
    detail::batch_norm_map_gradient<false>(team, x, dy, rows, channels, affine, slope, offset, dx);
  }
}

/// Where batch_norm_weight_gradient adds or writes, (C) each.
struct BatchNormGradients {
  float* gain;
  float* bias;
  float* mean;      ///< what the microbatch adds to the step's average of means
  float* variance;  ///< of unbiased variances
};

/// gain = [+=] sum(dy xhat), bias = [+=] sum(dy), mean = [+=] share * mean(x), variance = [+=]
/// share * var(x) * rows / (rows - 1); one row has no unbiased variance and passes the biased one.
///
/// @pre batch_norm_gradient_sums has left its sums in @p saved
inline void batch_norm_weight_gradient(std::int64_t rows, int channels, double share,
                                       BatchNormSaved const& saved,
                                       BatchNormGradients const& gradients, bool accumulate) {
  double const unbiased =
      rows > 1 ? static_cast<double>(rows) / static_cast<double>(rows - 1) : 1.0;
  auto const weight = static_cast<float>(share);
  auto const factor = static_cast<float>(static_cast<double>(weight) * unbiased);
  for (int c = 0; c < channels; ++c) {
    auto const dy_xhat = static_cast<float>(static_cast<double>(saved.sum_dy_x[c]) *
                                            static_cast<double>(saved.inverse_deviation[c]));
    gradients.gain[c] = dy_xhat + (accumulate ? gradients.gain[c] : 0.0F);
    gradients.bias[c] = saved.sum_dy[c] + (accumulate ? gradients.bias[c] : 0.0F);
    gradients.mean[c] = weight * saved.mean[c] + (accumulate ? gradients.mean[c] : 0.0F);
    gradients.variance[c] =
        factor * saved.variance[c] + (accumulate ? gradients.variance[c] : 0.0F);
  }
}

}  // namespace tandem::host::channels_last

namespace tandem {

namespace host::channels_last {

/// Statistics of the microbatch in training; running ones in evaluation and where frozen.
///
/// Activations are (B, H, W, C), so a pixel is a row; x and y may be slices of wider pixels. The
/// gradient slots of the running statistics receive share * (mean, unbiased variance), so that the
/// sum over a step's microbatches is their average, whoever computed them. `saved` is a
/// BatchNormSaved; the sums in it are made by input_gradient, or by weight_gradient where there is
/// none.
template <class T>
class BatchNormOp {
 public:
  BatchNormOp(OpSetup const& setup, double epsilon)
      : channels_{setup.node.in[0]},
        pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        largest_{setup.batch},
        x_stride_{setup.x_stride > 0 ? setup.x_stride : channels_},
        y_stride_{setup.y_stride > 0 ? setup.y_stride : channels_},
        frozen_{setup.node.frozen},
        relu_{setup.node.relu},
        summed_{setup.wants_input_gradient},
        epsilon_{static_cast<float>(epsilon)} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = BatchNormSaved::bytes(channels_),
            .scratch_bytes = RowScratch::bytes(largest_ * pixels_, channels_)};
  }

  /// An empty microbatch has no statistics; its gradients are 0.
  void forward(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      return;
    }
    if (p.training && !frozen_) {
      BatchNormSaved const s = saved(o);
      batch_norm_moments<T>(p.device.team, x(o), rows(p), channels_, epsilon_, s, p.device.scratch);
      apply(o, p, batch_affine(o, p));
    } else {
      apply(o, p, running_affine(o, p));
    }
  }

  void input_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      return;
    }
    if (!frozen_) {
      sums(o, p);
    }
    RowScratch const scratch = scratch_of(p);
    float* const slope = scratch.constant(1);
    float* const offset = scratch.constant(2);
    BatchNormAffine const a = frozen_ ? running_affine(o, p) : batch_affine(o, p);
    BatchNormSaved const s = saved(o);
    auto const count = static_cast<float>(rows(p));
    for (int c = 0; c < channels_; ++c) {
      float const inverse = frozen_ ? 0.0F : s.inverse_deviation[c];
      slope[c] = frozen_ ? 0.0F : -(s.sum_dy_x[c] / count * inverse * inverse);
      offset[c] = frozen_ ? 0.0F : -(s.sum_dy[c] / count);
    }
    batch_norm_input_gradient<T>(p.device.team, x(o), dy(o), rows(p), channels_, a, relu_, slope,
                                 offset, {o.dx[0], x_stride_});
  }

  /// The engine never calls it where the layer is frozen.
  void weight_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      for (int i = 0; i < 4 && !p.accumulate; ++i) {
        std::fill(o.gradient[i], o.gradient[i] + channels_, 0.0F);
      }
      return;
    }
    if (!summed_) {
      sums(o, p);
    }
    batch_norm_weight_gradient(
        rows(p), channels_, p.share, saved(o),
        BatchNormGradients{o.gradient[0], o.gradient[1], o.gradient[2], o.gradient[3]},
        p.accumulate);
  }

 protected:
  [[nodiscard]] std::int64_t rows(Pass<Device> const& p) const { return p.batch * pixels_; }
  [[nodiscard]] Rows<T const> x(Operands<T, float> const& o) const { return {o.x[0], x_stride_}; }
  [[nodiscard]] Rows<T const> dy(Operands<T, float> const& o) const { return {o.dy, y_stride_}; }
  [[nodiscard]] BatchNormSaved saved(Operands<T, float> const& o) const {
    return BatchNormSaved::at(o.saved, channels_);
  }
  [[nodiscard]] RowScratch scratch_of(Pass<Device> const& p) const {
    return {p.device.scratch, rows(p), channels_};
  }

  template <class Inverse>
  BatchNormAffine affine(Operands<T, float> const& o, Pass<Device> const& p, float const* center,
                         Inverse const& inverse) const {
    float* const scale = scratch_of(p).constant(0);
    for (int c = 0; c < channels_; ++c) {
      scale[c] = inverse(c) * o.parameter[0][c];
    }
    return {center, scale, o.parameter[1]};
  }
  [[nodiscard]] BatchNormAffine batch_affine(Operands<T, float> const& o,
                                             Pass<Device> const& p) const {
    BatchNormSaved const s = saved(o);
    return affine(o, p, s.mean, [&](int c) { return s.inverse_deviation[c]; });
  }
  [[nodiscard]] BatchNormAffine running_affine(Operands<T, float> const& o,
                                               Pass<Device> const& p) const {
    return affine(o, p, o.parameter[2], [&](int c) {
      return inverse_deviation_of(static_cast<double>(o.parameter[3][c]), epsilon_);
    });
  }

  void apply(Operands<T, float> const& o, Pass<Device> const& p, BatchNormAffine const& a) const {
    batch_norm_apply<T>(p.device.team, x(o), rows(p), channels_, a, relu_, {o.y, y_stride_});
  }
  void sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    batch_norm_gradient_sums<T>(p.device.team, x(o), dy(o), rows(p), channels_, batch_affine(o, p),
                                relu_, saved(o), p.device.scratch);
  }

  int channels_;
  std::int64_t pixels_;
  std::int64_t largest_;  // samples of a microbatch
  std::int64_t x_stride_;
  std::int64_t y_stride_;
  bool frozen_;
  bool relu_;
  bool summed_;
  float epsilon_;
};

}  // namespace host::channels_last

template <class... Options, class Precision>
struct Op<BatchNorm2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::BatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::BatchNormOp<typename Precision::Scalar>{
            setup, BatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem

// ---- tandem/ops/onednn/border.hpp

/// @file
/// Border: how samples and outputs cross between the user's arrays and the oneDNN Host backend.

#include <cstdint>

// ---- tandem/kernels/channels_last/layout.hpp

/// @file
/// Between the layout that users know, (B, C, pixels), and channels-last, (B, pixels, C), from one
/// type to another.

#include <algorithm>
#include <cstdint>

namespace tandem::host::channels_last {

namespace detail {

/// to[j][i] = from[i][j], rows rows of columns elements at these strides. A square of 16 x 16 is
/// read row by row and written row by row, so that no cache line is touched by single elements.
template <class From, class To>
TANDEM_NOINLINE void transpose(From const* from, std::int64_t from_stride, To* to,
                               std::int64_t to_stride, int rows, int columns) {
  float square[lanes][lanes];
  for (int i = 0; i < rows; ++i) {
    float row[lanes];
    FirstLanes const some{columns};
    store(row, columns == lanes ? load(from + i * from_stride) : some.load(from + i * from_stride));
    for (int j = 0; j < lanes; ++j) {
      square[j][i] = row[j];
    }
  }
  for (int j = 0; j < columns; ++j) {
    if (rows == lanes) {
      store(to + j * to_stride, load(square[j]));
    } else {
      store(to + j * to_stride, load(square[j], rows), rows);
    }
  }
}

/// A matrix for each sample: y[j][i] = x[i][j], x of rows rows and columns columns. Threads split
/// the batch and stripes of 16 columns.
template <class From, class To>
void transpose_each(Team& team, int batch, std::int64_t rows, std::int64_t columns, From const* x,
                    To* y) {
  std::int64_t const stripes = (columns + lanes - 1) / lanes;
  team.parallel_for(batch * stripes, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const sample = task / stripes * rows * columns;
      std::int64_t const j = task % stripes * lanes;
      for (std::int64_t i = 0; i < rows; i += lanes) {
        transpose(x + sample + i * columns + j, columns, y + sample + j * rows + i, rows,
                  static_cast<int>(std::min<std::int64_t>(lanes, rows - i)),
                  static_cast<int>(std::min<std::int64_t>(lanes, columns - j)));
      }
    }
  });
}

}  // namespace detail

/// y[b][p][c] = x[b][c][p], rounded where To is narrower.
///
/// Shapes: x (B, C, pixels); y (B, pixels, C).
/// Cost:   reads and writes each element once.
template <class From, class To>
TANDEM_NOINLINE void to_channels_last(Team& team, int batch, int channels, std::int64_t pixels,
                                      From const* x, To* y) {
  if (channels == 1 || pixels == 1) {
    convert(team, x, y, batch * channels * pixels);
  } else if (channels == 3) {  // what images have
    team.parallel_for(batch * pixels, [=](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        std::int64_t const sample = begin / pixels;
        std::int64_t const stop = std::min(end, (sample + 1) * pixels);
        From const* const red = x + 2 * sample * pixels;  // + begin: the pixel's own plane
        for (; begin < stop; ++begin) {
          for (int c = 0; c < 3; ++c) {
            y[3 * begin + c] = static_cast<To>(static_cast<float>(red[begin + c * pixels]));
          }
        }
      }
    });
  } else {
    detail::transpose_each(team, batch, channels, pixels, x, y);
  }
}

/// y[b][c][p] = x[b][p][c], rounded where To is narrower.
///
/// Shapes: x (B, pixels, C); y (B, C, pixels).
/// Cost:   reads and writes each element once.
template <class From, class To>
TANDEM_NOINLINE void from_channels_last(Team& team, int batch, int channels, std::int64_t pixels,
                                        From const* x, To* y) {
  if (channels == 1 || pixels == 1) {
    convert(team, x, y, batch * channels * pixels);
  } else {
    detail::transpose_each(team, batch, pixels, channels, x, y);
  }
}

}  // namespace tandem::host::channels_last

namespace tandem {

template <class Precision>
struct Border<BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  /// y (n, H, W, C) = x (n, C, H, W), rounded to T.
  static void load(host::Device& device, int n, Shape shape, P const* x, T* y) {
    host::channels_last::to_channels_last(device.team, n, channels(shape), pixels(shape), x, y);
  }
  /// The way back.
  static void store(host::Device& device, int n, Shape shape, T const* x, P* y) {
    host::channels_last::from_channels_last(device.team, n, channels(shape), pixels(shape), x, y);
  }

 private:
  static int channels(Shape shape) {
    return shape.rank == 3 ? shape[0] : static_cast<int>(shape.elements());
  }
  static std::int64_t pixels(Shape shape) { return shape.elements() / channels(shape); }
};

}  // namespace tandem

// ---- tandem/ops/onednn/convolution.hpp

/// @file
/// Conv2d on Host by oneDNN. Needs <oneapi/dnnl/dnnl.h>; ops/host/convolution.hpp does without.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

// ---- tandem/core/by_batch.hpp

/// @file
/// ByBatch: one prepared object for each batch size that occurs: the usual one and the last one.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tandem {

/// Keeps what was made for each number of samples; addresses stay valid.
template <class Plan>
class ByBatch {
 public:
  /// The plan for @p samples, made by make(samples) at the first request.
  template <class Make>
  Plan& get(std::int64_t samples, Make const& make) {
    for (auto& [size, plan] : plans_) {
      if (size == samples) {
        return *plan;
      }
    }
    plans_.emplace_back(samples, std::make_unique<Plan>(make(samples)));
    return *plans_.back().second;
  }

 private:
  std::vector<std::pair<std::int64_t, std::unique_ptr<Plan>>> plans_;
};

}  // namespace tandem

// ---- tandem/kernels/onednn/convolution.hpp

/// @file
/// ConvolutionPasses: the three passes of one convolution by oneDNN, for one number of samples.
///
/// Activations lie channels-last, and are reordered around primitives that want them otherwise; the
/// weights lie as the primitives choose, or as a first choice prescribes, so that batches of
/// several sizes read the same packed weights.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <oneapi/dnnl/dnnl.h>

// ---- tandem/kernels/onednn/convolution_plans.hpp

/// @file
/// ConvolutionPlans: how oneDNN is to compute the three passes of one convolution.

#include <cstdint>
#include <span>
#include <string>

#include <oneapi/dnnl/dnnl.h>

// ---- tandem/kernels/onednn/library.hpp

/// @file
/// Library: oneDNN's engine of the processor and a queue on it; make_descriptor() for its tensors.
///
/// C API only, so that the header costs little; it needs <oneapi/dnnl/dnnl.h>.

#include <concepts>
#include <cstdint>
#include <initializer_list>

#include <oneapi/dnnl/dnnl.h>

// ---- tandem/core/unique_handle.hpp

/// @file
/// UniqueHandle: sole ownership of a handle that a C library gave and takes back.

#include <utility>

namespace tandem {

/// Owns a @p Handle and passes it to @p destroy, once, unless it is the empty `Handle{}`.
///
/// What destroy returns is dropped: a destructor can neither throw nor repair. Move-only.
template <class Handle, auto destroy>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) noexcept : handle_{handle} {}

  UniqueHandle(UniqueHandle&& other) noexcept : handle_{other.release()} {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = other.release();
    }
    return *this;
  }
  ~UniqueHandle() { reset(); }

  /// Gives the handle up without destroying it.
  [[nodiscard]] Handle release() noexcept { return std::exchange(handle_, Handle{}); }

  void reset() noexcept {
    if (handle_ != Handle{}) {
      static_cast<void>(destroy(release()));
    }
  }

  [[nodiscard]] Handle get() const noexcept { return handle_; }
  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != Handle{}; }

 private:
  Handle handle_{};
};

}  // namespace tandem

// ---- tandem/kernels/onednn/status.hpp

/// @file
/// OneDnnError, and check() for the statuses of oneDNN's C API.

#include <string>

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR < 2
#error "tandem wants oneDNN 2 or 3; install libdnnl-dev, or compile without TANDEM_ONEDNN"
#endif

namespace tandem::onednn {

/// oneDNN refused a call, or has no kernel for a layer.
class OneDnnError : public Error {
 public:
  OneDnnError(dnnl_status_t code, std::string const& what) : Error{what}, code_{code} {}

  [[nodiscard]] dnnl_status_t code() const noexcept { return code_; }

 private:
  dnnl_status_t code_;
};

namespace detail {

inline char const* meaning(dnnl_status_t status) {
  switch (status) {
    case dnnl_out_of_memory:
      return "out of memory; use a smaller batch or more microbatches";
    case dnnl_invalid_arguments:
      return "invalid arguments; take BasicHost<Portable, Fp32> and please report this";
    case dnnl_unimplemented:
      return "not implemented for this processor; take BasicHost<Portable, Fp32>";
    default:
      return "an error at run time; take BasicHost<Portable, Fp32> and please report this";
  }
}

[[noreturn]] TANDEM_NOINLINE inline void fail(dnnl_status_t status, char const* file, int line) {
  throw OneDnnError{status, std::string{"oneDNN: "} + meaning(status) + " (" + file + ":" +
                                std::to_string(line) + ")"};
}

}  // namespace detail

/// @throws OneDnnError  @p status is not success; the message says what it means and the place
inline void check(dnnl_status_t status, char const* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status != dnnl_success) {
    detail::fail(status, file, line);
  }
}

}  // namespace tandem::onednn

// ---- tandem/kernels/onednn/version.hpp

/// @file
/// What differs between the C APIs of oneDNN 2 and 3, under one name each; nothing else asks for
/// the version.
///
/// Version 2 has memory descriptors by value and describes an operation in two steps; version 3
/// has handles, and one call. Functions return oneDNN's status.

#include <cstddef>

#include <oneapi/dnnl/dnnl.h>

namespace tandem::onednn {

#if DNNL_VERSION_MAJOR >= 3

/// A descriptor of a tensor as oneDNN's functions take it; owned by a Descriptor or a primitive.
using DescriptorView = const_dnnl_memory_desc_t;

#else

using DescriptorView = dnnl_memory_desc_t const*;

#endif

/// The tensors of one convolution or matrix product y = x weight + bias; bias may be null. In a
/// backward pass of a convolution each may stand for its gradient.
struct TensorViews {
  DescriptorView x = nullptr;
  DescriptorView weight = nullptr;
  DescriptorView bias = nullptr;
  DescriptorView y = nullptr;
};

/// How a convolution's window moves, two entries each, and how it is computed.
struct WindowSteps {
  dnnl_dims_t strides = {};
  dnnl_dims_t padding = {};
  dnnl_alg_kind_t algorithm = dnnl_convolution_direct;
};

#if DNNL_VERSION_MAJOR >= 3

/// An owned descriptor of a tensor. Move-only.
class Descriptor {
 public:
  Descriptor() = default;

  [[nodiscard]] DescriptorView get() const noexcept { return handle_.get(); }

  dnnl_status_t set(int rank, dnnl_dims_t const& sizes, dnnl_data_type_t type,
                    dnnl_format_tag_t tag) {
    return keep([&](dnnl_memory_desc_t* made) {
      return dnnl_memory_desc_create_with_tag(made, rank, sizes, type, tag);
    });
  }
  dnnl_status_t copy(DescriptorView other) {
    return keep([&](dnnl_memory_desc_t* made) { return dnnl_memory_desc_clone(made, other); });
  }

 private:
  template <class Make>
  dnnl_status_t keep(Make const& make) {
    dnnl_memory_desc_t made = nullptr;
    dnnl_status_t const status = make(&made);
    handle_ = UniqueHandle<dnnl_memory_desc_t, dnnl_memory_desc_destroy>{made};
    return status;
  }

  UniqueHandle<dnnl_memory_desc_t, dnnl_memory_desc_destroy> handle_;
};

inline dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1.0F, 0, dnnl_data_type_undef);
}

inline dnnl_status_t convolution_forward(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                         TensorViews const& t, WindowSteps const& w,
                                         const_dnnl_primitive_attr_t attributes) {
  return dnnl_convolution_forward_primitive_desc_create(
      made, engine, dnnl_forward_training, w.algorithm, t.x, t.weight, t.bias, t.y, w.strides,
      nullptr, w.padding, w.padding, attributes);
}
inline dnnl_status_t convolution_input_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                TensorViews const& t, WindowSteps const& w,
                                                const_dnnl_primitive_desc_t forward,
                                                const_dnnl_primitive_attr_t attributes) {
  return dnnl_convolution_backward_data_primitive_desc_create(
      made, engine, w.algorithm, t.x, t.weight, t.y, w.strides, nullptr, w.padding, w.padding,
      forward, attributes);
}
inline dnnl_status_t convolution_weight_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                 TensorViews const& t, WindowSteps const& w,
                                                 const_dnnl_primitive_desc_t forward,
                                                 const_dnnl_primitive_attr_t attributes) {
  return dnnl_convolution_backward_weights_primitive_desc_create(
      made, engine, w.algorithm, t.x, t.weight, t.bias, t.y, w.strides, nullptr, w.padding,
      w.padding, forward, attributes);
}

inline dnnl_status_t matrix_product(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                    TensorViews const& t, const_dnnl_primitive_attr_t attributes) {
  return dnnl_matmul_primitive_desc_create(made, engine, t.x, t.weight, t.bias, t.y, attributes);
}

#else

class Descriptor {
 public:
  Descriptor() = default;

  [[nodiscard]] DescriptorView get() const noexcept { return &value_; }

  dnnl_status_t set(int rank, dnnl_dims_t const& sizes, dnnl_data_type_t type,
                    dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(&value_, rank, sizes, type, tag);
  }
  dnnl_status_t copy(DescriptorView other) {
    value_ = *other;
    return dnnl_success;
  }

 private:
  dnnl_memory_desc_t value_ = {};
};

inline dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1.0F);
}

inline dnnl_status_t convolution_forward(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                         TensorViews const& t, WindowSteps const& w,
                                         const_dnnl_primitive_attr_t attributes) {
  dnnl_convolution_desc_t operation;
  dnnl_status_t const status =
      dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, w.algorithm, t.x,
                                         t.weight, t.bias, t.y, w.strides, w.padding, w.padding);
  return status != dnnl_success
             ? status
             : dnnl_primitive_desc_create(made, &operation, attributes, engine, nullptr);
}
inline dnnl_status_t convolution_input_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                TensorViews const& t, WindowSteps const& w,
                                                const_dnnl_primitive_desc_t forward,
                                                const_dnnl_primitive_attr_t attributes) {
  dnnl_convolution_desc_t operation;
  dnnl_status_t const status = dnnl_convolution_backward_data_desc_init(
      &operation, w.algorithm, t.x, t.weight, t.y, w.strides, w.padding, w.padding);
  return status != dnnl_success
             ? status
             : dnnl_primitive_desc_create(made, &operation, attributes, engine, forward);
}
inline dnnl_status_t convolution_weight_gradient(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                                 TensorViews const& t, WindowSteps const& w,
                                                 const_dnnl_primitive_desc_t forward,
                                                 const_dnnl_primitive_attr_t attributes) {
  dnnl_convolution_desc_t operation;
  dnnl_status_t const status = dnnl_convolution_backward_weights_desc_init(
      &operation, w.algorithm, t.x, t.weight, t.bias, t.y, w.strides, w.padding, w.padding);
  return status != dnnl_success
             ? status
             : dnnl_primitive_desc_create(made, &operation, attributes, engine, forward);
}

inline dnnl_status_t matrix_product(dnnl_primitive_desc_t* made, dnnl_engine_t engine,
                                    TensorViews const& t, const_dnnl_primitive_attr_t attributes) {
  dnnl_matmul_desc_t operation;
  dnnl_status_t const status = dnnl_matmul_desc_init(&operation, t.x, t.weight, t.bias, t.y);
  return status != dnnl_success
             ? status
             : dnnl_primitive_desc_create(made, &operation, attributes, engine, nullptr);
}

#endif

}  // namespace tandem::onednn

namespace tandem::onednn {

/// What a call into oneDNN needs; each op has one. Work is done when a call returns. Move-only.
class Library {
 public:
  /// @throws OneDnnError  out of memory
  Library() {
    dnnl_engine_t engine = nullptr;
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    engine_ = UniqueHandle<dnnl_engine_t, dnnl_engine_destroy>{engine};
    dnnl_stream_t stream = nullptr;
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    stream_ = UniqueHandle<dnnl_stream_t, dnnl_stream_destroy>{stream};
  }

  [[nodiscard]] dnnl_engine_t engine() const noexcept { return engine_.get(); }
  [[nodiscard]] dnnl_stream_t stream() const noexcept { return stream_.get(); }

 private:
  UniqueHandle<dnnl_engine_t, dnnl_engine_destroy> engine_;
  UniqueHandle<dnnl_stream_t, dnnl_stream_destroy> stream_;
};

/// oneDNN's name of float and BFloat16.
template <class T>
  requires(std::same_as<T, float> || std::same_as<T, BFloat16>)
inline constexpr dnnl_data_type_t data_type = std::same_as<T, float> ? dnnl_f32 : dnnl_bf16;

/// A tensor of these sizes, logical order first to last; dnnl_format_tag_any leaves the layout to
/// the primitive.
inline Descriptor make_descriptor(std::initializer_list<std::int64_t> sizes, dnnl_data_type_t type,
                                  dnnl_format_tag_t tag) {
  dnnl_dims_t list = {};
  int rank = 0;
  for (std::int64_t const size : sizes) {
    list[rank++] = size;
  }
  Descriptor made;
  check(made.set(rank, list, type, tag));
  return made;
}

inline Descriptor copy_of(DescriptorView other) {
  Descriptor made;
  check(made.copy(other));
  return made;
}

[[nodiscard]] inline std::int64_t bytes_of(DescriptorView view) {
  return static_cast<std::int64_t>(dnnl_memory_desc_get_size(view));
}

[[nodiscard]] inline bool same_layout(DescriptorView a, DescriptorView b) {
  return dnnl_memory_desc_equal(a, b) != 0;
}

}  // namespace tandem::onednn

// ---- tandem/kernels/onednn/primitive.hpp

/// @file
/// Plan: what oneDNN would do; Primitive: the same compiled, to be run on pointers; Attributes.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include <oneapi/dnnl/dnnl.h>

namespace tandem::onednn {

/// How a primitive is to work: on a scratchpad of the caller's, and adding to its result if asked.
class Attributes {
 public:
  enum class Result : bool { overwritten, added_to };

  explicit Attributes(Result result = Result::overwritten) {
    dnnl_primitive_attr_t attributes = nullptr;
    check(dnnl_primitive_attr_create(&attributes));
    handle_ = UniqueHandle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>{attributes};
    check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    if (result == Result::added_to) {
      dnnl_post_ops_t raw = nullptr;
      check(dnnl_post_ops_create(&raw));
      UniqueHandle<dnnl_post_ops_t, dnnl_post_ops_destroy> const operations{raw};
      check(append_sum(raw));
      check(dnnl_primitive_attr_set_post_ops(attributes, raw));
    }
  }

  [[nodiscard]] const_dnnl_primitive_attr_t get() const noexcept { return handle_.get(); }

 private:
  UniqueHandle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> handle_;
};

/// A choice of kernel and of the layouts that it wants; nothing is compiled yet. Move-only.
class Plan {
 public:
  Plan() = default;
  explicit Plan(dnnl_primitive_desc_t made) noexcept : handle_{made} {}

  [[nodiscard]] const_dnnl_primitive_desc_t get() const noexcept { return handle_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

  /// Of an argument such as DNNL_ARG_WEIGHTS; lives as long as the plan.
  [[nodiscard]] DescriptorView tensor(int argument) const {
    return dnnl_primitive_desc_query_md(handle_.get(), dnnl_query_exec_arg_md, argument);
  }
  /// "brgconv:avx512_core" and the like.
  [[nodiscard]] std::string_view kernel() const {
    char const* name = "";
    check(dnnl_primitive_desc_query(handle_.get(), dnnl_query_impl_info_str, 0, &name));
    return name;
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return bytes_of(dnnl_primitive_desc_query_md(handle_.get(), dnnl_query_scratchpad_md, 0));
  }

 private:
  UniqueHandle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> handle_;
};

/// A compiled plan with a place for each argument's pointer. Move-only.
///
/// Cost: compiled once in a process (oneDNN keeps what it has compiled); a run of it allocates and
/// looks up nothing.
class Primitive {
 public:
  static constexpr int most_arguments = 4;

  Primitive() = default;

  /// @param arguments  their names, in the order in which run() has their pointers
  Primitive(Library const& library, Plan const& plan, std::span<int const> arguments)
      : scratch_bytes_{plan.scratch_bytes()} {
    expects(arguments.size() <= most_arguments, "Primitive: too many arguments");
    dnnl_primitive_t made = nullptr;
    check(dnnl_primitive_create(&made, plan.get()));
    handle_ = UniqueHandle<dnnl_primitive_t, dnnl_primitive_destroy>{made};
    for (int const argument : arguments) {
      add(library, argument, plan.tensor(argument));
    }
    if (scratch_bytes_ > 0) {
      add(library, DNNL_ARG_SCRATCHPAD,
          dnnl_primitive_desc_query_md(plan.get(), dnnl_query_scratchpad_md, 0));
    }
  }

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }
  [[nodiscard]] std::int64_t scratch_bytes() const noexcept { return scratch_bytes_; }

  /// Runs on these tensors, in the order of the arguments; done when it returns.
  /// @param scratch  scratch_bytes() at a multiple of 64
  template <class... Tensor>
  void run(Library const& library, std::byte* scratch, Tensor const*... tensors) {
    void const* const list[] = {tensors...};
    execute(library, scratch, list);
  }

 private:
  void execute(Library const& library, std::byte* scratch, std::span<void const* const> tensors) {
    int place = 0;
    for (void const* const tensor : tensors) {
      point(place++, const_cast<void*>(tensor));
    }
    if (scratch_bytes_ > 0) {
      point(place, scratch);
    }
    check(dnnl_primitive_execute(handle_.get(), library.stream(), count_, arguments_));
    check(dnnl_stream_wait(library.stream()));
  }

  void add(Library const& library, int argument, DescriptorView type) {
    dnnl_memory_t memory = nullptr;
    check(dnnl_memory_create(&memory, type, library.engine(), DNNL_MEMORY_NONE));
    memory_[count_] = UniqueHandle<dnnl_memory_t, dnnl_memory_destroy>{memory};
    arguments_[count_++] = {argument, memory};
  }

  // Version 2 fills the padding of a blocked tensor with zeros when its pointer changes.
  void point(int place, void* to) {
    if (at_[place] != to) {
      check(dnnl_memory_set_data_handle(memory_[place].get(), to));
      at_[place] = to;
    }
  }

  UniqueHandle<dnnl_primitive_t, dnnl_primitive_destroy> handle_;
  UniqueHandle<dnnl_memory_t, dnnl_memory_destroy> memory_[most_arguments + 1];
  dnnl_exec_arg_t arguments_[most_arguments + 1] = {};
  void* at_[most_arguments + 1] = {};
  int count_ = 0;
  std::int64_t scratch_bytes_ = 0;
};

/// Copies a tensor into another layout or type, or adds it.
inline Primitive make_reorder(Library const& library, DescriptorView from, DescriptorView to,
                              Attributes::Result result = Attributes::Result::overwritten) {
  Attributes const attributes{result};
  dnnl_primitive_desc_t made = nullptr;
  check(dnnl_reorder_primitive_desc_create(&made, from, library.engine(), to, library.engine(),
                                           attributes.get()));
  int const arguments[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
  return Primitive{library, Plan{made}, arguments};
}

}  // namespace tandem::onednn

// ---- tandem/kernels/onednn/refusal.hpp

/// @file
/// What is said when oneDNN has no kernel for a layer.

#include <string>

#include <oneapi/dnnl/dnnl.h>

namespace tandem::onednn::detail {

/// Before 3.4 oneDNN has bf16 where there is AVX-512 alone, and says no more than "unimplemented".
inline bool has_avx512() {
  auto const isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  constexpr auto avx512 = static_cast<unsigned>(dnnl_cpu_isa_avx512_core);
  return (isa & avx512) == avx512;
}

/// @throws OneDnnError  always
[[noreturn]] TANDEM_NOINLINE inline void refuse(dnnl_status_t status, std::string const& layer,
                                                dnnl_data_type_t type) {
  if (status == dnnl_unimplemented && type == dnnl_bf16 && !has_avx512()) {
    throw OneDnnError{status,
                      "this processor has no AVX-512, which oneDNN wants for bf16; take "
                      "BasicHost<OneDnn, Fp32> (first met: " +
                          layer + ")"};
  }
  throw OneDnnError{status, "oneDNN has no kernel for " + layer + " (" + meaning(status) + ")"};
}

}  // namespace tandem::onednn::detail

namespace tandem::onednn {

/// One convolution as oneDNN is asked for it.
struct ConvolutionTask {
  ConvolutionGeometry geometry{};
  std::int64_t batch = 0;
  dnnl_data_type_t type = dnnl_f32;  ///< of x, y and the weights; bias and gradients are fp32
  bool bias = false;
  bool wants_input_gradient = true;
  bool wants_weight_gradient = true;
};

/// "Conv2d of 64 to 128 channels in 1 group, kernel 3 x 3, …": for messages.
TANDEM_NOINLINE inline std::string to_string(ConvolutionTask const& task) {
  auto const extent = [](Extent2d e) {
    return std::to_string(e.height) + " x " + std::to_string(e.width);
  };
  ConvolutionGeometry const& g = task.geometry;
  return "Conv2d of " + std::to_string(g.in_channels) + " to " + std::to_string(g.out_channels) +
         " channels in " + std::to_string(g.groups) + (g.groups == 1 ? " group" : " groups") +
         ", kernel " + extent(g.window.kernel) + ", stride " + extent(g.window.stride) +
         ", padding " + extent(g.window.padding) + ", images " + extent(g.in) + ", batch " +
         std::to_string(task.batch) + (task.type == dnnl_bf16 ? ", bf16" : ", fp32");
}

namespace detail {

/// The weights (Out, In, kernel); with groups (G, Out / G, In / G, kernel). The numbers lie in one
/// order either way if plain.
inline Descriptor convolution_weights(ConvolutionGeometry const& g, dnnl_data_type_t type,
                                      dnnl_format_tag_t tag) {
  Extent2d const k = g.window.kernel;
  if (g.groups == 1) {
    return make_descriptor({g.out_channels, g.in_channels, k.height, k.width}, type,
                           tag == dnnl_format_tag_any ? tag : dnnl_oihw);
  }
  return make_descriptor(
      {g.groups, g.out_channels / g.groups, g.in_channels / g.groups, k.height, k.width}, type,
      tag == dnnl_format_tag_any ? tag : dnnl_goihw);
}

}  // namespace detail

/// The weights as a user has them: fp32, each output's after the other's.
inline Descriptor plain_weights(ConvolutionGeometry const& geometry) {
  return detail::convolution_weights(geometry, dnnl_f32, dnnl_oihw);
}

/// In which layouts the packed weights are read.
struct PackedWeights {
  Descriptor forward;
  Descriptor input_gradient;
};

namespace detail {

/// Whether @p plan is the kernel of oneDNN 2 (3 has it right) that sums wrongly over an odd number
/// of channels on some image sizes, such as 6 x 5. test/unit/onednn/convolution_test.cpp shows it.
inline bool miscounts(Plan const& plan, int summed_channels) {
  return DNNL_VERSION_MAJOR < 3 && summed_channels % 2 != 0 &&
         plan.kernel().starts_with("jit_bf16_1x1");
}

inline Descriptor activation(ConvolutionTask const& task, int channels, Extent2d extent,
                             dnnl_format_tag_t tag) {
  return make_descriptor({task.batch, channels, extent.height, extent.width}, task.type, tag);
}

/// Whether to ask for oneDNN's Winograd kernels, F(4x4, 3x3): they take half the time of the direct
/// ones, the reorders around them included, and lose about a decimal digit. Version 3 has none.
/// Source: Lavin, Gray, arXiv:1509.09308.
inline bool suits_winograd(ConvolutionTask const& task) {
  ConvolutionGeometry const& g = task.geometry;
  return DNNL_VERSION_MAJOR < 3 && task.type == dnnl_f32 && g.groups == 1 && g.in_channels >= 16 &&
         g.out_channels >= 16 && g.window.kernel == Extent2d{3, 3} &&
         g.window.stride == Extent2d{1, 1} && g.out.height >= 4 && g.out.width >= 4;
}

/// What oneDNN would do in each pass.
struct ConvolutionPlans {
  Descriptor x;  // channels-last
  Descriptor y;
  Plan forward;
  Plan input_gradient;
  Plan weight_gradient;
  bool bias;

  TANDEM_NOINLINE ConvolutionPlans(Library const& library, ConvolutionTask const& task,
                                   PackedWeights const* weights)
      : bias{task.bias} {
    ConvolutionGeometry const& g = task.geometry;
    x = activation(task, g.in_channels, g.in, dnnl_nhwc);
    y = activation(task, g.out_channels, g.out, dnnl_nhwc);
    Descriptor const any_x = activation(task, g.in_channels, g.in, dnnl_format_tag_any);
    Descriptor const any_y = activation(task, g.out_channels, g.out, dnnl_format_tag_any);
    Descriptor const any = convolution_weights(g, task.type, dnnl_format_tag_any);
    Descriptor const any_gradient = convolution_weights(g, dnnl_f32, dnnl_format_tag_any);
    Descriptor const vector = make_descriptor({g.out_channels}, dnnl_f32, dnnl_a);
    DescriptorView const bias_or_none = bias ? vector.get() : nullptr;
    WindowSteps steps{{g.window.stride.height, g.window.stride.width},
                      {g.window.padding.height, g.window.padding.width}};
    Attributes const attributes;
    auto const plan = [&](auto const& create, DescriptorView weight, DescriptorView with_bias,
                          auto... hint) {
      dnnl_primitive_desc_t made = nullptr;
      if (suits_winograd(task)) {
        steps.algorithm = dnnl_convolution_winograd;
        if (create(&made, library.engine(),
                   TensorViews{any_x.get(), weight, with_bias, any_y.get()}, steps, hint...,
                   attributes.get()) == dnnl_success) {
          return Plan{made};
        }
      }
      steps.algorithm = dnnl_convolution_direct;
      dnnl_status_t const status =
          create(&made, library.engine(), TensorViews{x.get(), weight, with_bias, y.get()}, steps,
                 hint..., attributes.get());
      if (status != dnnl_success) {
        refuse(status, to_string(task), task.type);
      }
      return Plan{made};
    };
    // Weights of a plain layout are for oneDNN's plain kernel: slow, and right.
    Descriptor const plain = convolution_weights(g, task.type, dnnl_oihw);
    forward = plan(convolution_forward, weights != nullptr ? weights->forward.get() : any.get(),
                   bias_or_none);
    if (miscounts(forward, g.in_channels / g.groups)) {
      forward = plan(convolution_forward, plain.get(), bias_or_none);
    }
    if (task.wants_input_gradient) {
      input_gradient = plan(convolution_input_gradient,
                            weights != nullptr ? weights->input_gradient.get() : any.get(), nullptr,
                            forward.get());
      if (miscounts(input_gradient, g.out_channels / g.groups)) {
        input_gradient = plan(convolution_input_gradient, plain.get(), nullptr, forward.get());
      }
    }
    if (task.wants_weight_gradient) {
      weight_gradient =
          plan(convolution_weight_gradient, any_gradient.get(), bias_or_none, forward.get());
    }
  }

  /// The last argument is the bias, which may be none.
  [[nodiscard]] Primitive compile(Library const& library, Plan const& plan,
                                  int const (&arguments)[4]) const {
    return Primitive{library, plan, std::span{arguments}.first(bias ? 4 : 3)};
  }
};

}  // namespace detail

}  // namespace tandem::onednn

// ---- tandem/kernels/onednn/gradient.hpp

/// @file
/// Small sums around oneDNN's gradients of parameters: adding a staged one, and sums of columns.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tandem::onednn {

/// Bytes that keep what follows at a multiple of 64.
constexpr std::int64_t rounded_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// to[i] += from[i], or = without @p accumulate. Cost: bound by memory.
TANDEM_NOINLINE inline void deliver(float const* from, float* to, std::int64_t count,
                                    bool accumulate) {
  if (!accumulate) {
    std::copy(from, from + count, to);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += from[i];
  }
}

/// sums[c] = the sum over rows of matrix[r][c]; added with @p accumulate.
///
/// Shapes: matrix (rows, columns), row r at matrix + r * stride; sums (columns).
/// Cost:   reads the matrix once; bound by memory.
/// Order:  fixed by the shape: floats over blocks of 64 rows, then doubles over the blocks.
template <class T>
TANDEM_NOINLINE void column_sum(host::Team& team, T const* matrix, std::int64_t rows,
                                std::int64_t columns, std::int64_t stride, float* sums,
                                bool accumulate) {
  constexpr std::int64_t wide = 32;
  constexpr std::int64_t block = 64;
  team.parallel_for((columns + wide - 1) / wide, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      std::int64_t const begin = part * wide;
      std::int64_t const count = std::min(wide, columns - begin);
      double total[wide] = {};
      for (std::int64_t row = 0; row < rows; row += block) {
        std::int64_t const end = std::min(rows, row + block);
        float sum[wide] = {};
        for (std::int64_t r = row; r < end; ++r) {
          T const* const at = matrix + r * stride + begin;
          if (count == wide) {
            for (std::int64_t c = 0; c < wide; ++c) {
              sum[c] += static_cast<float>(at[c]);
            }
          } else {
            for (std::int64_t c = 0; c < count; ++c) {
              sum[c] += static_cast<float>(at[c]);
            }
          }
        }
        for (std::int64_t c = 0; c < count; ++c) {
          total[c] += static_cast<double>(sum[c]);
        }
      }
      for (std::int64_t c = 0; c < count; ++c) {
        float const sum = static_cast<float>(total[c]);
        sums[begin + c] = accumulate ? sums[begin + c] + sum : sum;
      }
    }
  });
}

}  // namespace tandem::onednn

// ---- tandem/kernels/onednn/staging.hpp

/// @file
/// Staging: a tensor on its way between our layout and the one that a primitive wants.

#include <cstddef>
#include <cstdint>

namespace tandem::onednn {

/// Where both layouts are one, nothing is copied and no memory is wanted. Move-only.
class Staging {
 public:
  enum class Way : bool { in, out };

  Staging() = default;
  Staging(Library const& library, DescriptorView ours, DescriptorView theirs, Way way) {
    if (!same_layout(ours, theirs)) {
      bytes_ = rounded_up(bytes_of(theirs));
      reorder_ = way == Way::in ? make_reorder(library, ours, theirs)
                                : make_reorder(library, theirs, ours);
    }
  }

  /// Of the staged tensor.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::int64_t scratch_bytes() const noexcept { return reorder_.scratch_bytes(); }

  /// Where the primitive reads @p x: at @p staged, if that is wanted.
  void const* enter(Library const& library, std::byte* scratch, void const* x, std::byte* staged) {
    if (bytes_ == 0) {
      return x;
    }
    reorder_.run(library, scratch, x, staged);
    return staged;
  }

  /// Where the primitive writes @p y.
  [[nodiscard]] void* place(void* y, std::byte* staged) const { return bytes_ == 0 ? y : staged; }
  /// Brings what it wrote to @p y.
  void leave(Library const& library, std::byte* scratch, std::byte* staged, void* y) {
    if (bytes_ > 0) {
      reorder_.run(library, scratch, staged, y);
    }
  }

 private:
  Primitive reorder_;
  std::int64_t bytes_ = 0;
};

}  // namespace tandem::onednn

namespace tandem::onednn {

/// Prepared passes. Their results repeat bit for bit with the same number of threads.
///
/// Cost: the making compiles up to three kernels, milliseconds unless they are known already.
/// @pre made, and run, under the device's TeamSize; scratch has scratch_bytes() at a multiple of 64
class ConvolutionPasses {
 public:
  /// @param weights  layouts to keep to; null: the primitives choose
  /// @throws OneDnnError  no kernel for this convolution; the message names it
  ConvolutionPasses(Library const& library, ConvolutionTask const& task,
                    PackedWeights const* weights)
      : library_{&library}, bias_bytes_{task.bias ? task.geometry.out_channels * 4 : 0} {
    detail::ConvolutionPlans const plans{library, task, weights};
    weights_.forward = copy_of(plans.forward.tensor(DNNL_ARG_WEIGHTS));
    forward_ = plans.compile(library, plans.forward,
                             {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS});
    if (plans.input_gradient) {
      weights_.input_gradient = copy_of(plans.input_gradient.tensor(DNNL_ARG_WEIGHTS));
      int const arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
      input_gradient_ = Primitive{library, plans.input_gradient, arguments};
    }
    if (plans.weight_gradient) {
      weight_gradient_ = plans.compile(
          library, plans.weight_gradient,
          {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS});
      DescriptorView const from = plans.weight_gradient.tensor(DNNL_ARG_DIFF_WEIGHTS);
      Descriptor const to = plain_weights(task.geometry);
      deliver_ = make_reorder(library, from, to.get());
      add_ = make_reorder(library, from, to.get(), Attributes::Result::added_to);
      weight_bytes_ = rounded_up(bytes_of(from));
    }
    stage(plans);
    for (Primitive const* const primitive :
         {&forward_, &input_gradient_, &weight_gradient_, &deliver_, &add_}) {
      work_bytes_ = std::max(work_bytes_, rounded_up(primitive->scratch_bytes()));
    }
  }

  [[nodiscard]] PackedWeights const& weights() const noexcept { return weights_; }
  [[nodiscard]] std::int64_t scratch_bytes() const noexcept { return staged_at() + staged_bytes_; }

  /// Writes y. @param bias  null without one
  void forward(void const* x, void const* weights, float const* bias, void* y, std::byte* scratch) {
    std::byte* const staged = scratch + staged_at();
    void const* const from = x_.enter(*library_, scratch, x, staged);
    void* const to = y_.place(y, staged + x_.bytes());
    if (bias != nullptr) {
      forward_.run(*library_, scratch, from, weights, to, bias);
    } else {
      forward_.run(*library_, scratch, from, weights, to);
    }
    y_.leave(*library_, scratch, staged + x_.bytes(), y);
  }

  /// Writes dx.
  void input_gradient(void const* dy, void const* weights, void* dx, std::byte* scratch) {
    std::byte* const staged = scratch + staged_at();
    void const* const from = input_dy_.enter(*library_, scratch, dy, staged);
    void* const to = dx_.place(dx, staged + input_dy_.bytes());
    input_gradient_.run(*library_, scratch, from, weights, to);
    dx_.leave(*library_, scratch, staged + input_dy_.bytes(), dx);
  }

  /// Writes or adds to the gradient of the weights in their plain layout, and to the bias's.
  void weight_gradient(void const* x, void const* dy, float* weight, float* bias, bool accumulate,
                       std::byte* scratch) {
    std::byte* const staged_tensors = scratch + staged_at();
    x = weight_x_.enter(*library_, scratch, x, staged_tensors);
    dy = weight_dy_.enter(*library_, scratch, dy, staged_tensors + weight_x_.bytes());
    std::byte* const staged = scratch + work_bytes_;
    auto* const staged_bias = reinterpret_cast<float*>(staged + weight_bytes_);
    if (bias != nullptr) {
      weight_gradient_.run(*library_, scratch, x, dy, staged, accumulate ? staged_bias : bias);
    } else {
      weight_gradient_.run(*library_, scratch, x, dy, staged);
    }
    (accumulate ? add_ : deliver_).run(*library_, scratch, staged, weight);
    if (bias != nullptr && accumulate) {
      deliver(staged_bias, bias, bias_bytes_ / 4, true);
    }
  }

 private:
  // Prepares what enters and leaves primitives that want another layout.
  void stage(detail::ConvolutionPlans const& plans) {
    using Way = Staging::Way;
    auto const make = [&](Plan const& plan, int argument, Descriptor const& ours, Way way) {
      Staging made{*library_, ours.get(), plan.tensor(argument), way};
      work_bytes_ = std::max(work_bytes_, rounded_up(made.scratch_bytes()));
      return made;
    };
    x_ = make(plans.forward, DNNL_ARG_SRC, plans.x, Way::in);
    y_ = make(plans.forward, DNNL_ARG_DST, plans.y, Way::out);
    if (plans.input_gradient) {
      input_dy_ = make(plans.input_gradient, DNNL_ARG_DIFF_DST, plans.y, Way::in);
      dx_ = make(plans.input_gradient, DNNL_ARG_DIFF_SRC, plans.x, Way::out);
    }
    if (plans.weight_gradient) {
      weight_x_ = make(plans.weight_gradient, DNNL_ARG_SRC, plans.x, Way::in);
      weight_dy_ = make(plans.weight_gradient, DNNL_ARG_DIFF_DST, plans.y, Way::in);
    }
    staged_bytes_ = std::max({x_.bytes() + y_.bytes(), input_dy_.bytes() + dx_.bytes(),
                              weight_x_.bytes() + weight_dy_.bytes()});
  }
  [[nodiscard]] std::int64_t staged_at() const noexcept {
    return work_bytes_ + weight_bytes_ + rounded_up(bias_bytes_);
  }

  Library const* library_;
  PackedWeights weights_;
  Primitive forward_;
  Primitive input_gradient_;
  Primitive weight_gradient_;
  Primitive deliver_;  // the staged gradient to its plain layout
  Primitive add_;
  Staging x_;
  Staging y_;
  Staging input_dy_;
  Staging dx_;
  Staging weight_x_;
  Staging weight_dy_;
  std::int64_t staged_bytes_ = 0;
  std::int64_t work_bytes_ = 0;
  std::int64_t weight_bytes_ = 0;
  std::int64_t bias_bytes_ = 0;
};

}  // namespace tandem::onednn

// ---- tandem/kernels/onednn/gemm.hpp

/// @file
/// gemm(): C = A B + beta C of row-major matrices by oneDNN.

#include <cstdint>

#include <oneapi/dnnl/dnnl.h>

namespace tandem::onednn {

/// A matrix in memory, row after row; `stride` numbers from one row to the next.
struct Matrix {
  float const* data;
  std::int64_t stride;
  bool transposed = false;  ///< what lies there is the transpose of what is meant
};

/// C (m, n) = A (m, k) B (k, n), added to what C holds where @p accumulate.
/// Order: fixed by the shape and the number of threads.
inline void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix const& a, Matrix const& b,
                 bool accumulate, float* c, std::int64_t c_stride) {
  check(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                   a.stride, b.data, b.stride, accumulate ? 1.0F : 0.0F, c, c_stride));
}

}  // namespace tandem::onednn

// ---- tandem/kernels/onednn/team_size.hpp

/// @file
/// TeamSize: how many threads oneDNN takes for what the calling thread asks of it.

namespace tandem::onednn {

namespace detail {

// The OpenMP runtime that oneDNN brings, whether or not this file is compiled with -fopenmp: names
// of our own for its functions, so that they cannot contradict those of <omp.h>. Null where oneDNN
// was built for another threading runtime; then that runtime decides.
extern "C" {
__attribute__((weak)) void tandem_omp_set_num_threads(int) __asm__("omp_set_num_threads");
__attribute__((weak)) int tandem_omp_get_max_threads() __asm__("omp_get_max_threads");
}

}  // namespace detail

/// While it lives, work that this thread gives to oneDNN runs on so many threads. The number is
/// the thread's own in OpenMP, so devices of several threads do not meet. Cost: nanoseconds.
class TeamSize {
 public:
  /// @pre threads >= 1
  [[nodiscard]] explicit TeamSize(int threads) {
    if (detail::tandem_omp_set_num_threads != nullptr &&
        detail::tandem_omp_get_max_threads != nullptr) {
      before_ = detail::tandem_omp_get_max_threads();
      detail::tandem_omp_set_num_threads(threads);
    }
  }
  ~TeamSize() {
    if (before_ > 0) {
      detail::tandem_omp_set_num_threads(before_);
    }
  }
  TeamSize(TeamSize const&) = delete;
  TeamSize& operator=(TeamSize const&) = delete;

 private:
  int before_ = 0;
};

}  // namespace tandem::onednn

namespace tandem {

namespace onednn {

/// Any convolution, or several pointwise ones of one input side by side: one type for all of a
/// precision.
///
/// The gradient of a pointwise convolution's fp32 weights is a matrix product, straight into the
/// gradient: on channels-last tensors oneDNN's own primitive takes 1.7 times as long.
template <class T, bool Bias>
class ConvolutionOp {
 public:
  ConvolutionOp(OpSetup const& setup, ConvolutionGeometry const& geometry)
      : siblings_{setup.merged}, threads_{setup.threads} {
    if (siblings_.count == 1) {
      siblings_.channels[0] = geometry.out_channels;
      siblings_.parameter[0] = 0;
    }
    ConvolutionGeometry whole = geometry;
    whole.out_channels = 0;
    for (int i = 0; i < siblings_.count; ++i) {
      whole.out_channels += siblings_.channels[i];
    }
    bool const product = std::same_as<T, float> && is_pointwise(geometry);
    task_ = ConvolutionTask{.geometry = whole,
                            .type = data_type<T>,
                            .bias = Bias,
                            .wants_input_gradient = setup.wants_input_gradient,
                            .wants_weight_gradient = !product};
    fan_in_ = std::int64_t{geometry.in_channels / geometry.groups} * geometry.window.kernel.height *
              geometry.window.kernel.width;

    TeamSize const team{threads_};
    ConvolutionPasses const& planned = passes(std::max(setup.batch, 1));
    layouts_ = &planned.weights();
    prepare_packing();
    scratch_ = std::max(bytes_of(planned), pack_scratch());
  }
  ConvolutionOp(ConvolutionOp const&) = delete;
  ConvolutionOp& operator=(ConvolutionOp const&) = delete;

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .scratch_bytes = scratch_,
            .packed_bytes = packed_bias_ + std::int64_t{Bias} * channels() * float_bytes};
  }

  /// Puts the parameters into the layouts that the passes read.
  void pack(Operands<T, float> const& o, host::Device& device) {
    TeamSize const team{threads_};
    float const* weights = o.parameter[0];
    if (siblings_.count > 1) {
      auto* const gathered = reinterpret_cast<float*>(device.scratch + pack_work_);
      std::int64_t begin = 0;
      for (int i = 0; i < siblings_.count; ++i) {
        std::int64_t const count = siblings_.channels[i] * fan_in_;
        deliver(o.parameter[siblings_.parameter[i]], gathered + begin, count, false);
        begin += count;
      }
      weights = gathered;
    }
    to_forward_.run(library_, device.scratch, weights, o.packed);
    if (to_input_gradient_) {
      to_input_gradient_.run(library_, device.scratch, weights, o.packed + packed_second_);
    }
    if constexpr (Bias) {
      float* bias = reinterpret_cast<float*>(o.packed + packed_bias_);
      for (int i = 0; i < siblings_.count; ++i) {
        deliver(o.parameter[siblings_.parameter[i] + 1], bias, siblings_.channels[i], false);
        bias += siblings_.channels[i];
      }
    }
  }

  void forward(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if (p.batch == 0) {
      return;
    }
    TeamSize const team{threads_};
    ConvolutionPasses& passes = this->passes(p.batch);
    passes.forward(o.x[0], o.packed,
                   Bias ? reinterpret_cast<float const*>(o.packed + packed_bias_) : nullptr, o.y,
                   scratch(passes, p.device));
  }

  void input_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if (p.batch == 0) {
      return;
    }
    TeamSize const team{threads_};
    ConvolutionPasses& passes = this->passes(p.batch);
    passes.input_gradient(o.dy, o.packed + packed_second_, o.dx[0], scratch(passes, p.device));
  }

  void weight_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    TeamSize const team{threads_};
    if (p.batch == 0) {
      clear(o, p.accumulate);
    } else if (!task_.wants_weight_gradient) {
      products(o, p);
    } else if (siblings_.count == 1) {
      ConvolutionPasses& passes = this->passes(p.batch);
      passes.weight_gradient(o.x[0], o.dy, o.gradient[0], Bias ? o.gradient[1] : nullptr,
                             p.accumulate, scratch(passes, p.device));
    } else {
      by_siblings(o, p);
    }
  }

 private:
  static constexpr std::int64_t float_bytes = sizeof(float);

  static bool is_pointwise(ConvolutionGeometry const& g) {
    return g.groups == 1 && g.window == Window{};
  }

  [[nodiscard]] std::int64_t channels() const { return task_.geometry.out_channels; }

  ConvolutionPasses& passes(int batch) {
    return passes_.get(batch, [&](std::int64_t samples) {
      ConvolutionTask task = task_;
      task.batch = samples;
      return ConvolutionPasses{library_, task, layouts_};
    });
  }

  void prepare_packing() {
    Descriptor const plain = plain_weights(task_.geometry);
    to_forward_ = make_reorder(library_, plain.get(), layouts_->forward.get());
    packed_bias_ = rounded_up(onednn::bytes_of(layouts_->forward.get()));
    if (task_.wants_input_gradient &&
        !same_layout(layouts_->forward.get(), layouts_->input_gradient.get())) {
      to_input_gradient_ = make_reorder(library_, plain.get(), layouts_->input_gradient.get());
      packed_second_ = packed_bias_;
      packed_bias_ += rounded_up(onednn::bytes_of(layouts_->input_gradient.get()));
    }
    pack_work_ =
        rounded_up(std::max(to_forward_.scratch_bytes(), to_input_gradient_.scratch_bytes()));
  }

  [[nodiscard]] std::int64_t pack_scratch() const {
    return pack_work_ + (siblings_.count > 1 ? channels() * fan_in_ * float_bytes : 0);
  }

  /// What the passes want for themselves, and a staged gradient of several convolutions.
  [[nodiscard]] std::int64_t bytes_of(ConvolutionPasses const& passes) const {
    bool const staged = siblings_.count > 1 && task_.wants_weight_gradient;
    return rounded_up(passes.scratch_bytes()) +
           (staged ? channels() * (fan_in_ + 1) * float_bytes : 0);
  }

  /// The device's, unless this batch wants more than the planned one.
  std::byte* scratch(ConvolutionPasses const& passes, host::Device& device) {
    std::int64_t const bytes = bytes_of(passes);
    if (bytes <= scratch_) {
      return device.scratch;
    }
    auto const wanted = static_cast<std::size_t>(bytes);
    if (own_scratch_.bytes() < wanted) {
      own_scratch_ = host::Buffer{wanted};
    }
    return own_scratch_.data();
  }

  /// dW = dyᵀ x of each sibling, whose dy is a slice of the wide one's columns.
  void products(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if constexpr (std::same_as<T, float>) {
      ConvolutionGeometry const& g = task_.geometry;
      std::int64_t const pixels = std::int64_t{p.batch} * g.out.height * g.out.width;
      float const* dy = o.dy;
      for (int i = 0; i < siblings_.count; ++i) {
        int const place = siblings_.parameter[i];
        gemm(siblings_.channels[i], g.in_channels, pixels, {dy, channels(), true},
             {o.x[0], g.in_channels}, p.accumulate, o.gradient[place], g.in_channels);
        if constexpr (Bias) {
          column_sum(p.device.team, dy, pixels, siblings_.channels[i], channels(),
                     o.gradient[place + 1], p.accumulate);
        }
        dy += siblings_.channels[i];
      }
    }
  }

  void by_siblings(Operands<T, float> const& o, Pass<host::Device> const& p) {
    ConvolutionPasses& passes = this->passes(p.batch);
    std::byte* const work = scratch(passes, p.device);
    auto* weights = reinterpret_cast<float*>(work + rounded_up(passes.scratch_bytes()));
    float* bias = weights + channels() * fan_in_;
    passes.weight_gradient(o.x[0], o.dy, weights, Bias ? bias : nullptr, false, work);
    for (int i = 0; i < siblings_.count; ++i) {
      int const place = siblings_.parameter[i];
      deliver(weights, o.gradient[place], siblings_.channels[i] * fan_in_, p.accumulate);
      weights += siblings_.channels[i] * fan_in_;
      if constexpr (Bias) {
        deliver(bias, o.gradient[place + 1], siblings_.channels[i], p.accumulate);
        bias += siblings_.channels[i];
      }
    }
  }

  /// The gradient of no samples.
  void clear(Operands<T, float> const& o, bool accumulate) const {
    for (int i = 0; i < siblings_.count && !accumulate; ++i) {
      int const place = siblings_.parameter[i];
      std::fill_n(o.gradient[place], siblings_.channels[i] * fan_in_, 0.0F);
      if constexpr (Bias) {
        std::fill_n(o.gradient[place + 1], siblings_.channels[i], 0.0F);
      }
    }
  }

  MergedOutputs siblings_;
  int threads_;
  Library library_;
  ConvolutionTask task_;     // of all siblings together
  std::int64_t fan_in_ = 0;  // weights of one output
  ByBatch<ConvolutionPasses> passes_;
  PackedWeights const* layouts_ = nullptr;  // of the planned batch; the others keep to them
  Primitive to_forward_;
  Primitive to_input_gradient_;     // none if it reads the same layout as forward
  std::int64_t packed_second_ = 0;  // where the input gradient's weights stand
  std::int64_t packed_bias_ = 0;
  std::int64_t pack_work_ = 0;
  std::int64_t scratch_ = 0;
  host::Buffer own_scratch_;
};

}  // namespace onednn

template <int Out, class... Options, class Precision>
struct Op<Conv2d<Out, Options...>, BasicHost<OneDnn, Precision>>
    : onednn::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias> {
  explicit Op(OpSetup const& setup)
      : onednn::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias>{
            setup, Conv2d<Out, Options...>::geometry(setup.node.in)} {}
};

}  // namespace tandem

// ---- tandem/ops/onednn/flatten.hpp

/// @file
/// Flatten on Host, channels-last, where the rewrite has made it an op: an image of more than one
/// channel and pixel is stored (H, W, C), but a vector has the elements in the order (C, H, W).

namespace tandem {

template <class Precision>
class Op<Flatten, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup)
      : channels_{setup.node.in[0]}, pixels_{setup.node.in.elements() / setup.node.in[0]} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::from_channels_last(p.device.team, p.batch, channels_, pixels_, o.x[0],
                                            o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::to_channels_last(p.device.team, p.batch, channels_, pixels_, o.dy,
                                          o.dx[0]);
  }

 private:
  int channels_;
  std::int64_t pixels_;
};

}  // namespace tandem

// ---- tandem/ops/onednn/join.hpp

/// @file
/// The joins of a graph on Host, channels-last: Concat copies channels, Add sums its inputs.
///
/// A Concat whose inputs are written in place is no op.

#include <vector>

// ---- tandem/kernels/channels_last/concat.hpp

/// @file
/// Concatenation along the channels of channels-last images, and its way back.

#include <algorithm>
#include <cstdint>

namespace tandem::host::channels_last {

/// Writes the parts side by side into each pixel.
///
/// Shapes: x[i] (pixels, channels[i]); y (pixels, sum of channels).
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void concat_forward(Team& team, std::int64_t pixels, int parts, int const* channels,
                                    T const* const* x, T* y) {
  team.parallel_for(pixels, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t whole = 0;
    for (int i = 0; i < parts; ++i) {
      whole += channels[i];
    }
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      T* to = y + pixel * whole;
      for (int i = 0; i < parts; to += channels[i], ++i) {
        T const* const from = x[i] + pixel * channels[i];
        std::copy(from, from + channels[i], to);
      }
    }
  });
}

/// Reads each part's gradient out of its slice of the pixels.
///
/// Shapes: dy (pixels, sum of channels); dx[i] (pixels, channels[i]), or null where none is wanted.
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void concat_gradient(Team& team, std::int64_t pixels, int parts,
                                     int const* channels, T const* dy, T* const* dx) {
  team.parallel_for(pixels, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t whole = 0;
    for (int i = 0; i < parts; ++i) {
      whole += channels[i];
    }
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      T const* from = dy + pixel * whole;
      for (int i = 0; i < parts; from += channels[i], ++i) {
        if (dx[i] != nullptr) {
          std::copy(from, from + channels[i], dx[i] + pixel * channels[i]);
        }
      }
    }
  });
}

}  // namespace tandem::host::channels_last

namespace tandem {

template <class Precision>
class Op<ConcatJoin, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : pixels_{setup.node.out.elements() / setup.node.out[0]} {
    for (int i = 0; i < setup.node.edges; ++i) {
      channels_.push_back(setup.inputs[i][0]);
    }
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::concat_forward(p.device.team, p.batch * pixels_, parts(), channels_.data(),
                                        o.x, o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::concat_gradient(p.device.team, p.batch * pixels_, parts(),
                                         channels_.data(), o.dy, o.dx);
  }

 private:
  [[nodiscard]] int parts() const { return static_cast<int>(channels_.size()); }

  std::int64_t pixels_;  // 1 for vectors, whose elements are channels
  std::vector<int> channels_;
};

/// Its gradient is a view: the engine gives both inputs the gradient of the sum.
template <class Precision>
class Op<AddJoin, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : elements_{setup.node.out.elements()} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::sum(p.device.team, o.x, 2, o.y, p.batch * elements_);
  }

 private:
  std::int64_t elements_;
};

}  // namespace tandem

// ---- tandem/ops/onednn/linear.hpp

/// @file
/// Linear on Host by oneDNN. Needs <oneapi/dnnl/dnnl.h>; ops/host/convolution.hpp does without.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

// ---- tandem/kernels/onednn/matmul.hpp

/// @file
/// make_matmul(): a prepared product of row-major matrices, in fp32 or bf16, by oneDNN.

#include <cstdint>
#include <span>
#include <string>

#include <oneapi/dnnl/dnnl.h>

namespace tandem::onednn {

/// C (m, n) = A (m, k) B (k, n), and a bias (n) on each row; sums in fp32.
struct MatmulTask {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  dnnl_data_type_t type = dnnl_f32;         ///< of A and B
  dnnl_data_type_t result_type = dnnl_f32;  ///< of C; the bias is fp32
  bool a_transposed = false;                ///< what lies there is the transpose of what is meant
  bool b_transposed = false;
  bool bias = false;
  Attributes::Result result = Attributes::Result::overwritten;
};

/// Arguments of its run(): A, B, C and, if any, the bias.
///
/// Order: fixed by the shape and the number of threads.
/// @throws OneDnnError  no kernel for this product; the message names it
TANDEM_NOINLINE inline Primitive make_matmul(Library const& library, MatmulTask const& task) {
  Descriptor const a =
      make_descriptor({task.m, task.k}, task.type, task.a_transposed ? dnnl_ba : dnnl_ab);
  Descriptor const b =
      make_descriptor({task.k, task.n}, task.type, task.b_transposed ? dnnl_ba : dnnl_ab);
  Descriptor const c = make_descriptor({task.m, task.n}, task.result_type, dnnl_ab);
  Descriptor const bias = make_descriptor({1, task.n}, dnnl_f32, dnnl_ab);
  Attributes const attributes{task.result};
  dnnl_primitive_desc_t made = nullptr;
  dnnl_status_t const status = matrix_product(
      &made, library.engine(), {a.get(), b.get(), task.bias ? bias.get() : nullptr, c.get()},
      attributes.get());
  if (status != dnnl_success) {
    detail::refuse(status,
                   "a matrix product of " + std::to_string(task.m) + " x " +
                       std::to_string(task.k) + " by " + std::to_string(task.k) + " x " +
                       std::to_string(task.n) + (task.type == dnnl_bf16 ? ", bf16" : ", fp32"),
                   task.type);
  }
  int const arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
  return Primitive{library, Plan{made}, std::span{arguments}.first(task.bias ? 4 : 3)};
}

}  // namespace tandem::onednn

namespace tandem {

namespace onednn {

/// Any Linear: one type for all of a precision.
///
/// Weights stay as the user has them, rounded once a step for BFloat16: a layout of oneDNN's own
/// saves a third of the forward pass and costs twice all of it to make. Measured for 25088 to 4096
/// at batch 32, one thread (Zen 5): in fp32 forward 49 ms as a primitive, 66 as a gemm; gradients
/// 40 and 34 ms as gemms, 60 and 44 as primitives.
template <class T, bool Bias>
class LinearOp {
 public:
  explicit LinearOp(OpSetup const& setup)
      : in_{setup.node.in[0]}, out_{setup.node.out[0]}, threads_{setup.threads} {
    TeamSize const team{threads_};
    scratch_ = passes(std::max(setup.batch, 1)).scratch_bytes;
    if constexpr (rounds) {
      Descriptor const from = make_descriptor({out_, in_}, dnnl_f32, dnnl_ab);
      Descriptor const to = make_descriptor({out_, in_}, data_type<T>, dnnl_ab);
      round_ = make_reorder(library_, from.get(), to.get());
      scratch_ = std::max(scratch_, round_.scratch_bytes());
    }
  }
  LinearOp(LinearOp const&) = delete;
  LinearOp& operator=(LinearOp const&) = delete;

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .scratch_bytes = scratch_,
            .packed_bytes = rounds ? out_ * in_ * static_cast<std::int64_t>(sizeof(T)) : 0};
  }

  /// Rounds the weights.
  void pack(Operands<T, float> const& o, host::Device& device) {
    if constexpr (rounds) {
      TeamSize const team{threads_};
      round_.run(library_, device.scratch, o.parameter[0], o.packed);
    }
  }

  void forward(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if (p.batch == 0) {
      return;
    }
    TeamSize const team{threads_};
    Passes& passes = this->passes(p.batch);
    if constexpr (Bias) {
      passes.forward.run(library_, scratch(passes, p.device), o.x[0], weights(o), o.y,
                         o.parameter[1]);
    } else {
      passes.forward.run(library_, scratch(passes, p.device), o.x[0], weights(o), o.y);
    }
  }

  void input_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if (p.batch == 0) {
      return;
    }
    TeamSize const team{threads_};
    if constexpr (rounds) {
      Passes& passes = this->passes(p.batch);
      passes.input_gradient.run(library_, scratch(passes, p.device), o.dy, weights(o), o.dx[0]);
    } else {
      gemm(p.batch, in_, out_, {o.dy, out_}, {o.parameter[0], in_}, false, o.dx[0], in_);
    }
  }

  void weight_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    TeamSize const team{threads_};
    if (p.batch == 0) {
      if (!p.accumulate) {
        std::fill_n(o.gradient[0], out_ * in_, 0.0F);
      }
    } else if constexpr (rounds) {
      Passes& passes = this->passes(p.batch);
      (p.accumulate ? passes.weight_gradient_added : passes.weight_gradient)
          .run(library_, scratch(passes, p.device), o.dy, o.x[0], o.gradient[0]);
    } else {
      gemm(out_, in_, p.batch, {o.dy, out_, true}, {o.x[0], in_}, p.accumulate, o.gradient[0], in_);
    }
    if constexpr (Bias) {
      column_sum(p.device.team, o.dy, p.batch, out_, out_, o.gradient[1], p.accumulate);
    }
  }

 private:
  static constexpr bool rounds = !std::same_as<T, float>;

  /// For one number of samples; those that are not needed stay empty.
  struct Passes {
    Primitive forward;
    Primitive input_gradient;
    Primitive weight_gradient;
    Primitive weight_gradient_added;
    std::int64_t scratch_bytes = 0;
  };

  Passes& passes(int batch) {
    return passes_.get(batch, [&](std::int64_t samples) {
      constexpr dnnl_data_type_t type = data_type<T>;
      Passes made;
      made.forward = make_matmul(library_, {.m = samples,
                                            .n = out_,
                                            .k = in_,
                                            .type = type,
                                            .result_type = type,
                                            .b_transposed = true,
                                            .bias = Bias});
      if constexpr (rounds) {
        made.input_gradient = make_matmul(
            library_, {.m = samples, .n = in_, .k = out_, .type = type, .result_type = type});
        MatmulTask gradient{.m = out_, .n = in_, .k = samples, .type = type, .a_transposed = true};
        made.weight_gradient = make_matmul(library_, gradient);
        gradient.result = Attributes::Result::added_to;
        made.weight_gradient_added = make_matmul(library_, gradient);
      }
      for (Primitive const* const primitive :
           {&made.forward, &made.input_gradient, &made.weight_gradient,
            &made.weight_gradient_added}) {
        made.scratch_bytes = std::max(made.scratch_bytes, primitive->scratch_bytes());
      }
      return made;
    });
  }

  static void const* weights(Operands<T, float> const& o) {
    if constexpr (rounds) {
      return o.packed;
    } else {
      return o.parameter[0];
    }
  }

  /// The device's, unless this batch wants more than the planned one.
  std::byte* scratch(Passes const& passes, host::Device& device) {
    if (passes.scratch_bytes <= scratch_) {
      return device.scratch;
    }
    auto const wanted = static_cast<std::size_t>(passes.scratch_bytes);
    if (own_scratch_.bytes() < wanted) {
      own_scratch_ = host::Buffer{wanted};
    }
    return own_scratch_.data();
  }

  std::int64_t in_;
  std::int64_t out_;
  int threads_;
  Library library_;
  ByBatch<Passes> passes_;
  Primitive round_;
  std::int64_t scratch_ = 0;
  host::Buffer own_scratch_;
};

}  // namespace onednn

template <int Out, class... Options, class Precision>
struct Op<Linear<Out, Options...>, BasicHost<OneDnn, Precision>>
    : onednn::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias> {
  using onednn::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias>::LinearOp;
};

}  // namespace tandem

// ---- tandem/ops/onednn/loss.hpp

/// @file
/// SoftmaxCrossEntropy, MeanSquaredError and top-k accuracy on Host, channels-last: the portable
/// kernels on outputs in the order and precision that users know.

#include <cstdint>
#include <type_traits>

// ---- tandem/ops/onednn/user_order.hpp

/// @file
/// UserOrder: values of one shape in the order and type that users know, (B, C, H, W) of P, for
/// what is written by users or looks at single elements.

#include <cstdint>
#include <type_traits>

namespace tandem::host::channels_last {

/// Converts between what is stored, channels-last of T, and what users see, by way of memory that
/// the caller has; where both are the same nothing is copied and no memory is wanted.
template <class T, class P>
class UserOrder {
 public:
  explicit UserOrder(Shape shape)
      : channels_{shape[0]},
        pixels_{shape.elements() / shape[0]},
        same_{std::is_same_v<T, P> && (channels_ == 1 || pixels_ == 1)},
        elements_{same_ ? 0 : shape.elements()} {}

  /// Elements of P that the caller must have for one array of @p batch samples, a multiple of 16.
  [[nodiscard]] std::int64_t elements(int batch) const {
    return (batch * elements_ + 15) / 16 * 16;
  }

  /// @p stored as users see it; valid until @p memory is written.
  P const* read(Device& device, int batch, T const* stored, P* memory) const {
    if constexpr (std::is_same_v<T, P>) {
      if (same_) {
        return stored;
      }
    }
    if (stored == nullptr) {
      return nullptr;
    }
    from_channels_last(device.team, batch, channels_, pixels_, stored, memory);
    return memory;
  }

  /// Where users write what write() then stores in @p stored.
  P* writable(T* stored, P* memory) const {
    if constexpr (std::is_same_v<T, P>) {
      if (same_) {
        return stored;
      }
    }
    return stored != nullptr ? memory : nullptr;
  }

  void write(Device& device, int batch, P const* memory, T* stored) const {
    if (!same_ && stored != nullptr) {
      to_channels_last(device.team, batch, channels_, pixels_, memory, stored);
    }
  }

 private:
  int channels_;
  std::int64_t pixels_;
  bool same_;
  std::int64_t elements_;
};

}  // namespace tandem::host::channels_last

namespace tandem {

namespace host::channels_last {

/// The scratch memory of a loss: a double a sample, then outputs as users know them.
template <class T, class P>
class LossMemory {
 public:
  LossMemory(Shape output, int batch) : order_{output}, batch_{(batch + 7) / 8 * 8} {}

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return batch_ * static_cast<std::int64_t>(sizeof(double)) +
           order_.elements(batch_) * static_cast<std::int64_t>(sizeof(P));
  }

  static double* losses(Pass<Device> const& p) { return p.device.template scratch_as<double>(); }

  P const* outputs(Pass<Device> const& p, T const* output) const {
    return order_.read(p.device, p.batch, output, memory(p));
  }
  /// May be the memory of outputs(): every element is read before it is written.
  P* gradients(Pass<Device> const& p, T* dy) const { return order_.writable(dy, memory(p)); }
  void write(Pass<Device> const& p, T* dy) const { order_.write(p.device, p.batch, memory(p), dy); }

 private:
  [[nodiscard]] P* memory(Pass<Device> const& p) const {
    return reinterpret_cast<P*>(losses(p) + batch_);
  }

  UserOrder<T, P> order_;
  int batch_;  // rounded up, so that what follows the doubles is aligned
};

}  // namespace host::channels_last

/// A loss op sums the losses of a microbatch in sample order, in double; gradient multiplies by
/// @p scale, which the engine sets to 1 / global batch.
template <class Smoothing, class Precision>
class LossOp<SoftmaxCrossEntropy<Smoothing>, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using L = SoftmaxCrossEntropy<Smoothing>;

 public:
  LossOp(Shape output, int batch)
      : classes_{static_cast<int>(output.elements())}, memory_{output, batch} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return memory_.scratch_bytes(); }

  void forward(Pass<host::Device> const& p, T const* output, std::int32_t const* labels,
               double* loss) const {
    ClassificationSums sums{};
    host::softmax_cross_entropy_forward(p.device.team, p.batch, classes_,
                                        memory_.outputs(p, output), labels, L::smoothing, 1,
                                        memory_.losses(p), sums);
    *loss = sums.loss;
  }
  void gradient(Pass<host::Device> const& p, T const* output, std::int32_t const* labels,
                double scale, T* dy) const {
    host::softmax_cross_entropy_gradient(p.device.team, p.batch, classes_,
                                         memory_.outputs(p, output), labels, L::smoothing, scale,
                                         memory_.gradients(p, dy));
    memory_.write(p, dy);
  }

 private:
  int classes_;
  host::channels_last::LossMemory<T, P> memory_;
};

template <class Precision>
class LossOp<MeanSquaredError, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  LossOp(Shape output, int batch) : elements_{output.elements()}, memory_{output, batch} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return memory_.scratch_bytes(); }

  void forward(Pass<host::Device> const& p, T const* output, P const* targets, double* loss) const {
    double total = 0.0;
    host::mean_squared_error_forward(p.device.team, p.batch, elements_, memory_.outputs(p, output),
                                     targets, memory_.losses(p), total);
    *loss = total / static_cast<double>(elements_);
  }
  void gradient(Pass<host::Device> const& p, T const* output, P const* targets, double scale,
                T* dy) const {
    host::mean_squared_error_gradient(p.device.team, memory_.outputs(p, output), targets,
                                      static_cast<P>(scale / static_cast<double>(elements_)),
                                      memory_.gradients(p, dy), p.batch * elements_);
    memory_.write(p, dy);
  }

 private:
  std::int64_t elements_;
  host::channels_last::LossMemory<T, P> memory_;
};

/// TopK and Accuracy of any loss with one integer label a sample; a NaN never counts as right.
template <class M, class L, class Precision>
  requires(requires { M::k; } && std::is_same_v<typename L::Target, std::int32_t>)
class MetricOp<M, L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit MetricOp(Shape output) : classes_{static_cast<int>(output.elements())}, order_{output} {}

  /// For microbatches of at most @p batch samples.
  [[nodiscard]] std::int64_t scratch_bytes(int batch) const {
    return order_.elements(batch) * static_cast<std::int64_t>(sizeof(P));
  }

  void count(Pass<host::Device> const& p, T const* output, std::int32_t const* labels,
             double* sum) const {
    P const* y = order_.read(p.device, p.batch, output, p.device.template scratch_as<P>());
    std::int64_t right = 0;
    for (int s = 0; s < p.batch; ++s, y += classes_) {
      P const own = y[labels[s]];
      int ahead = own == own ? 0 : M::k;  // outputs that come before the label's
      for (int c = 0; c < classes_; ++c) {
        ahead += !(y[c] <= own) || (y[c] == own && c < labels[s]) ? 1 : 0;
      }
      right += ahead < M::k ? 1 : 0;
    }
    *sum = static_cast<double>(right);
  }

 private:
  int classes_;
  host::channels_last::UserOrder<T, P> order_;
};

}  // namespace tandem

// ---- tandem/ops/onednn/pool.hpp

/// @file
/// MaxPool2d, AvgPool2d, GlobalAvgPool and Subsample2d on Host, channels-last.
///
/// The pools read and write slices of channels of wider pixels.

// ---- tandem/kernels/channels_last/avg_pool.hpp

/// @file
/// The mean under each position of a window of channels-last images, with padding counted as zeros
/// or not counted.

#include <cstdint>

namespace tandem::host::channels_last {

/// y = mean of x under the window; 0 where the mean is over no cell.
///
/// Shapes: x (B, in, C) with x_stride >= C elements from pixel to pixel; y (B, out, C), likewise.
/// Cost:   kernel area reads an output, most of them from a cache.
/// Order:  the cells of a window in row order, in float, times the reciprocal of their number.
/// Source: as PyTorch's avg_pool2d with ceil_mode off; `count_include_pad` divides by the kernel's
///         area everywhere, else by the number of cells inside the image
template <class T>
TANDEM_NOINLINE void avg_pool_forward(Team& team, PoolGeometry const& g, int batch,
                                      bool count_include_pad, T const* x, std::int64_t x_stride,
                                      T* y, std::int64_t y_stride) {
  team.parallel_for(std::int64_t{batch} * g.out.height, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t const row_stride = g.in.width * x_stride;
    for (std::int64_t row = begin; row < end; ++row) {
      int const oh = static_cast<int>(row % g.out.height);
      T const* const image = x + row / g.out.height * g.in.height * row_stride;
      for (int ow = 0; ow < g.out.width; ++ow) {
        CellRange const under = cells_under(g, oh, ow);
        int const count = mean_count(g, count_include_pad, under);
        Floats const share{count > 0 ? 1.0F / static_cast<float>(count) : 0.0F};
        T const* const corner =
            image + under.first_row * row_stride + under.first_column * x_stride;
        int const rows = under.last_row - under.first_row;
        T* const to = y + (row * g.out.width + ow) * y_stride;
        with_columns(under.last_column - under.first_column, [&](auto columns) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats total{0.0F};
            T const* from = corner + c;
            for (int u = 0; u < rows; ++u, from += row_stride) {
              for_cells(
                  columns, [&](int v) __attribute__((always_inline)) {
                    total += some.load(from + v * x_stride);
                  });
            }
            some.store(to + c, total * share);
            will_read(corner + c, (rows - 1) * row_stride + (columns + 1) * x_stride);
            will_write(to + c, 2 * y_stride);
          });
        });
      }
    }
  });
}

/// dx = for each cell, the sum over its windows of dy divided as in the forward pass.
///
/// Shapes: dy (B, out, C) with dy_stride >= C elements from pixel to pixel; dx (B, in, C) with
///         dx_stride, overwritten.
/// Cost:   reads dy once for each window over a cell, most of them from a cache; writes dx once.
/// Order:  the windows that share a cell are added in row order, in float, and divided by
///         multiplying with the reciprocal: their sum where they all have the same number of cells.
template <class T>
TANDEM_NOINLINE void avg_pool_gradient(Team& team, PoolGeometry const& g, int batch,
                                       bool count_include_pad, T const* dy, std::int64_t dy_stride,
                                       T* dx, std::int64_t dx_stride) {
  team.parallel_for(std::int64_t{batch} * g.in.height, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      int const h = static_cast<int>(row % g.in.height);
      T const* const image = dy + row / g.in.height * g.out.height * g.out.width * dy_stride;
      for (int w = 0; w < g.in.width; ++w) {
        CellRange const over = windows_over(g, h, w);
        int const rows = over.last_row - over.first_row;
        int const first = over.first_column;
        T const* const corner =
            image + (std::int64_t{over.first_row} * g.out.width + first) * dy_stride;
        T* const to = dx + (row * g.in.width + w) * dx_stride;
        int const whole = g.window.kernel.height * g.window.kernel.width;
        // Where the windows are divided by the same number, their sum is.
        CellRange const under_first = cells_under(g, over.first_row, first);
        CellRange const under_last = cells_under(g, over.last_row - 1, over.last_column - 1);
        bool const same =
            count_include_pad || (under_first.count() == whole && under_last.count() == whole);
        Floats const share{1.0F / static_cast<float>(whole)};
        if (!same) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats total{0.0F};
            for (int u = 0; u < rows; ++u) {
              for (int v = 0; v < over.last_column - first; ++v) {
                int const count = cells_under(g, over.first_row + u, first + v).count();
                total += some.load(corner + (std::int64_t{u} * g.out.width + v) * dy_stride + c) *
                         Floats{1.0F / static_cast<float>(count)};
              }
            }
            some.store(to + c, total);
          });
          continue;
        }
        with_columns(over.last_column - first, [&](auto columns) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats total{0.0F};
            T const* from = corner + c;
            for (int u = 0; u < rows; ++u, from += g.out.width * dy_stride) {
              for_cells(
                  columns, [&](int v) __attribute__((always_inline)) {
                    total += some.load(from + v * dy_stride);
                  });
            }
            some.store(to + c, total * share);
            will_read(corner + c, ((rows - 1) * g.out.width + columns + 1) * dy_stride);
            will_write(to + c, 2 * dx_stride);
          });
        });
      }
    }
  });
}

}  // namespace tandem::host::channels_last

// ---- tandem/kernels/channels_last/global_avg_pool.hpp

/// @file
/// The mean of each channel of channels-last images, and its gradient.

#include <algorithm>
#include <cstdint>

namespace tandem::host::channels_last {

/// y = mean(x) of each channel.
///
/// Shapes: x (B, pixels, C) with x_stride >= C elements from pixel to pixel; y (B, C).
/// Cost:   reads each element once; bound by memory.
/// Order:  blocks of 64 pixels in float, the blocks in double.
/// Source: Lin, Chen, Yan, arXiv:1312.4400, section 3.2
template <class T>
TANDEM_NOINLINE void global_avg_pool_forward(Team& team, int batch, int channels,
                                             std::int64_t pixels, T const* x, std::int64_t x_stride,
                                             T* y) {
  constexpr int run = 256;  // channels whose sums stay in the first-level cache
  constexpr std::int64_t block = 64;
  std::int64_t const runs = (channels + run - 1) / run;
  team.parallel_for(batch * runs, [=](std::int64_t begin, std::int64_t end) {
    float sum[run];
    double total[run];
    for (std::int64_t task = begin; task < end; ++task) {
      int const first = static_cast<int>(task % runs) * run;
      int const count = std::min(run, channels - first);
      T const* const image = x + task / runs * pixels * x_stride + first;
      std::fill(total, total + count, 0.0);
      for (std::int64_t start = 0; start < pixels; start += block) {
        std::fill(sum, sum + count, 0.0F);
        for (std::int64_t p = start; p < std::min(pixels, start + block); ++p) {
          int c = 0;
          for (; c + lanes <= count; c += lanes) {
            store(sum + c, load(sum + c) + load(image + p * x_stride + c));
          }
          if (c < count) {
            FirstLanes const rest{count - c};
            rest.store(sum + c, rest.load(sum + c) + rest.load(image + p * x_stride + c));
          }
        }
        for (int c = 0; c < count; ++c) {
          total[c] += static_cast<double>(sum[c]);
        }
      }
      T* const to = y + task / runs * channels + first;
      for (int c = 0; c < count; ++c) {
        to[c] = static_cast<T>(static_cast<float>(total[c] / static_cast<double>(pixels)));
      }
    }
  });
}

/// dx = dy / pixels at each pixel of a channel.
///
/// Shapes: dy (B, C); dx (B, pixels, C) with dx_stride >= C elements from pixel to pixel.
/// Cost:   writes each element once; bound by memory.
/// Order:  dy times the reciprocal, in float.
template <class T>
TANDEM_NOINLINE void global_avg_pool_gradient(Team& team, int batch, int channels,
                                              std::int64_t pixels, T const* dy, T* dx,
                                              std::int64_t dx_stride) {
  Floats const share{1.0F / static_cast<float>(pixels)};
  team.parallel_for(batch * pixels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      T const* const from = dy + pixel / pixels * channels;
      T* const to = dx + pixel * dx_stride;
      for_vectors(channels,
                  [=](int c, auto some) { some.store(to + c, some.load(from + c) * share); });
    }
  });
}

}  // namespace tandem::host::channels_last

// ---- tandem/kernels/channels_last/max_pool.hpp

/// @file
/// The largest element under each position of a window, of channels-last images; padding counts as
/// minus infinity.
///
/// The forward pass saves which cell of the window was the largest, one byte an output where the
/// window has at most 255 cells. The gradient gathers, so that threads may split dx.

#include <cstdint>
#include <limits>

// ---- tandem/kernels/channels_last/window_cell.hpp

/// @file
/// WindowCells: for each of 16 channels, which cell of a window; saved in bytes where they suffice.

#include <cstdint>
#include <cstring>
#include <limits>

namespace tandem::host::channels_last {

/// What a window of padding only saves: no cell of the image.
template <class Cell>
inline constexpr Cell no_cell = std::numeric_limits<Cell>::max();

/// Whether the cells of a window, and no_cell, can be told apart in a byte.
constexpr bool cell_fits_byte(Window const& window) {
  return window.kernel.height * window.kernel.width <= 255;
}

/// 16 numbers of cells.
struct WindowCells {
  detail::IntVector v;

  /// @p cell in every lane.
  [[gnu::always_inline]] explicit WindowCells(int cell) : v{cell - detail::IntVector{}} {}

  [[gnu::always_inline]] WindowCells& operator+=(int step) {
    v += step;
    return *this;
  }
  [[gnu::always_inline]] friend Mask operator==(WindowCells const& a, WindowCells const& b) {
    return {a.v == b.v};
  }
  [[gnu::always_inline]] friend WindowCells select(Mask const& mask, WindowCells const& a,
                                                   WindowCells const& b) {
    WindowCells result{0};
    result.v = mask.v ? a.v : b.v;
    return result;
  }
};

namespace detail {

using ByteVector = std::uint8_t __attribute__((vector_size(16)));

// One instruction each, which GCC 12 does not find by itself: its conversions between 8 and 32 bits
// go lane by lane.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
using SignedBytes = char __attribute__((vector_size(16)));

[[gnu::always_inline]] inline void widen(ByteVector const& bytes, IntVector& ints) {
  ints = __builtin_ia32_pmovzxbd512_mask((SignedBytes)bytes, IntVector{}, 0xFFFF);
}
[[gnu::always_inline]] inline void narrow(IntVector const& ints, ByteVector& bytes) {
  bytes = (ByteVector)__builtin_ia32_pmovdb512_mask(ints, SignedBytes{}, 0xFFFF);
}
#else
[[gnu::always_inline]] inline void widen(ByteVector const& bytes, IntVector& ints) {
  auto const halves = __builtin_convertvector(bytes, HalfVector);
  ints = __builtin_convertvector(halves, IntVector);
}
[[gnu::always_inline]] inline void narrow(IntVector const& ints, ByteVector& bytes) {
  auto const halves = __builtin_convertvector(ints, HalfVector);
  bytes = __builtin_convertvector(halves, ByteVector);
}
#endif

}  // namespace detail

[[gnu::always_inline]] inline WindowCells load_cells(std::uint8_t const* p, AllLanes) {
  detail::ByteVector bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  WindowCells cells{0};
  detail::widen(bytes, cells.v);
  return cells;
}
[[gnu::always_inline]] inline WindowCells load_cells(std::int32_t const* p, AllLanes) {
  WindowCells cells{0};
  std::memcpy(&cells.v, p, sizeof cells.v);
  return cells;
}
template <class Cell>
[[gnu::always_inline]] inline WindowCells load_cells(Cell const* p, FirstLanes first) {
  Cell part[lanes] = {};
  for (int i = 0; i < first.n; ++i) {
    part[i] = p[i];
  }
  return load_cells(part, AllLanes{});
}

[[gnu::always_inline]] inline void store_cells(std::uint8_t* p, WindowCells const& cells,
                                               AllLanes) {
  detail::ByteVector bytes;
  detail::narrow(cells.v, bytes);
  std::memcpy(p, &bytes, sizeof bytes);
}
[[gnu::always_inline]] inline void store_cells(std::int32_t* p, WindowCells const& cells,
                                               AllLanes) {
  std::memcpy(p, &cells.v, sizeof cells.v);
}
template <class Cell>
[[gnu::always_inline]] inline void store_cells(Cell* p, WindowCells const& cells,
                                               FirstLanes first) {
  Cell part[lanes];
  store_cells(part, cells, AllLanes{});
  for (int i = 0; i < first.n; ++i) {
    p[i] = part[i];
  }
}

}  // namespace tandem::host::channels_last

namespace tandem::host::channels_last {

namespace detail {

/// Whether a row of pixels has a NaN.
template <class T>
bool row_has_nan(T const* row, int pixels, std::int64_t stride, int channels) {
  IntVector largest{};  // magnitudes, whose order is that of their bits, and NaNs above infinity
  for (int p = 0; p < pixels; ++p) {
    for_vectors(channels, [&](int c, auto some) {
      IntVector const magnitude = (IntVector)some.load(row + p * stride + c).v & 0x7FFFFFFF;
      largest = magnitude > largest ? magnitude : largest;
    });
  }
  bool found = false;
  for (int i = 0; i < lanes; ++i) {
    found = found || largest[i] > 0x7F800000;
  }
  return found;
}

/// One pixel of max_pool_forward: `rows` x columns cells from @p corner on, the first of which has
/// the number first_cell.
template <class T, class Cell, class Columns, class SeesNan>
[[gnu::always_inline]] inline void max_pool_pixel(PoolGeometry const& g, T const* corner, int rows,
                                                  Columns columns, SeesNan, std::int64_t x_stride,
                                                  int first_cell, T* to, std::int64_t y_stride,
                                                  Cell* cells) {
  std::int64_t const row_stride = g.in.width * x_stride;
  for_vectors(g.channels, [&](int c, auto some) {
    Floats best{-std::numeric_limits<float>::infinity()};
    WindowCells where{first_cell};
    T const* from = corner + c;
    for (int u = 0; u < rows; ++u, from += row_stride) {
      for_cells(
          columns, [&](int v) __attribute__((always_inline)) {
            Floats const value = some.load(from + v * x_stride);
            Mask better = value > best;
            if constexpr (SeesNan::value) {
              better.v |= value.v != value.v;
            }
            best = select(better, value, best);
            where = select(better, WindowCells{first_cell + u * g.window.kernel.width + v}, where);
          });
    }
    some.store(to + c, best);
    store_cells(cells + c, where, some);
    will_read(corner + c, (rows - 1) * row_stride + (columns + 1) * x_stride);
    will_write(to + c, 2 * y_stride);
  });
}

}  // namespace detail

/// y = max of x under the window; a tie goes to the first cell in row order, a NaN wins.
///
/// Shapes: x (B, in, C) with x_stride >= C elements from pixel to pixel; y (B, out, C), likewise;
///         cells (B, out, C): the chosen cell of each window, row times the window's width plus
///         column, or the largest Cell (and y = -inf) where a window holds nothing but padding.
/// Saves:  cells, 1 byte an output (Cell = std::uint8_t) or 4 (std::int32_t), until the gradient.
/// Cost:   kernel area reads an output, most of them from a cache.
/// Source: as PyTorch's max_pool2d, also for NaN and ties
/// @pre    Cell = std::uint8_t: cell_fits_byte(g.window)
template <class T, class Cell>
TANDEM_NOINLINE void max_pool_forward(Team& team, PoolGeometry const& g, int batch, T const* x,
                                      std::int64_t x_stride, T* y, std::int64_t y_stride,
                                      Cell* cells) {
  team.parallel_for(std::int64_t{batch} * g.out.height, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t const row_stride = g.in.width * x_stride;
    int looked_at = 0;  // rows of the image
    bool nan = false;   // in one of them
    for (std::int64_t row = begin; row < end; ++row) {
      int const oh = static_cast<int>(row % g.out.height);
      T const* const image = x + row / g.out.height * g.in.height * row_stride;
      CellRange const rows = cells_under(g, oh, 0);
      if (oh == 0 || row == begin) {
        looked_at = rows.first_row;
        nan = false;
      }
      for (; looked_at < rows.last_row; ++looked_at) {
        nan = nan ||
              detail::row_has_nan(image + looked_at * row_stride, g.in.width, x_stride, g.channels);
      }
      for (int ow = 0; ow < g.out.width; ++ow) {
        CellRange const under = cells_under(g, oh, ow);
        int const above = oh * g.window.stride.height - g.window.padding.height;
        int const left = ow * g.window.stride.width - g.window.padding.width;
        int const first_cell =
            (under.first_row - above) * g.window.kernel.width + under.first_column - left;
        std::int64_t const pixel = row * g.out.width + ow;
        auto const work = [&](auto columns, auto sees_nan) __attribute__((always_inline)) {
          detail::max_pool_pixel(
              g, image + under.first_row * row_stride + under.first_column * x_stride,
              under.last_row - under.first_row, columns, sees_nan, x_stride,
              under.count() > 0 ? first_cell : no_cell<Cell>, y + pixel * y_stride, y_stride,
              cells + pixel * g.channels);
        };
        if (nan) {
          work(under.last_column - under.first_column, std::true_type{});
        } else {
          with_columns(under.last_column - under.first_column,
                       [&](auto columns) { work(columns, std::false_type{}); });
        }
      }
    }
  });
}

/// dx = for each cell, the sum of dy over the windows that chose it.
///
/// Shapes: dy (B, out, C) with dy_stride elements from pixel to pixel; cells (B, out, C), from the
///         forward pass; dx (B, in, C) with dx_stride, overwritten.
/// Cost:   writes dx once; reads dy and cells once for each window over a cell, most of them from a
///         cache.
/// Order:  the windows that share a cell are added in row order, in float.
template <class T, class Cell>
TANDEM_NOINLINE void max_pool_gradient(Team& team, PoolGeometry const& g, int batch, T const* dy,
                                       std::int64_t dy_stride, Cell const* cells, T* dx,
                                       std::int64_t dx_stride) {
  team.parallel_for(std::int64_t{batch} * g.in.height, [=](std::int64_t begin, std::int64_t end) {
    Window const& window = g.window;
    for (std::int64_t row = begin; row < end; ++row) {
      int const h = static_cast<int>(row % g.in.height);
      std::int64_t const image = row / g.in.height * g.out.height * g.out.width;
      for (int w = 0; w < g.in.width; ++w) {
        CellRange const over = windows_over(g, h, w);
        int const rows = over.last_row - over.first_row;
        std::int64_t const corner =
            image + std::int64_t{over.first_row} * g.out.width + over.first_column;
        // Which cell of the first window this one is; of the next, stride cells less.
        int const first_cell = (h + window.padding.height - over.first_row * window.stride.height) *
                                   window.kernel.width +
                               w + window.padding.width - over.first_column * window.stride.width;
        T* const to = dx + (row * g.in.width + w) * dx_stride;
        with_columns(over.last_column - over.first_column, [&](auto columns) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats sum{0.0F};
            T const* from = dy + corner * dy_stride + c;
            Cell const* chosen = cells + corner * g.channels + c;
            int own = first_cell;
            for (int u = 0; u < rows; ++u) {
              for_cells(
                  columns, [&](int v) __attribute__((always_inline)) {
                    sum += select(load_cells(chosen + v * g.channels, some) ==
                                      WindowCells{own - v * window.stride.width},
                                  some.load(from + v * dy_stride), Floats{0.0F});
                  });
              from += g.out.width * dy_stride;
              chosen += g.out.width * std::int64_t{g.channels};
              own -= window.stride.height * window.kernel.width;
            }
            some.store(to + c, sum);
            will_read(dy + corner * dy_stride + c,
                      ((rows - 1) * g.out.width + columns + 1) * dy_stride);
            will_write(to + c, 2 * dx_stride);
          });
        });
      }
    }
  });
}

}  // namespace tandem::host::channels_last

// ---- tandem/kernels/channels_last/subsample.hpp

/// @file
/// The shortcut without parameters of a ResNet ("option A"), of channels-last images: every s-th
/// pixel, new channels zero.

#include <algorithm>
#include <cstdint>

namespace tandem::host::channels_last {

/// y[c] = x[c - first] at [::s, ::s]; the channels before and behind are zero.
///
/// Shapes: x (B, in, in_channels); y (B, out, out_channels).
/// Cost:   writes each element of y once; bound by memory.
/// @pre    in_channels <= out_channels
/// Source: He, Zhang, Ren, Sun, CVPR 2016, section 3.3, option (A)
template <class T>
TANDEM_NOINLINE void subsample_forward(Team& team, SubsampleGeometry const& g, int batch,
                                       T const* x, T* y) {
  Extent2d const out = g.out();
  team.parallel_for(std::int64_t{batch} * out.height, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const in_row =
          row / out.height * g.in.height + row % out.height * std::int64_t{g.stride};
      for (std::int64_t w = 0; w < out.width; ++w) {
        T const* const from = x + (in_row * g.in.width + w * g.stride) * g.in_channels;
        T* const to = y + (row * out.width + w) * g.out_channels;
        T* const middle = to + g.first();
        std::fill(to, middle, T{});
        std::copy(from, from + g.in_channels, middle);
        std::fill(middle + g.in_channels, to + g.out_channels, T{});
      }
    }
  });
}

/// The gradient of subsample_forward: dx is dy at the pixels that were read, else 0.
///
/// Shapes: dy (B, out, out_channels); dx (B, in, in_channels), overwritten.
/// Cost:   writes each element of dx once; bound by memory.
/// @pre    in_channels <= out_channels
template <class T>
TANDEM_NOINLINE void subsample_gradient(Team& team, SubsampleGeometry const& g, int batch,
                                        T const* dy, T* dx) {
  Extent2d const out = g.out();
  team.parallel_for(std::int64_t{batch} * g.in.height, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const h = row % g.in.height;
      std::int64_t const out_row = row / g.in.height * out.height + h / g.stride;
      for (std::int64_t w = 0; w < g.in.width; ++w) {
        T* const to = dx + (row * g.in.width + w) * g.in_channels;
        if (h % g.stride != 0 || w % g.stride != 0) {
          std::fill(to, to + g.in_channels, T{});
          continue;
        }
        T const* const from =
            dy + (out_row * out.width + w / g.stride) * g.out_channels + g.first();
        std::copy(from, from + g.in_channels, to);
      }
    }
  });
}

}  // namespace tandem::host::channels_last

namespace tandem {

namespace host::channels_last {

/// Elements from pixel to pixel of an op's input and output.
struct Strides {
  explicit Strides(OpSetup const& setup)
      : x{setup.x_stride > 0 ? setup.x_stride : setup.node.in[0]},
        y{setup.y_stride > 0 ? setup.y_stride : setup.node.out[0]} {}

  std::int64_t x;
  std::int64_t y;
};

/// saved holds the winning cell of every window, so neither x nor y is read by backward: one byte
/// each, or four for windows of more than 255 cells.
template <class T, class P>
class MaxPoolOp {
 public:
  MaxPoolOp(OpSetup const& setup, PoolGeometry const& geometry)
      : geometry_{geometry},
        strides_{setup},
        saved_{setup.batch * setup.node.out.elements() *
               (cell_fits_byte(geometry.window) ? 1 : 4)} {}

  [[nodiscard]] OpNeeds needs() const { return {.saved_bytes = saved_}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    with_cells(o, [&](auto* cells) {
      channels_last::max_pool_forward(p.device.team, geometry_, p.batch, o.x[0], strides_.x, o.y,
                                      strides_.y, cells);
    });
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    with_cells(o, [&](auto const* cells) {
      channels_last::max_pool_gradient(p.device.team, geometry_, p.batch, o.dy, strides_.y, cells,
                                       o.dx[0], strides_.x);
    });
  }

 private:
  template <class F>
  void with_cells(Operands<T, P> const& o, F const& f) const {
    if (cell_fits_byte(geometry_.window)) {
      f(reinterpret_cast<std::uint8_t*>(o.saved));
    } else {
      f(reinterpret_cast<std::int32_t*>(o.saved));
    }
  }

  PoolGeometry geometry_;
  Strides strides_;
  std::int64_t saved_;
};

template <class T, class P>
class AvgPoolOp {
 public:
  AvgPoolOp(OpSetup const& setup, PoolGeometry const& geometry, bool count_padding)
      : geometry_{geometry}, strides_{setup}, count_padding_{count_padding} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::avg_pool_forward(p.device.team, geometry_, p.batch, count_padding_, o.x[0],
                                    strides_.x, o.y, strides_.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::avg_pool_gradient(p.device.team, geometry_, p.batch, count_padding_, o.dy,
                                     strides_.y, o.dx[0], strides_.x);
  }

 private:
  PoolGeometry geometry_;
  Strides strides_;
  bool count_padding_;
};

template <class T, class P>
class GlobalAvgPoolOp {
 public:
  explicit GlobalAvgPoolOp(OpSetup const& setup)
      : channels_{setup.node.in[0]},
        pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        stride_{Strides{setup}.x} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::global_avg_pool_forward(p.device.team, p.batch, channels_, pixels_, o.x[0],
                                           stride_, o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::global_avg_pool_gradient(p.device.team, p.batch, channels_, pixels_, o.dy,
                                            o.dx[0], stride_);
  }

 private:
  int channels_;
  std::int64_t pixels_;
  std::int64_t stride_;
};

template <class T, class P>
class SubsampleOp {
 public:
  SubsampleOp(OpSetup const& setup, int step)
      : geometry_{setup.node.in[0], setup.node.out[0], {setup.node.in[1], setup.node.in[2]}, step} {
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::subsample_forward(p.device.team, geometry_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::subsample_gradient(p.device.team, geometry_, p.batch, o.dy, o.dx[0]);
  }

 private:
  SubsampleGeometry geometry_;
};

}  // namespace host::channels_last

template <class... Options, class Precision>
struct Op<MaxPool2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::MaxPoolOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::MaxPoolOp<typename Precision::Scalar, typename Precision::Master>{
            setup, MaxPool2d<Options...>::geometry(setup.node.in)} {}
};

template <class... Options, class Precision>
struct Op<AvgPool2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::AvgPoolOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::AvgPoolOp<typename Precision::Scalar, typename Precision::Master>{
            setup, AvgPool2d<Options...>::geometry(setup.node.in),
            AvgPool2d<Options...>::options.count_padding} {}
};

template <class Precision>
struct Op<GlobalAvgPool, BasicHost<OneDnn, Precision>>
    : host::channels_last::GlobalAvgPoolOp<typename Precision::Scalar, typename Precision::Master> {
  using host::channels_last::GlobalAvgPoolOp<typename Precision::Scalar,
                                             typename Precision::Master>::GlobalAvgPoolOp;
};

template <int Out, int Step, class Precision>
struct Op<Subsample2d<Out, Step>, BasicHost<OneDnn, Precision>>
    : host::channels_last::SubsampleOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::SubsampleOp<typename Precision::Scalar, typename Precision::Master>{
            setup, Step} {}
};

}  // namespace tandem

// ---- tandem/ops/onednn/sync_batch_norm.hpp

/// @file
/// SyncBatchNorm2d on Host, channels-last, with the ReLU behind it where the graph has fused one.

#include <cstdint>
#include <span>

namespace tandem {

namespace host::channels_last {

/// BatchNormOp, and the same with the passes cut in halves; between them the engine adds sums()
/// over the replicas. An engine with nothing to add calls BatchNormOp's own passes.
///
/// The sums of the own gradients stay in BatchNormSaved, for the weight gradient.
template <class T>
class SyncBatchNormOp : public BatchNormOp<T> {
  using Base = BatchNormOp<T>;

 public:
  using Base::Base;

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = Base::needs();
    needs.saved_bytes = sums_offset() + BatchNormSums::elements(this->channels_) *
                                            static_cast<std::int64_t>(sizeof(double));
    return needs;
  }

  /// What is added over the replicas, in forward and in backward: part of what is saved.
  [[nodiscard]] std::span<double> sums(Operands<T, float> const& o) const {
    return {reinterpret_cast<double*>(o.saved + sums_offset()),
            static_cast<std::size_t>(BatchNormSums::elements(this->channels_))};
  }

  void local_sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    BatchNormSaved const own = this->saved(o);
    batch_norm_moments<T>(p.device.team, this->x(o), this->rows(p), this->channels_, this->epsilon_,
                          own, p.device.scratch);
    BatchNormSums const all = joint(o);
    *all.count = static_cast<double>(this->rows(p));
    for (int c = 0; c < this->channels_; ++c) {
      set_shifted_sums(all, c, *all.count,
                       {static_cast<double>(own.mean[c]), static_cast<double>(own.variance[c])},
                       shift(o, c));
    }
  }

  void forward_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    BatchNormSaved const s = this->saved(o);
    for (int c = 0; c < this->channels_; ++c) {
      ChannelMoments const moments = moments_of(joint(o), c, shift(o, c));
      s.mean[c] = static_cast<float>(moments.mean);
      s.variance[c] = static_cast<float>(moments.variance);
      s.inverse_deviation[c] = inverse_deviation_of(moments.variance, this->epsilon_);
    }
    this->apply(o, p, this->batch_affine(o, p));
  }

  void local_gradient_sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    Base::sums(o, p);
    BatchNormSaved const own = this->saved(o);
    BatchNormSums const all = joint(o);
    *all.count = static_cast<double>(this->rows(p));
    for (int c = 0; c < this->channels_; ++c) {
      all.first[c] = static_cast<double>(own.sum_dy[c]);
      all.second[c] = static_cast<double>(own.sum_dy_x[c]);
    }
  }

  void input_gradient_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    RowScratch const scratch = this->scratch_of(p);
    float* const slope = scratch.constant(1);
    float* const offset = scratch.constant(2);
    BatchNormSums const all = joint(o);
    BatchNormSaved const s = this->saved(o);
    for (int c = 0; c < this->channels_; ++c) {
      float const inverse = s.inverse_deviation[c];
      slope[c] = -(static_cast<float>(all.second[c] / *all.count) * inverse * inverse);
      offset[c] = -static_cast<float>(all.first[c] / *all.count);
    }
    batch_norm_input_gradient<T>(p.device.team, this->x(o), this->dy(o), this->rows(p),
                                 this->channels_, this->batch_affine(o, p), this->relu_, slope,
                                 offset, {o.dx[0], this->x_stride_});
  }

  /// Gain and bias of the own samples, which the engine adds over the replicas later; of the
  /// statistics of all the share of the own samples.
  void weight_gradient_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (!this->summed_) {
      Base::sums(o, p);
    }
    batch_norm_weight_gradient(
        static_cast<std::int64_t>(*joint(o).count), this->channels_, p.share, this->saved(o),
        BatchNormGradients{o.gradient[0], o.gradient[1], o.gradient[2], o.gradient[3]},
        p.accumulate);
  }

 private:
  [[nodiscard]] std::int64_t sums_offset() const { return (Base::needs().saved_bytes + 7) / 8 * 8; }
  [[nodiscard]] BatchNormSums joint(Operands<T, float> const& o) const {
    return BatchNormSums::at(sums(o).data(), this->channels_);
  }
  static double shift(Operands<T, float> const& o, int c) {
    return static_cast<double>(o.parameter[2][c]);
  }
};

}  // namespace host::channels_last

template <class... Options, class Precision>
struct Op<SyncBatchNorm2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::SyncBatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::SyncBatchNormOp<typename Precision::Scalar>{
            setup, SyncBatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem

// ---- tandem/ops/onednn/user_layer.hpp

/// @file
/// A user's own layer, loss and metric on Host, channels-last: they see (B, C, H, W) of P as on the
/// portable backend, by way of scratch memory.

#include <algorithm>
#include <span>
#include <utility>

namespace tandem {

/// Cost: copies x and y (forward), and dy and dx (backward), where order or type differ.
template <class L, class Precision>
  requires HostLayer<L, typename Precision::Master>
class Op<L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup)
      : in_{setup.node.in},
        out_{setup.node.out},
        list_{parameters_of<L>(setup.node.in)},
        in_order_{in_},
        out_order_{out_},
        batch_{setup.batch} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .output = true,
            .scratch_bytes = 2 * (in_order_.elements(batch_) + out_order_.elements(batch_)) *
                             static_cast<std::int64_t>(sizeof(P))};
  }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    Memory const m = memory(p);
    LayerCall<P> call = empty_call(o, p);
    call.x = inputs(in_order_.read(p.device, p.batch, o.x[0], m.x), p);
    call.y = outputs(out_order_.writable(o.y, m.y), p);
    L::forward(std::as_const(call));
    out_order_.write(p.device, p.batch, m.y, o.y);
  }

  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    LayerCall<P> call = backward_call(o, p);
    Memory const m = memory(p);
    call.dx = inputs(in_order_.writable(o.dx[0], m.dx), p);
    L::input_gradient(std::as_const(call));
    in_order_.write(p.device, p.batch, m.dx, o.dx[0]);
  }

  void weight_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    LayerCall<P> const call = backward_call(o, p);
    if (!p.accumulate) {
      for (int i = 0; i < list_.count; ++i) {
        std::ranges::fill(call.gradient(i), P{0});
      }
    }
    L::weight_gradient(call);
  }

 private:
  struct Memory {
    P* x;
    P* y;
    P* dy;
    P* dx;
  };
  [[nodiscard]] Memory memory(Pass<host::Device> const& p) const {
    P* const x = p.device.template scratch_as<P>();
    P* const y = x + in_order_.elements(batch_);
    P* const dy = y + out_order_.elements(batch_);
    return {x, y, dy, dy + out_order_.elements(batch_)};
  }

  template <class E>
  [[nodiscard]] std::span<E> inputs(E* data, Pass<host::Device> const& p) const {
    return {data, data != nullptr ? static_cast<std::size_t>(p.batch * in_.elements()) : 0};
  }
  template <class E>
  [[nodiscard]] std::span<E> outputs(E* data, Pass<host::Device> const& p) const {
    return {data, data != nullptr ? static_cast<std::size_t>(p.batch * out_.elements()) : 0};
  }

  [[nodiscard]] LayerCall<P> empty_call(Operands<T, P> const& o,
                                        Pass<host::Device> const& p) const {
    return {.batch = p.batch,
            .in = in_,
            .out = out_,
            .training = p.training,
            .parameter_memory = o.parameter,
            .gradient_memory = o.gradient,
            .list = &list_};
  }

  // x, y and dy; in a pass that reads y nobody writes it.
  [[nodiscard]] LayerCall<P> backward_call(Operands<T, P> const& o,
                                           Pass<host::Device> const& p) const {
    Memory const m = memory(p);
    LayerCall<P> call = empty_call(o, p);
    call.x = inputs(in_order_.read(p.device, p.batch, o.x[0], m.x), p);
    call.y = outputs(const_cast<P*>(out_order_.read(p.device, p.batch, o.y, m.y)), p);
    call.dy = outputs(out_order_.read(p.device, p.batch, o.dy, m.dy), p);
    return call;
  }

  Shape in_;
  Shape out_;
  Parameters list_;
  host::channels_last::UserOrder<T, P> in_order_;
  host::channels_last::UserOrder<T, P> out_order_;
  int batch_;
};

template <class L, class Precision>
  requires HostLoss<L, typename Precision::Master>
class LossOp<L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using Target = typename L::Target;

 public:
  LossOp(Shape output, int batch)
      : outputs_{static_cast<std::size_t>(output.elements())},
        targets_{static_cast<std::size_t>(L::targets(output))},
        order_{output},
        elements_{order_.elements(batch)} {}

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return 2 * elements_ * static_cast<std::int64_t>(sizeof(P));
  }

  void forward(Pass<host::Device> const& p, T const* output, Target const* target,
               double* loss) const {
    P const* const y = order_.read(p.device, p.batch, output, p.device.template scratch_as<P>());
    *loss = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(p.batch); ++s) {
      *loss += L::value(std::span{y + s * outputs_, outputs_},
                        std::span{target + s * targets_, targets_});
    }
  }
  void gradient(Pass<host::Device> const& p, T const* output, Target const* target, double scale,
                T* dy) const {
    P* const memory = p.device.template scratch_as<P>();
    P const* const y = order_.read(p.device, p.batch, output, memory);
    P* const gradient = order_.writable(dy, memory + elements_);
    for (std::size_t s = 0; s < static_cast<std::size_t>(p.batch); ++s) {
      std::span<P> const sample{gradient + s * outputs_, outputs_};
      L::gradient(std::span{y + s * outputs_, outputs_}, std::span{target + s * targets_, targets_},
                  sample);
      for (P& element : sample) {
        element *= static_cast<P>(scale);
      }
    }
    order_.write(p.device, p.batch, memory + elements_, dy);
  }

 private:
  std::size_t outputs_;
  std::size_t targets_;
  host::channels_last::UserOrder<T, P> order_;
  std::int64_t elements_;
};

template <class M, class L, class Precision>
  requires HostMetric<M, L, typename Precision::Master>
class MetricOp<M, L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit MetricOp(Shape output)
      : outputs_{static_cast<std::size_t>(output.elements())},
        targets_{static_cast<std::size_t>(L::targets(output))},
        order_{output} {}

  /// For microbatches of at most @p batch samples.
  [[nodiscard]] std::int64_t scratch_bytes(int batch) const {
    return order_.elements(batch) * static_cast<std::int64_t>(sizeof(P));
  }

  void count(Pass<host::Device> const& p, T const* output, typename L::Target const* target,
             double* sum) const {
    P const* const y = order_.read(p.device, p.batch, output, p.device.template scratch_as<P>());
    *sum = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(p.batch); ++s) {
      *sum += M::value(std::span{y + s * outputs_, outputs_},
                       std::span{target + s * targets_, targets_});
    }
  }

 private:
  std::size_t outputs_;
  std::size_t targets_;
  host::channels_last::UserOrder<T, P> order_;
};

/// Nothing is converted for it.
template <class L, class Precision>
class MetricOp<NoMetric, L, BasicHost<OneDnn, Precision>> {
 public:
  explicit MetricOp(Shape /*output*/) {}

  void count(Pass<host::Device> const& /*p*/, typename Precision::Scalar const* /*output*/,
             typename L::Target const* /*target*/, double* sum) const {
    *sum = 0.0;
  }
};

}  // namespace tandem

#endif

#undef TANDEM_ASSERT
#undef TANDEM_HOST_DEVICE
#undef TANDEM_INLINE
#undef TANDEM_KERNEL
#undef TANDEM_NOINLINE
