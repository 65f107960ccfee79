// The branches of an Inception block on two devices, computed at the same time.
//   placed_inception [steps, default 5] [batch, default 16]
// Prints seconds per step on one device and on two, and whether the numbers are the same.

#include <tandem/tandem.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct Net
    : td::Network<td::Image<3, 32, 32>,
                  td::Sequential<td::models::ConvNormReLU<192, td::Kernel<3>, td::Padding<1>>,
                                 td::models::Inception<64, 96, 128, 16, 32, 32>, td::GlobalAvgPool,
                                 td::Linear<10>>> {};

// Of block 1's four branches the second and the stem are on device 0, the others on device 1.
inline constexpr auto branches = td::place<Net>({{"1.0", 1}, {"1.2", 1}, {"1.3", 1}});

using Same = td::Reproducible<>;  // the same bits on any number of devices

template <class Strategy>
double train(char const* name, int steps, int batch) {
  td::Trainer<Net, Strategy, td::Host> trainer{{.batch = batch, .threads_per_device = 1}};
  std::vector<float> x(static_cast<std::size_t>(batch * trainer.input.elements()));
  std::vector<std::int32_t> y(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 0.01F * static_cast<float>(i * 7 % 201) - 1.0F;
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<std::int32_t>(i * 3 % 10);
  double loss = trainer.step(x, y).loss;
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    auto const start = std::chrono::steady_clock::now();
    loss = trainer.step(x, y).loss;
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  std::printf("%-26s %.4f s/step, loss %.6f\n", name, seconds[seconds.size() / 2], loss);
  return loss;
}

int main(int argc, char** argv) try {
  int const steps = argc > 1 ? number_in(argv[1], 1, 1'000'000, "the number of steps") : 5;
  int const batch = argc > 2 ? number_in(argv[2], 2, 65'536, "the batch") : 16;
  double const one = train<td::SingleDevice<Same>>("one device", steps, batch);
  double const two =
      train<td::ModelParallel<td::Placed<branches>, Same>>("branches on two devices", steps, batch);
  std::printf("the losses are %s\n", one == two ? "the same, bit for bit" : "different");
  return one == two ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "placed_inception: %s\n", error.what());
  return 1;
}
