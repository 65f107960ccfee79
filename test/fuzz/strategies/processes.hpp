// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a program knows of the processes that it runs as, over MPI if TANDEM_FUZZ_MPI is defined,
/// and the bits that they compare.

#include <cstdint>
#include <cstring>
#include <span>

#include <unistd.h>

#include <tandem/tandem.hpp>
#if defined(TANDEM_FUZZ_MPI)
#include <mpi.h>

#include <tandem/mpi.hpp>
#endif

namespace tandem::fuzz {

/// All processes, and this one.
inline World world{};

/// The same in all processes, another in each run.
inline int run_number = 0;

/// All processes call it, at their beginning.
inline void join_processes() {
  run_number = static_cast<int>(getpid());
#if defined(TANDEM_FUZZ_MPI)
  world = mpi_world();
  MPI_Bcast(&run_number, 1, MPI_INT, 0, MPI_COMM_WORLD);
#endif
}

/// Returns when all processes have called it.
inline void await_processes() {
#if defined(TANDEM_FUZZ_MPI)
  MPI_Barrier(MPI_COMM_WORLD);
#endif
}

/// A hash of numbers' bits.
class Bits {
 public:
  template <class T>
  void add(std::span<T const> numbers) {
    for (T const number : numbers) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &number, sizeof number);
      hash_ = (hash_ ^ bits) * 1099511628211U;  // FNV-1a, a number at a time
    }
  }
  void add(double number) { add(std::span<double const>{&number, 1}); }

  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037U;
};

}  // namespace tandem::fuzz
