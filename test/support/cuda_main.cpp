// SPDX-License-Identifier: Apache-2.0

/// @file
/// The main function of tests that need a GPU: without one it says why, and exits with 77
/// (skipped).

#include <cstdio>

#include <cuda_runtime_api.h>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

int main(int argc, char** argv) {
  int devices = 0;
  cudaError_t const status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU: %s\n",
                status != cudaSuccess ? cudaGetErrorString(status) : "the driver sees none");
    return 77;
  }
  return doctest::Context{argc, argv}.run();
}
