// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What bench_gpt is asked for, and its sizes.

#include <string>

namespace tandem::bench::gpt {

struct Settings {
  std::string size;
  std::string kernels;
  std::string precision;
  int batch;
  int threads;
  int profile;
};

void run_gpt(Settings const& settings);
void run_gpt_small(Settings const& settings);

}  // namespace tandem::bench::gpt
