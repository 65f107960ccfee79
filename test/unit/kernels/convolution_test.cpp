// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/convolution.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "reference.hpp"
#include "support.hpp"

namespace convolution_test {

using namespace tandem;
using test::Team;

struct Case {
  int batch, in, out, groups;
  Extent2d image;
  Window window;
};

constexpr Window k1{};
constexpr Window k1s2{{1, 1}, {2, 2}, {0, 0}};
constexpr Window k3{{3, 3}, {1, 1}, {1, 1}};
constexpr Window k3s2{{3, 3}, {2, 2}, {1, 1}};

constexpr Case cases[] = {
    {1, 1, 1, 1, {1, 1}, k1},
    {3, 5, 7, 1, {5, 4}, k1},
    {2, 3, 35, 1, {11, 9}, k3},
    {2, 33, 8, 1, {8, 8}, k3},  // two blocks of taps
    {5, 4, 6, 2, {7, 5}, k3s2},
    {3, 6, 6, 6, {6, 7}, k3},    // depthwise
    {2, 4, 5, 1, {8, 7}, k1s2},  // phases without a tap
    {2, 2, 3, 1, {9, 10}, {{2, 5}, {3, 1}, {0, 2}}},
    {2, 2, 3, 1, {10, 9}, {{1, 3}, {1, 3}, {1, 4}}},  // columns that see only padding
    {4, 3, 2, 1, {3, 3}, {{3, 3}, {1, 1}, {0, 0}}},
    {2, 1, 9, 1, {28, 28}, {{5, 5}, {1, 1}, {0, 0}}},
    {1, 2, 2, 1, {2, 300}, {{2, 7}, {2, 2}, {1, 3}}},  // an image wider than a panel
    {9, 2, 4, 1, {4, 1}, {{3, 1}, {1, 1}, {1, 0}}},    // 256 positions are many short rows
    {3, 1, 2, 1, {4, 4}, {{2, 2}, {5, 5}, {0, 0}}},    // pixels that no position sees
    {2, 3, 4, 1, {9, 8}, {{3, 3}, {1, 1}, {2, 2}, {2, 2}}},
    {2, 2, 3, 1, {11, 12}, {{3, 2}, {2, 3}, {1, 0}, {3, 4}}},  // no factor in common with the
                                                               // stride
    {2, 4, 4, 2, {13, 9}, {{3, 3}, {4, 2}, {3, 2}, {6, 4}}},  // one of 2, with phases without a tap
};

ConvolutionGeometry geometry(Case const& c) {
  return {c.in, c.out, c.groups, c.image, c.window.positions(c.image), c.window};
}

template <class T>
struct Data {
  ConvolutionGeometry g;
  int batch;
  test::ConvolutionSizes size;
  std::vector<T> x, weight, bias, dy;

  explicit Data(Case const& c)
      : g{geometry(c)},
        batch{c.batch},
        size{g, batch},
        x{test::random<T>(size.x, 1)},
        weight{test::random<T>(size.weight, 2)},
        bias{test::random<T>(g.out_channels, 3)},
        dy{test::random<T>(size.y, 4)} {}

  std::vector<T> scratch(Team const& team) const {
    return test::poisoned<T>(host::convolution_scratch<T>(g, team.size()));
  }
  int channel(std::int64_t y) const {
    return static_cast<int>(y / (g.out.height * g.out.width) % g.out_channels);
  }
};

double product(double a, double b) { return a * b; }

TEST_CASE_TEMPLATE("convolution_forward is seven loops", T, float, double) {
  for (Case const& c : cases) {
    CAPTURE(&c - cases);
    Data<T> const d{c};
    for (bool const biased : {false, true}) {
      auto const y = test::on_teams([&](Team& team) {
        auto out = test::poisoned<T>(d.size.y);
        host::convolution_forward(team, d.g, d.batch, d.x.data(), d.weight.data(),
                                  biased ? d.bias.data() : nullptr, out.data(),
                                  d.scratch(team).data());
        return out;
      });
      test::Reference expected{d.size.y};
      for (std::int64_t i = 0; i < d.size.y && biased; ++i) {
        expected.add(i, static_cast<double>(d.bias[static_cast<std::size_t>(d.channel(i))]));
      }
      test::each_tap(d.g, d.batch, [&](int xi, int wi, int yi) {
        expected.add(
            yi, product(d.x[static_cast<std::size_t>(xi)], d.weight[static_cast<std::size_t>(wi)]));
      });
      expected.finish<T>();
      CHECK(test::within(y, expected.value, expected.bound));
    }
  }
}

TEST_CASE_TEMPLATE("convolution_input_gradient is seven loops", T, float, double) {
  for (Case const& c : cases) {
    CAPTURE(&c - cases);
    Data<T> const d{c};
    auto const dx = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(d.size.x);
      host::convolution_input_gradient(team, d.g, d.batch, d.weight.data(), d.dy.data(), out.data(),
                                       d.scratch(team).data());
      return out;
    });
    test::Reference expected{d.size.x};
    test::each_tap(d.g, d.batch, [&](int xi, int wi, int yi) {
      expected.add(
          xi, product(d.dy[static_cast<std::size_t>(yi)], d.weight[static_cast<std::size_t>(wi)]));
    });
    expected.finish<T>();
    CHECK(test::within(dx, expected.value, expected.bound));
  }
}

TEST_CASE_TEMPLATE("convolution_weight_gradient is seven loops", T, float, double) {
  for (Case const& c : cases) {
    CAPTURE(&c - cases);
    Data<T> const d{c};
    for (bool const accumulate : {false, true}) {
      auto const old_weight = test::random<T>(d.size.weight, 5);
      auto const old_bias = test::random<T>(d.g.out_channels, 6);
      auto const both = test::on_teams([&](Team& team) {
        auto dweight = accumulate ? old_weight : test::poisoned<T>(d.size.weight);
        auto dbias = accumulate ? old_bias : test::poisoned<T>(d.g.out_channels);
        host::convolution_weight_gradient(team, d.g, d.batch, d.x.data(), d.dy.data(),
                                          dweight.data(), dbias.data(), accumulate,
                                          d.scratch(team).data());
        auto alone = accumulate ? old_weight : test::poisoned<T>(d.size.weight);
        host::convolution_weight_gradient(team, d.g, d.batch, d.x.data(), d.dy.data(), alone.data(),
                                          static_cast<T*>(nullptr), accumulate,
                                          d.scratch(team).data());
        CHECK(test::same_bits(alone, dweight));
        return test::joined({dweight, dbias});
      });
      test::Reference expected{d.size.weight + d.g.out_channels};
      for (std::int64_t i = 0; i < d.size.weight && accumulate; ++i) {
        expected.add(i, static_cast<double>(old_weight[static_cast<std::size_t>(i)]));
      }
      test::each_tap(d.g, d.batch, [&](int xi, int wi, int yi) {
        expected.add(
            wi, product(d.dy[static_cast<std::size_t>(yi)], d.x[static_cast<std::size_t>(xi)]));
      });
      for (int o = 0; o < d.g.out_channels && accumulate; ++o) {
        expected.add(d.size.weight + o, static_cast<double>(old_bias[static_cast<std::size_t>(o)]));
      }
      for (std::int64_t i = 0; i < d.size.y; ++i) {
        expected.add(d.size.weight + d.channel(i),
                     static_cast<double>(d.dy[static_cast<std::size_t>(i)]));
      }
      expected.finish<T>();
      CHECK(test::within(both, expected.value, expected.bound));
    }
  }
}

TEST_CASE_TEMPLATE("convolution: no bit of a sample depends on its batch", T, float, double) {
  Team team{2};
  for (Case const& c : cases) {
    Data<T> const d{c};
    auto y = test::poisoned<T>(d.size.y);
    auto dx = test::poisoned<T>(d.size.x);
    auto scratch = d.scratch(team);
    host::convolution_forward(team, d.g, d.batch, d.x.data(), d.weight.data(), d.bias.data(),
                              y.data(), scratch.data());
    host::convolution_input_gradient(team, d.g, d.batch, d.weight.data(), d.dy.data(), dx.data(),
                                     scratch.data());
    auto const y_size = d.size.y / d.batch;
    auto const x_size = d.size.x / d.batch;
    for (int s = 0; s < d.batch; ++s) {
      auto y_alone = test::poisoned<T>(y_size);
      auto dx_alone = test::poisoned<T>(x_size);
      host::convolution_forward(team, d.g, 1, d.x.data() + s * x_size, d.weight.data(),
                                d.bias.data(), y_alone.data(), scratch.data());
      host::convolution_input_gradient(team, d.g, 1, d.weight.data(), d.dy.data() + s * y_size,
                                       dx_alone.data(), scratch.data());
      CHECK(test::same_bits(y_alone, {y.begin() + s * y_size, y.begin() + (s + 1) * y_size}));
      CHECK(test::same_bits(dx_alone, {dx.begin() + s * x_size, dx.begin() + (s + 1) * x_size}));
    }
  }
}

}  // namespace convolution_test
