// SPDX-License-Identifier: Apache-2.0
// The work of the emulated NCCL on the streams: the parts of all ranks find each other there.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nccl_state.hpp"

namespace cuda_emulator::nccl {
namespace {

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

}  // namespace

void enqueue_now(std::vector<Operation> const& operations, bool messages) {
  auto const& first = operations[0];
  std::vector<Access> accesses;
  for (Operation const& operation : operations) {
    // What was sent may be overwritten when another rank's answer has come: an order that is not
    // seen.
    if (operation.call.operation != "ncclSend") {
      accesses.push_back({operation.in, operation.in_bytes, false});
    }
    accesses.push_back({operation.out, operation.out_bytes, true});
  }
  auto const graph = is_capturing(first.stream) ? first.comm->graphs : nullptr;
  cudaError_t const status = enqueue_retried(
      first.stream, messages ? "NCCL messages" : first.call.operation,
      [operations, messages, graph](Ticket const& ticket) {
        return messages ? start_messages(operations, ticket)
                        : start_collective(operations[0], ticket);
      },
      accesses);
  if (status != cudaSuccess) {
    first.comm->async = ncclUnhandledCudaError;
    misuse("a stream of rank " + std::to_string(first.comm->rank) +
           " cannot be used: " + cudaGetErrorName(status));
  }
}

}  // namespace cuda_emulator::nccl
