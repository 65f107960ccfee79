// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// make_unique_ids: the keys of a new group of NCCL ranks, the same on all processes.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include <nccl.h>

#include <tandem/comm/nccl/check.hpp>
#include <tandem/comm/rendezvous/rendezvous.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>

namespace tandem {

namespace detail {

/// How many ids a group of @p ranks meets by: one where NCCL is older than 2.23, else one for each
/// 128 ranks, since NCCL serves those of an id one after the other; at most as many as a
/// rendezvous() carries, which are those of 65,536 ranks.
constexpr int unique_ids_of([[maybe_unused]] int ranks) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
  constexpr int ranks_of_an_id = 128;
  constexpr auto most = static_cast<int>(largest_rendezvous / sizeof(ncclUniqueId));
  return std::clamp(ranks / ranks_of_an_id + (ranks % ranks_of_an_id != 0 ? 1 : 0), 1, most);
#else
  return 1;
#endif
}

}  // namespace detail

/// Some ids of NCCL's. Not a std::vector of them: their type has no name of its own, only an alias,
/// and to destroy one by a template ends nvcc 13 with an internal error.
class NcclUniqueIds {
 public:
  explicit NcclUniqueIds(std::size_t size)
      : ids_{std::make_unique<ncclUniqueId[]>(size)}, size_{size} {}
  explicit NcclUniqueIds(std::span<ncclUniqueId const> ids) : NcclUniqueIds{ids.size()} {
    std::copy(ids.begin(), ids.end(), begin());
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] ncclUniqueId* data() const noexcept { return ids_.get(); }
  [[nodiscard]] ncclUniqueId* begin() const noexcept { return data(); }
  [[nodiscard]] ncclUniqueId* end() const noexcept { return data() + size_; }
  [[nodiscard]] ncclUniqueId& front() const noexcept { return *data(); }

 private:
  std::unique_ptr<ncclUniqueId[]> ids_;
  std::size_t size_;
};

/// Process 0 asks NCCL for the ids of a group of @p ranks, and tells all others. All processes call
/// it, in the same order for their groups.
/// @throws TimeoutError   another process did not come
/// @throws ContractError  process 0 was told another number of processes
/// @throws Error          the rendezvous cannot be used; the message says why
inline NcclUniqueIds make_unique_ids(World const& world, int ranks,
                                     std::chrono::milliseconds timeout) {
  NcclUniqueIds ids{static_cast<std::size_t>(detail::unique_ids_of(ranks))};
  if (world.process == 0) {
    for (ncclUniqueId& id : ids) {
      check_nccl(ncclGetUniqueId(&id));
    }
  }
  rendezvous(world, std::as_writable_bytes(std::span{ids}), timeout);
  return ids;
}

/// The same for a group that meets by one id.
inline ncclUniqueId make_unique_id(World const& world, std::chrono::milliseconds timeout) {
  return make_unique_ids(world, 1, timeout).front();
}

}  // namespace tandem
