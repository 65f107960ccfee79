// SPDX-License-Identifier: Apache-2.0
// Two models whose gradients are averaged are one, in two places; those whose weights are, or whose
// optimizer states are, too, have the bits of the rule, worked out one after the other: in replicas
// each has the mean gradient over its halves of all shards. And which averages are synchronous
// training on the whole batch.
//
// Where an average was just taken both models have the same weights w. Heavy-ball momentum is
// linear, v_x = b v_x + g_x and x' = w - lr v_x, so that the mean of v_x and v_y, and with it that
// of x' and y', is that of synchronous training whether the momenta are averaged or not. But if
// they are not, neither v_x nor v_y is, as soon shows where a model goes on alone, over a longer
// period.

#include <cmath>
#include <span>
#include <vector>

#include <pipeline_parity.hpp>

#include "ten_steps.hpp"

namespace tandem::test {
namespace cross_model_averages_test {

TEST_CASE("gradients: three devices have the bits of one") {
  check_tables<CrossPipeline<4, AverageGradients, Split<4>, Split<4>, Split<4>, Reproducible<>>,
               BasicHost<Portable>>(Alike::bits, {"cross_model"}, {2, 4, 8});
}

TEST_CASE("gradients: on four devices it is Chimera, with the same bits in both models") {
  Watchdog const watchdog{"cross model parallelism and Chimera"};
  Trainer<DeepNet, InFour<Chimera, 2>, Host> one{parity_options()};
  Trainer<DeepNet, CrossModelParallel<AverageGradients, Split<2>, Split<3>, Split<3>, Split<4>>,
          Host>
      many{parity_options()};
  check_alike(FirstSteps<float>{one, Alike::bits}, FirstSteps<float>{many, Alike::bits},
              Alike::bits);
  CHECK(first_difference(many.parameters(0, 1), one.parameters()) == "");
}

TEST_CASE("weights, every step, on two devices") {
  using S = CrossModelParallel<AverageWeights<>, Split<5>, Split<7>>;
  check_two_models<S>();
  check_two_models<S>(with_adam());
}

TEST_CASE("weights, every third step, on four devices that compute each stage again") {
  check_two_models<CrossPipeline<4, AverageWeights<3>, Split<2>, Split<3>, Split<3>, Split<4>,
                                 Checkpoint<Boundaries>>>();
}

TEST_CASE("weights, every second step, on three devices, one of which has a stage of both") {
  check_two_models<CrossPipeline<4, AverageWeights<2>, Split<4>, Split<4>, Split<4>>>();
}

TEST_CASE("weights, every second step, in two replicas of two devices") {
  check_two_models<
      Hybrid<DataParallel<2>, CrossModelParallel<AverageWeights<2>, Split<5>, Split<7>>>>();
}

TEST_CASE("weights and states, every fourth step, on two devices") {
  using S = CrossPipeline<6, AverageWeightsAndState<4>, Split<5>, Split<7>>;
  check_two_models<S>();
  check_two_models<S>(with_adam());
}

TEST_CASE("weights and states, every step, on three devices, in replicas, one without samples") {
  check_two_models<
      Hybrid<DataParallel<2, Weighted<0, 1>, BucketBytes<64, 256>>,
             CrossPipeline<4, AverageWeightsAndState<>, Split<4>, Split<4>, Split<4>>>>(
      with_adam());
}

TEST_CASE("weights and states, overlapped, in two replicas") {
  check_two_models<
      Hybrid<DataParallel<2, Weighted<2, 1>>,
             CrossModelParallel<Overlapped<AverageWeightsAndState<>>, Split<5>, Split<7>>>>();
}

/// How far ten steps of two models are from as many on the whole batch, relative to it.
struct Distance {
  double weights[2] = {};  ///< of either model, running statistics among them
  double states = 0.0;     ///< of the first model
  double mean_states = 0.0;
  double loss = 0.0;
};

/// Largest error of all optimizer states; of @p a, or of its mean with @p b.
double state_error(std::vector<NamedParameter<double>> const& a,
                   std::vector<NamedParameter<double>> const& b,
                   std::vector<NamedParameter<double>> const& wanted) {
  double worst = 0.0;
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    for (std::size_t s = 0; s < wanted[p].states.size(); ++s) {
      std::vector<double> mean;
      for (std::size_t i = 0; i < wanted[p].states[s].size(); ++i) {
        mean.push_back((a[p].states[s][i] + b[p].states[s][i]) / 2);
      }
      double const error = relative_error(std::span{mean}, wanted[p].states[s]);
      worst = error <= worst ? worst : error;
    }
  }
  return worst;
}

template <class Rule>
Distance of(Optimizer const& optimizer) {
  Watchdog const watchdog{"two models beside one"};
  TrainerOptions options = ten_steps_options();
  options.optimizer = optimizer;
  Trainer<DeepNet, SingleDevice<Microbatches<2>>, Double> one{options};
  Trainer<DeepNet, CrossModelParallel<Rule, Split<5>, Split<7>>, Double> two{options};
  Distance distance;
  for (int s = 0; s < 10; ++s) {
    Samples<double> const data = sized_batch<double>(s, {12, 8, 10});  // halves alike
    double const a = one.step(data.x, data.y).loss;
    double const b = two.step(data.x, data.y).loss;
    distance.loss = std::fmax(distance.loss, std::fabs(a - b) / a);
  }
  auto const x = two.parameters(0, 0);
  auto const y = two.parameters(0, 1);
  auto const wanted = one.parameters();
  distance.weights[0] = difference(x, wanted, Part::value).error;
  distance.weights[1] = difference(y, wanted, Part::value).error;
  distance.states = state_error(x, x, wanted);
  distance.mean_states = state_error(x, y, wanted);
  return distance;
}

constexpr double equal = 1e-12;
constexpr double different = 1e-3;

Sgd const plain{.learning_rate = 0.05F, .weight_decay = 1e-3F};
Sgd const heavy_ball{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F};
Adam const adam{.learning_rate = 0.01F};

void check_equal(Distance const& off) {
  CHECK(off.loss <= equal);
  CHECK(off.weights[0] <= equal);
  CHECK(off.weights[1] <= equal);
  CHECK(off.states <= equal);
}

TEST_CASE("the average of the gradients is the gradient of the whole batch") {
  check_equal(of<AverageGradients>(heavy_ball));
  check_equal(of<AverageGradients>(adam));
}

TEST_CASE("the average of the weights is that step under plain SGD") {
  check_equal(of<AverageWeights<>>(plain));
}

TEST_CASE("under momentum the average of weights and momenta is") {
  check_equal(of<AverageWeightsAndState<>>(heavy_ball));
}

TEST_CASE(
    "under momentum the average of the weights alone is, too, but leaves momenta that are not") {
  Distance const off = of<AverageWeights<>>(heavy_ball);
  CHECK(off.weights[0] <= equal);
  CHECK(!(off.states <= different));
  CHECK(off.mean_states <= equal);
}

TEST_CASE("no average is that is taken every second step, or a step later, or under Adam") {
  auto const differs = [](Distance const& off) { CHECK(!(off.weights[0] <= different)); };
  differs(of<AverageWeights<2>>(heavy_ball));
  differs(of<AverageWeightsAndState<2>>(heavy_ball));
  differs(of<Overlapped<AverageWeights<>>>(plain));
  differs(of<AverageWeights<>>(adam));  // which is not linear
  differs(of<AverageWeightsAndState<>>(adam));
}

}  // namespace cross_model_averages_test
}  // namespace tandem::test
