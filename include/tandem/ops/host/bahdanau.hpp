// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bahdanau on Host: two Linears' products around the rows of additive attention.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/kernels/host/bahdanau.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/layers/bahdanau.hpp>
#include <tandem/ops/host/convolution.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Any Bahdanau of a type. saved holds what both products make, the probabilities, and their
/// gradients: the weights' are made of them, whenever that is.
/// @tparam Linear  the op of a Linear without a bias
template <class T, class P, class Linear>
class BahdanauOp {
  using R = Real<T>;

 public:
  BahdanauOp(OpSetup const& setup, int hidden)
      : longest_{.batch = std::max(setup.batch, 1),
                 .queries = setup.inputs[0][0],
                 .keys = setup.inputs[1][0],
                 .hidden = hidden,
                 .channels = setup.inputs[1][1]},
        alike_{setup.inputs[0].clock == setup.inputs[1].clock},
        goes_back_{setup.wants_input_gradient},
        of_queries_{linear_setup(setup, setup.inputs[0], hidden)},
        of_keys_{linear_setup(setup, setup.inputs[1], hidden)},
        products_{
            rounded(std::max(of_queries_.needs().scratch_bytes, of_keys_.needs().scratch_bytes))},
        keys_packed_at_{rounded(of_queries_.needs().packed_bytes)} {}

  [[nodiscard]] OpNeeds needs() const {
    std::int64_t const packed = of_keys_.needs().packed_bytes;
    return {.input = true,
            .saved_bytes = Saved{longest_, nullptr}.bytes,
            .scratch_bytes = products_ + bytes<R>(2 * longest_.hidden) +
                             bytes<R>(additive_gradient_scratch<T>(longest_)),
            .packed_bytes = packed > 0 ? keys_packed_at_ + packed : 0,
            .carried_bytes = carried()};
  }

  void pack(Operands<T, P> const& o, Device& device) requires requires(Linear& linear) {
    linear.pack(o, device);
  }
  {
    of_queries_.pack(o, device);
    Operands<T, P> keys = o;
    keys.parameter = o.parameter + 1;
    keys.packed = o.packed + keys_packed_at_;
    of_keys_.pack(keys, device);
  }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) {
    AdditiveRows const rows = this->rows(p);
    Saved const s{longest_, o.saved};
    Operands<T, P> queries = o;
    queries.y = s.q;
    of_queries_.forward(queries, query_rows(p, rows));
    if (p.sequence.position <= 0) {
      Operands<T, P> keys = operands_of_keys(o);
      keys.y = s.k;
      of_keys_.forward(keys, key_rows(p, rows));
    }
    if (p.sequence.position >= 0) {
      step(o, p, rows, s);
      return;
    }
    additive_forward<T>(p.device.team, rows, s.q, s.k, unit(o, p), o.parameter[3], o.x[1], s.p,
                        o.y);
  }

  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    AdditiveRows const rows = this->rows(p);
    Saved const s{longest_, o.saved};
    core_gradient(o, p);
    if (o.dx[0] != nullptr) {
      Operands<T, P> queries = o;
      queries.dy = s.dq;
      of_queries_.input_gradient(queries, query_rows(p, rows));
    }
    if (o.dx[1] != nullptr) {
      Operands<T, P> keys = operands_of_keys(o);
      keys.dy = s.dk;
      of_keys_.input_gradient(keys, key_rows(p, rows));
      additive_value_gradient<T>(p.device.team, rows, s.p, o.dy, o.dx[1]);
    }
  }

  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) {
    AdditiveRows const rows = this->rows(p);
    Saved const s{longest_, o.saved};
    if (!goes_back_) {
      core_gradient(o, p);
    }
    Operands<T, P> queries = o;
    queries.dy = s.dq;
    of_queries_.weight_gradient(queries, query_rows(p, rows));
    Operands<T, P> keys = operands_of_keys(o);
    keys.dy = s.dk;
    of_keys_.weight_gradient(keys, key_rows(p, rows));
    R* const sum = own_scratch(p);
    add_samples(rows, s.dunit, sum);
    normalise_scores_gradient<R>(rows.hidden, o.parameter[2], *o.parameter[4], sum, o.gradient[2],
                                 o.gradient[4], p.accumulate);
    add_samples(rows, s.dbias, sum);
    for (int h = 0; h < rows.hidden; ++h) {
      o.gradient[3][h] = p.accumulate ? o.gradient[3][h] + sum[h] : sum[h];
    }
  }

 private:
  static std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  template <class E>
  static std::int64_t bytes(std::int64_t numbers) {
    return rounded(numbers * static_cast<std::int64_t>(sizeof(E)));
  }

  struct Saved {
    T* q;
    T* k;
    T* dq;
    T* dk;
    R* dunit;  // (B, H)
    R* dbias;
    R* p;
    std::int64_t bytes = 0;

    Saved(AdditiveRows const& longest, std::byte* at) {
      std::int64_t const samples = longest.batch;
      take(q, at, samples * longest.queries * longest.hidden);
      take(k, at, samples * longest.keys * longest.hidden);
      take(dq, at, samples * longest.queries * longest.hidden);
      take(dk, at, samples * longest.keys * longest.hidden);
      take(dunit, at, samples * longest.hidden);
      take(dbias, at, samples * longest.hidden);
      take(p, at, samples * longest.queries * longest.keys);
    }

   private:
    template <class E>
    void take(E*& to, std::byte* at, std::int64_t numbers) {
      to = at != nullptr ? reinterpret_cast<E*>(at + bytes) : nullptr;
      bytes += BahdanauOp::bytes<E>(numbers);
    }
  };

  // Each row is a sample of the Linears.
  static OpSetup linear_setup(OpSetup setup, Shape in, int hidden) {
    setup.batch = std::max(setup.batch, 1) * in[0];
    setup.node.in = vector_shape(in[1]);
    setup.node.out = vector_shape(hidden);
    return setup;
  }
  static Pass<Device> query_rows(Pass<Device> const& p, AdditiveRows const& rows) {
    Pass<Device> some = p;
    some.batch = rows.batch * rows.queries;
    return some;
  }
  static Pass<Device> key_rows(Pass<Device> const& p, AdditiveRows const& rows) {
    Pass<Device> some = p;
    some.batch = rows.batch * rows.keys;
    return some;
  }
  Operands<T, P> operands_of_keys(Operands<T, P> const& o) const {
    Operands<T, P> keys = o;
    keys.x = o.x + 1;
    keys.dx = o.dx + 1;
    keys.parameter = o.parameter + 1;
    keys.gradient = o.gradient + 1;
    keys.packed = o.packed + keys_packed_at_;
    return keys;
  }
  // What is carried of a sample: how many of its keys count, how much of each has been taken so
  // far, the keys and the values.
  struct Carried {
    std::int64_t* length;
    R* taken;   // (longest keys)
    T* keys;    // (longest keys, hidden)
    T* values;  // (longest keys, channels)
  };
  [[nodiscard]] std::int64_t carried() const {
    std::int64_t const row =
        static_cast<std::int64_t>(sizeof(R)) +
        (longest_.hidden + longest_.channels) * static_cast<std::int64_t>(sizeof(T));
    return (static_cast<std::int64_t>(sizeof(std::int64_t)) + longest_.keys * row + 7) / 8 * 8;
  }
  [[nodiscard]] Carried carried(Operands<T, P> const& o, std::int64_t sample) const {
    std::byte* const own = o.sequence.carry + sample * carried();
    R* const taken = reinterpret_cast<R*>(own + sizeof(std::int64_t));
    T* const keys = reinterpret_cast<T*>(taken + longest_.keys);
    return {reinterpret_cast<std::int64_t*>(own), taken, keys,
            keys + std::int64_t{longest_.keys} * longest_.hidden};
  }

  // Rows that ask come in pieces; what they ask of is there with the first.
  void step(Operands<T, P> const& o, Pass<Device> const& p, AdditiveRows const& rows,
            Saved const& s) const {
    expects(!alike_,
            "generate(prompt): a Bahdanau looks at tokens of its own input that are not written "
            "yet; give it rows of the other input");
    R const* const unit = this->unit(o, p);
    p.device.team.parallel_for(rows.batch, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        Carried const own = carried(o, b);
        if (p.sequence.position == 0) {
          std::int64_t const first = b * rows.keys;
          *own.length = rows.length(b);
          std::fill_n(own.taken, longest_.keys, R{0});
          std::copy_n(s.k + first * rows.hidden, *own.length * rows.hidden, own.keys);
          std::copy_n(o.x[1] + first * rows.channels, *own.length * rows.channels, own.values);
        }
        take(o, rows, s, unit, b);
        for (int j = 0; p.sequence.coverage != nullptr && j < longest_.keys; ++j) {
          p.sequence.coverage[b * longest_.keys + j] = static_cast<float>(own.taken[j]);
        }
      }
    });
  }
  // The rows of sample @p b, and what they take.
  void take(Operands<T, P> const& o, AdditiveRows const& rows, Saved const& s, R const* unit,
            std::int64_t b) const {
    Carried const own = carried(o, b);
    int const length = static_cast<int>(*own.length);
    R* const share = s.p + b * longest_.keys;
    for (std::int64_t row = b * rows.queries; row < (b + 1) * rows.queries; ++row) {
      additive_row<T>(rows.hidden, rows.channels, length, s.q + row * rows.hidden, own.keys, unit,
                      o.parameter[3], own.values, share, o.y + row * rows.channels);
      for (int j = 0; j < length; ++j) {
        own.taken[j] += share[j];
      }
    }
  }

  // The second input may be of the other clock.
  [[nodiscard]] AdditiveRows rows(Pass<Device> const& p) const {
    AdditiveRows rows = longest_;
    rows.batch = p.batch;
    rows.queries = p.time;
    rows.keys = alike_ ? p.time : p.other_clock.time;
    rows.lengths = alike_ ? p.lengths : p.other_clock.lengths;
    return rows;
  }
  R* own_scratch(Pass<Device> const& p) const {
    return reinterpret_cast<R*>(p.device.scratch + products_);
  }
  R* unit(Operands<T, P> const& o, Pass<Device> const& p) const {
    R* const unit = own_scratch(p) + longest_.hidden;
    normalise_scores<R>(longest_.hidden, o.parameter[2], *o.parameter[4], unit);
    return unit;
  }
  void core_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    Saved const s{longest_, o.saved};
    auto* const scratch =
        reinterpret_cast<R*>(p.device.scratch + products_ + bytes<R>(2 * longest_.hidden));
    additive_gradient<T>(p.device.team, rows(p), s.q, s.k, unit(o, p), o.parameter[3], o.x[1], s.p,
                         o.dy, s.dq, s.dk, s.dunit, s.dbias, scratch);
  }
  /// sum[h] = of all samples, in order.
  static void add_samples(AdditiveRows const& rows, R const* each, R* sum) {
    std::fill_n(sum, rows.hidden, R{0});
    for (std::int64_t b = 0; b < rows.batch; ++b) {
      for (int h = 0; h < rows.hidden; ++h) {
        sum[h] += each[b * rows.hidden + h];
      }
    }
  }

  AdditiveRows longest_;
  bool alike_;
  bool goes_back_;
  Linear of_queries_;
  Linear of_keys_;
  std::int64_t products_;
  std::int64_t keys_packed_at_;
};

}  // namespace host

template <int Width, class... Options, class Precision>
struct Op<Bahdanau<Width, Options...>, BasicHost<Portable, Precision>>
    : host::BahdanauOp<typename Precision::Scalar, typename Precision::Master,
                       host::LinearOp<typename Precision::Scalar, false>> {
  explicit Op(OpSetup const& setup)
      : host::BahdanauOp<typename Precision::Scalar, typename Precision::Master,
                         host::LinearOp<typename Precision::Scalar, false>>{setup, Width} {}
};

}  // namespace tandem
