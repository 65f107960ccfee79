// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/host/join.hpp>

#include <tandem/ops/check_join.hpp>
#include <tandem/ops/host/own_join.hpp>

#include <concat_rows.hpp>
#include <own_parts.hpp>

namespace join_op_test {

using namespace tandem;

TEST_CASE("Concat joins sequences row by row") {
  test::check_concat_of_rows<BasicHost<Portable, Fp64>>();
  test::check_concat_of_rows<BasicHost<Portable>>();
}

TEST_CASE("a program's own join: its product rule, where both and where one gradient is wanted") {
  Shape const inputs[] = {timed_shape(4, 2), timed_shape(4, 2)};
  Node const node{.edges = 2, .in = inputs[0], .out = inputs[0]};
  host::Device device{2};
  Op<test::OwnProduct, BasicHost<Portable, Fp64>> const op{
      OpSetup{.node = node, .inputs = inputs, .batch = 2}};
  CHECK(op.needs().input);
  CHECK_FALSE(op.needs().output);
  std::vector<double> const a{1, 2, 3, 4}, b{5, 6, 7, 8}, dy{1, -1, 2, 0.5};  // a row a sample
  std::vector<double> y(5, 9), da(5, 9), db(5, 9);
  double const* const x[] = {a.data(), b.data()};
  double* const dx[] = {da.data(), db.data()};
  Pass<host::Device> const pass{.device = device, .batch = 2, .time = 1};
  op.forward({.x = x, .y = y.data()}, pass);
  op.input_gradient({.x = x, .dy = dy.data(), .dx = dx}, pass);
  CHECK(y == std::vector<double>{5, 12, 21, 32, 9});
  CHECK(da == std::vector<double>{5, -6, 14, 4, 9});
  CHECK(db == std::vector<double>{1, -2, 6, 2, 9});
  double* const second[] = {nullptr, da.data()};
  op.input_gradient({.x = x, .dy = dy.data(), .dx = second}, pass);
  CHECK(da == db);
}

/// y = a² b, with each mistake that check_join must see, by its number.
template <int Mistake>
struct SquareTimes {
  static constexpr std::string_view name = "SquareTimes";
  static constexpr Shape output(std::span<Shape const> in) { return in[0]; }
  static void forward(auto const& c) {
    c.for_each(c.y.size() - (Mistake == 1 ? 1 : 0),
               [&](std::size_t i) { c.y[i] = c.x(0)[i] * c.x(0)[i] * c.x(1)[i]; });
  }
  static void input_gradient(auto const& c) {
    c.for_each(c.y.size(), [&](std::size_t i) {
      c.dx(0)[i] = (Mistake == 2 ? 1 : 2) * c.x(0)[i] * c.x(1)[i] * c.dy[i];
      if (Mistake != 3 || i > 0) {
        c.dx(1)[i] = c.x(0)[i] * c.x(0)[i] * c.dy[i];
      }
    });
  }
};

template <int Mistake>
std::string problem() {
  return check_join<SquareTimes<Mistake>, Image<2, 3, 3>, Image<2, 3, 3>>().problem;
}

TEST_CASE("check_join: a right rule passes, and each mistake is named") {
  CHECK(problem<0>() == "");
  CHECK(problem<1>().find("forward leaves an element of y unwritten") == 0);
  CHECK(problem<2>().find("the gradient of input 0 at element 0 is") == 0);
  CHECK(problem<3>().find("input_gradient leaves an element of that of input 1 unwritten") == 0);
  CHECK(check_join<test::OwnProduct, Vector<7>, Vector<7>>().ok());
  CHECK(check_join<test::ExpTimes, Vector<7>, Vector<7>>().ok());
  CHECK(check_join<SquareTimes<0>, Vector<1>, Vector<1>>().worst < 1e-8);
  LayerCheck const apart = check_join<test::OwnProduct, Vector<7>, Vector<8>>();
  CHECK(apart.problem == "the rule's output() is no shape for these branches");
}

}  // namespace join_op_test
