// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps of a language model of one Lstm<1024> between an embedding and a criterion of
/// 8,192 words, 25 rows, on a GPU.
///
///   bench_lstm_model_bf16 BATCH STEPS
///
/// Prints what token_steps.hpp says. Compiled once for each precision, which is in its name.

#include <tandem/cuda.cuh>

#include "token_steps.hpp"

namespace {

namespace td = tandem;

constexpr int words = 8192;
constexpr int rows = 25;
struct Net
    : td::Network<td::Tokens<rows, words>, td::Sequential<td::Embedding<words, 1024>,
                                                          td::Lstm<1024>, td::Vocabulary<words>>> {
};
using Backend = td::BasicCuda<td::TANDEM_BENCH_KERNELS, td::TANDEM_BENCH_PRECISION>;

}  // namespace

int main(int argc, char** argv) {
  return token_steps::main_of<td::Trainer<Net, td::SingleDevice<>, Backend>>(argc, argv, rows,
                                                                             words);
}
