// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BasicHost: the backend that computes on plain CPUs, and its device.

#include <cstddef>
#include <thread>

#include <tandem/core/precision.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/queue.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem {

namespace host {

/// One device of a Host backend: its threads, the scratch memory of its kernels, and the queue on
/// which its communication runs while its own thread computes.
struct Device {
  explicit Device(int threads) : team{threads} {}

  Team team;
  Queue queue;
  std::byte* scratch = nullptr;

  template <class T>
  [[nodiscard]] T* scratch_as() const noexcept {
    return reinterpret_cast<T*>(scratch);
  }
};

/// Threads for each of @p devices, so that together they do not exceed the machine's.
inline int threads_of_each(int devices) {
  auto const all = static_cast<int>(std::thread::hardware_concurrency());
  return all > devices ? all / devices : 1;
}

}  // namespace host

/// The kernels written in portable C++: no library needed, the reference for every other.
struct Portable {
  static constexpr char const* name = "portable";
};

/// Plain CPUs; a device is a worker thread with a team of its own.
template <class Kernels = Portable, class Precision = Fp32>
struct BasicHost {
  using Scalar = typename Precision::Scalar;
  using Device = host::Device;
  using Buffer = host::Buffer;
  using Stream = host::Queue;
  static constexpr char const* name = "host";
};

/// The default CPU backend.
using Host = BasicHost<>;

}  // namespace tandem
