// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whether a backend's Concat joins sequences row by row, in a step of fewer rows than the longest.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/graph.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::test {

template <class Backend>
void check_concat_of_rows() {
  using T = typename Backend::Scalar;
  Shape const inputs[] = {timed_shape(4, 2), timed_shape(4, 1)};
  Node const node{.kind = NodeKind::concat,
                  .needs_gradient = true,
                  .edges = 2,
                  .in = inputs[0],
                  .out = timed_shape(4, 3)};
  host::Device device{1};
  Op<ConcatJoin, Backend> op{
      OpSetup{.node = node, .inputs = inputs, .batch = 2, .threads = device.team.size()}};
  auto const counted = [](int first, int count) {
    std::vector<T> list;
    for (int i = 0; i < count; ++i) {
      list.push_back(static_cast<T>(static_cast<float>(first + i)));
    }
    return list;
  };
  auto const a = counted(0, 2 * 3 * 2);  // two samples of three rows
  auto const b = counted(50, 2 * 3 * 1);
  std::vector<T> y(2 * 3 * 3), da(a.size()), db(b.size());
  T const* const x[] = {a.data(), b.data()};
  T* const dx[] = {da.data(), db.data()};
  Pass<host::Device> const pass{.device = device, .batch = 2, .time = 3};
  op.forward({.x = x, .y = y.data()}, pass);
  op.input_gradient({.dy = y.data(), .dx = dx}, pass);
  for (std::size_t row = 0; row < 6; ++row) {
    CHECK(static_cast<float>(y[row * 3]) == static_cast<float>(a[row * 2]));
    CHECK(static_cast<float>(y[row * 3 + 1]) == static_cast<float>(a[row * 2 + 1]));
    CHECK(static_cast<float>(y[row * 3 + 2]) == static_cast<float>(b[row]));
  }
  CHECK(da == a);
  CHECK(db == b);
}

}  // namespace tandem::test
