// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SharedMemory: poisons all `__shared__` variables before each block of a kernel.
///
/// They are the program's thread-local variables on the thread that runs the kernel. What else is
/// thread-local in the program is poisoned with them while a kernel runs, and restored after it.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_emulator {

class SharedMemory {
 public:
  /// Saves the calling thread's variables and poisons them.
  SharedMemory();
  /// Restores them.
  ~SharedMemory();
  SharedMemory(SharedMemory const&) = delete;
  SharedMemory& operator=(SharedMemory const&) = delete;

  /// Poisons again what blocks of this kernel write. Looks at all variables after the first,
  /// second, fourth, eighth... block, and after the others at what lies between those found so far.
  void after_block();

  /// Bytes, in pieces of 64, that one of the blocks that were looked at has written: at most what
  /// the kernel's shared memory is.
  [[nodiscard]] std::size_t most_written() const { return most_written_; }

 private:
  unsigned char* begin_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<unsigned char>& saved_;
  std::size_t low_ = 0;  // what blocks wrote so far: [low_, high_)
  std::size_t high_ = 0;
  std::uint64_t blocks_ = 0;
  std::size_t most_written_ = 0;
};

}  // namespace cuda_emulator
