// SPDX-License-Identifier: Apache-2.0
// A small network trained on a GPU, on made-up images whose brightness is their label.
#include <cstdio>
#include <exception>
#include <vector>

#include <tandem/cuda.cuh>

namespace td = tandem;

struct Net : td::Network<td::Image<1, 12, 12>,
                         td::Sequential<td::Conv2d<8, td::Kernel<3>>, td::BatchNorm2d<>, td::ReLU,
                                        td::MaxPool2d<td::Kernel<2>>, td::Flatten, td::Linear<2>>> {
};

int main() try {
  constexpr int samples = 64;
  std::vector<float> x(samples * 144);
  std::vector<std::int32_t> y(samples);
  for (int i = 0; i < samples * 144; ++i) {
    y[i / 144] = i / 144 % 2;
    x[i] = static_cast<float>(y[i / 144]) + 0.1F * static_cast<float>(i % 7);
  }
  td::Trainer<Net, td::SingleDevice<>, td::Cuda> trainer{
      {.batch = samples, .optimizer = td::Sgd{.learning_rate = 0.1F}}};
  double loss = 0.0;
  for (int step = 0; step < 20; ++step) {
    loss = trainer.step(x, y).loss;
  }
  std::printf("%s\n", loss < 0.2 ? "trained" : "did not learn");
  return loss < 0.2 ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
