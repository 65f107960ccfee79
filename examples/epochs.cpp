// Measures E(B), the epochs to a target accuracy, at global batches of 64, 128, ... images. One
// device trains as many would: it adds up the gradients of microbatches of 64 before each update.
//   epochs [Fashion-MNIST folder] [largest batch, default 1024] [images, default 10000]
//          [runs a batch, default 1] [accuracy, default 0.85] [JSON file]
// Prints each run as it ends, a table, the critical-batch law and the flag for `plan`. The JSON is
// for bench/train/epochs_plot.py.

#include <tandem/measure/epochs/measure_epochs.hpp>
#include <tandem/measure/epochs/report.hpp>
#include <tandem/tandem.hpp>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};

int main(int argc, char** argv) try {
  td::FashionMnist const data{argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist"};
  int const largest = argc > 2 ? number_in(argv[2], 64, 65'536, "the largest batch") : 1024;
  auto const training = td::first(
      data.train(), argc > 3 ? number_in(argv[3], 1L, 60'000L, "the number of images") : 10000);
  auto const test = td::first(data.test(), 5000);

  td::EpochTask task{
      .microbatch = 64,
      .target = argc > 5 ? number_in(argv[5], 0.0, 1.0, "the accuracy") : 0.85,
      .most_epochs = 60,
      .seeds = argc > 4 ? number_in(argv[4], 1, 1000, "the number of runs") : 1,
      .optimizer = td::Sgd{.learning_rate = 0.02F, .momentum = 0.9F, .weight_decay = 1e-4F},
      .optimizer_batch = 128,
      .scaling = td::BatchScaling::square_root};
  for (int batch = task.microbatch; batch <= largest; batch *= 2) {
    task.batches.push_back(batch);
  }

  td::EpochMeasurement const measured =
      td::measure_epochs<Net, td::Host>(task, training, test, [](td::EpochRun const& run) {
        std::fprintf(stderr, "batch %d, seed %d: %.2f epochs, best accuracy %.4f\n", run.batch,
                     run.seed, run.epochs, run.best);
      });
  std::printf("%s", td::epochs_text(measured).c_str());
  if (argc > 6 && !(std::ofstream{argv[6]} << td::epochs_json(measured) << std::flush)) {
    throw std::runtime_error{std::string{"cannot write '"} + argv[6] + "'; give another path"};
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "epochs: %s\n", error.what());
  return 1;
}
