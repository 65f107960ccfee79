// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Emulated device memory and pinned host memory: every allocation is known by its addresses.
///
/// Fresh memory is poisoned. Freed memory is poisoned and kept for a while, so that a stale read
/// gives NaN and a stale write is reported. The bytes around an allocation are checked when it is
/// freed. Internal; all under lock().

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_emulator {

/// What kind of memory an allocation is; registered memory belongs to the host program.
enum class Kind : unsigned char { device, pinned, registered };

struct Allocation {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::byte* block = nullptr;  ///< of malloc, with the bytes around it
  Kind kind = Kind::device;
  int device = 0;
  void const* pool = nullptr;
  int holds = 0;  ///< see hold()
  char const* holder = nullptr;
  bool leaving = false;  ///< its free is queued: the host may not use it any more

  [[nodiscard]] std::byte* end() const { return begin + bytes; }
};

/// Makes an allocation, or returns null if the device has not that much memory.
Allocation* allocate(Kind kind, std::size_t bytes, int device, void const* pool = nullptr);

/// The same; where memory is short, runs what is queued on the device, for the frees in it.
Allocation* allocate_or_drain(Kind kind, std::size_t bytes, int device, void const* pool);

/// Registers host memory as pinned. Null if it overlaps an allocation.
Allocation* register_host(void* begin, std::size_t bytes, int device);

/// The live allocation in which [pointer, pointer + bytes) lies, or null.
Allocation* find_allocation(void const* pointer, std::size_t bytes);

/// From now on, until it is let go as often, freeing the allocation in which @p pointer lies is
/// reported: @p who may still use it.
void hold(void const* pointer, char const* who);
void let_go(void const* pointer);

/// Whether kernels on @p device can use it: memory of that device, host memory, or memory that was
/// opened to it: of a pool by cudaMemPoolSetAccess, other by cudaDeviceEnablePeerAccess.
[[nodiscard]] bool reaches(int device, Allocation const& allocation);

/// Allocated device memory that kernels on @p device may write.
[[nodiscard]] std::vector<Allocation> reachable_memory(int device);

/// Whether the pool was opened to @p device.
[[nodiscard]] bool pool_is_open_to(int device, void const* pool);

/// Takes the allocation that begins at @p pointer out of use, poisons it and quarantines it.
/// @return false if there is none
bool release(void const* pointer);

/// Bytes in live device allocations of @p device, or of one pool.
[[nodiscard]] std::size_t used_bytes(int device);
[[nodiscard]] std::size_t used_bytes_of_pool(void const* pool);

/// The size of each device's memory.
[[nodiscard]] std::size_t memory_limit();

/// What was freed lately, for the text of a report: "which was freed" or "which is host memory".
[[nodiscard]] char const* describe_foreign(void const* pointer);

}  // namespace cuda_emulator
