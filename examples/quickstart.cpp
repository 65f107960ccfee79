// Trains a small CNN on Fashion-MNIST, with half of each batch on each of two devices.
//   quickstart [folder with the four IDX files; default: Debian's dataset-fashion-mnist]
// Prints the loss as it trains, then the accuracy on the test images.

#include <tandem/tandem.hpp>

#include <cstdio>
#include <exception>
namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};  // the network
using Strategy = td::DataParallel<2>;      // two replicas; td::SingleDevice<> is one device

int main(int argc, char** argv) try {
  td::FashionMnist const data{argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist"};
  td::Trainer<Net, Strategy, td::Host> trainer{
      {.batch = 128,
       .optimizer = td::Sgd{.learning_rate = 0.02F, .momentum = 0.9F, .weight_decay = 1e-4F},
       .schedule = td::Cosine{.steps = 3 * 469}}};  // an epoch of 60,000 images has 469 batches
  for (auto epoch : td::epochs(3)) {
    trainer.train(data.train(), epoch, td::Progress{});
  }
  std::printf("test accuracy %.4f\n", trainer.evaluate(data.test()).accuracy);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
