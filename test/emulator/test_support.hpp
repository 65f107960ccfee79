// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// For the emulator's own tests: arrays on a device, and misuse that must be reported.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <emulator/control.hpp>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/launch.cuh>

namespace emulator_test {

using tandem::cuda::Device;
using tandem::cuda::Grid;
using tandem::cuda::launch;
using tandem::cuda::Stream;

/// n elements on the current device, poisoned; blocking copies.
template <class T>
class Array {
 public:
  explicit Array(std::size_t n) : n_{n} {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), n * sizeof(T)) == cudaSuccess);
  }
  explicit Array(std::vector<T> const& values) : Array{values.size()} {
    REQUIRE(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  ~Array() { cudaFree(data_); }
  Array(Array const&) = delete;
  Array& operator=(Array const&) = delete;

  T* data() { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(n_);
    CHECK(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  std::size_t n_;
  T* data_ = nullptr;
};

/// While it lives, misuse is not printed; at its end it is forgotten.
class Misuse {
 public:
  Misuse() {
    cuda_emulator::clear_errors();
    cuda_emulator::set_quiet(true);
  }
  ~Misuse() {
    cuda_emulator::set_quiet(false);
    cuda_emulator::clear_errors();
    static_cast<void>(cudaGetLastError());
  }
  Misuse(Misuse const&) = delete;
  Misuse& operator=(Misuse const&) = delete;

  /// Whether the last report has @p text in it.
  static bool says(std::string const& text) {
    std::string const report = cuda_emulator::last_report();
    INFO(report);
    bool const found = report.find(text) != std::string::npos;
    CHECK(found);
    return found;
  }
};

/// While it lives, races are faults.
class Watched {
 public:
  Watched() { cuda_emulator::set_races_shown(true); }
  ~Watched() { cuda_emulator::set_races_shown(false); }
  Watched(Watched const&) = delete;
  Watched& operator=(Watched const&) = delete;
};

/// Sets the emulator's schedule, and sets it back.
class Scheduled {
 public:
  explicit Scheduled(cuda_emulator::Schedule schedule) { cuda_emulator::set_schedule(schedule); }
  ~Scheduled() { cuda_emulator::set_schedule(cuda_emulator::Schedule::lazy); }
  Scheduled(Scheduled const&) = delete;
  Scheduled& operator=(Scheduled const&) = delete;
};

/// x[i] = value
inline TANDEM_KERNEL void fill_kernel(float* x, int n, float value) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    x[i] = value;
  }
}

/// y[i] = 2 x[i]
inline TANDEM_KERNEL void twice_kernel(float const* x, float* y, int n) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    y[i] = 2.0F * x[i];
  }
}

inline bool all_equal(std::vector<float> const& values, float value) {
  return std::all_of(values.begin(), values.end(), [value](float v) { return v == value; });
}

}  // namespace emulator_test
