// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the stand-ins of CUB's device-wide algorithms share: scratch in two phases, checked ranges.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <emulator/order.hpp>
#include <emulator/stream_work.hpp>

namespace cub::emulated {

/// What an iterator points to, also where std::iterator_traits does not know it.
template <class It>
using ValueOf = std::remove_cv_t<std::remove_reference_t<decltype(*std::declval<It&>())>>;

/// Whether the device of @p stream can use [begin, begin + n); iterators that are no pointers pass.
template <class It>
bool usable(It begin, std::int64_t n, cudaStream_t stream, char const* name) {
  if constexpr (std::is_pointer_v<It>) {
    std::size_t const bytes = static_cast<std::size_t>(n) * sizeof(*begin);
    if (!cuda_emulator::device_can_access(begin, bytes, cuda_emulator::device_of(stream))) {
      cuda_emulator::report(std::string{name} +
                            ": a range that is not wholly in memory of the stream's device");
      return false;
    }
  }
  return true;
}

/// Puts @p work on the stream, if the stream is one of the current device.
template <class Work>
cudaError_t enqueue_algorithm(cudaStream_t stream, char const* name, Work work,
                              std::vector<cuda_emulator::Access> const& accesses = {}) {
  if (cuda_emulator::device_of(stream) != cuda_emulator::current_device()) {
    return cudaErrorInvalidResourceHandle;
  }
  return cuda_emulator::enqueue_computation(stream, name, std::move(work), -1, accesses);
}

/// The two phases: without scratch says how much is needed; with scratch puts @p work on the
/// stream, which spoils the scratch first.
template <class Work>
cudaError_t with_scratch(void* scratch, std::size_t& bytes, std::int64_t n, cudaStream_t stream,
                         char const* name, Work work) {
  std::size_t const needed = static_cast<std::size_t>(n < 1'000'000 ? n : 1'000'000) / 64 * 8 + 255;
  if (scratch == nullptr) {
    bytes = needed;
    return cudaSuccess;
  }
  if (bytes < needed) {
    return cudaErrorInvalidValue;
  }
  if (!usable(static_cast<std::byte*>(scratch), static_cast<std::int64_t>(needed), stream, name)) {
    return cudaErrorIllegalAddress;
  }
  auto run = [scratch, needed, work] {
    cuda_emulator::poison(scratch, needed);
    work();
  };
  return enqueue_algorithm(stream, name, run, {{scratch, needed, true}});
}

/// f(i) for all i in [0, n), in an order that varies.
template <class F>
void for_all(std::int64_t n, F const& f) {
  if (n > 0) {
    auto const order = cuda_emulator::next_order().of(static_cast<std::uint64_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      f(static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i))));
    }
  }
}

}  // namespace cub::emulated
