// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/host/join.hpp>

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

}  // namespace join_op_test
