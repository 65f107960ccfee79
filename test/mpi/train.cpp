// SPDX-License-Identifier: Apache-2.0
// Trains a small network by a strategy of four ranks, or of as many as there are, and prints a hash
// of all that it has: losses, parameters, states, predictions. run.py starts it as one process, two
// and four.
//   train STRATEGY [save PATH | load PATH | throw PROCESS | exception PROCESS | slow | seeds |
//                   alone PATH]

#include <tandem/mpi.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

namespace td = tandem;

namespace {

/// Passes on what it gets, until it throws.
struct Fuse {
  static inline std::atomic<bool> blown = false;
  static constexpr std::string_view name = "Fuse";
  static constexpr td::Shape output(td::Shape in) { return in; }
  static void forward(auto const& call) {
    if (blown) {
      throw std::runtime_error{"the fuse has blown"};
    }
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) { std::ranges::copy(call.dy, call.dx.begin()); }
};

/// Batch norm has statistics, which checkpoints keep, too.
struct Net : td::Network<td::Image<3, 8, 8>,
                         td::Sequential<td::Conv2d<6, td::Kernel<3>, td::Padding<1>, td::NoBias>,
                                        td::BatchNorm2d<>, td::ReLU, td::MaxPool2d<td::Kernel<2>>,
                                        td::Conv2d<8, td::Kernel<3>>, td::ReLU, td::Flatten, Fuse,
                                        td::ReLU, td::Linear<5>>> {};

/// Its last two layers are for devices that share them.
struct Shared
    : td::Network<
          td::Image<3, 8, 8>,
          td::Sequential<td::Conv2d<6, td::Kernel<3>, td::Padding<1>, td::NoBias>,
                         td::BatchNorm2d<>, td::ReLU, td::MaxPool2d<td::Kernel<2>>, td::Flatten,
                         Fuse, td::Linear<12>, td::ReLU, td::Dropout<>, td::Linear<5>>> {};

/// Samples made of their index alone.
class Data {
 public:
  using Target = std::int32_t;

  std::int64_t size() const { return 40; }
  td::Shape shape() const { return td::image_shape(3, 8, 8); }
  int targets() const { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] =
          2.0F * td::uniform(td::philox(7, td::RandomUse::user, std::uint64_t(index), i).word[0]) -
          1.0F;
    }
    y[0] = static_cast<Target>(index % 5);
  }
};

std::uint64_t hash = 0;

template <class T>
void add(std::span<T const> values) {
  for (T const value : values) {
    hash = (hash ^ std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(
                       value)) *
           1099511628211U;
  }
}
void add(double value) { add(std::span<double const>{&value, 1}); }

template <class Strategy, bool Clips = true, class Network = Net, class Backend = td::Host>
int train(td::World const& world, std::string const& what, std::string const& argument) {
  int const which = argument.empty() ? -1 : std::atoi(argument.c_str());
  td::Trainer<Network, Strategy, td::OverMpi<Backend>> trainer{
      {.batch = 16,
       .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
       .clip_norm = Clips ? 2.0 : 0.0,
       .seed = what == "seeds" ? static_cast<std::uint64_t>(world.process) : 0,
       .threads_per_device = 1,
       .timeout = std::chrono::seconds{what.empty() || what == "save" || what == "load" ? 30 : 2},
       .world = world}};
  Data const data;
  if (what == "load") {
    trainer.load(argument);
    trainer.load(std::string{argument} + ".folder/step-000003");
    std::printf("loaded: read %lld, received %lld\n",
                static_cast<long long>(trainer.loaded_bytes().read),
                static_cast<long long>(trainer.loaded_bytes().received));
  }
  int const epochs = what == "slow" || what == "throw" || what == "exception" ? 1000
                     : what == "save"                                         ? 1
                                                                              : 3;
  td::Progress const progress = what == "save" ? td::Progress{} : td::Progress::none();
  for (auto epoch : td::epochs(epochs)) {
    td::EpochResult const result = trainer.train(data, epoch, progress, [&](td::StepReport const&) {
      if (what == "slow") {
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
      }
      if (what == "throw" && epoch.index == 2 && world.process == which) {
        Fuse::blown = true;
      }
      if (what == "exception" && epoch.index == 2 && world.process == which) {
        throw std::runtime_error{"the program itself has had enough"};
      }
    });
    add(result.loss);
    if (what == "slow" && epoch.index == 1 && world.process == 0) {
      std::puts("training");
      std::fflush(stdout);
    }
  }
  if (what == "save") {
    trainer.save_in(argument + ".folder");  // first: by itself it has what other processes have
    trainer.save(argument);
  }
  if (what == "alone" && world.process == 0) {
    trainer.save(argument);
  }
  std::uint64_t const losses = hash;
  hash = 0;
  td::Evaluation const evaluation = trainer.evaluate(data);
  add(evaluation.loss);
  add(evaluation.accuracy);
  auto const outputs = trainer.predict(data);
  add(std::span<float const>{outputs});
  for (auto const& parameter : trainer.parameters()) {
    add(std::span<float const>{parameter.value});
    for (std::span<float const> const state : parameter.states) {
      add(state);
    }
  }
  std::printf("process %d of %d: losses %016llx, state %016llx\n", world.process, world.processes,
              static_cast<unsigned long long>(losses), static_cast<unsigned long long>(hash));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const strategy = argc > 1 ? argv[1] : "";
  std::string const what = argc > 2 ? argv[2] : "";
  std::string const argument = argc > 3 ? argv[3] : "";
  if (strategy == "none") {  // a process that ends before it has a trainer, which the others await
    if (td::mpi_world({.start_timeout = std::chrono::seconds{5}}).process > 0) {
      std::this_thread::sleep_for(std::chrono::seconds{60});
    }
    return 1;
  }
  td::World const world = td::mpi_world({.start_timeout = std::chrono::seconds{20}});
  using Split = td::Split<5>;
  using Pipeline =
      td::Pipeline<td::OneFOneB, 4, td::Split<3>, td::Split<3>, td::Split<2>, td::Split<2>>;
  using Small = td::BucketBytes<256, 1024>;  // several buckets
  if (strategy == "data") {
    return train<td::DataParallel<4>>(world, what, argument);
  }
  if (strategy == "parts") {
    return train<td::DataParallel<4, Small, td::ShardedParameters>, true, Net,
                 td::BasicHost<td::Portable>>(world, what, argument);
  }
  if (strategy == "tensor") {
    return train<td::Hybrid<td::DataParallel<2, Small, td::ShardedState>,
                            td::TensorParallel<2, td::Microbatches<2>>>,
                 true, Shared>(world, what, argument);
  }
  if (strategy == "shared") {
    return train<td::Hybrid<td::Pipeline<td::OneFOneB, 4, Split, Split>, td::TensorParallel<2>>,
                 true, Shared>(world, what, argument);
  }
  if (strategy == "channels") {
    return train<td::Hybrid<td::DataParallel<2>, td::ChannelParallel<2>>>(world, what, argument);
  }
  if (strategy == "tiles") {
    return train<td::SpatialParallel<2, 2, td::Microbatches<2>>>(world, what, argument);
  }
  if (strategy == "reproducible") {
    return train<td::DataParallel<4, td::Microbatches<2>, td::Reproducible<>>>(world, what,
                                                                               argument);
  }
  if (strategy == "world") {  // has four leaves, on one rank, two and four
    return train<td::DataParallel<td::by_world, td::Reproducible<4>>>(world, what, argument);
  }
  if (strategy == "pipeline") {
    return train<Pipeline>(world, what, argument);
  }
  if (strategy == "hybrid") {
    return train<td::Hybrid<td::DataParallel<2>, td::Pipeline<td::OneFOneB, 4, Split, Split>>>(
        world, what, argument);
  }
  if (strategy == "models") {
    using Cross = td::CrossModelParallel<td::AverageWeights<2>, td::Split<3>, td::Split<3>,
                                         td::Split<2>, td::Split<2>>;
    return train<Cross, false>(world, what, argument);
  }
  std::fprintf(stderr, "train: there is no strategy '%s'\n", strategy.c_str());
  return 2;
} catch (std::exception const& error) {
  std::fprintf(stderr, "train: %s\n", error.what());
  return 1;
}
