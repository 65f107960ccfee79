// SPDX-License-Identifier: Apache-2.0
// The state of the emulated NCCL, and what tests ask of it.

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "nccl_state.hpp"

namespace cuda_emulator {
namespace nccl {

State& state() {
  static auto& instance = *new State;
  return instance;
}

Group& group() {
  thread_local Group instance;
  return instance;
}

std::string& last_error() {
  thread_local std::string instance;
  return instance;
}

ncclResult_t misuse(std::string const& text, ncclResult_t code) {
  ++state().misuses;
  last_error() = text;
  report("NCCL: " + text);
  return code;
}

void begin_ending(std::shared_ptr<Comm> const& comm) {
  static bool const watched = [] {
    return std::atexit([] {
             if (std::size_t const n = state().ending.size(); n > 0) {
               std::fprintf(stderr,
                            "emulator: the program ended while NCCL destroyed %zu communicators\n",
                            n);
               std::_Exit(1);
             }
           }) == 0;
  }();
  static_cast<void>(watched);
  for (void const* const buffer : comm->used) {
    hold(buffer, "a communicator that is being destroyed");
  }
  state().ending.push_back(comm);
}

std::shared_ptr<Comm> find(ncclComm_t comm) {
  auto const found = state().comms.find(comm);
  return found == state().comms.end() ? nullptr : found->second;
}

}  // namespace nccl

using nccl::state;

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
  state().splits.clear();
}

std::vector<NcclSplit> nccl_splits(int rank) {
  auto const held = lock();
  std::vector<NcclSplit> result;
  for (NcclSplit const& split : state().splits) {
    if (split.rank == rank) {
      result.push_back(split);
    }
  }
  return result;
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

void break_nccl(int rank, ncclResult_t error, int ranks) {
  auto const held = lock();
  for (auto const& [handle, comm] : state().comms) {
    if (comm->rank == rank && (ranks == 0 || comm->clique->ranks == ranks)) {
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

std::size_t ending_nccl_communicators() {
  auto const held = lock();
  return state().ending.size();
}

void end_nccl_destructions() {
  auto const held = lock();
  for (auto const& comm : std::exchange(state().ending, {})) {
    for (void const* const buffer : comm->used) {
      let_go(buffer);
    }
  }
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
