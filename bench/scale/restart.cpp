// SPDX-License-Identifier: Apache-2.0

/// @file
/// GoogLeNet for CIFAR by DataParallel<2> in two processes, with a checkpoint after every step, for
/// run.py to kill and to start again.
///
///   mpirun -n 2 bench_scale_restart FOLDER [BATCH]
///
/// Each process prints "loaded READ RECEIVED", in bytes, where it goes on from a checkpoint, and
/// process 0 "step N" after each step, until it is ended.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include <tandem/mpi.hpp>

namespace td = tandem;

namespace {

struct Net : td::models::GoogLeNet<10> {};

td::TrainerOptions trainer_options(char const* folder, int batch) {
  return {.batch = batch,
          .optimizer = td::Sgd{.learning_rate = 0.001F, .momentum = 0.9F},
          .threads_per_device = 1,
          .checkpoints = {.folder = folder, .every_steps = 1},
          .world = td::mpi_world()};
}

}  // namespace

int main(int argc, char** argv) {
  int const batch = argc > 2 ? std::atoi(argv[2]) : 32;
  return td::run<Net, td::DataParallel<2>, td::OverMpi<td::Host>>(
      trainer_options(argc > 1 ? argv[1] : "restart", batch), [&](auto& trainer) {
        auto const samples = static_cast<std::size_t>(16 * batch);
        td::TensorDataset<std::int32_t> const data{
            trainer.input,
            std::vector<float>(samples * static_cast<std::size_t>(trainer.input.elements()), 0.5F),
            std::vector<std::int32_t>(samples, 3)};
        if (td::LoadedBytes const loaded = trainer.loaded_bytes(); loaded.read > 0) {
          std::printf("loaded %lld %lld\n", static_cast<long long>(loaded.read),
                      static_cast<long long>(loaded.received));
          std::fflush(stdout);
        }
        for (auto epoch : td::epochs(1000)) {
          trainer.train(data, epoch, [&](td::StepReport const& report) {
            if (trainer.options().world.process == 0) {
              std::printf("step %lld\n", static_cast<long long>(report.step));
              std::fflush(stdout);
            }
          });
        }
      });
}
