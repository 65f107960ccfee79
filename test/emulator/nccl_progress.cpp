// SPDX-License-Identifier: Apache-2.0
// How the calls of an emulated NCCL communicator come on.
//
// It is as unhelpful as the real one may be: a call of a non-blocking communicator is not queued
// when it returns, a kind of operation used for the first time wants all ranks to come, and
// messages outside of a group wait for each other.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_state.hpp"

namespace cuda_emulator::nccl {
namespace {

bool is_message(Operation const& operation) {
  return operation.call.operation == "ncclSend" || operation.call.operation == "ncclRecv";
}

/// The rank's communicator of a split that all have come to, or null.
ncclComm_t child_of(Comm const& comm, Split& split) {
  auto const rank = static_cast<std::size_t>(comm.rank);
  Split::Call const& own = split.calls[rank];
  if (own.color == NCCL_SPLIT_NOCOLOR) {
    return nullptr;
  }
  int size = 0;
  int position = 0;
  for (std::size_t other = 0; other < split.calls.size(); ++other) {
    Split::Call const& call = split.calls[other];
    size += call.color == own.color ? 1 : 0;
    position +=
        call.color == own.color && std::pair{call.key, other} < std::pair{own.key, rank} ? 1 : 0;
  }
  auto& clique = split.children[own.color];
  if (clique == nullptr) {
    clique = std::make_shared<Clique>(size);
  }
  auto const made = std::make_shared<Comm>();
  made->clique = clique;
  made->rank = position;
  made->device = comm.device;
  made->blocking = comm.blocking;
  made->connected = true;
  made->async = ncclSuccess;
  clique->members[static_cast<std::size_t>(position)] = made;
  auto* const handle = reinterpret_cast<ncclComm_t>(made.get());
  state().comms.emplace(handle, made);
  return handle;
}

}  // namespace

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
      last_error() = "Duplicate GPU detected";
      return comm.async = ncclInvalidUsage;
    }
    comm.connected = true;
    comm.async = ncclSuccess;
  }
  if (comm.split_result != nullptr) {
    Split& split = clique.splits[comm.splits - 1];
    bool const all = std::all_of(split.calls.begin(), split.calls.end(),
                                 [](Split::Call const& call) { return call.here; });
    if (!all || comm.polls-- > 0) {
      return comm.async = ncclInProgress;
    }
    *std::exchange(comm.split_result, nullptr) = child_of(comm, split);
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

ncclResult_t settle(Held& held, std::shared_ptr<Comm> const& comm) {
  comm->async = comm->async == ncclSuccess ? ncclInProgress : comm->async;
  while (comm->blocking && look(*comm) == ncclInProgress) {
    int const levels = held.mutex()->release();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    held.mutex()->acquire(levels);
  }
  return comm->async;
}

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

}  // namespace cuda_emulator::nccl
