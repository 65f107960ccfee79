// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps of nanoGPT's model on Host, a round at a time, for run.py to compare.
///
///   bench_gpt [--size gpt|gpt_small] [--kernels onednn|portable] [--precision fp32|bf16]
///             [--batch 4] [--threads 1] [--profile STEPS]
///
/// Sizes: gpt is 6 layers, 6 heads, 384 channels, 256 tokens of 65 kinds; gpt_small 4 layers, 4
/// heads, 128 channels, 64 tokens. Biases, GELU by erf, AdamW with decay on what has two axes.
/// Prints a line of JSON about itself; then, for each line "round N" that it reads, trains N steps
/// and prints {"step_s": ..., "cpu_s": ...}. With --profile it prints instead where STEPS steps
/// spend their time: CPU time with one thread, else wall time.

#include <cstdio>
#include <exception>
#include <string>

#include <tandem/core/contract.hpp>
#include <tandem/runtime/host/host.hpp>

#include "flags.hpp"
#include "gpt/settings.hpp"

namespace td = tandem;

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{
        argc, argv, {"size", "kernels", "precision", "batch", "threads", "profile"}};
    std::string const size = flags.text("size", "gpt");
    td::bench::gpt::Settings const settings{
        .size = size,
        .kernels = flags.text("kernels", td::DefaultHostKernels::name),
        .precision = flags.text("precision", "fp32"),
        .batch = flags.number("batch", size == "gpt" ? 4 : 12),
        .threads = flags.number("threads", 1),
        .profile = flags.number("profile", 0)};
    td::expects(size == "gpt" || size == "gpt_small", "--size is gpt or gpt_small");
    size == "gpt" ? td::bench::gpt::run_gpt(settings) : td::bench::gpt::run_gpt_small(settings);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_gpt: %s\n", error.what());
    return 1;
  }
  return 0;
}
