// SPDX-License-Identifier: Apache-2.0
// A Join whose rule adds trains as a Residual does, wherever its branches are computed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <tandem/tandem.hpp>

#include <own_parts.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace own_join_test {

using namespace tandem;
using test::Watchdog;

using Body = Sequential<Conv2d<3, Kernel<3>, Padding<1>>, test::OwnPrelu>;
using Before = Conv2d<3>;
using Behind = Sequential<GlobalAvgPool, Linear<5>>;

/// By passes of its own.
struct HostSum {
  static constexpr std::string_view name = "HostSum";
  static constexpr Shape output(std::span<Shape const> in) { return in[0]; }
  static void forward(auto const& c) {
    c.for_each(c.y.size(), [&](std::size_t i) { c.y[i] = c.x(0)[i] + c.x(1)[i]; });
  }
  static void input_gradient(auto const& c) {
    for (int b = 0; b < c.inputs; ++b) {
      c.for_each(c.dx(b).size(), [&](std::size_t i) { c.dx(b)[i] = c.dy[i]; });
    }
  }
};

struct Added : Network<Image<3, 6, 6>, Sequential<Before, Residual<Body>, Behind>> {};
struct Joined
    : Network<Image<3, 6, 6>, Sequential<Before, Join<test::OwnSum, Body, Sequential<>>, Behind>> {
};
struct ByPasses
    : Network<Image<3, 6, 6>, Sequential<Before, Join<HostSum, Body, Sequential<>>, Behind>> {};

inline constexpr auto apart = place<Joined>({{"1.0", 1}});

/// Losses, norms and parameters of some steps.
template <class Net, class S>
std::vector<double> trained() {
  Watchdog const watchdog{"an own join"};
  Trainer<Net, S, BasicHost<Portable, Fp64>> trainer{
      {.batch = 12,
       .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
       .clip_norm = 2.0,
       .seed = 7,
       .threads_per_device = 2}};
  std::vector<double> numbers;
  for (int step = 0; step < 4; ++step) {
    test::Samples<double> const data{Net::input::shape, 5, 12 - step,
                                     static_cast<std::uint64_t>(step)};
    StepResult const r = trainer.step(data.x, data.y);
    numbers.insert(numbers.end(), {r.loss, r.gradient_norm});
  }
  for (auto const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
  }
  return numbers;
}

void near(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(!(std::abs(a[i] - b[i]) > 1e-12 * (1 + std::abs(b[i]))));
  }
}

TEST_CASE("a Join that adds is a Residual: by passes of its own, and placed on two devices") {
  auto const expected = trained<Added, SingleDevice<Microbatches<2>>>();
  near(trained<ByPasses, SingleDevice<Microbatches<2>>>(), expected);
  near(trained<Joined, Hybrid<DataParallel<2>, ModelParallel<Placed<apart>>>>(), expected);
}

}  // namespace own_join_test
