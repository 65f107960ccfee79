// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The GPU that the tests of this folder describe to cuDNN.

#include <fstream>
#include <iterator>
#include <string>

#include <tandem/kernels/cudnn/target.hpp>

namespace tandem::cuda {

inline BackendDescriptor const& described_gpu() {
  static BackendDescriptor const h100 = [] {
    std::ifstream file{TANDEM_TEST_DATA "/devices/h100.json"};
    return detail::describe_device({std::istreambuf_iterator<char>{file}, {}});
  }();
  return h100;
}

}  // namespace tandem::cuda
