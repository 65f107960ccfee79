// SPDX-License-Identifier: Apache-2.0

/// @file
/// What run.py compiles: GPT-2 in two stages and two replicas, trained and evaluated on a file of
/// tokens. BENCH_GPT2, one of its sizes, and BENCH_SPLIT, half of its parts, may be given; and
/// BENCH_TENSOR, so many devices that share each layer; BENCH_BACKEND is another than Host.

#include <cstdio>

#include <tandem/data/text/text_stream.hpp>
#include <tandem/data/text/token_file.hpp>
#include <tandem/tandem.hpp>

namespace td = tandem;

#ifndef BENCH_GPT2
#define BENCH_GPT2 Gpt2
#define BENCH_SPLIT 8
#endif

#ifndef BENCH_BACKEND
#define BENCH_BACKEND Host
#endif

struct Net : td::models::BENCH_GPT2<> {};
using Half = td::Split<BENCH_SPLIT>;
using Staged = td::Pipeline<td::OneFOneB, 8, Half, Half>;
#ifdef BENCH_TENSOR
using Strategy = td::Hybrid<td::DataParallel<2>, Staged, td::TensorParallel<BENCH_TENSOR>>;
#else
using Strategy = td::Hybrid<td::DataParallel<2>, Staged>;
#endif

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: bench_gpt2_hybrid FILE (of tokens)\n", stderr);
    return 2;
  }
  td::TokenFile const tokens{argv[1]};
  td::TextStream const text{tokens.tokens(), 1024};
  td::Trainer<Net, Strategy, td::BENCH_BACKEND> trainer{
      {.batch = 16, .optimizer = td::AdamW{.learning_rate = 6e-4F}, .clip_norm = 1.0}};
  for (auto const epoch : td::epochs(1)) {
    trainer.train(text, epoch, td::Progress{});
  }
  std::printf("loss %.4f\n", trainer.evaluate(text).loss);
  return 0;
}
