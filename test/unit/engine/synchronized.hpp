// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that replicas with SyncBatchNorm2d train as one device with BatchNorm2d does.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <parity.hpp>

namespace tandem::test {

/// A norm behind the input, one with a ReLU, one in a residual sum, one in a concatenation, one
/// that is frozen. No dropout, and no bias that the norm behind it would take away.
template <template <class...> class Norm>
struct NormNet
    : Network<Image<3, 6, 6>,
              Sequential<Norm<>, Conv2d<4, Kernel<3>, Padding<1>, NoBias>, Norm<Momentum<1, 5>>,
                         ReLU, Residual<Sequential<Conv2d<4, NoBias>, Norm<>>>, ReLU,
                         Concat<Sequential<Conv2d<3, NoBias>, Norm<>>, MaxPool2d<Kernel<1>>>,
                         Frozen<Norm<>>, GlobalAvgPool, Linear<5>>> {};

using OnOne = NormNet<BatchNorm2d>;
using OnAll = NormNet<SyncBatchNorm2d>;

template <class Net, class S, class Backend = Double>
using TrainerOf = Trainer<Net, S, Backend>;

/// The samples of a step, and the same in another order.
inline Samples<double> samples(int count, int step, std::vector<int> const& order = {}) {
  using Single = TrainerOf<OnOne, SingleDevice<>>;
  Samples<double> const given{Single::input, 5, count, static_cast<std::uint64_t>(step)};
  if (order.empty()) {
    return given;
  }
  Samples<double> taken = given;
  auto const elements = static_cast<std::size_t>(Single::input.elements());
  for (std::size_t s = 0; s < order.size(); ++s) {
    auto const from = static_cast<std::size_t>(order[s]);
    taken.y[s] = given.y[from];
    for (std::size_t i = 0; i < elements; ++i) {
      taken.x[s * elements + i] = given.x[from * elements + i];
    }
  }
  return taken;
}

/// Five steps; @p order is that of the samples on one device.
template <class Many, class One = SingleDevice<>>
void check_five_steps(std::vector<int> sizes = {13, 12, 8, 13, 9},
                      std::vector<int> const& order = {}, bool record = true) {
  Watchdog const watchdog{"five steps with synchronized statistics"};
  TrainerOptions options = parity_options();
  TrainerOf<OnOne, One> one{options};
  options.record = record;
  TrainerOf<OnAll, Many> many{options};
  for (int s = 0; s < 5; ++s) {
    int const size = sizes[static_cast<std::size_t>(s) % sizes.size()];
    auto const in_order = samples(size, s, order);
    auto const given = samples(size, s);
    StepResult const a = one.step(in_order.x, in_order.y);
    StepResult const b = many.step(given.x, given.y);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-12 * a.gradient_norm);
    CHECK(a.metric == b.metric);
    Difference const off = difference(many.parameters(), one.parameters(), Part::gradient);
    INFO("step " << s << ": gradient of " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-11);
  }
  for (int replica = 0; replica < Many::mesh.extent(Axis::data); ++replica) {
    auto const own = many.parameters(replica);
    Difference const off = difference(own, one.parameters(), Part::value);
    INFO("replica " << replica << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-12);  // running statistics, too
    CHECK(first_difference(own, many.parameters()) == "");
  }
}

}  // namespace tandem::test
