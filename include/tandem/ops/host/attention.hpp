// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention on Host, portable kernels.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/kernels/host/attention.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/ops/attention_shape.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Row by row, in any T.
template <class T>
struct AttentionByRow {
  using Normaliser = AttentionScalar<T>;

  static std::int64_t scratch_bytes(AttentionShape const& shape, int threads) {
    std::int64_t const most =
        std::max(attention_forward_scratch<T>(shape, shape.longest, threads),
                 attention_gradient_scratch<T>(shape, shape.longest, threads));
    return most * static_cast<std::int64_t>(sizeof(Normaliser));
  }
  template <class... Arguments>
  static void forward(Arguments&&... arguments) {
    attention_forward<T>(arguments...);
  }
  template <class... Arguments>
  static void gradient(Arguments&&... arguments) {
    attention_gradient<T>(arguments...);
  }
};

/// Any Attention: one type for all of a precision.
/// @tparam Kernels  forward() and gradient(), and what they need
template <class T, class P, class Kernels>
class AttentionOp {
  using Normaliser = typename Kernels::Normaliser;
  using Sum = AttentionScalar<T>;

 public:
  AttentionOp(OpSetup const& setup, AttentionShape const& shape, double rate)
      : shape_{shape},
        layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)},
        chunks_{setup.node.sequence.chunks},
        scratch_{std::max(chunks_ > 1 ? 0 : Kernels::scratch_bytes(shape, setup.threads),
                          std::max(attention_step_scratch<T>(shape, setup.threads),
                                   attention_chunk_scratch<T>(shape, setup.threads)) *
                              static_cast<std::int64_t>(sizeof(Sum)))},
        saved_{std::int64_t{setup.batch} * shape.heads * (shape.longest / chunks_) *
               static_cast<std::int64_t>(sizeof(Normaliser))} {
    static_assert(std::is_same_v<Normaliser, Sum>);
    std::int64_t const words =
        std::int64_t{shape.heads} * setup.slice.count * shape.longest * (shape.longest + 63);
    expects(rate == 0.0 || words < (std::int64_t{1} << 34),
            "Attention<Heads, Percent<…>>: a dropout's mask has too many elements for one sample; "
            "heads times the square of the time must be below 2^34");
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .output = true,
            .saved_bytes = saved_,
            .scratch_bytes = scratch_,
            .carried_bytes = shape_.causal && chunks_ == 1 ? carried() : 0,
            .carried_gradient_bytes = shape_.causal
                                          ? shape_.longest * (shape_.row() - shape_.out()) *
                                                static_cast<std::int64_t>(sizeof(Sum))
                                          : 0};
  }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    if (p.sequence.is_chunk()) {
      attention_chunk_forward<T>(p.device.team, shape_, rows(p), chunk(o, p),
                                 dropout(p, p.training ? rate_ : 0.0F), o.x[0], o.y,
                                 p.training ? reinterpret_cast<Sum*>(o.saved) : nullptr,
                                 p.device.scratch_as<Sum>());
      return;
    }
    if (p.sequence.position >= 0) {
      step(o, p);
      return;
    }
    Kernels::forward(p.device.team, shape_, rows(p), dropout(p, p.training ? rate_ : 0.0F), o.x[0],
                     o.y, p.training ? reinterpret_cast<Normaliser*>(o.saved) : nullptr,
                     p.device.scratch_as<Normaliser>());
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    if (p.sequence.is_chunk()) {
      attention_chunk_gradient<T>(p.device.team, shape_, rows(p), chunk(o, p), dropout(p, rate_),
                                  o.x[0], o.y, o.dy, reinterpret_cast<Sum const*>(o.saved), o.dx[0],
                                  p.device.scratch_as<Sum>());
      return;
    }
    Kernels::gradient(p.device.team, shape_, rows(p), dropout(p, rate_), o.x[0], o.y, o.dy,
                      reinterpret_cast<Normaliser const*>(o.saved), o.dx[0],
                      p.device.scratch_as<Normaliser>());
  }

 private:
  // Keys and values of a sample.
  [[nodiscard]] std::int64_t carried() const {
    return shape_.longest * (shape_.row() - shape_.out()) * static_cast<std::int64_t>(sizeof(T));
  }

  // Rows of sequences that come in pieces, one after another.
  void step(Operands<T, P> const& o, Pass<Device> const& p) const {
    expects(shape_.causal,
            "generate(prompt): an Attention that is not Causal looks at tokens that are not "
            "written yet; make it Causal");
    bool const at_once = p.time == 1;  // then they stand one behind the other
    for (std::int64_t first = 0; first < p.batch; first += at_once ? p.batch : 1) {
      for (std::int64_t row = first * p.time; row < (first + 1) * p.time; ++row) {
        int const position = p.sequence.position + static_cast<int>(row - first * p.time);
        attention_step(p.device.team, shape_, at_once ? p.batch : 1, position,
                       o.x[0] + row * shape_.row(),
                       reinterpret_cast<T*>(o.sequence.carry + first * carried()),
                       o.y + row * shape_.out(), p.device.scratch_as<AttentionScalar<T>>());
      }
    }
  }

  static AttentionChunkRows<Sum> chunk(Operands<T, P> const& o, Pass<Device> const& p) {
    return {p.sequence.position, o.sequence.apart, p.is_last_chunk(),
            reinterpret_cast<Sum*>(o.sequence.carry_gradient)};
  }
  static AttentionRows rows(Pass<Device> const& p) { return {p.batch, p.time, p.lengths}; }

  [[nodiscard]] AttentionDropout dropout(Pass<Device> const& p, float rate) const {
    if (rate == 0.0F) {
      return {};
    }
    return {{p.state->seed, static_cast<std::uint32_t>(p.state->step), layer_,
             static_cast<std::uint32_t>(p.first_sample)},
            rate};
  }

  AttentionShape shape_;
  std::uint32_t layer_;
  float rate_;
  int chunks_;  // of time, of which a pass has one
  std::int64_t scratch_;
  std::int64_t saved_;
};

}  // namespace host

template <int Heads, class... Options, class Precision>
struct Op<Attention<Heads, Options...>, BasicHost<Portable, Precision>>
    : host::AttentionOp<typename Precision::Scalar, typename Precision::Master,
                        host::AttentionByRow<typename Precision::Scalar>> {
  using L = Attention<Heads, Options...>;
  explicit Op(OpSetup const& setup)
      : host::AttentionOp<typename Precision::Scalar, typename Precision::Master,
                          host::AttentionByRow<typename Precision::Scalar>>{
            setup, detail::attention_shape<L>(setup), L::dropout} {}
};

}  // namespace tandem
