// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lstm and Gru on Cuda: the passes over time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/recurrent_rows.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/layers/recurrent.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/cuda/recurrent_memory.hpp>
#include <tandem/ops/cuda/recurrent_products.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Lstm or Gru of a precision.
///
/// One product of all rows with weight_ih, then for each row of all samples a product with
/// weight_hh and one kernel for all else, with a projection a product and a kernel more; nothing
/// waits for the host. The first row of a sequence has no state to multiply. Backward goes from the
/// last row to the first, leaves the gradients of the gates where the gates were, and multiplies
/// them, one product a weight. In evaluation the state is kept of one row only; in generation,
/// where it is carried. A Stateful layer's first row reads what the step before has left, that of a
/// chunk of time what the chunk before has, and the kernel of each sample's last row leaves its
/// state besides. Behind a chunk's last row the gradient of its state is what the next chunk has
/// handed back.
/// @tparam Cell  LstmFunction or GruFunction
template <class Cell, class Precision>
class RecurrentOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  RecurrentOp(OpSetup const& setup, RankDevice& device, RecurrentShape const& shape)
      : shape_{shape},
        carry_{shape},
        runs_in_weight_gradient_{!setup.wants_input_gradient},
        lives_on_{setup.node.sequence.carried.any()},
        in_chunks_{setup.node.sequence.chunks > 1},
        batch_{std::max(setup.batch, 1)},
        products_{device.library<CublasLt>(), shape, Cell::gates, matmul_math<Precision>, batch_} {
    expects(batch_ * width() < (std::int64_t{1} << 31),
            "Lstm, Gru: a row of all samples has 2^31 numbers or more; give smaller microbatches");
  }

  [[nodiscard]] OpNeeds needs() const {
    std::int64_t const rows = batch_ * shape_.longest;
    RecurrentWork<T> const work{shape_, Cell::gates, nullptr, batch_, shape_.longest};
    return {.input = true,
            .saved_bytes = Memory{shape_, nullptr, rows, 0, begun_by(batch_)}.bytes,
            .scratch_bytes = std::max(work_at() + work.bytes,
                                      column_sum_scratch_bytes<T>(rows, static_cast<int>(width()))),
            .carried_bytes = shape_.directions == 1 ? carry_.bytes : 0,
            .carried_gradient_bytes = shape_.directions == 1 ? carry_.gradient_bytes : 0};
  }

  /// @throws ContractError  the sequence comes in pieces, and is read from both ends
  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    expects(p.sequence.position < 0 || shape_.directions == 1,
            "generate(prompt): a Bidirectional layer looks at tokens that are not written yet; "
            "leave Bidirectional out");
    for (int d = 0; d < shape_.directions && p.batch * p.time > 0; ++d) {
      forward(o, p, d);
    }
  }

  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    std::int64_t const rows = std::int64_t{p.batch} * p.time;
    for (int d = 0; d < shape_.directions && rows > 0; ++d) {
      through_time(o, p, d);
      // The second direction's is added in T.
      products_.of_all(rows).backward.run(p.device.compute, memory(o.saved, p, d).gates,
                                          weight(o, d, 0), o.dx[0],
                                          {1, static_cast<Real>(d > 0 ? 1 : 0)}, p.device.scratch);
    }
  }

  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    std::int64_t const rows = std::int64_t{p.batch} * p.time;
    auto& products = products_.of_all(rows);
    typename Matmul<T, P>::Scale const scale{1, static_cast<Real>(p.accumulate ? 1 : 0)};
    Stream const& stream = p.device.compute;
    for (int d = 0; d < shape_.directions; ++d) {
      if (runs_in_weight_gradient_ && rows > 0) {
        through_time(o, p, d);
      }
      Memory const own = memory(o.saved, p, d);
      T const* const of_state = lstm ? own.gates : own.kept;
      P* const* const to = o.gradient + first_parameter(d);
      products.weight_ih.run(stream, own.gates, o.x[0], to[0], scale, p.device.scratch);
      products.weight_hh.run(stream, of_state, own.before, to[1], scale, p.device.scratch);
      for (int b = 0; b < shape_.biases; ++b) {
        column_sum(stream, b == 0 ? static_cast<T const*>(own.gates) : of_state, rows,
                   static_cast<int>(width()), to[2 + b], p.accumulate, p.device.scratch);
      }
      if (shape_.projected) {
        products.weight_hr.run(stream, own.dh, own.inner, to[2 + shape_.biases], scale,
                               p.device.scratch);
      }
    }
  }

 private:
  using Real = ComputeType<T>;
  static_assert(std::is_same_v<P, Real>);
  using Memory = RecurrentMemory<Cell, T>;
  static constexpr bool lstm = Memory::lstm;

  /// Where the state is, from row to row.
  struct State {
    StateRows<Real> c;  ///< of the row before
    StateRows<T> h;
    bool is;  ///< else it is 0
  };

  [[nodiscard]] std::int64_t width() const { return Cell::gates * shape_.hidden; }
  [[nodiscard]] int first_parameter(int direction) const {
    return direction * (2 + shape_.biases + (shape_.projected ? 1 : 0));
  }
  [[nodiscard]] T const* weight(Operands<T, P> const& o, int direction, int which) const {
    return o.weight[first_parameter(direction) + which];
  }
  [[nodiscard]] P const* bias(Operands<T, P> const& o, int direction, int which) const {
    return which < shape_.biases ? o.parameter[first_parameter(direction) + 2 + which] : nullptr;
  }
  [[nodiscard]] std::int64_t work_at() const {
    return (products_.workspace_bytes() + 255) / 256 * 256;
  }
  [[nodiscard]] RecurrentWork<T> work(Pass<RankDevice> const& p) const {
    return {shape_, Cell::gates, p.device.scratch + work_at(), p.batch, p.time};
  }
  [[nodiscard]] Memory memory(std::byte* saved, Pass<RankDevice> const& p, int d) const {
    return {shape_, saved, std::int64_t{p.batch} * p.time, d, begun_by(p.batch)};
  }
  /// Samples whose c before the first row is kept for backward: a later chunk leaves another.
  [[nodiscard]] std::int64_t begun_by(std::int64_t batch) const { return in_chunks_ ? batch : 0; }
  [[nodiscard]] RecurrentRow row(Pass<RankDevice> const& p, std::int64_t time) const {
    return {p.batch, shape_.hidden, static_cast<int>(time), p.lengths};
  }
  /// Row t of what has all rows, n numbers each.
  template <class E>
  static StateRows<E> among(E* all, Pass<RankDevice> const& p, std::int64_t t, std::int64_t n) {
    return {all + t * n, p.time * n};
  }
  /// Of y or dy, a direction's numbers of a row of time.
  template <class E>
  [[nodiscard]] StateRows<E> outside(E* y, Pass<RankDevice> const& p, int d, std::int64_t t) const {
    StateRows<E> rows = among(y, p, t, shape_.directions * shape_.handed);
    rows.first += d * shape_.handed;
    return rows;
  }

  /// The rows of time in the order in which a direction meets them.
  struct Order {
    int direction;
    std::int64_t count;

    [[nodiscard]] std::int64_t at(std::int64_t i) const {
      return direction == 0 ? i : count - 1 - i;
    }
    [[nodiscard]] std::int64_t next(std::int64_t t) const { return direction == 0 ? t + 1 : t - 1; }
    [[nodiscard]] std::int64_t last(std::int64_t t) const { return direction == 0 ? t - 1 : t + 1; }
  };

  /// Of an evaluation: one place, where each row finds it and leaves its own.
  [[nodiscard]] State one_place(Operands<T, P> const& o, Pass<RankDevice> const& p,
                                RecurrentWork<T> const& work) const {
    if (p.sequence.position < 0 || p.sequence.is_chunk()) {
      return {{work.c, shape_.hidden}, {work.h, shape_.handed}, false};
    }
    return carried(o.sequence.carry, p.sequence.position > 0);
  }
  [[nodiscard]] State carried(std::byte* at, bool is) const {
    StateRows<Real> const c{reinterpret_cast<Real*>(at),
                            carry_.bytes / static_cast<std::int64_t>(sizeof(Real))};
    return {lstm ? c : StateRows<Real>{},
            {reinterpret_cast<T*>(at + carry_.h_at),
             carry_.bytes / static_cast<std::int64_t>(sizeof(T))},
            is};
  }
  [[nodiscard]] bool lives_on(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    return lives_on_ && (p.sequence.position < 0 || p.sequence.is_chunk()) &&
           o.sequence.carry != nullptr;
  }
  /// Whether a chunk is behind the first.
  static bool is_later(Pass<RankDevice> const& p) {
    return p.sequence.is_chunk() && p.sequence.position > 0;
  }
  /// Where row @p t leaves the states of samples that it may be the last row of.
  [[nodiscard]] State left_by(Operands<T, P> const& o, Pass<RankDevice> const& p,
                              std::int64_t t) const {
    bool const leaves = p.sequence.is_chunk() || lives_on(o, p);
    return leaves && (p.lengths != nullptr || t + 1 == p.time)
               ? carried(o.sequence.carried_on, true)
               : State{};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p, int d) {
    Stream const& stream = p.device.compute;
    RecurrentWork<T> const work = this->work(p);
    Memory const own = memory(p.training ? o.saved : nullptr, p, d);
    Real* sums = work.sums;
    if constexpr (std::is_same_v<T, Real>) {
      sums = p.training ? own.gates : sums;
    }
    products_.of_all(std::int64_t{p.batch} * p.time)
        .forward.run(stream, o.x[0], weight(o, d, 0), sums, {1, 0}, p.device.scratch);

    State const place = one_place(o, p, work);
    RecurrentStride const strides =
        p.training ? products_.trained(p.batch, p.time)
                   : RecurrentStride{p.batch, p.time, place.h.stride, shape_.hidden};
    auto& products = products_.of_row(strides);
    Order const order{d, p.time};
    State state = place;
    if (p.training) {
      state = {{}, among(own.before, p, order.at(0), shape_.handed), false};
    }
    if (lives_on(o, p) || is_later(p)) {
      State const begun = carried(o.sequence.carry, true);
      state = {begun.c, state.h, true};
      each(stream, p.batch * shape_.handed,
           TakeUp<T>{shape_.handed, begun.h.read(), state.h, row(p, 0)});
      if (lstm && p.training && is_later(p)) {
        state.c = {own.begun, shape_.hidden};
        each(stream, p.batch * shape_.hidden,
             TakeUp<Real>{shape_.hidden, begun.c.read(), state.c, row(p, 0)});
      }
    } else if (p.training) {
      each(stream, p.batch * shape_.handed, HandOn<T>{shape_.handed, nullptr, state.h});
    }
    for (std::int64_t i = 0; i < p.time; ++i) {
      std::int64_t const t = order.at(i);
      StateRows<T> const y = outside(o.y, p, d, t);
      StateRows<Real> const of_x = among(sums, p, t, width());
      State const left = left_by(o, p, t);
      State next = place;  // where this row leaves it
      if (p.training) {
        next.c = lstm ? among(own.c, p, t, shape_.hidden) : StateRows<Real>{};
        next.h =
            i + 1 < p.time ? among(own.before, p, order.next(t), shape_.handed) : StateRows<T>{};
      }
      next.is = true;
      if (state.is) {
        Real* const to = lstm ? of_x.first : work.row;
        products.state.run(stream, state.h.first, weight(o, d, 1), to,
                           {1, static_cast<Real>(lstm ? 1 : 0)}, p.device.scratch);
      }
      if constexpr (lstm) {
        StateRows<T> inner = y;
        if (shape_.projected) {
          inner = p.training ? among(own.inner, p, t, shape_.hidden)
                             : StateRows<T>{work.inner, shape_.hidden};
        }
        LstmRow<T> cell{row(p, t)};
        cell.sums = of_x.read();
        cell.bias[0] = bias(o, d, 0);
        cell.bias[1] = bias(o, d, 1);
        cell.forget = static_cast<Real>(shape_.forget_bias);
        cell.gates = p.training ? among(own.gates, p, t, width()) : StateRows<T>{};
        cell.before = state.is ? state.c.read() : StateRows<Real const>{};
        cell.c = next.c;
        cell.h = inner;
        cell.also = shape_.projected ? StateRows<T>{} : next.h;
        cell.left_c = left.c;
        cell.left_h = shape_.projected ? StateRows<T>{} : left.h;
        each(stream, p.batch * shape_.hidden, cell);
        if (shape_.projected) {
          products.projection.run(stream, inner.first, weight(o, d, 2 + shape_.biases), work.row,
                                  {1, 0}, p.device.scratch);
          each(stream, p.batch * shape_.handed,
               HandOn<T>{shape_.handed, work.row, y, next.h, row(p, t), left.h});
        }
      } else {
        GruRow<T> cell{row(p, t)};
        cell.of_input = of_x.read();
        cell.of_state =
            state.is ? StateRows<Real const>{work.row, width()} : StateRows<Real const>{};
        cell.bias[0] = bias(o, d, 0);
        cell.bias[1] = bias(o, d, 1);
        cell.gates = p.training ? among(own.gates, p, t, width()) : StateRows<T>{};
        cell.kept = p.training ? among(own.kept, p, t, width()) : StateRows<T>{};
        cell.before = state.is ? state.h.read() : StateRows<T const>{};
        cell.h = y;
        cell.also = next.h;
        cell.left = left.h;
        each(stream, p.batch * shape_.hidden, cell);
      }
      state = next;
    }
  }

  void through_time(Operands<T, P> const& o, Pass<RankDevice> const& p, int d) {
    Stream const& stream = p.device.compute;
    RecurrentWork<T> work = this->work(p);
    Memory const own = memory(o.saved, p, d);
    auto& products = products_.of_row(products_.trained(p.batch, p.time));
    Order const order{d, p.time};
    if (p.sequence.is_chunk()) {  // from the next chunk, and to the one before
      work.dh = reinterpret_cast<Real*>(o.sequence.carry_gradient);
      work.c = work.dh + p.batch * shape_.handed;
    }
    StateRows<Real const> const begun = c_before(o, p, own);
    for (std::int64_t i = p.time; i-- > 0;) {
      std::int64_t const t = order.at(i);
      bool const later = i + 1 < p.time || !p.is_last_chunk();  // rows have left gradients
      StateRows<T const> const dy = outside(o.dy, p, d, t);
      Real* const dh = later ? work.dh : nullptr;
      StateRows<T> const gates = among(own.gates, p, t, width());
      StateRows<T> of_state = gates;
      if constexpr (lstm) {
        LstmRowGradient<T> cell{row(p, t)};
        cell.gates = gates;
        cell.before = i > 0 ? among(own.c, p, order.last(t), shape_.hidden).read() : begun;
        cell.c = among(own.c, p, t, shape_.hidden).read();
        cell.dh = {dh, shape_.handed};
        cell.dy = dy;
        cell.later = later ? work.c : nullptr;
        cell.dc = work.c;
        if (shape_.projected) {
          StateRows<T> const whole = among(own.dh, p, t, shape_.handed);
          each(stream, p.batch * shape_.handed,
               StateGradientSum<T>{row(p, t), shape_.handed, dh, dy, whole});
          products.projection_back.run(stream, whole.first, weight(o, d, 2 + shape_.biases),
                                       work.row, {1, 0}, p.device.scratch);
          cell.dh = {work.row, shape_.hidden};
          cell.dy = {};
        }
        each(stream, p.batch * shape_.hidden, cell);
      } else {
        of_state = among(own.kept, p, t, width());
        GruRowGradient<T> cell{row(p, t)};
        cell.gates = gates;
        cell.kept = of_state;
        cell.before = among(own.before, p, t, shape_.handed).read();
        cell.later = dh;
        cell.dy = dy;
        cell.dh = work.dh;
        each(stream, p.batch * shape_.hidden, cell);
      }
      if (i > 0 || is_later(p)) {
        products.state_back.run(stream, of_state.first, weight(o, d, 1), work.dh,
                                {1, static_cast<Real>(lstm ? 0 : 1)}, p.device.scratch);
      }
    }
  }

  /// Of an LSTM, before the first row; none: 0.
  [[nodiscard]] StateRows<Real const> c_before(Operands<T, P> const& o, Pass<RankDevice> const& p,
                                               Memory const& own) const {
    if (is_later(p)) {
      return {own.begun, shape_.hidden};
    }
    return lives_on(o, p) ? carried(o.sequence.carry, true).c.read() : StateRows<Real const>{};
  }

  RecurrentShape shape_;
  RecurrentCarry<Cell, T> carry_;
  bool runs_in_weight_gradient_;
  bool lives_on_;   // its state, from step to step
  bool in_chunks_;  // of time, of which a pass has one
  std::int64_t batch_;
  RecurrentProducts<T, P> products_;
};

/// What the kernels know of a layer L on an input of shape @p in.
template <class L>
constexpr RecurrentShape recurrent_shape(Shape in) {
  constexpr tandem::detail::RecurrentOptions o = L::options;
  return {in[1],        o.hidden, o.handed(),    in[0],
          o.directions, o.biases, o.forget_bias, o.projection > 0};
}

}  // namespace cuda

template <int H, class... Options, class Kernels, class Precision>
struct Op<Lstm<H, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::RecurrentOp<LstmFunction, Precision> {
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::RecurrentOp<LstmFunction, Precision>{
            setup, device, cuda::recurrent_shape<Lstm<H, Options...>>(setup.node.in)} {}
};

template <int H, class... Options, class Kernels, class Precision>
struct Op<Gru<H, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::RecurrentOp<GruFunction, Precision> {
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::RecurrentOp<GruFunction, Precision>{
            setup, device, cuda::recurrent_shape<Gru<H, Options...>>(setup.node.in)} {}
};

}  // namespace tandem
