// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The communicators of the emulated NCCL, and the steps from a call to its work on a stream.
/// Internal; all under lock().

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nccl.h>

#include "nccl_control.hpp"
#include "stream_work.hpp"

namespace cuda_emulator::nccl {

struct Comm;
struct Clique;

/// One rank's part in a collective.
struct Part {
  std::shared_ptr<Comm> comm;
  NcclCall call;
  void const* in = nullptr;
  void* out = nullptr;
  Ticket ticket;
  bool here = false;     ///< the host has queued it
  bool reached = false;  ///< its stream has come to it
};

/// A collective of all ranks of a clique.
struct Round {
  std::vector<Part> parts;
  bool done = false;
};

/// A send and the receive that it goes to.
struct Message {
  std::array<Part, 2> ends;  ///< sender, receiver
  bool done = false;
};

/// One split, to which all ranks of a clique come.
struct Split {
  struct Call {
    bool here = false;
    int color = 0;
    int key = 0;
  };
  std::vector<Call> calls;                          ///< by rank
  std::map<int, std::shared_ptr<Clique>> children;  ///< by color
};

/// The ranks that have one unique id, or one color of a split.
struct Clique {
  explicit Clique(int n) : ranks{n}, members(static_cast<std::size_t>(n)) {}
  int ranks;
  std::vector<std::weak_ptr<Comm>> members;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds;
  std::map<std::pair<int, int>, std::map<std::uint64_t, std::shared_ptr<Message>>> messages;
  std::map<std::string, std::vector<bool>> connected;  ///< by kind of operation
  std::map<std::uint64_t, Split> splits;
};

/// What is queued when it has been asked about often enough, on one stream.
struct Deferred {
  int polls = 0;
  std::string kind;                          ///< that all ranks must come to, or ""
  std::vector<std::function<void()>> queue;  ///< enqueues the work
};

/// What an ncclComm_t stands for.
struct Comm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool aborted = false;
  ncclResult_t async = ncclInProgress;
  bool connected = false;
  bool finalizing = false;
  ncclComm_t* split_result = nullptr;  ///< where a split that goes on leaves its communicator
  std::uint64_t splits = 0;
  int polls = 0;
  std::deque<Deferred> deferred;
  std::uint64_t collectives = 0;
  std::map<std::pair<int, int>, std::uint64_t> sent;      ///< by pair of ranks
  std::map<std::pair<int, int>, std::uint64_t> received;  ///< by pair of ranks
  Ticket last;
  std::set<void const*> used;                             ///< buffers of its calls
  std::shared_ptr<int> graphs = std::make_shared<int>();  ///< shared with every captured call
};

/// A call that queues work, before it is queued.
struct Operation {
  std::shared_ptr<Comm> comm;
  NcclCall call;
  void const* in = nullptr;
  void* out = nullptr;
  cudaStream_t stream = nullptr;
  std::size_t in_bytes = 0;
  std::size_t out_bytes = 0;
};

/// What all threads share.
struct State {
  std::map<ncclComm*, std::shared_ptr<Comm>> comms;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::vector<NcclCall> log;
  std::vector<NcclSplit> splits;
  std::uint64_t ids = 0;
  int groups = 0;
  int polls = 2;
  std::vector<std::shared_ptr<Comm>> ending;  ///< whose destruction nobody can wait for
  std::size_t aborted = 0;
  std::size_t misuses = 0;
};

/// What the calling thread has called since ncclGroupStart.
struct Group {
  int depth = 0;
  int number = 0;
  std::vector<Operation> operations;
  std::vector<std::shared_ptr<Comm>> aborts;
  std::vector<std::shared_ptr<Comm>> destroys;
};

/// The one instance. Never destroyed.
State& state();

/// The calling thread's.
Group& group();
std::string& last_error();

/// Counts and reports a mistake of the caller, and returns @p code.
ncclResult_t misuse(std::string const& text, ncclResult_t code = ncclInvalidUsage);

/// Null if it is not alive.
std::shared_ptr<Comm> find(ncclComm_t comm);

std::size_t bytes_of(ncclDataType_t type);

/// From now on the communicator is being destroyed.
void begin_ending(std::shared_ptr<Comm> const& comm);

/// Does a collective once all ranks' parts are there.
void perform(std::vector<Part>& parts);

/// Puts one collective, or all messages of one group, on their stream.
void enqueue_now(std::vector<Operation> const& operations, bool messages);

/// What ncclCommGetAsyncError does: one look, which also brings things on.
ncclResult_t look(Comm& comm);

/// As the real one, it lets kernels end at once, but returns only when no graph has its calls.
void wait_for_graphs(Held& held, std::shared_ptr<Comm> const& comm);

/// Blocking communicators wait here; others return.
ncclResult_t settle(Held& held, std::shared_ptr<Comm> const& comm);

/// The operations of one group, or a single one: each communicator queues its own.
ncclResult_t submit(Held& held, std::vector<Operation> const& operations);

}  // namespace cuda_emulator::nccl
