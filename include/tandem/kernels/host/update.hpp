// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One step of an optimizer over a run of parameters, in vectors.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Each parameter of update.run becomes what update.next() says of it, its gradient and its states.
///
/// Cost:  reads n parameters and gradients, writes n parameters, and reads and writes n of each
///        state; bound by memory. Of 10.8 million AdamW took 34 ms number by number, 13 so (Zen 4).
/// Order: none; no bit depends on where a run begins or on the threads.
template <class T, class Update>
TANDEM_NOINLINE void update(Team& team, std::int64_t n, Update const& update) {
#if defined(__CUDACC__)  // which takes no vectors in functions that are for devices, too
  team.parallel_for(n, [update](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      update(i);
    }
  });
#else
  for_wide<T>(team, n, [update](std::int64_t i, auto some) {
    auto const& run = update.run;
    Wide<T> state[2] = {run.state[0] != nullptr ? some.load(run.state[0] + i) : wide<T>(0),
                        run.state[1] != nullptr ? some.load(run.state[1] + i) : wide<T>(0)};
    some.store(run.parameter + i, update.next(some.load(run.parameter + i),
                                              Wide<T>{some.load(run.gradient + i)}, state));
    for (int s = 0; s < 2; ++s) {
      if (run.state[s] != nullptr) {
        some.store(run.state[s] + i, state[s]);
      }
    }
  });
#endif
}

}  // namespace tandem::host
