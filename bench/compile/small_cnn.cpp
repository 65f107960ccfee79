// SPDX-License-Identifier: Apache-2.0

/// @file
/// What run.py compiles where there is no examples/quickstart.cpp: SmallCnn, trained and evaluated.

#include <cstdio>

#include <tandem/tandem.hpp>

namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: bench_small_cnn FOLDER (of the Fashion-MNIST files)\n", stderr);
    return 2;
  }
  td::FashionMnist const data{argv[1]};
  td::Trainer<Net, td::SingleDevice<>, td::Host> trainer{{.batch = 128}};
  for (auto const epoch : td::epochs(1)) {
    trainer.train(data.train(), epoch, td::Progress{});
  }
  std::printf("accuracy %.4f\n", trainer.evaluate(data.test()).accuracy);
  return 0;
}
