// Two models on two devices in opposite directions: while one device has the first part of model x
// and the second of y, the other has the second of x and the first of y, so that both always work.
//   cross_model [Fashion-MNIST folder] [samples, default 6400] [file to export to]
// Prints images/s beside ModelParallel's, the accuracy of either model and of their mean, and that
// of the exported file on one device.

#include <tandem/tandem.hpp>

#include <cstdio>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};
using Cross = td::CrossModelParallel<td::AverageWeights<8>, td::Split<5>, td::Split<8>>;

td::TrainerOptions options() {
  return {.batch = 128,
          .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .threads_per_device = 1};
}

int main(int argc, char** argv) try {
  td::FashionMnist const data{argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist"};
  auto const training = td::first(
      data.train(), argc > 2 ? number_in(argv[2], 1L, 60'000L, "the number of samples") : 6400);
  auto const test = td::first(data.test(), 2000);
  std::string const path = argc > 3 ? argv[3] : "cross_model.safetensors";

  td::Trainer<Net, td::ModelParallel<td::Split<5>, td::Split<8>>, td::Host> one{options()};
  double const speed = one.train(training, td::Epoch{0}).samples_per_second();
  std::printf("ModelParallel       test accuracy %.4f %7.0f images/s\n",
              one.evaluate(test).accuracy, speed);

  td::Trainer<Net, Cross, td::Host> two{options()};
  double const both = two.train(training, td::Epoch{0}).samples_per_second();
  std::printf("CrossModelParallel  test accuracy %.4f %7.0f images/s\n",
              two.evaluate(test).accuracy, both);
  std::printf("x %.4f, y %.4f\n", two.evaluate(test, td::WhichModel::first).accuracy,
              two.evaluate(test, td::WhichModel::second).accuracy);

  two.export_model(path);
  td::Trainer<Net, td::SingleDevice<>, td::Host> user;
  user.load_weights(path);
  std::printf("exported            test accuracy %.4f\n", user.evaluate(test).accuracy);
} catch (std::exception const& error) {
  std::fprintf(stderr, "cross_model: %s\n", error.what());
  return 1;
}
