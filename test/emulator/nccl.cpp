// SPDX-License-Identifier: Apache-2.0
// NCCL for ranks that are threads of one process, on emulated GPUs.
//
// It is as unhelpful as the real one may be: a call of a non-blocking communicator is not queued
// when it returns, a kind of operation used for the first time wants all ranks to come, sums have
// the order of a ring, and messages outside of a group wait for each other.

#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>

#include "nccl_control.hpp"
#include "stream_work.hpp"

using namespace cuda_emulator;

namespace {

struct Comm;

// One rank's part in a collective.
struct Part {
  std::shared_ptr<Comm> comm;
  NcclCall call;
  void const* in = nullptr;
  void* out = nullptr;
  Ticket ticket;
  bool here = false;     // the host has queued it
  bool reached = false;  // its stream has come to it
};

struct Round {
  std::vector<Part> parts;
  bool done = false;
};

struct Message {
  std::array<Part, 2> ends;  // sender, receiver
  bool done = false;
};

// The ranks that have one unique id.
struct Clique {
  explicit Clique(int n) : ranks{n}, members(static_cast<std::size_t>(n)) {}
  int ranks;
  std::vector<std::weak_ptr<Comm>> members;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds;
  std::map<std::pair<int, int>, std::map<std::uint64_t, std::shared_ptr<Message>>> messages;
  std::map<std::string, std::vector<bool>> connected;  // by kind of operation
};

// What is queued when it has been asked about often enough, on one stream.
struct Deferred {
  int polls = 0;
  std::string kind;                          // that all ranks must come to, or ""
  std::vector<std::function<void()>> queue;  // enqueues the work
};

struct Comm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool aborted = false;
  ncclResult_t async = ncclInProgress;
  bool connected = false;
  bool finalizing = false;
  int polls = 0;
  std::deque<Deferred> deferred;
  std::uint64_t collectives = 0;
  std::map<std::pair<int, int>, std::uint64_t> sent;      // by pair of ranks
  std::map<std::pair<int, int>, std::uint64_t> received;  // by pair of ranks
  Ticket last;
  std::shared_ptr<int> graphs = std::make_shared<int>();  // shared with every captured call
};

struct Operation {
  std::shared_ptr<Comm> comm;
  NcclCall call;
  void const* in = nullptr;
  void* out = nullptr;
  cudaStream_t stream = nullptr;
};

struct State {
  std::map<ncclComm*, std::shared_ptr<Comm>> comms;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::vector<NcclCall> log;
  std::uint64_t ids = 0;
  int groups = 0;
  int polls = 2;
  std::size_t aborted = 0;
  std::size_t misuses = 0;
};

State& state() {
  static auto& instance = *new State;
  return instance;
}

thread_local int group_depth = 0;
thread_local int group_number = 0;
thread_local std::vector<Operation> group;
thread_local std::vector<std::shared_ptr<Comm>> group_aborts;
thread_local std::string last_error;

ncclResult_t misuse(std::string const& text, ncclResult_t code = ncclInvalidUsage) {
  ++state().misuses;
  last_error = text;
  report("NCCL: " + text);
  return code;
}

std::shared_ptr<Comm> find(ncclComm_t comm) {
  auto const found = state().comms.find(comm);
  return found == state().comms.end() ? nullptr : found->second;
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

template <class T>
T join(ncclRedOp_t op, T a, T b) {
  return op == ncclMax ? (b > a || b != b ? b : a) : static_cast<T>(a + b);
}

tandem::BFloat16 join(ncclRedOp_t op, tandem::BFloat16 a, tandem::BFloat16 b) {
  return tandem::BFloat16{join(op, static_cast<float>(a), static_cast<float>(b))};
}

tandem::Float16 join(ncclRedOp_t op, tandem::Float16 a, tandem::Float16 b) {
  return tandem::Float16{join(op, static_cast<float>(a), static_cast<float>(b))};
}

// out[r][i - begin(r)] over all ranks' in[i], each part of the array beginning with another rank.
template <class T>
void reduce(std::vector<Part> const& parts, std::size_t count, std::size_t begin, std::size_t end,
            T* out) {
  std::size_t const n = parts.size();
  std::size_t const share = (count + n - 1) / n;
  for (std::size_t i = begin; i < end; ++i) {
    std::size_t const first = i / share + 1;
    T sum = static_cast<T const*>(parts[first % n].in)[i];
    for (std::size_t r = 1; r < n; ++r) {
      sum = join(parts[0].call.op, sum, static_cast<T const*>(parts[(first + r) % n].in)[i]);
    }
    out[i - begin] = sum;
  }
}

template <class T>
void reduce_all(std::vector<Part>& parts) {
  bool const scatter = parts[0].call.operation == "ncclReduceScatter";
  std::size_t const n = parts.size();
  std::size_t const own = parts[0].call.count;
  std::size_t const count = scatter ? own * n : own;
  std::vector<std::vector<T>> results(n);
  for (std::size_t r = 0; r < n; ++r) {
    results[r].resize(own);
    std::size_t const begin = scatter ? own * r : 0;
    reduce(parts, count, begin, begin + own, results[r].data());
  }
  for (std::size_t r = 0; r < n; ++r) {
    std::memcpy(parts[r].out, results[r].data(), own * sizeof(T));
  }
}

void perform(std::vector<Part>& parts) {
  NcclCall const& call = parts[0].call;
  std::size_t const bytes = call.count * bytes_of(call.type);
  if (call.operation == "ncclBroadcast") {
    std::vector<std::byte> data(bytes);
    std::memcpy(data.data(), parts[static_cast<std::size_t>(call.peer)].in, bytes);
    for (Part const& part : parts) {
      std::memcpy(part.out, data.data(), bytes);
    }
  } else if (call.operation == "ncclAllGather") {
    std::vector<std::byte> all(bytes * parts.size());
    for (std::size_t r = 0; r < parts.size(); ++r) {
      std::memcpy(all.data() + r * bytes, parts[r].in, bytes);
    }
    for (Part const& part : parts) {
      std::memcpy(part.out, all.data(), all.size());
    }
  } else if (call.type == ncclFloat32) {
    reduce_all<float>(parts);
  } else if (call.type == ncclFloat64) {
    reduce_all<double>(parts);
  } else if (call.type == ncclBfloat16) {
    reduce_all<tandem::BFloat16>(parts);
  } else if (call.type == ncclFloat16) {
    reduce_all<tandem::Float16>(parts);
  } else {
    reduce_all<std::int32_t>(parts);
  }
}

bool same(NcclCall a, NcclCall const& b) {
  a.rank = b.rank;
  a.group = b.group;
  a.captured = b.captured;
  return a == b;
}

Attempt start_collective(Operation const& operation, Ticket const& ticket) {
  auto const& comm = operation.comm;
  std::uint64_t const number = comm->collectives++;
  auto& round = comm->clique->rounds[number];
  if (round == nullptr) {
    round = std::make_shared<Round>();
    round->parts.resize(static_cast<std::size_t>(comm->clique->ranks));
  }
  Part& mine = round->parts[static_cast<std::size_t>(comm->rank)];
  mine = {comm, operation.call, operation.in, operation.out, ticket, true, false};
  comm->last = ticket;
  notify_changed();
  return [round = round, comm, number] {
    Part& own = round->parts[static_cast<std::size_t>(comm->rank)];
    if (comm->aborted) {
      return true;
    }
    if (!own.reached) {
      own.reached = true;
      notify_changed();
    }
    for (Part& part : round->parts) {
      if (!round->done && part.here && !part.reached) {
        Ticket const other = part.ticket;
        static_cast<void>(advance(other));
      }
    }
    for (Part const& part : round->parts) {
      if (round->done || !part.reached) {
        return round->done;
      }
      if (!same(part.call, round->parts[0].call)) {
        misuse("ranks 0 and " + std::to_string(part.call.rank) +
               " disagree: " + to_string(round->parts[0].call) + ", " + to_string(part.call));
        comm->async = ncclInternalError;
        return false;
      }
    }
    perform(round->parts);
    round->done = true;
    comm->clique->rounds.erase(number);
    return true;
  };
}

// All messages of one group on one stream are one kernel.
Attempt start_messages(std::vector<Operation> const& operations, Ticket const& ticket) {
  std::vector<std::pair<std::shared_ptr<Message>, std::size_t>> ends;
  auto const comm = operations[0].comm;
  for (Operation const& operation : operations) {
    bool const sends = operation.call.operation == "ncclSend";
    int const peer = operation.call.peer;
    std::pair<int, int> const pair =
        sends ? std::pair{comm->rank, peer} : std::pair{peer, comm->rank};
    std::uint64_t const number = sends ? comm->sent[pair]++ : comm->received[pair]++;
    auto& message = comm->clique->messages[pair][number];
    if (message == nullptr) {
      message = std::make_shared<Message>();
    }
    std::size_t const end = sends ? 0 : 1;
    message->ends[end] = {comm, operation.call, operation.in, operation.out, ticket, true, false};
    ends.emplace_back(message, end);
  }
  comm->last = ticket;
  notify_changed();
  return [ends, comm] {
    if (comm->aborted) {
      return true;
    }
    for (auto const& [message, end] : ends) {
      if (!message->ends[end].reached) {
        message->ends[end].reached = true;
        notify_changed();
      }
    }
    bool all = true;
    for (auto const& [message, end] : ends) {
      Part& other = message->ends[1 - end];
      if (!message->done && other.here && !other.reached) {
        Ticket const ticket_of_other = other.ticket;
        static_cast<void>(advance(ticket_of_other));
      }
      if (!message->done && other.reached) {
        auto const& [from, to] = message->ends;
        if (from.call.count != to.call.count || from.call.type != to.call.type) {
          misuse("a message does not fit: " + to_string(from.call) + ", " + to_string(to.call));
          comm->async = ncclInternalError;
          return false;
        }
        std::memcpy(to.out, from.in, from.call.count * bytes_of(from.call.type));
        message->done = true;
        notify_changed();
      }
      all = all && message->done;
    }
    return all;
  };
}

void enqueue_now(std::vector<Operation> const& operations, bool messages) {
  auto const& first = operations[0];
  auto const graph = is_capturing(first.stream) ? first.comm->graphs : nullptr;
  cudaError_t const status =
      enqueue_retried(first.stream, messages ? "NCCL messages" : first.call.operation,
                      [operations, messages, graph](Ticket const& ticket) {
                        return messages ? start_messages(operations, ticket)
                                        : start_collective(operations[0], ticket);
                      });
  if (status != cudaSuccess) {
    first.comm->async = ncclUnhandledCudaError;
    misuse("a stream of rank " + std::to_string(first.comm->rank) +
           " cannot be used: " + cudaGetErrorName(status));
  }
}

// What ncclCommGetAsyncError does: one look, which also brings things on.
ncclResult_t look(Comm& comm) {
  Clique& clique = *comm.clique;
  if (comm.async != ncclSuccess && comm.async != ncclInProgress) {
    return comm.async;
  }
  if (!comm.connected) {
    std::vector<int> devices;
    for (auto const& member : clique.members) {
      if (auto const other = member.lock(); other != nullptr) {
        devices.push_back(other->device);
      }
    }
    if (devices.size() < clique.members.size() || comm.polls-- > 0) {
      return ncclInProgress;
    }
    std::sort(devices.begin(), devices.end());
    if (std::adjacent_find(devices.begin(), devices.end()) != devices.end()) {
      last_error = "Duplicate GPU detected";
      return comm.async = ncclInvalidUsage;
    }
    comm.connected = true;
    comm.async = ncclSuccess;
  }
  if (!comm.deferred.empty()) {
    Deferred& next = comm.deferred.front();
    if (!next.kind.empty()) {
      auto& came = clique.connected[next.kind];
      came.resize(clique.members.size());
      came[static_cast<std::size_t>(comm.rank)] = true;
      if (std::find(came.begin(), came.end(), false) != came.end()) {
        return comm.async = ncclInProgress;
      }
    }
    if (next.polls-- > 0) {
      return comm.async = ncclInProgress;
    }
    auto const queue = std::move(next.queue);
    comm.deferred.pop_front();
    for (auto const& enqueue_one : queue) {
      enqueue_one();
    }
    if (comm.async == ncclInProgress) {
      comm.async = ncclSuccess;
    }
  }
  if (comm.finalizing) {
    if (comm.polls-- > 0 || comm.graphs.use_count() > 1 ||
        (comm.last.stream != nullptr && !advance(comm.last))) {
      return comm.async = ncclInProgress;
    }
    comm.async = ncclSuccess;
  }
  return comm.async;
}

// As the real one, it lets kernels end at once, but returns only when no graph has its calls.
void wait_for_graphs(Held& held, std::shared_ptr<Comm> const& comm) {
  while (comm->graphs.use_count() > 1) {
    if (comm->last.stream != nullptr && advance(comm->last)) {
      comm->last = {};
    }
    int const levels = held.mutex()->release();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    held.mutex()->acquire(levels);
  }
}

// Blocking communicators wait here; others return.
ncclResult_t settle(Held& held, std::shared_ptr<Comm> const& comm) {
  comm->async = comm->async == ncclSuccess ? ncclInProgress : comm->async;
  while (comm->blocking && look(*comm) == ncclInProgress) {
    int const levels = held.mutex()->release();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    held.mutex()->acquire(levels);
  }
  return comm->async;
}

bool is_message(Operation const& operation) {
  return operation.call.operation == "ncclSend" || operation.call.operation == "ncclRecv";
}

// The operations of one group, or a single one: each communicator queues its own.
ncclResult_t submit(Held& held, std::vector<Operation> const& operations) {
  std::vector<std::shared_ptr<Comm>> comms;
  for (Operation const& operation : operations) {
    if (std::find(comms.begin(), comms.end(), operation.comm) == comms.end()) {
      comms.push_back(operation.comm);
    }
  }
  ncclResult_t result = ncclSuccess;
  for (auto const& comm : comms) {
    if (comm->async == ncclInProgress) {
      return misuse("rank " + std::to_string(comm->rank) +
                    " uses its communicator while a call is in progress");
    }
    Deferred deferred{state().polls, {}, {}};
    std::map<cudaStream_t, std::vector<Operation>> messages;
    for (Operation const& operation : operations) {
      if (operation.comm != comm) {
        continue;
      }
      if (is_message(operation)) {
        messages[operation.stream].push_back(operation);
      } else {
        deferred.kind = operation.call.operation;
        deferred.queue.emplace_back([operation] { enqueue_now({operation}, false); });
      }
    }
    for (auto const& [stream, list] : messages) {
      deferred.queue.emplace_back([list = list] { enqueue_now(list, true); });
    }
    comm->deferred.push_back(std::move(deferred));
    ncclResult_t const own = settle(held, comm);
    result = own == ncclSuccess ? result : own;
  }
  return result;
}

ncclResult_t call(char const* name, ncclComm_t handle, void const* in, void* out,
                  std::size_t in_count, std::size_t out_count, NcclCall call, cudaStream_t stream) {
  auto held = lock();
  auto const comm = find(handle);
  if (comm == nullptr) {
    return misuse(std::string{name} + " on a communicator that is not alive", ncclInvalidArgument);
  }
  call.operation = name;
  call.rank = comm->rank;
  call.group = group_depth > 0 ? group_number : 0;
  call.captured = is_capturing(stream);
  std::size_t const size = bytes_of(call.type);
  if (device_of(stream) != comm->device) {
    return misuse(std::string{name} + ": the stream belongs to another GPU", ncclInvalidArgument);
  }
  if ((in_count > 0 && !device_can_access(in, in_count * size, comm->device)) ||
      (out_count > 0 && !device_can_access(out, out_count * size, comm->device))) {
    return misuse(std::string{name} + ": a buffer is no memory of the GPU", ncclInvalidArgument);
  }
  if (call.peer >= comm->clique->ranks || (in_count == 0 && out_count == 0)) {
    return misuse(std::string{name} + ": no such peer, or nothing to do", ncclInvalidArgument);
  }
  if (comm->async != ncclSuccess && comm->async != ncclInProgress) {
    return comm->async;
  }
  state().log.push_back(call);
  Operation operation{comm, call, in, out, stream};
  if (group_depth > 0) {
    group.push_back(std::move(operation));
    return ncclSuccess;
  }
  return submit(held, {operation});
}

}  // namespace

namespace cuda_emulator {

std::vector<NcclCall> nccl_calls(int rank) {
  auto const held = lock();
  std::vector<NcclCall> result;
  for (NcclCall const& call : state().log) {
    if (rank < 0 || call.rank == rank) {
      result.push_back(call);
    }
  }
  return result;
}

void clear_nccl_calls() {
  auto const held = lock();
  state().log.clear();
}

std::string to_string(NcclCall const& call) {
  std::string text = call.operation + " " + std::to_string(call.count);
  char const* const names[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                               "uint64", "float16", "float32", "float64", "bfloat16"};
  text.append(" ").append(static_cast<std::size_t>(call.type) < std::size(names)
                              ? names[call.type]
                              : "of another type");
  if (call.operation == "ncclAllReduce" || call.operation == "ncclReduceScatter") {
    text += call.op == ncclSum ? " sum" : call.op == ncclMax ? " max" : " other";
  }
  if (call.peer >= 0) {
    text += (call.operation == "ncclSend" ? " to " : " from ") + std::to_string(call.peer);
  }
  return text;
}

void break_nccl(int rank, ncclResult_t error) {
  auto const held = lock();
  for (auto const& [handle, comm] : state().comms) {
    if (comm->rank == rank) {
      comm->async = error;
    }
  }
  notify_changed();
}

void set_nccl_polls(int polls) {
  auto const held = lock();
  state().polls = polls;
}

std::size_t live_nccl_communicators() {
  auto const held = lock();
  return state().comms.size();
}

std::size_t aborted_nccl_communicators() {
  auto const held = lock();
  return state().aborted;
}

std::size_t nccl_misuses() {
  auto const held = lock();
  return state().misuses;
}

}  // namespace cuda_emulator

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

char const* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

char const* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  auto const held = lock();
  std::memset(id, 0, sizeof *id);
  std::string const text = "emulated " + std::to_string(++state().ids);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto held = lock();
  if (comm == nullptr || rank < 0 || rank >= ranks || config == nullptr) {
    return misuse("ncclCommInitRankConfig: bad arguments", ncclInvalidArgument);
  }
  auto& clique = state().cliques[std::string{id.internal, sizeof id.internal}];
  if (clique == nullptr) {
    clique = std::make_shared<Clique>(ranks);
  }
  if (clique->ranks != ranks || !clique->members[static_cast<std::size_t>(rank)].expired()) {
    return misuse("ncclCommInitRankConfig: a rank came twice, or the sizes differ");
  }
  auto made = std::make_shared<Comm>();
  made->clique = clique;
  made->rank = rank;
  made->device = current_device();
  made->blocking = config->blocking != 0;
  made->polls = state().polls;
  clique->members[static_cast<std::size_t>(rank)] = made;
  *comm = reinterpret_cast<ncclComm_t>(made.get());
  state().comms.emplace(*comm, made);
  return settle(held, made);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  auto const held = lock();
  auto const found = find(comm);
  if (found == nullptr) {
    return misuse("ncclCommGetAsyncError on a communicator that is not alive", ncclInvalidArgument);
  }
  *error = look(*found);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  auto held = lock();
  auto const found = find(comm);
  if (found == nullptr || found->finalizing) {
    return misuse("ncclCommFinalize on a communicator that is not alive", ncclInvalidArgument);
  }
  if (found->async == ncclInProgress) {
    return misuse("ncclCommFinalize while a call is in progress");
  }
  found->finalizing = true;
  found->polls = state().polls;
  return settle(held, found);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  auto const held = lock();
  auto const found = find(comm);
  if (found == nullptr) {
    return misuse("ncclCommDestroy on a communicator that is not alive", ncclInvalidArgument);
  }
  if (!found->finalizing || found->async != ncclSuccess) {
    misuse("ncclCommDestroy before ncclCommFinalize is done");
  }
  state().comms.erase(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto held = lock();
  auto const found = find(comm);
  if (found == nullptr) {
    return misuse("ncclCommAbort on a communicator that is not alive", ncclInvalidArgument);
  }
  found->aborted = true;
  found->deferred.clear();
  ++state().aborted;
  state().comms.erase(comm);
  notify_changed();
  if (group_depth > 0) {
    group_aborts.push_back(found);
  } else {
    wait_for_graphs(held, found);
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  auto const held = lock();
  if (group_depth++ == 0) {
    group_number = ++state().groups;
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  auto held = lock();
  if (group_depth == 0) {
    return misuse("ncclGroupEnd without ncclGroupStart");
  }
  if (--group_depth > 0) {
    return ncclSuccess;
  }
  for (auto const& comm : std::exchange(group_aborts, {})) {
    wait_for_graphs(held, comm);
  }
  if (group.empty()) {
    return ncclSuccess;
  }
  return submit(held, std::exchange(group, {}));
}

ncclResult_t ncclAllReduce(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call("ncclAllReduce", comm, in, out, count, count,
              {.count = count, .type = type, .op = op}, stream);
}

ncclResult_t ncclReduceScatter(void const* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  auto const held = lock();
  auto const found = find(comm);
  std::size_t const ranks = found == nullptr ? 1 : static_cast<std::size_t>(found->clique->ranks);
  return call("ncclReduceScatter", comm, in, out, count * ranks, count,
              {.count = count, .type = type, .op = op}, stream);
}

ncclResult_t ncclAllGather(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  auto const held = lock();
  auto const found = find(comm);
  std::size_t const ranks = found == nullptr ? 1 : static_cast<std::size_t>(found->clique->ranks);
  return call("ncclAllGather", comm, in, out, count, count * ranks, {.count = count, .type = type},
              stream);
}

ncclResult_t ncclBroadcast(void const* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call("ncclBroadcast", comm, in, out, count, count,
              {.count = count, .type = type, .peer = root}, stream);
}

ncclResult_t ncclSend(void const* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call("ncclSend", comm, in, nullptr, count, 0, {.count = count, .type = type, .peer = peer},
              stream);
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call("ncclRecv", comm, nullptr, out, 0, count,
              {.count = count, .type = type, .peer = peer}, stream);
}

}  // extern "C"
