// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What tests may ask of the emulated NCCL: which calls were made; and what may go wrong with it.

#include <cstddef>
#include <string>
#include <vector>

#include <nccl.h>

namespace cuda_emulator {

/// One call that queues work. Calls are logged when they are made, also during a capture, and not
/// again when a graph is launched.
struct NcclCall {
  std::string operation{};  ///< "ncclAllReduce", …
  int rank = 0;
  std::size_t count = 0;  ///< the argument of this name
  ncclDataType_t type = ncclFloat32;
  int peer = -1;  ///< or root, where there is one
  ncclRedOp_t op = ncclSum;
  int group = 0;  ///< calls between one ncclGroupStart and its end have a number > 0 in common
  bool captured = false;

  friend bool operator==(NcclCall const&, NcclCall const&) = default;
};

/// The calls of all ranks so far, or those of one; in the order in which the rank made them.
[[nodiscard]] std::vector<NcclCall> nccl_calls(int rank = -1);
void clear_nccl_calls();  ///< and splits

/// "ncclAllReduce 10 of type 7": for comparing with a list that a person wrote.
[[nodiscard]] std::string to_string(NcclCall const& call);

/// One call of ncclCommSplit.
struct NcclSplit {
  int rank = 0;  ///< in the communicator that is split
  int color = 0;
  int key = 0;
  int group = 0;        ///< as in NcclCall
  int most_blocks = 0;  ///< of config->maxCTAs, if given

  friend bool operator==(NcclSplit const&, NcclSplit const&) = default;
};

/// Those of one rank so far, in order.
[[nodiscard]] std::vector<NcclSplit> nccl_splits(int rank);

/// From now on ncclCommGetAsyncError gives @p error for the communicator of @p rank.
/// @param ranks  only where the communicator has so many; 0: any number
void break_nccl(int rank, ncclResult_t error, int ranks = 0);

/// How often ncclCommGetAsyncError says ncclInProgress for each call before it goes on (default 2).
void set_nccl_polls(int polls);

/// Communicators that have been neither destroyed nor aborted, and how many ever were aborted.
[[nodiscard]] std::size_t live_nccl_communicators();
[[nodiscard]] std::size_t aborted_nccl_communicators();

/// Those whose destruction has begun and not ended: what ncclCommDestroy begins within a group ends
/// at some time that nobody is told. Freeing memory that they have used is reported, and so is the
/// end of the program.
[[nodiscard]] std::size_t ending_nccl_communicators();

/// Now it ends.
void end_nccl_destructions();

/// Misuse so far: an operation while another is in progress, a dead handle, mismatched calls.
[[nodiscard]] std::size_t nccl_misuses();

}  // namespace cuda_emulator
