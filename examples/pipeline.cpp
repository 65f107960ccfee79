// One network cut over two devices, by four schedules: the same numbers, other times and memories.
//   pipeline [Fashion-MNIST folder] [samples, default 6400] [batch, default 128]
// Prints each schedule's test accuracy, images/s, and the activations that each device keeps.

#include <tandem/tandem.hpp>

#include <cstdio>
#include <string>

#include "number.hpp"

namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};

template <class Strategy>
void train(char const* name, td::FashionMnist const& data, std::int64_t samples, int batch) {
  td::Trainer<Net, Strategy, td::Host> trainer{
      {.batch = batch, .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F}}};
  auto const training = td::first(data.train(), samples);
  auto const test = td::first(data.test(), 2000);
  double const speed = trainer.train(training, td::Epoch{0}).samples_per_second();
  double const accuracy = trainer.evaluate(test).accuracy;
  std::printf("%-28s test accuracy %.4f %7.0f images/s, kept", name, accuracy, speed);
  for (int rank = 0; rank < trainer.workers().size(); ++rank)
    std::printf(" %.1f", 1e-6 * static_cast<double>(trainer.memory(rank).kept));
  std::printf(" MB\n");
}

template <class Schedule, class... Options>
using Two = td::Pipeline<Schedule, 8, td::Split<5>, td::Split<8>, Options...>;

int main(int argc, char** argv) try {
  td::FashionMnist const data{argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist"};
  std::int64_t const samples =
      argc > 2 ? number_in(argv[2], 1L, 60'000L, "the number of samples") : 6400;
  int const batch = argc > 3 ? number_in(argv[3], 8, 65'536, "the batch") : 128;
  train<td::SingleDevice<td::Microbatches<8>>>("one device", data, samples, batch);
  train<td::ModelParallel<td::Split<5>, td::Split<8>, td::Microbatches<8>>>("ModelParallel", data,
                                                                            samples, batch);
  train<Two<td::GPipe>>("GPipe", data, samples, batch);
  train<Two<td::OneFOneB>>("OneFOneB", data, samples, batch);
  train<Two<td::OneFOneB, td::Checkpoint<td::Boundaries>>>("OneFOneB, checkpointed", data, samples,
                                                           batch);
  train<Two<td::ZeroBubbleH1>>("ZeroBubbleH1", data, samples, batch);
} catch (std::exception const& error) {
  std::fprintf(stderr, "pipeline: %s\n", error.what());
  return 1;
}
