// SPDX-License-Identifier: Apache-2.0
// Delayed gradients, PipeDream-2BW, features replay, PMP, weight prediction, and what is computed
// again, with the weights of the forward pass, train by their equations, bit for bit; so do whole
// epochs, in which devices are several steps apart.

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "ten_steps.hpp"

namespace tandem::test {
namespace asynchronous_rules_test {

TEST_CASE("delayed gradients on four devices are those of PipeDream") {
  check_ten_steps<PipeDreamEquation, InFour<DelayedGradient, 1>>();
}

TEST_CASE("PipeDream on four devices that compute each stage again") {
  check_ten_steps<PipeDreamEquation, InFour<PipeDream, 1, Checkpoint<Boundaries>>>();
}

TEST_CASE("PipeDream with vertical sync on two devices that compute every layer again") {
  check_ten_steps<VerticalSyncEquation, InTwo<PipeDreamVerticalSync, 1, Checkpoint<Every<1>>>>();
}

TEST_CASE("PipeDream-2BW: five microbatches on two devices that compute each stage again") {
  check_ten_steps<DoubleBufferedEquation, InTwo<PipeDream2BW, 5, Checkpoint<Boundaries>>>();
}

TEST_CASE(
    "PipeDream-2BW: four microbatches on four devices, with momentum and with Adam, and emptied") {
  using S = InFour<PipeDream2BW, 4>;
  check_ten_steps<DoubleBufferedEquation, S>();
  TrainerOptions adam = ten_steps_options();
  adam.optimizer = Adam{.learning_rate = 0.01F, .weight_decay = 1e-3F};
  check_ten_steps<DoubleBufferedEquation, S>(adam, 4);
}

TEST_CASE("features replay on four devices, and emptied after five steps") {
  check_ten_steps<ReplayEquation, InFour<FeaturesReplay, 1>>();
  check_ten_steps<ReplayEquation, InFour<FeaturesReplay, 1>>(ten_steps_options(), 5);
}

TEST_CASE("PMP on four devices, and emptied before it was full") {
  check_ten_steps<PipelinedModelEquation, InFour<PipelinedModel, 1>>();
  check_ten_steps<PipelinedModelEquation, InFour<PipelinedModel, 1>>(ten_steps_options(), 3);
}

TEST_CASE("weight prediction on four devices, and emptied after five steps") {
  check_ten_steps<PredictionEquation, InFour<WeightPrediction, 1>>();
  check_ten_steps<PredictionEquation, InFour<WeightPrediction, 1>>(ten_steps_options(), 5);
}

/// Two epochs of five steps each, the last one of fewer samples; the ranks may be several steps
/// apart, and the pipeline is emptied behind either.
template <class Equation, class S>
void check_two_epochs() {
  Watchdog const watchdog{"two epochs of an asynchronous pipeline"};
  TrainerOptions options = ten_steps_options();
  options.shuffle = false;
  Trainer<DeepNet, S, Plain> trainer{options};
  int const microbatches = trainer.workers().batching().microbatches;
  AsynchronousReference<float, Equation> reference{
      stages_of<DeepNet, CutOf<S>, Plain>(largest_batch, options.seed), graph<DeepNet>.parameters,
      options, microbatches};
  Samples<float> const all{Image<3, 8, 8>::shape, 5, 4 * largest_batch + 7};
  auto const data = dataset(Image<3, 8, 8>::shape, all);
  auto const inputs = static_cast<std::ptrdiff_t>(all.x.size() / all.y.size());
  for (int epoch = 0; epoch < 2; ++epoch) {
    double sum = 0.0;
    for (std::ptrdiff_t s = 0, size = 0; s < std::ssize(all.y); s += size) {
      size = std::min(std::ssize(all.y) - s, std::ptrdiff_t{largest_batch});
      sum += reference.step({all.x.begin() + s * inputs, all.x.begin() + (s + size) * inputs},
                            {all.y.begin() + s, all.y.begin() + s + size}) *
             static_cast<double>(size);
    }
    reference.drain();
    CHECK(trainer.train(data, epoch).loss == sum / static_cast<double>(all.y.size()));
    CHECK(first_difference(trainer.parameters(), reference.parameters()) == "");
  }
}

TEST_CASE("two epochs of PipeDream") {
  check_two_epochs<PipeDreamEquation, InFour<PipeDream, 1>>();
}

TEST_CASE("two epochs of PMP: delays that are longer than an epoch") {
  check_two_epochs<PipelinedModelEquation, InFour<PipelinedModel, 1>>();
}

TEST_CASE("two epochs of PipeDream-2BW") {
  check_two_epochs<DoubleBufferedEquation, InFour<PipeDream2BW, 4>>();
}

}  // namespace asynchronous_rules_test
}  // namespace tandem::test
