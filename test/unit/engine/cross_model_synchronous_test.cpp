// SPDX-License-Identifier: Apache-2.0
// Which averages are synchronous training on the whole batch, and which are not.
//
// Where an average was just taken both models have the same weights w. Heavy-ball momentum is
// linear, v_x = b v_x + g_x and x' = w - lr v_x, so that the mean of v_x and v_y, and with it that
// of x' and y', is that of synchronous training whether the momenta are averaged or not. But if
// they are not, neither v_x nor v_y is, as soon shows where a model goes on alone, over a longer
// period.

#include "cross_model.hpp"

namespace tandem::test {
namespace cross_model_synchronous_test {

constexpr double equal = 1e-12;
constexpr double different = 1e-3;

template <class Rule>
Distance of(Optimizer const& optimizer) {
  return distance_to_whole_batch<CrossModelParallel<Rule, Split<5>, Split<7>>>(optimizer);
}

Sgd const plain{.learning_rate = 0.05F, .weight_decay = 1e-3F};
Sgd const heavy_ball{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F};
Adam const adam{.learning_rate = 0.01F};

TEST_CASE("the average of the gradients is the gradient of the whole batch") {
  for (Optimizer const& optimizer : {Optimizer{heavy_ball}, Optimizer{adam}}) {
    Distance const off = of<AverageGradients>(optimizer);
    CHECK(off.loss <= equal);
    CHECK(off.weights[0] <= equal);
    CHECK(off.weights[1] <= equal);
    CHECK(off.states <= equal);
  }
}

TEST_CASE("the average of the weights is that step under plain SGD") {
  Distance const off = of<AverageWeights<>>(plain);
  CHECK(off.loss <= equal);
  CHECK(off.weights[0] <= equal);
  CHECK(off.weights[1] <= equal);
}

TEST_CASE("under momentum the average of weights and momenta is") {
  Distance const off = of<AverageWeightsAndState<>>(heavy_ball);
  CHECK(off.loss <= equal);
  CHECK(off.weights[0] <= equal);
  CHECK(off.weights[1] <= equal);
  CHECK(off.states <= equal);
}

TEST_CASE(
    "under momentum the average of the weights alone is, too, but leaves momenta that are not") {
  Distance const off = of<AverageWeights<>>(heavy_ball);
  CHECK(off.weights[0] <= equal);
  CHECK(!(off.states <= different));
  CHECK(off.mean_states <= equal);
}

TEST_CASE("under momentum neither average is that is taken every second step") {
  CHECK(!(of<AverageWeights<2>>(heavy_ball).weights[0] <= different));
  CHECK(!(of<AverageWeightsAndState<2>>(heavy_ball).weights[0] <= different));
}

TEST_CASE("an average that is taken a step later is not") {
  CHECK(!(of<Overlapped<AverageWeights<>>>(plain).weights[0] <= different));
}

TEST_CASE("under Adam, which is not linear, no average of weights is") {
  CHECK(!(of<AverageWeights<>>(adam).weights[0] <= different));
  CHECK(!(of<AverageWeightsAndState<>>(adam).weights[0] <= different));
}

}  // namespace cross_model_synchronous_test
}  // namespace tandem::test
