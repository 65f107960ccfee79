// Trains a small CNN on Fashion-MNIST on one device, then on two, and prints what each reached.
//   quickstart [folder with the four IDX files; default: Debian's dataset-fashion-mnist]
// Prints, for each strategy, test accuracy and training speed.

#include <tandem/tandem.hpp>

#include <cstdio>
#include <exception>

namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};

template <class Strategy>
void train(char const* name, td::FashionMnist const& data) {
  constexpr int epochs = 3;
  constexpr int batch = 128;
  td::Trainer<Net, Strategy, td::Host> trainer{
      {.batch = batch,
       .optimizer = td::Sgd{.learning_rate = 0.02F, .momentum = 0.9F, .weight_decay = 1e-4F},
       .schedule = td::Cosine{.steps = epochs * data.train().size() / batch}}};

  double seconds = 0.0;
  for (auto epoch : td::epochs(epochs)) {
    seconds += trainer.train(data.train(), epoch, td::Progress{}).seconds;
  }
  auto const images = static_cast<double>(epochs * data.train().size());
  std::printf("%-16s test accuracy %.4f  %6.0f images/s\n", name,
              trainer.evaluate(data.test()).accuracy, images / seconds);
}

int main(int argc, char** argv) try {
  td::FashionMnist const data{argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist"};
  train<td::SingleDevice<>>("SingleDevice", data);
  train<td::DataParallel<2>>("DataParallel<2>", data);
} catch (std::exception const& error) {
  std::fprintf(stderr, "quickstart: %s\n", error.what());
  return 1;
}
