// GoogLeNet on CIFAR-10, batch 128, on one device, three, and three unequal ones: as published.
//   googlenet_cifar [CIFAR-10, or IDX folder to pad to 3x32x32] [steps, default 3] [batch, 128]
// Prints seconds per step, images/s and speedup; the first step, which warms up, is not counted.

#include <tandem/tandem.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct Net : td::models::GoogLeNet<10> {};

template <class Strategy>
double measure(char const* name, auto const& data, int steps, int batch, double alone) {
  td::Trainer<Net, Strategy, td::Host> trainer{
      {.batch = batch, .optimizer = td::Sgd{.learning_rate = 0.1F, .momentum = 0.9F}}};
  td::Loader<std::remove_cvref_t<decltype(data)>> loader{data, {.batch = batch}};
  std::vector<double> seconds;
  for (td::Batch<float, std::int32_t> b;
       static_cast<int>(seconds.size()) <= steps && loader.next(b);) {
    auto const samples = static_cast<std::size_t>(b.size);
    auto const start = std::chrono::steady_clock::now();
    trainer.step({b.x, samples * 3 * 32 * 32}, {b.y, samples});
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds.begin() + 1, seconds.end());
  double const median = seconds[1 + (seconds.size() - 1) / 2];
  std::printf("%-34s %7.3f s/step %8.1f images/s  speedup %.2f\n", name, median, batch / median,
              alone > 0 ? alone / median : 1.0);
  return median;
}

void measure_all(auto const& data, int steps, int batch) {
  double const alone = measure<td::SingleDevice<>>("SingleDevice", data, steps, batch, 0);
  measure<td::DataParallel<3>>("DataParallel<3>", data, steps, batch, alone);
  using Unequal = td::DataParallel<3, td::Weighted<4, 4, 3>>;
  measure<Unequal>("DataParallel<3, Weighted<4, 4, 3>>", data, steps, batch, alone);
}

int main(int argc, char** argv) try {
  std::string const folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  int const steps = argc > 2 ? number_in(argv[2], 1, 1'000'000, "the number of steps") : 3;
  int const batch = argc > 3 ? number_in(argv[3], 3, 65'536, "the batch") : 128;
  if (folder.find("mnist") == std::string::npos) {
    td::Cifar10 const data{folder};
    measure_all(data.train(), steps, batch);
  } else {
    td::FashionMnist const data{folder};
    measure_all(td::augment(data.train(), td::PadTo{td::image_shape(3, 32, 32)}), steps, batch);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "googlenet_cifar: %s\n", error.what());
  return 1;
}
