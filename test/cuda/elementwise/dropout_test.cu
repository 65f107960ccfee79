// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/dropout.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/host/dropout.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/ops/cuda/activation.cuh>

#include "../../support/device_kernels.hpp"

namespace tandem {
namespace {

using cuda::ComputeType;
using test::DeviceArray;

struct Case {
  int batch, channels, pixels;
};

// Vectors whose length is a multiple of 4 and not; maps of a multiple of 4 pixels and not.
constexpr Case cases[] = {{0, 8, 4}, {1, 1, 1},  {3, 16, 1}, {3, 10, 1}, {2, 5, 16},
                          {2, 8, 4}, {2, 8, 49}, {3, 3, 6},  {1, 1, 7},  {2, 130, 36}};

/// Host's dropout of the same numbers, in the order of the device.
template <class T>
std::vector<T> expected(std::vector<T> const& x, Case const& c, DropoutPlace const& place,
                        float rate) {
  auto const in = test::in_compute(test::channels_first(x, c.batch, c.channels, c.pixels));
  auto out = in;
  host::Team team{1};
  host::dropout_forward(team, c.batch, std::int64_t{c.channels} * c.pixels, place, rate, in.data(),
                        out.data());
  return test::channels_last(test::rounded_to<T>(out), c.batch, c.channels, c.pixels);
}

TEST_CASE_TEMPLATE("dropout has Host's mask, whatever the layout", T, float, double, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  DropoutPlace const place{.seed = 0x123456789ULL, .step = 77, .layer = 5, .first_sample = 1000};
  DeviceArray<StepState> const state{device,
                                     std::vector<StepState>{{.seed = place.seed, .step = 77}}};
  cuda::DropoutSource const source{&state.data()->seed, &state.data()->step, place.layer,
                                   place.first_sample};
  for (Case const& c : cases) {
    std::int64_t const n = std::int64_t{c.batch} * c.channels * c.pixels;
    auto const x = test::random<T>(n, 1);
    for (float const rate : {0.0F, 0.3F, 0.5F, 0.99F}) {
      auto const result = expected(x, c, place, rate);
      DeviceArray<T> const from{device, x};
      DeviceArray<T> const to{device, n, {.unaligned = true}};
      cuda::dropout_forward(device.compute, c.batch, c.channels, c.pixels, source, rate,
                            from.data(), to.data());
      CHECK(test::same_bits(to.host(), result));
      cuda::dropout_gradient(device.compute, c.batch, c.channels, c.pixels, source, rate,
                             from.data(), from.data());
      CHECK(test::same_bits(from.host(), result));
    }
  }
}

// Of 15 rows of three samples, by parts of which some begin within one.
TEST_CASE_TEMPLATE("rows of a batch, and columns of them, have the mask of all of it", T, float,
                   double, BFloat16) {
  cuda::RankDevice device{cuda::Device{0}};
  DropoutPlace const place{.seed = 0x123456789ULL, .step = 77, .layer = 5, .first_sample = 1000};
  DeviceArray<StepState> const state{device,
                                     std::vector<StepState>{{.seed = place.seed, .step = 77}}};
  cuda::DropoutSource const source{&state.data()->seed, &state.data()->step, place.layer,
                                   place.first_sample};
  constexpr int samples = 3;
  constexpr int time = 5;
  for (int const columns : {8, 6}) {
    auto const x = test::random<T>(samples * time * columns, 1);
    auto const whole = expected(x, {samples, time * columns, 1}, place, 0.3F);
    DeviceArray<T> const from{device, x};
    DeviceArray<T> const to{device, std::vector<T>(x)};
    for (std::int64_t const first : {0, 4, 8, 12}) {
      DropoutRows const rows{first, std::min<std::int64_t>(4, samples * time - first), time};
      cuda::drop_columns(device.compute, rows, DropoutColumns::of_rows(columns, 0), source, 0.3F,
                         from.data() + first * columns, to.data() + first * columns);
    }
    CHECK(test::same_bits(to.host(), whole));
    int const half = columns / 2;
    std::vector<T> right;
    std::vector<T> result;
    for (int i = 0; i < samples * time * columns; ++i) {
      if (i % columns >= half) {
        right.push_back(x[static_cast<std::size_t>(i)]);
        result.push_back(whole[static_cast<std::size_t>(i)]);
      }
    }
    DeviceArray<T> const part{device, right};
    cuda::drop_columns(device.compute, {0, samples * time, time},
                       {.own = half, .whole = columns, .runs = 1, .at = {half}, .count = {half}},
                       source, 0.3F, part.data(), part.data());
    CHECK(test::same_bits(part.host(), result));
  }
}

/// The op of a layer whose input is @p shape, on samples in device memory.
template <class L, class Precision>
struct Fixture {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  cuda::RankDevice device{cuda::Device{0}};
  Shape shape;
  int batch;
  OpSetup setup;
  std::vector<T> x;
  DeviceArray<T> in, out, gradient, in_gradient;
  T const* inputs[1];
  T* in_gradients[1];
  Operands<T, P> operands;

  Fixture(Shape in_shape, int samples)
      : shape{in_shape},
        batch{samples},
        setup{.node = {.in = in_shape, .out = in_shape}, .index = 9, .batch = samples},
        x{test::random<T>(samples * in_shape.elements(), 1)},
        in{device, x},
        out{device, in.size()},
        gradient{device, test::random<T>(in.size(), 2)},
        in_gradient{device, in.size()},
        inputs{in.data()},
        in_gradients{in_gradient.data()},
        operands{.x = inputs, .y = out.data(), .dy = gradient.data(), .dx = in_gradients} {}
};

TEST_CASE_TEMPLATE("Dropout reads seed and step when it runs, and does nothing in evaluation",
                   Precision, Fp32, Bf16, Fp64) {
  using T = typename Precision::Scalar;
  Fixture<Dropout<Percent<40>>, Precision> f{image_shape(6, 3, 5), 4};
  Op<Dropout<Percent<40>>, BasicCuda<Portable, Precision>> const op{f.setup, f.device};
  DeviceArray<StepState> const state{f.device, std::vector<StepState>{{.seed = 5, .step = 6}}};
  Pass<cuda::RankDevice> pass{
      .device = f.device, .batch = 4, .first_sample = 12, .state = state.data()};
  CHECK(!op.needs().input);
  CHECK(!op.needs().output);
  Case const c{4, 6, 15};
  DropoutPlace const place{.seed = 5, .step = 6, .layer = 9, .first_sample = 12};
  op.forward(f.operands, pass);
  op.input_gradient(f.operands, pass);
  CHECK(test::same_bits(f.out.host(), expected(f.x, c, place, 0.4F)));
  CHECK(test::same_bits(f.in_gradient.host(), expected(f.gradient.host(), c, place, 0.4F)));
  pass.training = false;
  op.forward(f.operands, pass);
  CHECK(test::same_bits(f.out.host(), std::vector<T>(f.x)));
}

TEST_CASE_TEMPLATE("ReLU takes its gradient from its output", Precision, Fp32, Bf16, Fp64) {
  Fixture<ReLU, Precision> f{image_shape(6, 3, 5), 4};
  Op<ReLU, BasicCuda<Portable, Precision>> const op{f.setup, f.device};
  Pass<cuda::RankDevice> const pass{.device = f.device, .batch = 3};
  CHECK(op.needs().output);
  CHECK(!op.needs().input);
  op.forward(f.operands, pass);
  op.input_gradient(f.operands, pass);
  auto const y = f.out.host();
  auto const dy = f.gradient.host();
  auto const dx = f.in_gradient.host();
  int wrong = 0;
  for (std::size_t i = 0; i < f.x.size(); ++i) {
    bool const in_batch = i < f.x.size() / 4 * 3;
    auto const x = cuda::load(f.x[i]);
    auto const value = cuda::load(y[i]);
    auto const gradient = cuda::load(dx[i]);
    wrong += in_batch ? value != (x > 0 ? x : 0) : value == value;  // not written: a NaN
    wrong += in_batch ? gradient != (x > 0 ? cuda::load(dy[i]) : 0) : gradient == gradient;
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace tandem
