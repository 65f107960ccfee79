// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Ops of the Null backend: every layer, loss and metric, computing nothing.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/rounding.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/runtime/host/null.hpp>

namespace tandem {

template <class L>
struct Op<L, Null> {
  explicit Op(OpSetup const&) {}
  [[nodiscard]] OpNeeds needs() const { return {}; }
  void forward(Operands<float> const&, Pass<host::Device> const&) const {}
  void input_gradient(Operands<float> const&, Pass<host::Device> const&) const {}
  void weight_gradient(Operands<float> const&, Pass<host::Device> const&) const {}
};

/// Nobody has anything for another rank.
template <>
struct Op<TileExchange, Null> {
  explicit Op(OpSetup const&) {}
  [[nodiscard]] OpNeeds needs() const { return {}; }
  void begin_forward(Operands<float> const&, Pass<host::Device> const&) const {}
  void finish_forward(Operands<float> const&, Pass<host::Device> const&) const {}
  void begin_input_gradient(Operands<float> const&, Pass<host::Device> const&) const {}
  void finish_input_gradient(Operands<float> const&, Pass<host::Device> const&) const {}
  [[nodiscard]] std::span<TileMessage<float> const> messages() const { return {}; }
};

template <class L>
struct LossOp<L, Null> {
  using Target = typename L::Target;
  LossOp(Shape, int) {}
  [[nodiscard]] std::int64_t scratch_bytes() const { return 0; }
  void forward(Pass<host::Device> const&, float const*, Target const*, double*) const {}
  void gradient(Pass<host::Device> const&, float const*, Target const*, double, float*) const {}
};

template <class M, class L>
struct MetricOp<M, L, Null> {
  explicit MetricOp(Shape) {}
  void count(Pass<host::Device> const&, float const*, typename L::Target const*, double*) const {}
};

template <>
struct Verbs<Null> {
  static void zero(host::Device&, float*, std::int64_t) {}
  static void add(host::Device&, float const*, float*, std::int64_t) {}
  static void copy(host::Device&, float const*, float*, std::int64_t) {}
  static void sum(host::Device&, float const* const*, int, float*, std::int64_t, Rounding) {}
  static double sum_of_squares(host::Device&, float const*, std::int64_t) { return 0.0; }
  static void gather_rows(host::Device&, std::byte const*, std::byte*, std::int32_t const*,
                          std::int64_t, std::int64_t) {}
  template <class Functor>
  static void each(host::Device&, std::int64_t, Functor const&) {}
};

}  // namespace tandem
