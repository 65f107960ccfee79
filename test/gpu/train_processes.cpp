// SPDX-License-Identifier: Apache-2.0
// One of several processes that train together on one GPU, through NCCL; train_processes.sh starts
// them.
//
//   gpu_train_processes STRATEGY      a rank in each process that a launcher has started; without
//                                     one, all ranks on one GPU in one process
//   gpu_train_processes STRATEGY together|walked   in one process with a GPU each, whose steps are
//                                     recorded, which NCCL's documentation warns of, or walked
//   gpu_train_processes list          each strategy's name and its number of ranks
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
#include <vector>

#include <tandem/cuda.cuh>
#include <tandem/models/gpt.hpp>

#include <tiny_network.hpp>

namespace {

namespace td = tandem;
using tandem::test::TinyNet;

constexpr int batch = 13;
constexpr int rows = 6;
constexpr int words = 11;
constexpr int steps = 24;
constexpr int sizes[] = {batch, 12, batch, batch, 12, 9};  // recorded, replayed, and walked again

struct TinyGpt : td::models::Gpt<words, rows, 8, 2, 2, td::Percent<20> > {};

template <class Net, class S, template <int> class Transport>
using Gpus = td::Trainer<Net, S, td::BasicCuda<td::Portable, td::Fp32>, td::DefaultLoss<Net>,
                         td::DefaultMetric<td::DefaultLoss<Net> >, Transport>;

td::TrainerOptions options_in(td::World const& world, std::optional<bool> record) {
  return {.batch = batch,
          .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .clip_norm = 2.0,
          .seed = 7,
          .timeout = std::chrono::seconds{20},
          .world = world,
          .record = record};
}

void print(int step, td::StepResult const& result) {
  std::printf("step %d: %a %a\n", step, result.loss, result.gradient_norm);
}

template <class Trainer>
void train(Trainer&& trainer, TinyNet const&) {
  for (int step = 0; step < steps; ++step) {
    tandem::test::Samples<float> const data{TinyNet::input::shape, 5, sizes[step % 6],
                                            static_cast<std::uint64_t>(step)};
    print(step, trainer.step(data.x, data.y));
  }
}

template <class Trainer>
void train(Trainer&& trainer, TinyGpt const&) {
  for (int step = 0; step < steps; ++step) {
    std::vector<std::int32_t> x;
    std::vector<std::int32_t> y;
    for (int i = 0; i < sizes[step % 6] * rows; ++i) {
      x.push_back((i * 7 + step) % words);
      y.push_back((i * 5 + step * 2) % words);
    }
    print(step, trainer.step(x, y));
  }
}

/// @p Same  what one GPU does to have the same bits: the strategy's own ranks, or microbatches
template <class Net, class S, class Same = S>
void train_as(td::World const& world, char const* how) {
  if (how != nullptr) {
    if (td::cuda::device_count() < S::ranks) {
      std::printf("skipped: this wants %d GPUs\n", S::ranks);
      std::exit(77);
    }
    bool const record = std::strcmp(how, "together") == 0;
    train(Gpus<Net, S, td::NcclTransport>{options_in({}, record)}, Net{});
  } else if (world.processes > 1) {
    train(Gpus<Net, S, td::NcclTransport>{options_in(world, {})}, Net{});
  } else {
    train(Gpus<Net, Same, td::VirtualTransport>{options_in({}, {})}, Net{});
  }
}

using R = td::Reproducible<>;
template <int N>
using Replicas = td::DataParallel<N, R>;
template <int N>
using Microbatches = td::SingleDevice<td::Microbatches<N>, R>;
using OneFOneB = td::Pipeline<td::OneFOneB, 4, td::Split<4>, td::Split<5>, R>;
using Chimera =
    td::Pipeline<td::Chimera, 4, td::Split<4>, td::Split<5>, R, td::Checkpoint<td::Boundaries> >;
using ReplicasOfStages =
    td::Hybrid<td::DataParallel<2, R>,
               td::Pipeline<td::ZeroBubbleH1, 2, td::Split<4>, td::Split<5> > >;
using CrossModel = td::CrossModelParallel<td::AverageGradients, td::Split<4>, td::Split<5>, R>;
using Slices = td::TensorParallel<2>;
using StagesOfSlices =
    td::Hybrid<td::Pipeline<td::OneFOneB, 2, td::Split<3>, td::Split<3> >, td::TensorParallel<2> >;

struct Strategy {
  char const* name;
  int ranks;
  void (*train)(td::World const&, char const*);
};

constexpr Strategy strategies[] = {
    {"data_parallel_2", 2, train_as<TinyNet, Replicas<2>, Microbatches<2> >},
    {"data_parallel_4", 4, train_as<TinyNet, Replicas<4>, Microbatches<4> >},
    {"sharded_state", 2,
     train_as<TinyNet, td::DataParallel<2, td::ShardedState, R>, Microbatches<2> >},
    {"sharded_parameters", 2,
     train_as<TinyNet, td::DataParallel<2, td::BucketBytes<64, 256>, td::ShardedParameters, R>,
              Microbatches<2> >},
    {"one_f_one_b", 2, train_as<TinyNet, OneFOneB, Microbatches<4> >},
    {"chimera", 2, train_as<TinyNet, Chimera, Microbatches<4> >},
    {"replicas_of_stages", 4, train_as<TinyNet, ReplicasOfStages, Microbatches<4> >},
    {"cross_model", 2, train_as<TinyNet, CrossModel, Microbatches<2> >},
    {"tensor_parallel", 2, train_as<TinyGpt, Slices>},
    {"stages_of_slices", 4, train_as<TinyGpt, StagesOfSlices>},
};

Strategy const* strategy_of(char const* name) {
  for (Strategy const& one : strategies) {
    if (std::strcmp(name, one.name) == 0) {
      return &one;
    }
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  char const* const how = argc == 3 ? argv[2] : nullptr;
  if (argc == 2 && std::strcmp(argv[1], "list") == 0) {
    for (Strategy const& one : strategies) {
      std::printf("%s %d\n", one.name, one.ranks);
    }
    return 0;
  }
  Strategy const* const strategy = argc == 2 || argc == 3 ? strategy_of(argv[1]) : nullptr;
  if (strategy == nullptr ||
      (how != nullptr && std::strcmp(how, "together") != 0 && std::strcmp(how, "walked") != 0)) {
    std::fputs("usage: gpu_train_processes STRATEGY [together|walked] | list\n", stderr);
    return 2;
  }
  if (!td::cuda::has_device()) {
    std::printf("skipped: there is no GPU\n");
    return 77;
  }
  try {
    strategy->train(td::world_from_environment(), how);
  } catch (std::exception const& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  return 0;
}

#endif
