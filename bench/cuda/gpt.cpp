// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps of nanoGPT's character model (6 layers, 384 channels, 6 heads, 256 rows) on a
/// GPU.
///
///   bench_gpt_bf16 BATCH STEPS
///
/// Prints what token_steps.hpp says. Compiled once for each precision, which is in its name.

#include <tandem/cuda.cuh>
#include <tandem/models/gpt.hpp>

#include "token_steps.hpp"

namespace {

namespace td = tandem;

constexpr int words = 65;
constexpr int rows = 256;
struct Net : td::models::Gpt<words, rows, 384, 6, 6, td::NoBias, td::Gelu, td::Percent<20>> {};
using Backend = td::BasicCuda<td::TANDEM_BENCH_KERNELS, td::TANDEM_BENCH_PRECISION>;

}  // namespace

int main(int argc, char** argv) {
  return token_steps::main_of<td::Trainer<Net, td::SingleDevice<>, Backend>>(argc, argv, rows,
                                                                             words);
}
