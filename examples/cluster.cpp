// Trains a small CNN on Fashion-MNIST on as many devices as MPI has started processes.
//   cluster [folder with the four IDX files; default: Debian's dataset-fashion-mnist]
//   mpirun -n 4 ./cluster    # one rank a process; with -n 2, and without mpirun, the same numbers
// Prints test accuracy, and a hash of the parameters: the same however it is started.

#include <tandem/mpi.hpp>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>

namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};
using Strategy = td::DataParallel<td::by_world, td::Reproducible<4>>;  // four leaves on 1, 2 or 4

int main(int argc, char** argv) try {
  td::FashionMnist const data{argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist"};
  td::World const world = td::mpi_world();
  td::Trainer<Net, Strategy, td::OverMpi<td::Host>> trainer{
      {.batch = 128,
       .optimizer = td::Sgd{.learning_rate = 0.02F, .momentum = 0.9F},
       .world = world}};

  for (auto epoch : td::epochs(1)) {
    trainer.train(data.train(), epoch, td::Progress{});
  }
  double const accuracy = trainer.evaluate(data.test()).accuracy;
  std::uint64_t hash = 0;
  for (auto const& parameter : trainer.parameters()) {
    for (float const value : parameter.value) {
      hash = 31 * hash + std::bit_cast<std::uint32_t>(value);
    }
  }
  if (world.process == 0) {
    std::printf("test accuracy %.4f, parameters %016llx\n", accuracy,
                static_cast<unsigned long long>(hash));
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "cluster: %s\n", error.what());
  return 1;
}
