// SPDX-License-Identifier: Apache-2.0
// Trains by the strategy that fits the processes, goes on from the newest checkpoint, and prints a
// hash of the parameters.
//   elastic FOLDER [PROCESS [SIGNAL]]   the process that gets a SIGTERM, or another signal, in the
//                                       middle of an epoch

#include <tandem/mpi.hpp>

#include <bit>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace td = tandem;

namespace {

struct Net : td::Network<td::Image<3, 8, 8>,
                         td::Sequential<td::Conv2d<6, td::Kernel<3>, td::NoBias>, td::BatchNorm2d<>,
                                        td::ReLU, td::Flatten, td::Dropout<>, td::Linear<5>>> {};
using Plan = td::Elastic<td::DataParallel<4, td::Reproducible<>>, td::DownTo<1>>;

class Data {
 public:
  using Target = std::int32_t;

  std::int64_t size() const { return 72; }
  td::Shape shape() const { return td::image_shape(3, 8, 8); }
  int targets() const { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] =
          td::uniform(td::philox(7, td::RandomUse::user, std::uint64_t(index), i).word[0]) - 0.5F;
    }
    y[0] = static_cast<Target>(index % 5);
  }
};

}  // namespace

int main(int argc, char** argv) {
  td::World const world = td::mpi_world();
  int const raises = argc > 2 ? std::atoi(argv[2]) : -1;
  int const signal = argc > 3 ? std::atoi(argv[3]) : SIGTERM;
  return td::run<Net, Plan, td::OverMpi<td::Host>>(
      {.batch = 16,
       .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
       .threads_per_device = 1,
       .checkpoints = {.folder = argc > 1 ? argv[1] : "checkpoints", .on_signals = true},
       .world = world},
      [&](auto& trainer) {
        for (auto epoch : td::epochs(3)) {
          trainer.train(Data{}, epoch, [&](td::StepReport const& report) {
            if (raises == world.process && report.step == 7) {
              std::raise(signal);
            }
          });
        }
        std::uint64_t hash = 0;
        for (auto const& parameter : trainer.parameters()) {
          for (float const value : parameter.value) {
            hash = 31 * hash + std::bit_cast<std::uint32_t>(value);
          }
        }
        std::printf("process %d of %d: state %016llx\n", world.process, world.processes,
                    static_cast<unsigned long long>(hash));
      });
}
