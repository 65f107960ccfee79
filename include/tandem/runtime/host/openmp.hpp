// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpenMp: how a Team runs on the OpenMP threads of its caller, in a program that has OpenMP.
///
/// oneDNN computes on those threads, which spin for milliseconds after each of its loops. A Team
/// with threads of its own beside them would wait for a core each time: a device has one or the
/// other. Units compiled with and without OpenMP may be mixed: those with it only add a definition.
/// Where other programs want the same cores, that spinning costs more than it gains; the user may
/// turn it off with OMP_WAIT_POLICY=passive in the environment. The library cannot: libgomp reads
/// the variable before main(), and has no call that sets it.

#include <atomic>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace tandem::host {

/// The two things that a Team wants of OpenMP, or null where there is none.
struct OpenMp {
  using Part = void (*)(void const* context, int part);

  /// part(context, 0), …, part(context, parts - 1), one on each thread of the caller's team, 0 on
  /// the caller itself; with fewer threads than asked for, each takes every so manyth. Returns when
  /// all have.
  void (*fork)(int parts, Part part, void const* context) = nullptr;

  /// How many threads the loops of others, such as oneDNN's, take if the calling thread starts
  /// them.
  void (*set_threads)(int threads) = nullptr;
};

/// The program's, constant once main() runs: empty if no unit of it was compiled with OpenMP.
inline constinit OpenMp openmp{};

/// Whether a device's team has been made of several OpenMP threads.
inline constinit std::atomic<bool> openmp_has_teams{false};

#if defined(_OPENMP)

namespace detail {

inline void openmp_fork(int parts, OpenMp::Part part, void const* context) {
#pragma omp parallel num_threads(parts) default(none) firstprivate(parts, part, context)
  {
    int const threads = omp_get_num_threads();
    for (int mine = omp_get_thread_num(); mine < parts; mine += threads) {
      part(context, mine);
    }
  }
}

/// Makes `openmp` what it is in a program with OpenMP, before main().
inline bool const openmp_is_here =
    (openmp = {.fork = openmp_fork, .set_threads = omp_set_num_threads}, true);

}  // namespace detail

#endif

}  // namespace tandem::host
