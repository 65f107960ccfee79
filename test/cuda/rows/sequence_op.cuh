// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// op_on_cuda() and op_on_host(): all passes of one op on one or two sequences, whose clocks may
/// differ, with the same numbers, for tests of the ops of sequences.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/precision.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem::test {

struct SequenceCase {
  Shape in[2]{};  ///< the second has no elements where there is one input
  int batch = 1;
  int time = 1;  ///< of the first input
  std::vector<std::int32_t> lengths{};
  bool accumulate = false;
  bool training = true;
  bool wants_input_gradient = true;
  std::vector<int> pieces{};  ///< rows that come one after the other; empty: all at once
  int other_time = 0;         ///< of a second input of another clock
  std::vector<std::int32_t> other_lengths{};
  bool wants[2] = {true, true};  ///< which dx

  [[nodiscard]] int inputs() const { return in[1].rank > 0 ? 2 : 1; }
  [[nodiscard]] int rows(int input) const {
    return in[input].clock == in[0].clock ? time : other_time;
  }
  [[nodiscard]] std::int64_t elements(int input) const {
    return inputs() > input ? batch * in[input].elements(rows(input)) : 0;
  }
};

struct OpResults {
  std::vector<double> y, dx[2];
  std::vector<std::vector<double>> gradient;
};

template <class L>
Shape sequence_output(SequenceCase const& c) {
  if constexpr (requires { L::output(c.in[0], c.in[1]); }) {
    return L::output(c.in[0], c.in[1]);
  } else {
    return L::output(c.in[0]);
  }
}
template <class L>
Parameters sequence_parameters(SequenceCase const& c) {
  if constexpr (requires { L::parameters(c.in[0], c.in[1]); }) {
    return L::parameters(c.in[0], c.in[1]);
  } else {
    return L::parameters(c.in[0]);
  }
}

/// The numbers of a weight's row add up to 1 at most.
template <class T>
std::vector<T> parameter_numbers(Shape const& shape, std::uint64_t seed) {
  return numbers<T>(shape.elements(), seed, shape.rank == 2 ? 1.0 / shape[1] : 1.0);
}

template <class L>
OpSetup sequence_setup(SequenceCase const& c) {
  OpSetup setup{};
  setup.node.in = c.in[0];
  setup.node.out = sequence_output<L>(c);
  setup.node.edges = static_cast<std::int16_t>(c.inputs());
  setup.inputs = c.in;
  setup.batch = 4;
  setup.wants_input_gradient = c.wants_input_gradient;
  return setup;
}

/// All passes; in pieces, those of forward only, of one memory that is carried.
template <class O, class Operand, class P>
void sequence_passes(O& op, Operand const& o, P pass, SequenceCase const& c) {
  pass.batch = c.batch;
  pass.time = c.time;
  pass.other_clock.time = c.other_time;
  pass.accumulate = c.accumulate;
  pass.training = c.training;
  op.forward(o, pass);
  if (c.training && c.wants_input_gradient) {
    op.input_gradient(o, pass);
  }
  if (c.training) {
    op.weight_gradient(o, pass);
  }
}

template <class L, class T>
OpResults op_on_host(SequenceCase const& c) {
  OpSetup const setup = sequence_setup<L>(c);
  Op<L, BasicHost<Portable, Fp64>> op{setup};
  host::Device device{1};
  OpNeeds const needs = op.needs();
  std::vector<double> scratch(static_cast<std::size_t>(needs.scratch_bytes) / 8 + 1);
  std::vector<double> saved(static_cast<std::size_t>(needs.saved_bytes) / 8 + 1);
  device.scratch = reinterpret_cast<std::byte*>(scratch.data());
  std::vector<double> const x[2] = {in_double(numbers<T>(c.elements(0), 1)),
                                    in_double(numbers<T>(c.elements(1), 2))};
  auto const dy = in_double(numbers<T>(c.batch * setup.node.out.elements(c.time), 3));
  OpResults r;
  r.y.resize(dy.size());
  std::vector<std::vector<double>> parameter;
  std::vector<double*> at;
  std::vector<double*> gradient_at;
  Parameters const list = sequence_parameters<L>(c);
  for (int p = 0; p < list.count; ++p) {
    auto const seed = static_cast<std::uint64_t>(p);
    parameter.push_back(in_double(parameter_numbers<T>(list.item[p].shape, 10 + seed)));
    r.gradient.push_back(in_double(numbers<T>(list.item[p].shape.elements(), 40 + seed)));
  }
  for (std::size_t p = 0; p < parameter.size(); ++p) {
    at.push_back(parameter[p].data());
    gradient_at.push_back(r.gradient[p].data());
  }
  double const* const xs[] = {x[0].data(), x[1].data()};
  double* dx[2] = {};
  for (int i = 0; i < 2; ++i) {
    r.dx[i].resize(x[i].size());
    dx[i] = c.wants[i] ? r.dx[i].data() : nullptr;
  }
  sequence_passes(
      op,
      Operands<double>{.x = xs,
                       .y = r.y.data(),
                       .dy = dy.data(),
                       .dx = dx,
                       .parameter = at.data(),
                       .weight = at.data(),
                       .gradient = gradient_at.data(),
                       .saved = reinterpret_cast<std::byte*>(saved.data())},
      Pass<host::Device>{
          .device = device,
          .lengths = c.lengths.empty() ? nullptr : c.lengths.data(),
          .other_clock = {.lengths = c.other_lengths.empty() ? nullptr : c.other_lengths.data()}},
      c);
  return r;
}

template <class L, class Precision>
OpResults op_on_cuda(SequenceCase const& c) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  OpSetup const setup = sequence_setup<L>(c);
  Op<L, BasicCuda<Portable, Precision>> op{setup, gpu()};
  OpNeeds const needs = op.needs();
  DeviceArray<std::byte> const scratch{gpu(), needs.scratch_bytes};
  DeviceArray<std::byte> const saved{gpu(), c.training ? needs.saved_bytes : 0};
  DeviceArray<std::byte> const carry{gpu(), needs.carried_bytes * c.batch};
  gpu().scratch = scratch.data();
  gpu().scratch_bytes = needs.scratch_bytes;
  DeviceArray<std::int32_t> const lengths{gpu(), c.lengths};
  DeviceArray<std::int32_t> const other_lengths{gpu(), c.other_lengths};
  DeviceArray<T> const x[2] = {{gpu(), numbers<T>(c.elements(0), 1)},
                               {gpu(), numbers<T>(c.elements(1), 2)}};
  DeviceArray<T> const dx[2] = {{gpu(), c.elements(0)}, {gpu(), c.elements(1)}};
  std::int64_t const outputs = c.batch * setup.node.out.elements(c.time);
  DeviceArray<T> const dy{gpu(), numbers<T>(outputs, 3)};
  DeviceArray<T> const y{gpu(), outputs};
  std::vector<DeviceArray<P>> parameter;
  std::vector<DeviceArray<T>> weight;
  std::vector<DeviceArray<P>> gradient;
  auto const in_master = [](std::vector<T> const& list) {
    std::vector<P> result;
    for (T const value : list) {
      result.push_back(static_cast<P>(number(value)));
    }
    return result;
  };
  Parameters const list = sequence_parameters<L>(c);
  for (int p = 0; p < list.count; ++p) {
    auto const seed = static_cast<std::uint64_t>(p);
    auto const values = parameter_numbers<T>(list.item[p].shape, 10 + seed);
    parameter.emplace_back(gpu(), in_master(values));
    weight.emplace_back(gpu(), values);
    gradient.emplace_back(gpu(), in_master(numbers<T>(list.item[p].shape.elements(), 40 + seed)));
  }
  std::vector<P*> at;
  std::vector<T const*> weight_at;
  std::vector<P*> gradient_at;
  for (std::size_t p = 0; p < parameter.size(); ++p) {
    at.push_back(parameter[p].data());
    weight_at.push_back(weight[p].data());
    gradient_at.push_back(gradient[p].data());
  }
  T const* xs[] = {x[0].data(), x[1].data()};
  T* const dx_at[] = {c.wants[0] ? dx[0].data() : nullptr, c.wants[1] ? dx[1].data() : nullptr};
  Operands<T, P> o{.x = xs,
                   .y = y.data(),
                   .dy = dy.data(),
                   .dx = dx_at,
                   .parameter = at.data(),
                   .weight = weight_at.data(),
                   .gradient = gradient_at.data(),
                   .saved = saved.data(),
                   .sequence = {.carry = carry.data()}};
  Pass<cuda::RankDevice> pass{
      .device = gpu(),
      .lengths = c.lengths.empty() ? nullptr : lengths.data(),
      .other_clock = {.lengths = c.other_lengths.empty() ? nullptr : other_lengths.data()}};
  OpResults r;
  if (c.pieces.empty()) {
    sequence_passes(op, o, pass, c);
    r.y = in_double(y.host());
  } else {  // rows of all samples are not side by side
    r.y.resize(static_cast<std::size_t>(outputs));
    std::int64_t const in = c.in[0][1];
    std::int64_t const out = setup.node.out[1];
    auto const all = numbers<T>(c.elements(0), 1);
    SequenceCase part = c;
    pass.sequence.position = 0;
    for (int const rows : c.pieces) {
      std::vector<T> some;
      for (int b = 0; b < c.batch; ++b) {
        auto const from = all.begin() + (b * c.time + pass.sequence.position) * in;
        some.insert(some.end(), from, from + rows * in);
      }
      DeviceArray<T> const x_part{gpu(), some};
      DeviceArray<T> const y_part{gpu(), c.batch * rows * out};
      xs[0] = x_part.data();
      o.y = y_part.data();
      part.time = rows;
      sequence_passes(op, o, pass, part);
      auto const given = in_double(y_part.host());
      for (int b = 0; b < c.batch; ++b) {
        std::copy_n(given.begin() + b * rows * out, rows * out,
                    r.y.begin() + (b * c.time + pass.sequence.position) * out);
      }
      pass.sequence.position += rows;
    }
  }
  for (int i = 0; i < 2; ++i) {
    r.dx[i] = in_double(dx[i].host());
  }
  for (auto const& g : gradient) {
    r.gradient.push_back(in_double(g.host()));
  }
  static_cast<void>(saved.host());
  static_cast<void>(scratch.host());
  static_cast<void>(carry.host());
  return r;
}

inline void check_near(std::vector<double> const& a, std::vector<double> const& b, double bound) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= bound * (1 + std::abs(b[i])))) {
      FAIL_CHECK("element ", i, ": ", a[i], " against ", b[i], ", bound ", bound);
      return;
    }
  }
}

/// What was computed; the rest is poison on Cuda.
inline void check_near(OpResults const& found, OpResults const& expected, SequenceCase const& c,
                       double bound) {
  check_near(found.y, expected.y, bound);
  for (int i = 0; i < 2; ++i) {
    if (c.training && c.wants_input_gradient && c.wants[i]) {
      check_near(found.dx[i], expected.dx[i], bound);
    }
  }
  REQUIRE(found.gradient.size() == expected.gradient.size());
  for (std::size_t p = 0; p < found.gradient.size(); ++p) {
    check_near(found.gradient[p], expected.gradient[p], bound);
  }
}

}  // namespace tandem::test
