// SPDX-License-Identifier: Apache-2.0
// What a program says on a machine where CUDA cannot run: a program of its own, with the real CUDA
// runtime and without nvcc. Exit status 77, "skipped", where there is a GPU.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include <cuda_runtime_api.h>

#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/pinned.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace {

using namespace tandem::cuda;

template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (CudaError const& error) {
    return error.what();
  }
  return "(no CudaError was thrown)";
}

// Of the three, the one that fits: cudaGetDeviceCount tells them apart.
std::string expected() {
  int count = 0;
  cudaError_t const status = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (status == cudaErrorStubLibrary) {
    return "the program runs against the stub of the NVIDIA driver; take ";
  }
  if (status == cudaErrorNoDevice) {
    return "this machine has no NVIDIA GPU that this program may use; look at nvidia-smi and at ";
  }
  return driver == 0 ? "no NVIDIA driver is installed on this machine; install one, or use the "
                       "backend Host ("
                     : "the NVIDIA driver is too old: it supports CUDA ";
}

TEST_CASE("without a GPU every door says what is wrong with the machine, and nothing else") {
  CHECK_FALSE(has_device());
  std::string const sentence = expected();
  INFO(sentence);
  auto const begins = [&](std::string const& message) {
    INFO(message);
    return message.compare(0, sentence.size(), sentence) == 0;
  };
  CHECK(begins(message_of([] { static_cast<void>(device_count()); })));
  CHECK(begins(message_of([] { require_devices(4, "DataParallel<4>"); })));
  CHECK(begins(message_of([] { ScopedDevice const scope{Device{0}}; })));
  CHECK(begins(message_of([] { Stream const stream{Device{0}}; })));
  CHECK(begins(message_of([] { Event const event{Device{0}}; })));
  CHECK(begins(message_of([] { RankDevice const device{Device{0}}; })));
  CHECK(begins(message_of([] { PinnedBuffer const buffer{64}; })));
}

}  // namespace

int main(int argc, char** argv) {
  if (has_device()) {
    std::puts("skipped: this machine has a GPU");
    return 77;
  }
  return doctest::Context{argc, argv}.run();
}
