// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Races between pieces of work: what they access, and what orders them. Vector clocks of streams.
///
/// The host is one clock, whichever thread waits: what one thread has waited for comes before all
/// that any thread enqueues later. So orders between host threads, which nobody sees here, are all
/// taken to be there. Internal; all under lock().

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stream_work.hpp"

namespace cuda_emulator {

struct Node;

/// Of each stream, by number, how many items come before.
class VectorClock {
 public:
  void join(VectorClock const& other);
  void join(std::uint32_t stream, std::uint64_t items);
  [[nodiscard]] std::uint64_t of(std::uint32_t stream) const;

 private:
  std::vector<std::pair<std::uint32_t, std::uint64_t>> items_;  // by number of stream
};

/// A piece of work: an item of a stream, or a node of a graph.
struct Epoch {
  std::uint32_t stream = 0;  ///< or the node
  std::uint64_t position = 0;
  std::string const* name = nullptr;
};

/// Who wrote and read each byte last.
class Shadow {
 public:
  /// Notes that @p now does @p access. Gives the piece of work with which it is in conflict: one
  /// that is not before(it); or one without a name.
  template <class Before>
  Epoch note(Access const& access, Epoch const& now, Before const& before);

  void forget(void const* begin, std::size_t bytes);

 private:
  struct Segment {
    std::uintptr_t end = 0;
    Epoch write{};
    std::vector<Epoch> reads{};
  };

  void cut(std::uintptr_t at);

  std::map<std::uintptr_t, Segment> segments_;  // by begin; they do not overlap
};

/// An access of a node of a graph.
struct NamedAccess {
  Access access;
  std::string const* name;
};

/// Accesses of one piece of work, with its name.
std::vector<NamedAccess> named(std::string const& name, std::vector<Access> const& accesses);

/// A new stream's number; none is 0.
std::uint32_t next_stream_number();

/// The host has waited for the first @p items of @p stream.
void host_waited(CUstream_st const& stream, std::uint64_t items);
void host_waited(VectorClock const& clock);

/// The order of an event that is recorded behind all that is on @p stream.
VectorClock clock_at_end(CUstream_st const& stream);

/// Looks for races of the item that is put on @p stream next.
void note_accesses(CUstream_st const& stream, std::vector<NamedAccess> const& accesses);
void note_accesses(CUstream_st const& stream, std::string const& name,
                   std::vector<Access> const& accesses);

/// The same for what the host does while it waits: nothing on a stream may be in conflict.
void note_host_access(char const* name, int device, Access const& access);

/// Looks for races between the nodes of a graph, on @p device, and gives what they access.
std::vector<NamedAccess> accesses_of(std::vector<Node> const& nodes, int device);

/// The memory is no longer allocated.
void forget_accesses(void const* begin, std::size_t bytes);

}  // namespace cuda_emulator
