// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One training step of a large model, at a batch that a test can afford.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/tandem.hpp>

namespace tandem::test {

/// One step of plain Sgd in fp32 on the portable kernels: a finite loss; every gradient finite and
/// nowhere all zero; every weight and statistic moved as it should; memory as reported.
template <class Net>
void check_one_step(int batch) {
  using TestTrainer = Trainer<Net, SingleDevice<>, BasicHost<Portable, Fp32>>;
  constexpr float rate = 0.01F;
  TestTrainer trainer{{.batch = batch, .optimizer = Sgd{.learning_rate = rate, .momentum = 0.0F}}};

  std::vector<float> x(static_cast<std::size_t>(batch * TestTrainer::input.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = uniform(philox(1, RandomUse::user, i, 0).word[0]) - 0.5F;
  }
  std::vector<int> targets;
  for (int i = 0; i < batch; ++i) {
    targets.push_back(7 * i % static_cast<int>(TestTrainer::output.elements()));
  }
  std::vector<std::vector<float>> before;
  for (NamedParameter<float> const& p : trainer.parameters()) {
    before.emplace_back(p.value.begin(), p.value.end());
  }

  StepResult const result = trainer.step(x, targets);
  CHECK(result.samples == batch);
  CHECK(std::isfinite(result.loss));
  // A network that knows nothing yet: ln(classes), and batch norms on few samples add some noise.
  double const guess = std::log(static_cast<double>(TestTrainer::output.elements()));
  CHECK(std::abs(result.loss - guess) < 2.0);

  std::size_t index = 0;
  for (NamedParameter<float> const& p : trainer.parameters()) {
    CAPTURE(p.name);
    std::vector<float> const& old = before[index++];
    bool const weight = p.role == Role::weight;
    bool finite = true;
    bool moved = false;
    bool follows = true;  // the gradient, as far as a float can
    bool gradient = false;
    for (std::size_t i = 0; i < old.size(); ++i) {
      finite = finite && std::isfinite(p.value[i]);
      moved = moved || p.value[i] != old[i];
      if (weight) {
        finite = finite && std::isfinite(p.gradient[i]);
        gradient = gradient || p.gradient[i] != 0.0F;
        float const expected = old[i] - rate * p.gradient[i];
        follows = follows && std::abs(p.value[i] - expected) <=
                                 2.4e-7F * (std::abs(expected) + std::abs(old[i]));
      }
    }
    CHECK(finite);
    CHECK(follows);
    CHECK((gradient || !weight));
    // The gradient of a bias before a batch norm is rounding, too little to move it for sure.
    CHECK((moved || (weight && p.shape.rank == 1)));
  }

  MemoryReport const memory = trainer.memory();
  auto const& g = TestTrainer::graph;
  std::int64_t elements = 0;
  for (auto const& values : before) {
    elements += static_cast<std::int64_t>(values.size());
  }
  CHECK(memory.parameters >= 4 * elements);
  CHECK(memory.parameters <= 4 * elements + 64 * (g.parameters + 1));
  CHECK(memory.gradients >= 4 * g.parameter_elements());
  CHECK(memory.optimizer_state == 0);
  // Kept activations are fewer than all outputs, whose gradients share what remains.
  CHECK(memory.kept > 0);
  CHECK(memory.kept < batch * g.activation_bytes());
  CHECK(memory.kept + memory.transient < 2 * batch * g.activation_bytes());
}

}  // namespace tandem::test
