// SPDX-License-Identifier: Apache-2.0

/// @file
/// Steps of a pipeline of four devices whose passes sleep, so that they take the same time on any
/// machine: ZeroBubbleH2 with a barrier between steps, and without one (PostValidated).
///
///   bench_sleeping_pipeline [MILLISECONDS [STEPS]]      of a pass; of an epoch
///
/// Prints milliseconds a step, and in passes, of an epoch in which nothing is clipped and of one in
/// which every third step is, so that a guess is wrong.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

namespace {

using namespace tandem;

constexpr int microbatches = 8;
std::chrono::milliseconds pass_time{20};

/// x times 1 + a, and a third of a stage's time.
struct Sleeper {
  static constexpr std::string_view name = "Sleeper";
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape) {
    return Parameters{Parameter{"a", vector_shape(1)}};
  }
  static void forward(auto const& c) {
    std::this_thread::sleep_for(pass_time);
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.y[i] = (1 + c.parameter(0)[0]) * c.x[i];
    }
  }
  static void input_gradient(auto const& c) {
    std::this_thread::sleep_for(pass_time);
    for (std::size_t i = 0; i < c.dy.size(); ++i) {
      c.dx[i] = (1 + c.parameter(0)[0]) * c.dy[i];
    }
  }
  static void weight_gradient(auto const& c) {
    std::this_thread::sleep_for(pass_time);
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.gradient(0)[0] += c.x[i] * c.dy[i];
    }
  }
};

struct Net : Network<Vector<4>, Sequential<Linear<4>, Sleeper, Sleeper, Sleeper, Sleeper>> {};

template <class Schedule>
using Four = Pipeline<Schedule, microbatches, Split<2>, Split<1>, Split<1>, Split<1>>;

/// Rows of which each third step's are large, if so asked.
TensorDataset<std::int32_t> rows(int steps, bool some_large) {
  std::vector<float> x;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < steps * microbatches; ++i) {
    float const size = some_large && i / microbatches % 3 == 2 ? 100.0F : 1.0F;
    for (int k = 0; k < 4; ++k) {
      x.push_back(size * static_cast<float>((i + k) % 5 - 2));
    }
    labels.push_back(i % 4);
  }
  return {vector_shape(4), std::move(x), std::move(labels)};
}

template <class Schedule>
void time_epoch(char const* name, int steps, bool some_large) {
  Trainer<Net, Four<Schedule>, Host> trainer{{.batch = microbatches,
                                              .optimizer = Sgd{.learning_rate = 1e-4F},
                                              .clip_norm = 10.0,
                                              .shuffle = false,
                                              .threads_per_device = 1}};
  auto const data = rows(steps, some_large);
  double const each = 1e3 * trainer.train(data, 0).seconds / steps;
  std::printf("%-30s %-16s %8.1f ms/step, %5.2f passes\n", name,
              some_large ? "a third clipped" : "none clipped", each,
              each / static_cast<double>(pass_time.count()));
}

}  // namespace

int main(int argc, char** argv) {
  pass_time = std::chrono::milliseconds{argc > 1 ? std::atoi(argv[1]) : 20};
  int const steps = argc > 2 ? std::atoi(argv[2]) : 12;
  for (bool const some_large : {false, true}) {
    time_epoch<ZeroBubbleH2>("ZeroBubbleH2", steps, some_large);
    time_epoch<PostValidated<ZeroBubbleH2>>("PostValidated<ZeroBubbleH2>", steps, some_large);
  }
}
