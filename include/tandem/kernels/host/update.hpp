// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One step of an optimizer over a run of parameters, in vectors.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

namespace detail {

/// Whether next() takes vectors, as that of an optimizer of numbers only does not.
template <class Update, class T>
concept UpdatesVectors = requires(Update const& update, Wide<T> const& v,
                                  Wide<T> (&state)[std::extent_v<decltype(Update::run.state)>]) {
  update.next(v, v, state);
};

}  // namespace detail

/// Each parameter of update.run becomes what update.next() says of it, its gradient and its states.
///
/// Cost:  reads n parameters and gradients, writes n parameters, and reads and writes n of each
///        state; bound by memory. Of 10.8 million AdamW took 34 ms number by number, 13 so (Zen 4).
/// Order: none; no bit depends on where a run begins or on the threads.
template <class T, class Update>
TANDEM_NOINLINE void update(Team& team, std::int64_t n, Update const& update) {
#if defined(__CUDACC__)  // which takes no vectors in functions that are for devices, too
  constexpr bool in_vectors = false;
#else
  constexpr bool in_vectors = detail::UpdatesVectors<Update, T>;
#endif
  if constexpr (in_vectors) {
    for_wide<T>(team, n, [update](std::int64_t i, auto some) {
      auto const& run = update.run;
      constexpr int states = std::extent_v<decltype(Update::run.state)>;
      Wide<T> state[static_cast<std::size_t>(states)];
      for (int s = 0; s < states; ++s) {
        state[s] = run.state[s] != nullptr ? some.load(run.state[s] + i) : wide<T>(0);
      }
      some.store(run.parameter + i, update.next(some.load(run.parameter + i),
                                                Wide<T>{some.load(run.gradient + i)}, state));
      for (int s = 0; s < states; ++s) {
        if (run.state[s] != nullptr) {
          some.store(run.state[s] + i, state[s]);
        }
      }
    });
  } else {
    team.parallel_for(n, [update](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        update(i);
      }
    });
  }
}

}  // namespace tandem::host
