// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <tandem/layers/activation.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/ops/check_layer.hpp>
#include <tandem/ops/host/all.hpp>

namespace row_layers_test {

using namespace tandem;

template <int T, int C>
struct Rows {
  static constexpr Shape shape = timed_shape(T, C);
};

/// On a whole sequence, on a short step of one, and on one row.
template <class L, class Input>
void holds() {
  for (int const time : {0, 3, 1}) {
    LayerCheck const check = check_layer<L, Input>({.time = time});
    CHECK_MESSAGE(check.ok(), L::name, ", time ", time, ": ", check.problem);
  }
}

TEST_CASE("layers of rows pass finite differences, also in short steps") {
  holds<LayerNorm<>, Rows<5, 7>>();
  holds<LayerNorm<NoBias, Epsilon<1, 10>>, Rows<5, 16>>();
  holds<LayerNorm<>, Vector<9>>();
  holds<RmsNorm<>, Rows<5, 7>>();
  holds<RmsNorm<Epsilon<1, 100>>, Vector<4>>();
  holds<Linear<6>, Rows<5, 7>>();
  holds<Linear<6, NoBias, InitNormal<2, 100>>, Rows<5, 7>>();
  holds<Softmax, Rows<4, 6>>();
  holds<Softmax, Vector<5>>();
  holds<SwiGlu, Rows<4, 6>>();
  holds<SwiGlu, Vector<10>>();
  holds<ReLU, Rows<5, 3>>();
  holds<Dropout<Percent<30>>, Rows<5, 7>>();
}

TEST_CASE("smooth activations pass finite differences on any shape") {
  holds<Gelu, Rows<4, 6>>();
  holds<GeluTanh, Rows<4, 6>>();
  holds<SiLU, Vector<6>>();
  holds<Sigmoid, Rows<4, 6>>();
  holds<Tanh, Image<2, 3, 3>>();
}

TEST_CASE("embeddings and positions pass finite differences, also in short steps") {
  holds<Embedding<6, 5>, Tokens<4, 6>>();
  holds<Embedding<50, 16, InitUniform<1, 10>>, Tokens<4, 50>>();
  holds<Positions<>, Rows<5, 7>>();
  holds<RotaryPositions<2>, Rows<5, 24>>();
  holds<RotaryPositions<4, KeyHeads<2>, Base<500>>, Rows<3, 16>>();
}

/// The outputs of a layer for @p time rows of each sample, `position` rows behind its first.
template <class L>
std::vector<double> outputs(Shape in, int batch, int time, std::vector<double> const& x,
                            int position = -1) {
  Node const node{.kind = NodeKind::layer, .edges = 1, .in = in, .out = L::output(in)};
  Op<L, BasicHost<Portable, Fp64>> op{OpSetup{node, 3, &node.in, batch, 1}};
  host::Device device{1};
  StepState const state{.seed = 5, .step = 2};
  std::vector<double> y(x.size());
  std::vector<double> table(static_cast<std::size_t>(in.elements()));
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<double>(i);
  }
  double* const parameter = table.data();
  double const* const input = x.data();
  op.forward(Operands<double>{.x = &input, .y = y.data(), .parameter = &parameter},
             Pass<host::Device>{.device = device,
                                .batch = batch,
                                .first_sample = 4,
                                .state = &state,
                                .time = time,
                                .sequence = {.position = position}});
  return y;
}

TEST_CASE("a dropout's mask of a row does not depend on how many rows a step has") {
  Shape const in = timed_shape(8, 5);
  std::vector<double> const ones(2 * 8 * 5, 1.0);
  auto const whole = outputs<Dropout<>>(in, 2, 8, ones);
  auto const few = outputs<Dropout<>>(in, 2, 3, std::vector<double>(2 * 3 * 5, 1.0));
  for (std::size_t sample = 0; sample < 2; ++sample) {
    for (std::size_t i = 0; i < 3 * 5; ++i) {
      CHECK(few[sample * 15 + i] == whole[sample * 40 + i]);
    }
  }
}

template <class L>
void pieces_are_the_whole() {
  Shape const in = timed_shape(8, 6);
  std::vector<double> x(48);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = 0.25 * static_cast<double>(i);
  }
  auto const whole = outputs<L>(in, 1, 8, x);
  auto y = outputs<L>(in, 1, 5, {x.begin(), x.begin() + 30}, 0);
  for (int t = 5; t < 8; ++t) {
    auto const piece = outputs<L>(in, 1, 1, {x.begin() + 6 * t, x.begin() + 6 * (t + 1)}, t);
    y.insert(y.end(), piece.begin(), piece.end());
  }
  CHECK(y == whole);
}

TEST_CASE("positions of a sequence that comes in pieces are those of the whole") {
  pieces_are_the_whole<Positions<>>();
  pieces_are_the_whole<RotaryPositions<1>>();
}

}  // namespace row_layers_test
