// SPDX-License-Identifier: Apache-2.0
// PipeDream, with and without vertical sync, trains by its equation, bit for bit; so do two models
// of which an average is taken a step later, while the next gradient is computed. And the
// references that asynchronous pipelines are compared with: without a delay they are one device,
// bit for bit; with one they all differ.

#include <algorithm>
#include <vector>

#include "ten_steps.hpp"

namespace tandem::test {
namespace ten_steps_test {

TEST_CASE("PipeDream on four devices, and emptied after five steps") {
  check_ten_steps<PipeDreamEquation, InFour<PipeDream, 1>>();
  check_ten_steps<PipeDreamEquation, InFour<PipeDream, 1>>(ten_steps_options(), 5);
}

TEST_CASE("PipeDream with vertical sync on four devices, and emptied after two steps") {
  using S = InFour<PipeDreamVerticalSync, 1>;
  check_ten_steps<VerticalSyncEquation, S>();
  check_ten_steps<VerticalSyncEquation, S>(ten_steps_options(), 2);
}

TEST_CASE("two models: weights, overlapped, on two devices") {
  using S = CrossModelParallel<Overlapped<AverageWeights<>>, Split<5>, Split<7>>;
  check_two_models<S>();
  check_two_models<S>(with_adam());
}

TEST_CASE("two models: weights and states, overlapped, every second step, on four devices") {
  using S = CrossPipeline<4, Overlapped<AverageWeightsAndState<2>>, Split<2>, Split<3>, Split<3>,
                          Split<4>>;
  check_two_models<S>();
  check_two_models<S>(with_adam());
}

TEST_CASE(
    "two models: weights and states, overlapped, on three devices that compute each stage again") {
  using S = CrossModelParallel<Overlapped<AverageWeightsAndState<>>, Split<4>, Split<4>, Split<4>,
                               Checkpoint<Boundaries>>;
  check_two_models<S>();
}

TEST_CASE("stages without a delay are one device") {
  check_ten_steps<SynchronousEquation, SingleDevice<>>();
  check_ten_steps<SynchronousEquation, SingleDevice<Microbatches<4>>>();
}

TEST_CASE("one stage has no delay, whatever the equation") {
  using Whole = SingleDevice<>;
  check_ten_steps<PipeDreamEquation, Whole, Whole>();
  check_ten_steps<VerticalSyncEquation, Whole, Whole>();
  check_ten_steps<PredictionEquation, Whole, Whole>();
  check_ten_steps<ReplayEquation, Whole, Whole>();
  check_ten_steps<PipelinedModelEquation, Whole, Whole>();
}

template <class Equation>
double last_loss(int drained = 0) {
  TrainerOptions const options = ten_steps_options();
  AsynchronousReference<float, Equation> reference{
      stages_of<DeepNet, InFour<GPipe, 1>, Plain>(largest_batch, options.seed),
      graph<DeepNet>.parameters, options, 1};
  double loss = 0.0;
  for (int s = 0; s < 10; ++s) {
    Samples<float> const data = asynchronous_batch_of(s, 1);
    loss = reference.step(data.x, data.y);
    if (s + 1 == drained) {
      reference.drain();
    }
  }
  return loss;
}

TEST_CASE("on four stages each equation says something else") {
  std::vector<double> losses{
      last_loss<SynchronousEquation>(),    last_loss<PipeDreamEquation>(),
      last_loss<VerticalSyncEquation>(),   last_loss<DoubleBufferedEquation>(),
      last_loss<PredictionEquation>(),     last_loss<ReplayEquation>(),
      last_loss<PipelinedModelEquation>(), last_loss<PipeDreamEquation>(5),
      last_loss<PredictionEquation>(5)};
  std::sort(losses.begin(), losses.end());
  CHECK(std::adjacent_find(losses.begin(), losses.end()) == losses.end());
}

}  // namespace ten_steps_test
}  // namespace tandem::test
