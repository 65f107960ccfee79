// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bahdanau on Host, of float and of double.

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/bahdanau.hpp>
#include <tandem/kernels/host/linear.hpp>
#include <tandem/layers/bahdanau.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Any Bahdanau of a type. saved holds what both products make, the probabilities, and their
/// gradients: the weights' are made of them, whenever that is.
template <class T>
class BahdanauOp {
 public:
  BahdanauOp(OpSetup const& setup, int hidden)
      : longest_{.batch = std::max(setup.batch, 1),
                 .queries = setup.inputs[0][0],
                 .keys = setup.inputs[1][0],
                 .hidden = hidden,
                 .channels = setup.inputs[1][1]},
        query_{setup.inputs[0][1]},
        alike_{setup.inputs[0].clock == setup.inputs[1].clock},
        goes_back_{setup.wants_input_gradient},
        products_{linear_scratch<T>(setup.threads)} {}

  [[nodiscard]] OpNeeds needs() const {
    std::int64_t const pairs = std::int64_t{longest_.queries} * longest_.keys;
    std::int64_t const rows = std::int64_t{longest_.queries} + longest_.keys;
    std::int64_t const saved = longest_.batch * (pairs + (2 * rows + 1) * longest_.hidden);
    std::int64_t const scratch =
        products_ + 2 * longest_.hidden + std::int64_t{longest_.batch} * longest_.keys;
    return {.input = true,
            .saved_bytes = saved * static_cast<std::int64_t>(sizeof(T)),
            .scratch_bytes = scratch * static_cast<std::int64_t>(sizeof(T))};
  }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    AdditiveRows const rows = this->rows(p);
    Saved const s = saved(o);
    T* const scratch = p.device.template scratch_as<T>();
    linear_forward<T>(p.device.team, rows.batch * rows.queries, query_, rows.hidden, o.x[0],
                      o.parameter[0], nullptr, s.q, scratch);
    linear_forward<T>(p.device.team, rows.batch * rows.keys, rows.channels, rows.hidden, o.x[1],
                      o.parameter[1], nullptr, s.k, scratch);
    additive_forward<T>(p.device.team, rows, s.q, s.k, unit(o, p), o.parameter[3], o.x[1], s.p,
                        o.y);
  }

  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    AdditiveRows const rows = this->rows(p);
    Saved const s = saved(o);
    T* const scratch = p.device.template scratch_as<T>();
    core_gradient(o, p, o.dx[1]);
    if (o.dx[0] != nullptr) {
      linear_input_gradient<T>(p.device.team, rows.batch * rows.queries, query_, rows.hidden,
                               o.parameter[0], s.dq, o.dx[0], scratch);
    }
    if (o.dx[1] != nullptr) {  // behind what the values gave
      gemm<T>(p.device.team, Transpose::no, Transpose::no, rows.batch * rows.keys, rows.channels,
              rows.hidden, s.dk, rows.hidden, o.parameter[1], rows.channels, o.dx[1], rows.channels,
              true, scratch);
    }
  }

  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    AdditiveRows const rows = this->rows(p);
    Saved const s = saved(o);
    T* const scratch = p.device.template scratch_as<T>();
    if (!goes_back_) {
      core_gradient(o, p, nullptr);
    }
    linear_weight_gradient<T>(p.device.team, rows.batch * rows.queries, query_, rows.hidden, o.x[0],
                              s.dq, o.gradient[0], o.gradient[3], p.accumulate, scratch);
    linear_weight_gradient<T>(p.device.team, rows.batch * rows.keys, rows.channels, rows.hidden,
                              o.x[1], s.dk, o.gradient[1], nullptr, p.accumulate, scratch);
    T* const dunit = scratch + products_;
    for (int h = 0; h < rows.hidden; ++h) {  // of all samples, in order
      dunit[h] = T{0};
      for (int b = 0; b < rows.batch; ++b) {
        dunit[h] += s.dunit[std::int64_t{b} * rows.hidden + h];
      }
    }
    normalise_scores_gradient<T>(rows.hidden, o.parameter[2], *o.parameter[4], dunit, o.gradient[2],
                                 o.gradient[4], p.accumulate);
  }

 private:
  struct Saved {
    T* q;
    T* k;
    T* dq;
    T* dk;
    T* dunit;
    T* p;
  };
  [[nodiscard]] Saved saved(Operands<T> const& o) const {
    std::int64_t const queries = std::int64_t{longest_.batch} * longest_.queries * longest_.hidden;
    std::int64_t const keys = std::int64_t{longest_.batch} * longest_.keys * longest_.hidden;
    T* const q = reinterpret_cast<T*>(o.saved);
    T* const k = q + queries;
    T* const dq = k + keys;
    T* const dk = dq + queries;
    T* const dunit = dk + keys;
    return {q, k, dq, dk, dunit, dunit + std::int64_t{longest_.batch} * longest_.hidden};
  }
  // The second input may be of the other clock.
  [[nodiscard]] AdditiveRows rows(Pass<Device> const& p) const {
    AdditiveRows rows = longest_;
    rows.batch = p.batch;
    rows.queries = p.time;
    rows.keys = alike_ ? p.time : p.other_time;
    rows.lengths = alike_ ? p.lengths : p.other_lengths;
    return rows;
  }
  T* unit(Operands<T> const& o, Pass<Device> const& p) const {
    T* const unit = p.device.template scratch_as<T>() + products_ + longest_.hidden;
    normalise_scores<T>(longest_.hidden, o.parameter[2], *o.parameter[4], unit);
    return unit;
  }
  void core_gradient(Operands<T> const& o, Pass<Device> const& p, T* dvalue) const {
    Saved const s = saved(o);
    T* const scores = p.device.template scratch_as<T>() + products_ + 2 * longest_.hidden;
    additive_gradient<T>(p.device.team, rows(p), s.q, s.k, unit(o, p), o.parameter[3], o.x[1], s.p,
                         o.dy, s.dq, s.dk, s.dunit, dvalue, scores);
  }

  AdditiveRows longest_;
  int query_;
  bool alike_;
  bool goes_back_;
  std::int64_t products_;
};

}  // namespace host

template <int Width, class... Options, class Kernels, class Precision>
  requires std::same_as<typename Precision::Scalar, typename Precision::Master>
struct Op<Bahdanau<Width, Options...>, BasicHost<Kernels, Precision>>
    : host::BahdanauOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup) : host::BahdanauOp<typename Precision::Scalar>{setup, Width} {}
};

}  // namespace tandem
