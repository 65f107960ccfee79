// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/philox.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/ops/host/all.hpp>
#include <tandem/ops/onednn/all.hpp>

#include "onednn_op.hpp"

namespace onednn_row_layers_test {

using namespace tandem;

/// What a layer makes of a microbatch, as doubles: y, dx, and the gradients of its parameters,
/// written and then added to once more.
struct Results {
  std::vector<double> y;
  std::vector<double> dx;
  std::vector<double> gradients;
};

template <class L, class Backend>
Results run(Shape in, int batch, int time, int threads, int limit) {
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  Node const node{.kind = NodeKind::layer, .edges = 1, .in = in, .out = L::output(in)};
  Op<L, Backend> op{OpSetup{node, 1, &node.in, batch, threads}};
  host::Device device{threads};
  test::OpMemory memory{op.needs()};
  memory.give(device);
  host::Buffer saved{static_cast<std::size_t>(op.needs().saved_bytes)};
  StepState const state{};
  Pass<host::Device> pass{.device = device, .batch = batch, .state = &state, .time = time};

  auto const x = test::as<T>(test::numbers<BFloat16>(pass.elements(in), 1));
  std::vector<std::int32_t> indices;
  for (std::int64_t i = 0; i < pass.elements(in); ++i) {
    indices.push_back(static_cast<std::int32_t>(i * i % std::max(limit, 1)));
  }
  T const* const input = limit > 0 ? reinterpret_cast<T const*>(indices.data()) : x.data();
  auto const dy = test::as<T>(test::numbers<BFloat16>(pass.elements(node.out), 2));
  std::vector<T> y(dy.size());
  std::vector<T> dx(x.size());
  T* const dx_memory = dx.data();
  std::vector<std::vector<P>> parameters;
  std::vector<std::vector<P>> gradients;
  std::vector<P*> parameter;
  std::vector<P*> gradient;
  Parameters const list = parameters_of<L>(in);
  for (int p = 0; p < list.count; ++p) {
    auto const elements = list.item[p].shape.elements();
    parameters.push_back(
        test::as<P>(test::numbers<BFloat16>(elements, 3 + static_cast<unsigned>(p))));
    gradients.emplace_back(static_cast<std::size_t>(elements), static_cast<P>(NAN));
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    parameter.push_back(parameters[p].data());
    gradient.push_back(gradients[p].data());
  }
  Operands<T, P> const o{.x = &input,
                         .y = y.data(),
                         .dy = dy.data(),
                         .dx = &dx_memory,
                         .parameter = parameter.data(),
                         .gradient = gradient.data(),
                         .saved = saved.data(),
                         .packed = memory.packed()};
  if constexpr (requires { op.pack(o, device); }) {
    op.pack(o, device);
  }
  op.forward(o, pass);
  op.input_gradient(o, pass);
  Results results{test::as_doubles(y), test::as_doubles(dx), {}};
  if constexpr (requires { op.weight_gradient(o, pass); }) {
    op.weight_gradient(o, pass);
    pass.accumulate = true;
    op.weight_gradient(o, pass);
    for (auto const& each : gradients) {
      auto const numbers = test::as_doubles(each);
      results.gradients.insert(results.gradients.end(), numbers.begin(), numbers.end());
    }
  }
  CHECK(memory.guards_hold());
  return results;
}

double error(std::vector<double> const& a, std::vector<double> const& b) {
  double worst = a.size() == b.size() ? 0.0 : NAN;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    double const each = std::fabs(a[i] - b[i]) / (1.0 + std::fabs(b[i]));
    worst = each <= worst ? worst : each;
  }
  return worst;
}

/// In fp32 and bf16 by oneDNN against the portable kernels in double; one thread against two.
template <class L>
void check(Shape in, int limit = 0) {
  for (int const time : {in[0], 2}) {
    auto const wanted = run<L, BasicHost<Portable, Fp64>>(in, 3, time, 1, limit);
    auto const equals = [&]<class Precision>(Precision, double bound) {
      using T = typename Precision::Scalar;
      if (!test::computes<T>()) {
        return;
      }
      auto const one = run<L, BasicHost<OneDnn, Precision>>(in, 3, time, 1, limit);
      CHECK_MESSAGE(error(one.y, wanted.y) < bound, L::name);
      if (limit == 0) {
        CHECK_MESSAGE(error(one.dx, wanted.dx) < bound, L::name);
      }
      CHECK_MESSAGE(error(one.gradients, wanted.gradients) < bound, L::name);
      auto const two = run<L, BasicHost<OneDnn, Precision>>(in, 3, time, 2, limit);
      CHECK_MESSAGE((one.y == two.y && one.dx == two.dx && one.gradients == two.gradients),
                    L::name);
    };
    equals(Fp32{}, 4e-6);
    equals(Bf16{}, 0x1p-7);
  }
}

TEST_CASE("layers of rows on channels-last memory are those in double") {
  Shape const rows = timed_shape(5, 24);
  check<Linear<40>>(rows);
  check<Linear<7, NoBias>>(rows);
  check<LayerNorm<>>(rows);
  check<LayerNorm<NoBias>>(rows);
  check<RmsNorm<>>(rows);
  check<Gelu>(rows);
  check<GeluTanh>(rows);
  check<SiLU>(rows);
  check<Sigmoid>(rows);
  check<Tanh>(rows);
  check<Softmax>(rows);
  check<SwiGlu>(rows);
  check<Positions<>>(rows);
  check<RotaryPositions<2>>(rows);
  check<Embedding<9, 20>>(tokens_shape(6), 9);
}

}  // namespace onednn_row_layers_test

#endif
