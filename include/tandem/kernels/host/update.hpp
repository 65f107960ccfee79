// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One step of an optimizer over a run of parameters, in vectors.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
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

/// Elements [begin, end) of update.run.
template <class T, class Update>
[[gnu::always_inline]] inline void update_range(std::int64_t begin, std::int64_t end,
                                                Update const& update) {
#if defined(__CUDACC__)  // which takes no vectors in functions that are for devices, too
  constexpr bool in_vectors = false;
#else
  constexpr bool in_vectors = UpdatesVectors<Update, T>;
#endif
  if constexpr (in_vectors) {
    for_wide<T>(begin, end, [&update](std::int64_t i, auto some) {
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
    for (std::int64_t i = begin; i < end; ++i) {
      update(i);
    }
  }
}

}  // namespace detail

/// Each parameter of update.run becomes what update.next() says of it, its gradient and its states.
///
/// Cost:  reads n parameters and gradients, writes n parameters, and reads and writes n of each
///        state; bound by memory. Of 10.8 million AdamW took 34 ms number by number, 13 so (Zen 4).
/// Order: none; no bit depends on where a run begins or on the threads.
template <class T, class Update>
TANDEM_NOINLINE void update(Team& team, std::int64_t n, Update const& update) {
  constexpr std::int64_t block = 1024;
  team.parallel_for((n + block - 1) / block, [update, n](std::int64_t begin, std::int64_t end) {
    Update const own = update;  // which no store of its loop can change
    detail::update_range<T>(begin * block, std::min(n, end * block), own);
  });
}

/// The same of some rows of a parameter, whose gradients these are: update.run begins with row 0,
/// and its gradient is not read.
///
/// Cost:  as of update(), of as many elements as @p rows have.
template <class P, class Update>
TANDEM_NOINLINE void update_rows(Team& team, GradientRows<P> const& rows, Update const& update) {
  team.parallel_for(*rows.count, [&](std::int64_t begin, std::int64_t end) {
    Update own = update;
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t const first = std::int64_t{rows.row[i]} * rows.width;
      own.run.parameter = update.run.parameter + first;
      own.run.gradient = rows.values_of(i);
      for (std::size_t s = 0; s < std::extent_v<decltype(Update::run.state)>; ++s) {
        if (update.run.state[s] != nullptr) {
          own.run.state[s] = update.run.state[s] + first;
        }
      }
      detail::update_range<P>(0, rows.width, own);
    }
  });
}

}  // namespace tandem::host
