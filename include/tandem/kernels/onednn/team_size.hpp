// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TeamSize: how many threads oneDNN takes for what the calling thread asks of it.

namespace tandem::onednn {

namespace detail {

// The OpenMP runtime that oneDNN brings, whether or not this file is compiled with -fopenmp: names
// of our own for its functions, so that they cannot contradict those of <omp.h>. Null where oneDNN
// was built for another threading runtime; then that runtime decides.
extern "C" {
__attribute__((weak)) void tandem_omp_set_num_threads(int) __asm__("omp_set_num_threads");
__attribute__((weak)) int tandem_omp_get_max_threads() __asm__("omp_get_max_threads");
}

}  // namespace detail

/// While it lives, work that this thread gives to oneDNN runs on so many threads. The number is
/// the thread's own in OpenMP, so devices of several threads do not meet. Cost: nanoseconds.
class TeamSize {
 public:
  /// @pre threads >= 1
  [[nodiscard]] explicit TeamSize(int threads) {
    if (detail::tandem_omp_set_num_threads != nullptr &&
        detail::tandem_omp_get_max_threads != nullptr) {
      before_ = detail::tandem_omp_get_max_threads();
      detail::tandem_omp_set_num_threads(threads);
    }
  }
  ~TeamSize() {
    if (before_ > 0) {
      detail::tandem_omp_set_num_threads(before_);
    }
  }
  TeamSize(TeamSize const&) = delete;
  TeamSize& operator=(TeamSize const&) = delete;

 private:
  int before_ = 0;
};

}  // namespace tandem::onednn
