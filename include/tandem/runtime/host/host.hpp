// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BasicHost: the backend that computes on plain CPUs, and its device.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/graph/rewrites.hpp>
#include <tandem/runtime/device_spec.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/cpus.hpp>
#include <tandem/runtime/host/queue.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem {

namespace host {

/// One device of a Host backend: its threads, the scratch memory of its kernels, and the queue on
/// which its communication runs while its own thread computes.
struct Device {
  using Mark = Queue::Ticket;
  using Stamp = std::chrono::steady_clock::time_point;

  explicit Device(int threads) : team{threads} {}
  explicit Device(DeviceSpec const& spec) : team{spec.threads} {}

  Team team;
  Queue communication;
  std::byte* scratch = nullptr;
  std::int64_t scratch_bytes = 0;

  /// A queue besides `communication`.
  TANDEM_ONCE [[nodiscard]] static std::unique_ptr<Queue> make_stream();
  /// A place on a queue, for mark_on() to set.
  [[nodiscard]] static Mark make_mark() { return 0; }
  /// What is queued from now on comes after what has been computed so far.
  static void begin_on(Queue& /*queue*/) {}
  static void mark_on(Queue& queue, Mark& mark) { mark = queue.last(); }
  /// What is computed from now on comes after what was queued up to @p mark.
  static void await_on(Queue& queue, Mark mark) { queue.wait(mark); }
  /// Sets @p stamp when everything so far has been computed, or is done on a queue.
  [[nodiscard]] static Stamp make_stamp() { return {}; }
  static void stamp(Stamp& stamp) { stamp = std::chrono::steady_clock::now(); }
  TANDEM_ONCE static void stamp_on(Queue& queue, Stamp& stamp);
  TANDEM_ONCE static double microseconds(Stamp from, Stamp to);

  /// All that was computed is done.
  static void finish() {}

  /// Host memory is everybody's.
  static void share_with(DeviceSpec const& /*other*/) {}

  /// Does one action; nothing is queued that could fail behind it.
  template <class Wait, class F>
  static void debug(std::string const& /*action*/, Wait const& /*wait*/, F const& f) {
    f();
  }

  /// Nothing queued reads or writes memory any more; for after an error.
  static void settle(Queue& queue) { queue.discard(); }

  template <class T>
  [[nodiscard]] T* scratch_as() const noexcept {
    return reinterpret_cast<T*>(scratch);
  }
};

/// Threads for each of @p devices, so that together they do not exceed the CPUs that this process
/// may use.
inline int threads_of_each(int devices) {
  int const all = usable_cpus();
  return all > devices ? all / devices : 1;
}

}  // namespace host

/// The kernels written in portable C++: no library needed, the reference for every other.
struct Portable {
  static constexpr char const* name = "portable";
  static constexpr bool packs_weights = false;
  static constexpr Rewrites rewrites{};
};

/// Convolutions and matrix products by oneDNN; needs TANDEM_ONEDNN=1 and the library. Activations
/// are stored channels-last, weights in the layouts that the primitives want.
struct OneDnn {
  static constexpr char const* name = "onednn";
  static constexpr bool packs_weights = true;
  static constexpr Rewrites rewrites{.fuse_relu = true,
                                     .channels_last = true,
                                     .merge_pointwise = true,
                                     .place_concat = true,
                                     .absorb_bias = true};
};

/// What computes on a backend, for people: "oneDNN 2.6.3 for AVX2". Empty where nothing is worth
/// saying.
template <class Backend>
struct Computes {
  static std::string with() { return {}; }
};

#if defined(TANDEM_ONEDNN)
using DefaultHostKernels = OneDnn;
#else
using DefaultHostKernels = Portable;
#endif

/// Plain CPUs; a device is a worker thread with a team of its own.
/// @tparam Kernels    Portable or OneDnn
/// @tparam Precision  Fp32, Fp32Direct; Bf16 (OneDnn only), Fp64 (Portable only)
template <class Kernels = DefaultHostKernels, class Precision = Fp32>
struct BasicHost {
  static_assert(!std::is_same_v<Kernels, OneDnn> || !std::is_same_v<Precision, Fp64>,
                "BasicHost<OneDnn, Fp64>: oneDNN computes in fp32 and bf16; take "
                "BasicHost<Portable, Fp64>");
  static_assert(!std::is_same_v<Kernels, Portable> || !std::is_same_v<Precision, Bf16>,
                "BasicHost<Portable, Bf16>: the portable kernels compute in fp32 and fp64; take "
                "BasicHost<OneDnn, Bf16>");
  static_assert(!std::is_same_v<Precision, Fp16>,
                "BasicHost<Kernels, Fp16>: this precision is of Cuda alone; take "
                "BasicHost<OneDnn, Bf16>");
  using Scalar = typename Precision::Scalar;
  using Master = typename Precision::Master;
  using Device = host::Device;
  using Buffer = host::Buffer;
  using Stream = host::Queue;
  static constexpr Rewrites rewrites = Kernels::rewrites;
  static constexpr bool packs_weights = Kernels::packs_weights;
  static constexpr char const* name = "host";
};

template <class Precision>
struct Computes<BasicHost<Portable, Precision>> {
  static std::string with() { return "portable kernels"; }
};

/// The default CPU backend: with oneDNN where CMake has found it.
using Host = BasicHost<>;

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE std::unique_ptr<Queue> Device::make_stream() { return std::make_unique<Queue>(); }

TANDEM_ONCE void Device::stamp_on(Queue& queue, Stamp& stamp) {
  queue.post([&stamp] { stamp = std::chrono::steady_clock::now(); });
}

TANDEM_ONCE double Device::microseconds(Stamp from, Stamp to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

}  // namespace tandem::host

#endif
