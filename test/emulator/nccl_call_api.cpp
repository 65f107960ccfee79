// SPDX-License-Identifier: Apache-2.0
// NCCL for ranks that are threads of one process, on emulated GPUs: groups and what queues work.

#include <cstddef>
#include <string>
#include <utility>

#include "nccl_state.hpp"

using namespace cuda_emulator;
using namespace cuda_emulator::nccl;

namespace {

ncclResult_t call(char const* name, ncclComm_t handle, void const* in, void* out,
                  std::size_t in_count, std::size_t out_count, NcclCall call, cudaStream_t stream) {
  auto held = lock();
  auto const comm = find(handle);
  if (comm == nullptr) {
    return misuse(std::string{name} + " on a communicator that is not alive", ncclInvalidArgument);
  }
  call.operation = name;
  call.rank = comm->rank;
  call.group = group().depth > 0 ? group().number : 0;
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
  for (void const* const buffer : {in, static_cast<void const*>(out)}) {
    if (buffer != nullptr) {
      comm->used.insert(buffer);
    }
  }
  Operation operation{comm, call, in, out, stream, in_count * size, out_count * size};
  if (group().depth > 0) {
    group().operations.push_back(std::move(operation));
    return ncclSuccess;
  }
  return submit(held, {operation});
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  auto const held = lock();
  if (group().depth++ == 0) {
    group().number = ++state().groups;
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  auto held = lock();
  if (group().depth == 0) {
    return misuse("ncclGroupEnd without ncclGroupStart");
  }
  if (--group().depth > 0) {
    return ncclSuccess;
  }
  for (auto const& comm : std::exchange(group().aborts, {})) {
    wait_for_graphs(held, comm);
  }
  auto const destroys = std::exchange(group().destroys, {});
  for (auto const& comm : destroys) {
    begin_ending(comm);
  }
  if (group().operations.empty()) {
    return destroys.empty() ? ncclSuccess : ncclInProgress;
  }
  return submit(held, std::exchange(group().operations, {}));
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
