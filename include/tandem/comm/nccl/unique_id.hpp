// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// make_unique_id: the key of a new group of NCCL ranks, the same on all processes.

#include <span>

#include <nccl.h>

#include <tandem/comm/nccl/check.hpp>
#include <tandem/comm/rendezvous/rendezvous.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>

namespace tandem {

/// Process 0 asks NCCL for an id and tells all others. All processes call it, in the same order for
/// their groups.
/// @throws TimeoutError   another process did not come
/// @throws ContractError  process 0 was told another number of processes
/// @throws Error          the rendezvous cannot be used; the message says why
inline ncclUniqueId make_unique_id(World const& world, std::chrono::milliseconds timeout) {
  ncclUniqueId id{};
  if (world.process == 0) {
    check_nccl(ncclGetUniqueId(&id));
  }
  rendezvous(world, std::as_writable_bytes(std::span{&id, 1}), timeout);
  return id;
}

}  // namespace tandem
