// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>

namespace {

using namespace tandem::cuda;

bool contains(std::string const& text, char const* part) {
  return text.find(part) != std::string::npos;
}

int current() {
  int ordinal = -1;
  check(cudaGetDevice(&ordinal));
  return ordinal;
}

TEST_CASE("check lets success pass and throws everything else with its caller's place") {
  CHECK_NOTHROW(check(cudaSuccess));
  int line = 0;
  try {
    line = __LINE__ + 1;
    check(cudaErrorInvalidValue);
    FAIL("nothing was thrown");
  } catch (CudaError const& error) {
    CHECK(error.code() == cudaErrorInvalidValue);
    CHECK(std::strcmp(error.name(), "cudaErrorInvalidValue") == 0);
    std::string const place = "device_test.cu:" + std::to_string(line);
    INFO(error.what());
    CHECK(contains(error.what(), place.c_str()));
    CHECK(contains(error.what(), "(cudaErrorInvalidValue, "));
    CHECK(contains(error.what(), cudaGetErrorString(cudaErrorInvalidValue)));
  }
}

TEST_CASE("check runs its argument once and leaves no error behind") {
  int calls = 0;
  auto const fails = [&calls] {
    ++calls;
    return cudaSetDevice(1000);  // no machine has so many
  };
  CHECK_THROWS_AS(check(fails()), CudaError);
  CHECK(calls == 1);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cudaSetDevice(1000) == cudaErrorInvalidDevice);
  CHECK_NOTHROW(report(cudaErrorCudartUnloading));  // says nothing
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("report says nothing while an exception unwinds the stack") {
  struct Owner {
    ~Owner() { report(cudaErrorInvalidValue); }
  };
  CHECK_THROWS_AS(
      [] {
        Owner const owner;
        throw std::runtime_error{"first"};
      }(),
      std::runtime_error);
}

TEST_CASE("errors of the machine become sentences that say what to do") {
  CHECK(contains(sentence(cudaErrorNoDevice), "look at nvidia-smi and at CUDA_VISIBLE_DEVICES"));
  CHECK(contains(sentence(cudaErrorStubLibrary), "LD_LIBRARY_PATH"));
  CHECK(contains(sentence(cudaErrorInvalidDevice), "there is no such GPU"));
  CHECK(contains(sentence(cudaErrorNoKernelImageForDevice),
                 "has no code for GPU 0; compile it "
                 "with nvcc -arch=sm_"));
  CHECK(contains(sentence(cudaErrorInsufficientDriver),
                 "the NVIDIA driver is too old: it supports "
                 "CUDA "));
  CHECK(contains(sentence(cudaErrorIllegalAddress), "compute-sanitizer"));
  CHECK(sentence(cudaErrorInvalidValue) == cudaGetErrorString(cudaErrorInvalidValue));
}

TEST_CASE("versions are written as NVIDIA writes them") {
  CHECK(detail::version_name(13000) == "13.0");
  CHECK(detail::version_name(12080) == "12.8");
  CHECK(detail::version_name(9020) == "9.2");
}

TEST_CASE("the number of GPUs is at least one, and too many are refused") {
  int const count = device_count();
  CHECK(count >= 1);
  CHECK(has_device());
  CHECK_NOTHROW(require_devices(count));
  std::string const text = "DataParallel<99> needs 99 GPUs but this machine has " +
                           std::to_string(count) +
                           "; use a strategy with fewer ranks, or look at CUDA_VISIBLE_DEVICES";
  CHECK_THROWS_WITH_AS(require_devices(99, "DataParallel<99>"), text.c_str(), tandem::Error);
}

TEST_CASE("a scoped device is current in its scope, and the one before after it") {
  int const before = current();
  int const count = device_count();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    {
      ScopedDevice const outer{Device{ordinal}};
      CHECK(current() == ordinal);
      {
        ScopedDevice const inner{Device{(ordinal + 1) % count}};
        CHECK(current() == (ordinal + 1) % count);
      }
      CHECK(current() == ordinal);
    }
    CHECK(current() == before);
  }
}

TEST_CASE("a GPU that is not there is named") {
  int const before = current();
  std::string const text = "there is no GPU 500: this machine has " +
                           std::to_string(device_count()) +
                           ", counted from 0; look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
  CHECK_THROWS_WITH_AS([] { ScopedDevice const scope{Device{500}}; }(), text.c_str(),
                       tandem::Error);
  CHECK(current() == before);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("devices are values") {
  CHECK(Device{1} == Device{1});
  CHECK(Device{1} != Device{});
}

}  // namespace
