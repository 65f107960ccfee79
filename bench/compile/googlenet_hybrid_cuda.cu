// SPDX-License-Identifier: Apache-2.0

/// @file
/// What run.py compiles: GoogLeNet on CIFAR-10 in two stages and two replicas, a GPU each, trained
/// and evaluated.

#include <cstdio>

#include <tandem/cuda.cuh>

namespace td = tandem;

struct Net : td::models::GoogLeNet<10> {};
using Strategy =
    td::Hybrid<td::DataParallel<2>, td::Pipeline<td::OneFOneB, 8, td::Split<5>, td::Split<9>>>;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: googlenet_hybrid_cuda FOLDER (of the binary CIFAR-10 files)\n", stderr);
    return 2;
  }
  td::Cifar10 const data{argv[1]};
  td::Trainer<Net, Strategy, td::Cuda> trainer{
      {.batch = 128, .optimizer = td::Sgd{.learning_rate = 0.1F, .momentum = 0.9F}}};
  for (auto const epoch : td::epochs(1)) {
    trainer.train(data.train(), epoch, td::Progress{});
  }
  std::printf("accuracy %.4f\n", trainer.evaluate(data.test()).accuracy);
  return 0;
}
