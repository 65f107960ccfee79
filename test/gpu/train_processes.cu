// SPDX-License-Identifier: Apache-2.0
// One of several processes that train together on one GPU, through NCCL; train_processes.sh starts
// them.
//
//   gpu_train_processes RANKS      2 or 4 replicas in as many processes; in one without a launcher,
//                                  as microbatches of one rank
//   gpu_train_processes RANKS together|walked   in one process with a GPU each, whose steps are
//                                  recorded, which NCCL's documentation warns of, or walked
//
// Prints the bits of losses and gradient norms, which must be the same in all processes and without
// them.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#if !defined(TANDEM_NCCL)

int main() {
  std::printf("skipped: this was built without NCCL\n");
  return 77;
}

#else

#include <chrono>
#include <optional>

#include <tandem/cuda.cuh>

#include <tiny_network.hpp>

namespace {

namespace td = tandem;
using tandem::test::TinyNet;

constexpr int batch = 13;

template <class S>
void train(td::World const& world, std::optional<bool> record = {}) {
  using Backend = td::BasicCuda<td::Portable, td::Fp32>;
  using Trainer = td::Trainer<TinyNet, S, Backend>;
  Trainer trainer{{.batch = batch,
                   .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
                   .clip_norm = 2.0,
                   .seed = 7,
                   .timeout = std::chrono::seconds{20},
                   .world = world,
                   .record = record}};
  constexpr int sizes[] = {batch, 12, batch, batch, 12, 9};  // recorded, replayed, and walked again
  for (int step = 0; step < 24; ++step) {
    tandem::test::Samples<float> const data{Trainer::input, 5, sizes[step % 6],
                                            static_cast<std::uint64_t>(step)};
    td::StepResult const result = trainer.step(data.x, data.y);
    std::printf("step %d: %a %a\n", step, result.loss, result.gradient_norm);
  }
}

template <int Ranks>
void train_in(td::World const& world, char const* how) {
  using R = td::Reproducible<>;
  if (how != nullptr) {
    if (td::cuda::device_count() < Ranks) {
      std::printf("skipped: this wants %d GPUs\n", Ranks);
      std::exit(77);
    }
    train<td::DataParallel<Ranks, R> >({}, std::strcmp(how, "together") == 0);
  } else if (world.processes > 1) {
    train<td::DataParallel<Ranks, R> >(world);
  } else {
    train<td::SingleDevice<td::Microbatches<Ranks>, R> >(world);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!td::cuda::has_device()) {
    std::printf("skipped: there is no GPU\n");
    return 77;
  }
  try {
    td::World const world = td::world_from_environment();
    char const* const how = argc == 3 ? argv[2] : nullptr;
    bool const known =
        argc == 2 ||
        (argc == 3 && (std::strcmp(how, "together") == 0 || std::strcmp(how, "walked") == 0));
    if (known && std::strcmp(argv[1], "2") == 0) {
      train_in<2>(world, how);
    } else if (known && std::strcmp(argv[1], "4") == 0) {
      train_in<4>(world, how);
    } else {
      std::fputs("usage: gpu_train_processes 2|4 [together|walked]\n", stderr);
      return 2;
    }
  } catch (std::exception const& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  return 0;
}

#endif
