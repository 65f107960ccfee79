// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/layers/smooth_activation.hpp>

namespace row_layers_test {

using namespace tandem;

constexpr Shape rows = timed_shape(8, 12);

static_assert(Embedding<50, 12>::output(tokens_shape(8)) == rows);
static_assert(Embedding<50, 12>::fault(vector_shape(8)) == Fault::not_tokens);
static_assert(Embedding<50, 12>::fault(rows) == Fault::not_tokens);
static_assert(Positions<>::fault(vector_shape(8)) == Fault::not_timed);
static_assert(Positions<>::fault(tokens_shape(8)) == Fault::not_timed);
static_assert(RotaryPositions<2>::fault(rows) == Fault::none);
static_assert(RotaryPositions<3>::fault(rows) == Fault::heads);
static_assert(RotaryPositions<4>::fault(rows) == Fault::heads);  // heads of one number
static_assert(Linear<5>::output(rows) == timed_shape(8, 5));
static_assert(Linear<5>::output(vector_shape(3)) == vector_shape(5));
static_assert(Linear<5>::macs(rows) == 8 * 12 * 5);
static_assert(Linear<5>::fault(image_shape(1, 2, 3)) == Fault::not_a_vector);
static_assert(Linear<5>::fault(tokens_shape(8)) == Fault::not_a_vector);
static_assert(LayerNorm<>::fault(image_shape(1, 2, 3)) == Fault::not_a_vector);
static_assert(RmsNorm<>::fault(tokens_shape(8)) == Fault::not_a_vector);
static_assert(Softmax::fault(image_shape(1, 2, 3)) == Fault::not_a_vector);
static_assert(SwiGlu::output(rows) == timed_shape(8, 6));
static_assert(fault_of<SwiGlu>(vector_shape(7)) == Fault::rejected);
static_assert(LayerNorm<>::epsilon == 1e-5 && RmsNorm<Epsilon<1, 8>>::epsilon == 0.125);

TEST_CASE("layers of rows have the parameters and initial laws of PyTorch") {
  Parameters const linear = Linear<5>::parameters(rows);
  CHECK(linear.count == 2);
  CHECK((linear.item[0].shape == Shape{2, {5, 12}}));
  CHECK(linear.item[0].init.law == Init::Law::uniform_fan_in);
  CHECK(linear.item[1].init.fan_in == 12);
  CHECK(LayerNorm<>::parameters(rows).count == 2);
  CHECK(LayerNorm<NoBias>::parameters(rows).count == 1);
  CHECK(LayerNorm<>::parameters(rows).item[0].shape == vector_shape(12));
  CHECK(LayerNorm<>::parameters(rows).item[0].init.value == 1.0F);
  CHECK(LayerNorm<>::parameters(rows).item[1].init.value == 0.0F);
  CHECK(RmsNorm<>::parameters(rows).count == 1);
  Parameter const embedding = Embedding<50, 12>::parameters(tokens_shape(8)).item[0];
  CHECK((embedding.shape == Shape{2, {50, 12}}));
  CHECK(embedding.init.law == Init::Law::normal);
  CHECK(embedding.init.value == 1.0F);
  CHECK((Positions<>::parameters(rows).item[0].shape == Shape{2, {8, 12}}));
}

TEST_CASE("an initial law is the weight's, and leaves the bias at zero") {
  Parameters const linear = Linear<5, InitNormal<2, 100>>::parameters(rows);
  CHECK(linear.item[0].init.law == Init::Law::normal);
  CHECK(linear.item[0].init.value == 0.02F);
  CHECK(linear.item[1].init.law == Init::Law::constant);
  CHECK(linear.item[1].init.value == 0.0F);
  CHECK(Linear<5, NoBias, InitUniform<1, 10>>::parameters(rows).count == 1);
  CHECK(Linear<5, InitUniform<1, 10>, NoBias>::parameters(rows).item[0].init.value == 0.1F);
  CHECK(InitNormal<2, 100, 24>::init.value == static_cast<float>(0.02 / std::sqrt(24.0)));
  CHECK(Positions<InitNormal<0>>::parameters(rows).item[0].init.value == 0.0F);
  CHECK(Embedding<5, 2, InitUniform<3>>::parameters(tokens_shape(2)).item[0].init.value == 3.0F);
}

}  // namespace row_layers_test
