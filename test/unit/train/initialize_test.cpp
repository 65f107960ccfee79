// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tandem/core/philox.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace initialize_test {

constexpr std::size_t many = 1 << 18;

template <class T = float>
std::vector<T> drawn(Init init, std::size_t count, int p = 3, std::uint64_t seed = 7) {
  std::vector<T> values(count);
  Parameter const parameter{"weight", vector_shape(static_cast<int>(count)), init};
  initialize<T>(parameter, p, seed, std::span{values});
  return values;
}

// The mean of f over the values, and the mean of f of each and its neighbour.
template <class F>
double mean_of(std::vector<float> const& values, F const& f) {
  double sum = 0.0;
  for (float const value : values) {
    sum += f(static_cast<double>(value));
  }
  return sum / static_cast<double>(values.size());
}

double neighbours(std::vector<float> const& values, std::size_t lag) {
  double sum = 0.0;
  for (std::size_t i = lag; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i - lag]);
  }
  return sum / static_cast<double>(values.size() - lag);
}

// Of n independent x, the mean of x^k has deviation sqrt(Var(x^k) / n), and that of x y is the
// variance of x over sqrt(n).
TEST_CASE("Init::normal has mean 0, its deviation, and the kurtosis and tails of a normal law") {
  constexpr double s = 0.02;
  std::vector<float> const values = drawn(Init::normal(0.02F), many);
  double const root = std::sqrt(static_cast<double>(many));
  CHECK(std::abs(mean_of(values, [](double x) { return x; })) <= 5.0 * s / root);
  CHECK(std::abs(mean_of(values, [](double x) { return x * x; }) / (s * s) - 1.0) <=
        5.0 * std::sqrt(2.0) / root);
  CHECK(std::abs(mean_of(values, [](double x) { return x * x * x; }) / (s * s * s)) <=
        5.0 * std::sqrt(15.0) / root);
  CHECK(std::abs(mean_of(values, [](double x) { return x * x * x * x; }) / (s * s * s * s) - 3.0) <=
        5.0 * std::sqrt(96.0) / root);
  for (double const tail : {0.5, 1.0, 2.0, 3.0}) {
    double const expected = std::erfc(tail / std::sqrt(2.0));
    double const share =
        mean_of(values, [&](double x) { return std::abs(x) > tail * s ? 1.0 : 0.0; });
    CAPTURE(tail);
    CHECK(std::abs(share - expected) <= 5.0 * std::sqrt(expected) / root);
  }
  for (std::size_t const lag : {1U, 2U, 3U, 4U}) {
    CAPTURE(lag);
    CHECK(std::abs(neighbours(values, lag)) <= 5.0 * s * s / root);
  }
}

TEST_CASE("Init::uniform fills its interval evenly and stays in it") {
  constexpr double b = 0.25;
  std::vector<float> const values = drawn(Init::uniform(0.25F), many);
  double const root = std::sqrt(static_cast<double>(many));
  auto const [least, most] = std::minmax_element(values.begin(), values.end());
  CHECK(*least >= -0.25F);
  CHECK(*most <= 0.25F);
  CHECK(std::abs(mean_of(values, [](double x) { return x; })) <= 5.0 * b / std::sqrt(3.0) / root);
  CHECK(std::abs(mean_of(values, [](double x) { return x * x; }) / (b * b) - 1.0 / 3.0) <=
        5.0 * std::sqrt(4.0 / 45.0) / root);
  for (std::size_t const lag : {1U, 2U, 3U, 4U}) {
    CAPTURE(lag);
    CHECK(std::abs(neighbours(values, lag)) <= 5.0 * b * b / 3.0 / root);
  }
}

TEST_CASE("Init: uniform_fan_in is uniform in one over the root of the fan") {
  CHECK(drawn(Init::uniform(0.25F), 101) == drawn(Init::uniform_fan_in(16), 101));
}

TEST_CASE("Init: the largest and the smallest words give finite normal numbers") {
  double z[4];
  detail::standard_normal(Random4{{0, 0, 0xFFFFFFFFU, 0xFFFFFFFFU}}, z);
  CHECK(z[0] == doctest::Approx(std::sqrt(66.0 * std::log(2.0))));
  CHECK(z[0] <= 6.8);
  CHECK(z[1] == 0.0);
  CHECK(std::abs(z[2]) <= 2e-5);
  CHECK(std::isfinite(z[3]));
}

TEST_CASE("Init: an element depends on seed, parameter and its place only, and is a float") {
  for (Init const init : {Init::normal(0.02F), Init::uniform(0.5F)}) {
    std::vector<float> const whole = drawn(init, 103);
    for (std::size_t const count : {1U, 2U, 5U, 102U}) {
      CHECK(drawn(init, count) ==
            std::vector<float>(whole.begin(), whole.begin() + static_cast<long>(count)));
    }
    std::vector<double> const wide = drawn<double>(init, 103);
    CHECK(std::equal(wide.begin(), wide.end(), whole.begin()));
    CHECK(drawn(init, 103, 4) != whole);
    CHECK(drawn(init, 103, 3, 8) != whole);
  }
}

TEST_CASE("Parameters: up to ten") {
  using P = Parameter;
  constexpr P one{"p", vector_shape(2), Init::normal(0.1F)};
  constexpr Parameters ten{one, one, one, one, one, one, one, one, one, one};
  static_assert(ten.count == 10 && ten.item[9].init.law == Init::Law::normal);
  static_assert(!std::is_constructible_v<Parameters, P, P, P, P, P, P, P, P, P, P, P>);
}

/// y = x (1 + a + b + c + d + e + f), element by element.
struct SixFactors {
  static constexpr std::string_view name = "SixFactors";
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{
        Parameter{"a", in, Init::normal(0.02F)}, Parameter{"b", in, Init::normal(1)},
        Parameter{"c", in, Init::uniform(0.1F)}, Parameter{"d", in, Init::normal(0.3F)},
        Parameter{"e", in, Init::uniform(2)},    Parameter{"f", in}};
  }
  static auto factor(auto const& call, std::size_t i, std::size_t n) {
    auto sum = call.parameter(0)[i % n] * 0 + 1;
    for (int p = 0; p < 6; ++p) {
      sum += call.parameter(p)[i % n];
    }
    return sum;
  }
  static void forward(auto const& call) {
    for (std::size_t i = 0; i < call.x.size(); ++i) {
      call.y[i] = call.x[i] * factor(call, i, call.parameter(0).size());
    }
  }
  static void input_gradient(auto const& call) {
    for (std::size_t i = 0; i < call.x.size(); ++i) {
      call.dx[i] = call.dy[i] * factor(call, i, call.parameter(0).size());
    }
  }
  static void weight_gradient(auto const& call) {
    for (int p = 0; p < 6; ++p) {
      for (std::size_t i = 0; i < call.x.size(); ++i) {
        call.gradient(p)[i % call.parameter(0).size()] += call.dy[i] * call.x[i];
      }
    }
  }
};

struct Net : Network<Vector<5>, Sequential<Linear<6>, SixFactors, Linear<4>, SixFactors>> {};
template <class S>
using Fp = Trainer<Net, S, Host>;

TEST_CASE("a layer of six parameters passes check_layer") {
  CHECK(check_layer<SixFactors, Vector<7>>().ok());
}

TEST_CASE("initial values have the same bits under every strategy, and a checkpoint keeps them") {
  TrainerOptions const options{.batch = 8, .seed = 11, .threads_per_device = 1};
  Fp<SingleDevice<Microbatches<2>>> one{options};
  auto const expected = one.parameters();
  for (NamedParameter<float> const& p : expected) {
    std::vector<float> drawn(p.value.size());
    initialize<float>(decltype(one)::graph.parameter[p.index].parameter, p.index, 11,
                      std::span{drawn});
    CHECK(std::equal(drawn.begin(), drawn.end(), p.value.begin()));
  }
  Fp<DataParallel<2>> two{options};
  CHECK(test::first_difference(two.parameters(1), expected) == "");
  Fp<Pipeline<OneFOneB, 2, Split<2>, Split<2>>> stages{options};
  CHECK(test::first_difference(stages.parameters(), expected) == "");

  test::TemporaryFolder const folder;
  one.save(folder.file("initial"));
  Fp<DataParallel<2>> other{{.batch = 8, .seed = 12, .threads_per_device = 1}};
  CHECK(test::first_difference(other.parameters(), expected) != "");
  other.load(folder.file("initial"));
  CHECK(test::first_difference(other.parameters(), expected) == "");

  test::Samples<float> const data{decltype(one)::input, 4, 8};
  one.step(data.x, data.y);
  CHECK(test::first_difference(one.parameters(), other.parameters()) != "");
}

TEST_CASE("uniform in [a, b) is uniform around their middle") {
  std::vector<float> values(4096);
  initialize<float>({.name = "w", .init = Init::uniform(2.0F, 5.0F)}, 3, 1, values);
  auto const [least, most] = std::minmax_element(values.begin(), values.end());
  CHECK(*least >= 2.0F);
  CHECK(*least < 2.01F);
  CHECK(*most <= 5.0F);
  CHECK(*most > 4.99F);
}

}  // namespace initialize_test
}  // namespace tandem
