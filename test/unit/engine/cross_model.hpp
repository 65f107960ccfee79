// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks of two models that are trained at once: against a reference in one thread, bit for bit,
/// and against synchronous training on the whole batch, in double.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include <averaging_reference.hpp>
#include <deep_network.hpp>
#include <parity.hpp>
#include <stage_model.hpp>

namespace tandem::test {

using Plain = BasicHost<Portable>;

/// Momentum, weight decay, groups, and another learning rate in every step.
inline TrainerOptions cross_model_options() {
  TrainerOptions options = parity_options();
  options.clip_norm = 0.0;
  options.groups = {{"*.bias", 0.5F, 0.0F}, {"10.bias", 1.0F, std::nullopt, true}};
  options.schedule = Schedule{Cosine{.steps = 12, .final = 0.1}, 3};
  return options;
}

inline TrainerOptions with_adam() {
  TrainerOptions options = cross_model_options();
  options.optimizer = Adam{.learning_rate = 0.01F, .weight_decay = 1e-3F};
  return options;
}

/// The batch of step @p step, with halves of different sizes in most steps.
template <class T>
Samples<T> cross_model_batch(int step, std::initializer_list<int> sizes) {
  auto const s = static_cast<std::size_t>(step) % sizes.size();
  return {Image<3, 8, 8>::shape, 5, sizes.begin()[s], static_cast<std::uint64_t>(step)};
}

/// Ten steps with the bits of the reference: losses, and both models in every replica after each.
template <class S>
void check_ten_steps(TrainerOptions const& options = cross_model_options()) {
  Watchdog const watchdog{"ten steps of two models"};
  using Checked = Trainer<DeepNet, S, Plain>;
  using Whole = typename Checked::ProgramType;
  Checked trainer{options};
  AveragingReference<float> reference{
      stages_of<DeepNet, SingleDevice<>, Plain>(largest_batch, options.seed),
      graph<DeepNet>.parameters, options, Whole::batching, Whole::averaging};
  for (int s = 0; s < 10; ++s) {
    INFO("step " << s);
    Samples<float> const data = cross_model_batch<float>(s, {largest_batch, 12, 8, 11, 9});
    double const loss = reference.step(data.x, data.y);
    CHECK(trainer.step(data.x, data.y).loss == loss);
    CHECK(std::isfinite(loss));
    for (int r = 0; r < Whole::batching.replicas; ++r) {
      for (int const copy : {0, 1}) {
        INFO("replica " << r << ", model " << copy);
        CHECK(first_difference(trainer.parameters(r, copy), reference.parameters(copy)) == "");
      }
    }
  }
}

/// How far ten steps of two models are from as many on the whole batch, relative to it.
struct Distance {
  double weights[2] = {};  ///< of either model, running statistics among them
  double states = 0.0;     ///< of the first model
  double mean_states = 0.0;
  double loss = 0.0;
};

/// Largest error of all optimizer states; of @p a, or of its mean with @p b.
template <class T>
double state_error(std::vector<NamedParameter<T>> const& a, std::vector<NamedParameter<T>> const& b,
                   std::vector<NamedParameter<T>> const& wanted) {
  double worst = 0.0;
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    for (std::size_t s = 0; s < wanted[p].states.size(); ++s) {
      std::vector<T> mean;
      for (std::size_t i = 0; i < wanted[p].states[s].size(); ++i) {
        mean.push_back((a[p].states[s][i] + b[p].states[s][i]) / 2);
      }
      double const error = relative_error(std::span<T>{mean}, wanted[p].states[s]);
      worst = error <= worst ? worst : error;
    }
  }
  return worst;
}

template <class S>
Distance distance_to_whole_batch(Optimizer const& optimizer) {
  Watchdog const watchdog{"two models beside one"};
  TrainerOptions options = cross_model_options();
  options.optimizer = optimizer;
  Trainer<DeepNet, SingleDevice<Microbatches<2>>, Double> one{options};
  Trainer<DeepNet, S, Double> two{options};
  Distance distance;
  for (int s = 0; s < 10; ++s) {
    Samples<double> const data = cross_model_batch<double>(s, {12, 8, 10});  // halves alike
    double const a = one.step(data.x, data.y).loss;
    double const b = two.step(data.x, data.y).loss;
    distance.loss = std::fmax(distance.loss, std::fabs(a - b) / a);
  }
  auto const x = two.parameters(0, 0);
  auto const y = two.parameters(0, 1);
  distance.weights[0] = difference(x, one.parameters(), Part::value).error;
  distance.weights[1] = difference(y, one.parameters(), Part::value).error;
  distance.states = state_error(x, x, one.parameters());
  distance.mean_states = state_error(x, y, one.parameters());
  return distance;
}

}  // namespace tandem::test
