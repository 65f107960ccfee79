// GoogLeNet on CIFAR-10: two replicas of the network, each of them cut over two devices.
//   hybrid_googlenet [CIFAR-10 or Fashion-MNIST folder] [samples, default all] [batch, default 128]
// The strategy is the only line that speaks of devices: with td::SingleDevice<> the same program
// trains on one, and the numbers are the same.

#include <tandem/tandem.hpp>

#include <cstdio>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct Net : td::models::GoogLeNet<10> {};
using Strategy = td::Hybrid<td::DataParallel<2>,                             // two replicas, each
                            td::ModelParallel<td::Split<5>, td::Split<9>>>;  // cut over two devices

void train(auto const& training, auto const& test, std::int64_t samples, int batch) {
  td::Trainer<Net, Strategy, td::Host> trainer{
      {.batch = batch, .optimizer = td::Sgd{.learning_rate = 0.1F}, .drop_last = true}};
  for (auto epoch : td::epochs(1))
    trainer.train(td::first(training, samples), epoch, td::Progress{});
  std::printf("accuracy %.4f\n", trainer.evaluate(td::first(test, samples)).accuracy);
  for (int rank = 0; rank < 4; ++rank)
    std::printf("rank %d: %.1f MB\n", rank,
                1e-6 * static_cast<double>(trainer.memory(rank).total()));
}

int main(int argc, char** argv) try {
  std::string const folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  std::int64_t const samples =
      argc > 2 ? number_in(argv[2], 1L, 60'000L, "the number of samples") : 60000;
  int const batch = argc > 3 ? number_in(argv[3], 2, 65'536, "the batch") : 128;
  if (folder.find("mnist") == std::string::npos) {
    td::Cifar10 const data{folder};
    train(data.train(), data.test(), samples, batch);
  } else {
    td::FashionMnist const data{folder};
    auto const pad = td::PadTo{td::image_shape(3, 32, 32)};
    train(td::augment(data.train(), pad), td::augment(data.test(), pad), samples, batch);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "hybrid_googlenet: %s\n", error.what());
  return 1;
}
