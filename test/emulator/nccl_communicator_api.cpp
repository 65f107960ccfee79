// SPDX-License-Identifier: Apache-2.0
// NCCL for ranks that are threads of one process, on emulated GPUs: communicators and errors.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "nccl_state.hpp"

using namespace cuda_emulator;
using namespace cuda_emulator::nccl;

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

char const* ncclGetLastError(ncclComm_t) { return last_error().c_str(); }

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

// The ranks of all ids are one group, which the first id names; that all ranks bring the same ids
// is checked by the last one's name.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int count,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  if (count < 1 || count > ranks || ids == nullptr) {
    auto const held = lock();
    return misuse("ncclCommInitRankScalable: bad ids", ncclInvalidArgument);
  }
  ncclUniqueId joined = ids[0];
  std::string const last{ids[count - 1].internal};
  std::size_t const length = std::string{joined.internal}.size();
  std::string const text = " to " + last + " of " + std::to_string(count);
  std::memcpy(joined.internal + length, text.data(),
              std::min(text.size(), sizeof joined.internal - length));
  return ncclCommInitRankConfig(comm, ranks, joined, rank, config);
}

// As the real one, it gives the new communicator only when all ranks have come.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result,
                           ncclConfig_t* config) {
  auto held = lock();
  auto const found = find(comm);
  if (found == nullptr || result == nullptr || color < NCCL_SPLIT_NOCOLOR ||
      (config != nullptr && (config->blocking != 0) != found->blocking)) {
    return misuse("ncclCommSplit: bad arguments, or one that blocks where its parent does not",
                  ncclInvalidArgument);
  }
  if (found->finalizing || found->async == ncclInProgress) {
    return misuse("ncclCommSplit while a call is in progress");
  }
  if (current_device() != found->device) {
    return misuse("ncclCommSplit: another device is current");
  }
  int const most =
      config != nullptr && config->maxCTAs != NCCL_CONFIG_UNDEF_INT ? config->maxCTAs : 0;
  state().splits.push_back({found->rank, color, key, group().depth > 0 ? group().number : 0, most});
  Split& split = found->clique->splits[found->splits++];
  split.calls.resize(static_cast<std::size_t>(found->clique->ranks));
  split.calls[static_cast<std::size_t>(found->rank)] = {true, color, key};
  *result = nullptr;
  found->split_result = result;
  found->polls = state().polls;
  return settle(held, found);
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
  if (group().depth > 0 && !found->blocking) {
    group().destroys.push_back(found);
  }
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
  if (group().depth > 0) {
    group().aborts.push_back(found);
  } else {
    wait_for_graphs(held, found);
  }
  return ncclSuccess;
}

}  // extern "C"
