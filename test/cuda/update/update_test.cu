// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/cuda/update.cuh>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/optim/adagrad.hpp>
#include <tandem/optim/lamb.hpp>
#include <tandem/optim/lion.hpp>
#include <tandem/optim/rmsprop.hpp>

#include "cuda/update/on_device.cuh"

namespace tandem {

namespace update_test {

/// A program's own: without states, of numbers only.
struct Plain {
  float learning_rate = 0.1F;
  static constexpr char const* name = "Plain";
  template <std::floating_point V>
  TANDEM_HOST_DEVICE V next(V p, V g, auto const& settings) const {
    return p - settings.learning_rate * g;
  }
};

}  // namespace update_test

namespace {

using update_test::Arrays;
using update_test::gpu;
using update_test::norm_of;
using update_test::numbers;
using update_test::OnDevice;
using update_test::Plain;
using update_test::Result;
using update_test::runs;
using update_test::size;
using update_test::step_on_host;

/// On a GPU products and sums are fused, and pow() may differ in its last bit.
#if defined(TANDEM_CUDA_EMULATED)
constexpr bool fuses = false;
#else
constexpr bool fuses = true;
#endif

template <class P>
bool close(std::vector<P> const& a, std::vector<P> const& b, double ulps) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const bound = ulps * static_cast<double>(std::numeric_limits<P>::epsilon()) *
                         (1 + std::abs(double{b[i]}));
    if (!(std::abs(double{a[i]} - double{b[i]}) <= bound)) {
      MESSAGE("element ", i, ": ", a[i], " against ", b[i]);
      return false;
    }
  }
  return a.size() == b.size();
}

Optimizer const optimizers[] = {
    Sgd{.learning_rate = 0.1F}, Sgd{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F},
    Sgd{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F, .nesterov = true},
    Adam{.learning_rate = 0.01F, .weight_decay = 0.01F}, AdamW{.learning_rate = 0.01F}};

/// Three steps of @p there on the device as those of @p here on the host, to @p ulps.
template <class P, class T>
void check_steps(Optimizer const& here, Optimizer const& there, double clip, double ulps,
                 int unaligned) {
  CAPTURE(optimizer_name(here));
  CAPTURE(clip);
  Arrays<P> expected{};
  OnDevice<P, T> device{there, expected, unaligned};
  auto const untouched = device.rounded.host();
  for (std::int64_t step = 0; step < 3; ++step) {
    auto gradient = numbers<P>(10 + static_cast<std::uint64_t>(step));
    StepState const state{
        .step = step, .learning_rate = 0.1 / static_cast<double>(step + 1), .clip_norm = clip};
    step_on_host(here, state, gradient, expected);
    Result const result = device.step(state, gradient);
    double const norm = clip > 0 ? norm_of(gradient) : 0;
    CHECK(std::abs(result.gradient_norm - norm) <= 1e-14 * norm);
    CHECK(result.non_finite == -1);
  }
  auto const parameters = device.parameters.host();
  CHECK(close(parameters, expected.parameters, ulps));
  for (int s = 0; s < states_of(here); ++s) {
    CHECK(close(device.state[s].host(), expected.state[s], ulps));
  }
  auto rounded = untouched;
  for (UpdateRun const& r : runs()) {
    for (auto i = r.begin; i < r.end && !r.frozen && !std::is_same_v<P, T>; ++i) {
      rounded[static_cast<std::size_t>(i)] =
          static_cast<T>(parameters[static_cast<std::size_t>(i)]);
    }
  }
  auto const got = device.rounded.host();
  CHECK(std::memcmp(got.data(), rounded.data(), sizeof(T) * got.size()) == 0);
}

TEST_CASE("the update: three steps of every optimizer as Host's functors") {
  auto const check = [](auto p, auto t, int unaligned) {
    for (Optimizer const& optimizer : optimizers) {
      for (double clip : {0.0, 20.0, 1e6}) {
        // The norm has some 40 roundings in double. Adam divides by the root of v, and at first
        // that is the gradient's own size.
        double const ulps = optimizer.index() == 0 && clip == 0 ? (fuses ? 8 : 0) : 64;
        check_steps<decltype(p), decltype(t)>(optimizer, optimizer, clip, ulps, unaligned);
      }
    }
  };
  check(float{}, float{}, 0);
  check(double{}, double{}, 0);
  for (int unaligned : {0, 1, 2, 4, 8, 15}) {
    check(float{}, BFloat16{}, unaligned);
  }
}

TEST_CASE("the update: own optimizers, one kernel each, as Host's functors") {
  auto const check = [](auto precision, int unaligned) {
    using Precision = decltype(precision);
    using P = typename Precision::Master;
    using T = typename Precision::Scalar;
    auto const both = [&](auto const& optimizer, double ulps) {
      for (double clip : {0.0, 20.0}) {
        check_steps<P, T>(own_optimizer<update_test::HostOf<P>>(optimizer),
                          own_optimizer<BasicCuda<Portable, Precision>>(optimizer), clip, ulps,
                          unaligned);
      }
    };
    both(Plain{}, 8);
    both(RMSprop{.epsilon = 1e-2F, .momentum = 0.9F, .centered = true}, 256);
    both(RMSprop{.epsilon = 1e-2F, .weight_decay = 0.1F, .centered = true}, 256);
    both(Adagrad{.lr_decay = 0.1F, .epsilon = 1e-2F}, 64);
    both(Lamb{.epsilon = 1e-2F}, 256);
    if (!fuses) {
      both(Lion{.weight_decay = 0.1F}, 64);  // a sign may hang on a rounding
    }
  };
  check(Fp32{}, 0);
  check(Fp64{}, 15);
  for (int unaligned : {0, 7}) {
    check(Bf16{}, unaligned);
  }
}

TEST_CASE("the update: an own optimizer's step that is not finite changes nothing") {
  Arrays<float> const before{};
  OnDevice<float, float> device{own_optimizer<BasicCuda<Portable, Fp32>>(Lamb{}), before};
  Result const bad = device.step({.learning_rate = 0.1}, numbers<float>(2), {NAN, 0}, 1);
  CHECK(bad.non_finite == 0);
  CHECK(device.parameters.host() == before.parameters);
  CHECK(device.state[0].host() == before.state[0]);
}

TEST_CASE("the update: square sums, one a parameter of the network, in its order") {
  Arrays<float> const arrays{};
  OnDevice<float, float> device{Sgd{}, arrays};
  auto const gradient = numbers<float>(2);
  device.step({.learning_rate = 0.1, .clip_norm = 1.0}, gradient);
  auto const sums = device.square_sums.host();
  REQUIRE(sums.size() == 7);
  for (UpdateRun const& r : runs()) {
    double exact = 0.0;
    for (auto i = r.begin; i < r.end && r.role == Role::weight && !r.frozen; ++i) {
      double const g = gradient[static_cast<std::size_t>(i)];
      exact += g * g;
    }
    CAPTURE(r.origin);
    CHECK(std::abs(sums[static_cast<std::size_t>(r.origin)] - exact) <= 1e-12 * exact);
  }
  CHECK(sums[3] == 0.0);
  CHECK(sums[6] == 0.0);
}

TEST_CASE("the update: what belongs to no run, or to a frozen one, keeps its bits") {
  Arrays<float> const before{};
  OnDevice<float, float> device{AdamW{}, before};
  device.step({.learning_rate = 1}, numbers<float>(2));
  auto const after = device.parameters.host();
  std::size_t changed = 0;
  for (std::size_t i = 0; i < size; ++i) {
    bool const trained = i < 5004 || (i >= 5024 && i < 5100) || (i >= 5200 && i < 14000);
    CHECK((trained || after[i] == before.parameters[i]));
    changed += after[i] != before.parameters[i] ? 1U : 0U;
  }
  CHECK(changed > 13800);
}

TEST_CASE("the update: a step that is not finite stops itself and all later ones") {
  Arrays<float> expected{};
  Optimizer const optimizer = optimizers[2];
  OnDevice<float, BFloat16> device{optimizer, expected};
  auto const gradient = numbers<float>(2);
  StepState const state{.learning_rate = 0.1};
  device.step(state, gradient);
  step_on_host(optimizer, state, gradient, expected);
  auto const before = device.parameters.host();
  CHECK(close(before, expected.parameters, 8));
  auto const momentum = device.state[0].host();

  Result const bad = device.step(state, gradient, {1, 0, 2, 0, NAN, 0, INFINITY, 0}, 8);
  CHECK(bad.non_finite == 2);
  CHECK(std::isnan(bad.loss));
  CHECK(device.stopped.host()[0] == 1);
  CHECK(device.parameters.host() == before);
  Result const good = device.step(state, gradient);
  CHECK(good.non_finite == -1);
  CHECK(device.stopped.host()[0] == 1);
  CHECK(device.parameters.host() == before);
  CHECK(device.state[0].host() == momentum);

  OnDevice<float, BFloat16>::write(device.stopped, {0});
  device.step(state, gradient);
  step_on_host(optimizer, state, gradient, expected);
  CHECK(close(device.parameters.host(), expected.parameters, 8));
}

TEST_CASE("the update: a gradient that is not finite names its parameter, and changes nothing") {
  Arrays<float> const before{};
  OnDevice<float, BFloat16> device{Sgd{}, before};
  test::DeviceArray<double> const loss{gpu(), std::vector<double>{1.0}};
  struct Place {
    std::size_t at;
    int parameter;
  };
  for (Place const& place : {Place{0, 5}, {5000, 5}, {5003, 4}, {13999, 0}, {5030, -1}}) {
    int const bad = place.parameter;
    for (float const number : {INFINITY, -INFINITY, NAN}) {
      for (double const clip_norm : {0.0, 1.0}) {
        CAPTURE(place.at);
        auto gradient = numbers<float>(2);
        gradient[place.at] = number;
        StepState const state{.learning_rate = 0.0, .clip_norm = clip_norm};
        Result const result = device.step(state, gradient);
        CHECK(result.bad_gradient == bad);
        CHECK(result.non_finite == (bad < 0 ? -1 : 1));  // none of the one loss
        CHECK(result.gradient_norm == (bad < 0 && clip_norm > 0.0 ? norm_of(gradient) : 0.0));
        CHECK(device.stopped.host()[0] == (bad < 0 ? update_all_parameters : update_nothing));
        device.kernels.spoil(gpu().compute, loss.data());
        CHECK(std::isfinite(loss.host()[0]) == (bad < 0));
        device.write(loss, {1.0});
        device.write(device.stopped, {0});
        device.write(device.square_sums, std::vector<double>(update_test::parameters_of_network));
      }
    }
  }
}

TEST_CASE("refresh_rounded: all parameters, those of no run too") {
  Arrays<float> const arrays{};
  OnDevice<float, BFloat16> device{Sgd{}, arrays};
  device.kernels.refresh_rounded(gpu().compute);
  auto const rounded = device.rounded.host();
  for (std::size_t i = 0; i < size; ++i) {
    CHECK(rounded[i].bits == BFloat16{arrays.parameters[i]}.bits);
  }
  OnDevice<float, float> same{Sgd{}, arrays};
  auto const before = same.rounded.host();
  same.kernels.refresh_rounded(gpu().compute);
  CHECK(std::memcmp(before.data(), same.rounded.host().data(), size * sizeof(float)) == 0);
}

TEST_CASE("the update: nothing to train queues nothing") {
  cuda::UpdateKernels<float, float> const kernels{Sgd{}, {}};
  kernels.sum_squares(gpu().compute);
  kernels.check_gradients(gpu().compute);
  kernels.apply(gpu().compute, nullptr);
  gpu().compute.synchronize();
}

}  // namespace
}  // namespace tandem
