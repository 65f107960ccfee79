// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lstm and Gru on Host: the passes over time; portable kernels.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/functors/recurrent.hpp>
#include <tandem/kernels/host/recurrent.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/ops/host/recurrent_memory.hpp>
#include <tandem/ops/host/recurrent_products.hpp>
#include <tandem/ops/host/recurrent_rows.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Any Lstm or Gru: one type for all of a precision.
///
/// input_gradient goes through the rows from the last to the first and leaves the gradients of the
/// gates where the gates were; weight_gradient multiplies them, one product a weight. In evaluation
/// a few rows of time are computed at once, so that memory does not grow with them.
/// @tparam Cell      LstmFunction or GruFunction
/// @tparam Products  as PlainProducts
template <class Cell, class T, class Products>
class RecurrentOp {
  using R = Real<T>;
  using Memory = RecurrentMemory<Cell, T>;
  static constexpr bool lstm = std::is_same_v<Cell, LstmFunction>;
  static constexpr std::int64_t rows_at_once = 256;  // of an evaluation, at least

 public:
  RecurrentOp(OpSetup const& setup, RecurrentShape const& shape)
      : shape_{shape},
        parameters_{shape},
        runs_in_weight_gradient_{!setup.wants_input_gradient},
        lives_on_{setup.node.sequence.carried.any()},
        batch_{std::max(setup.batch, 1)},
        rows_{batch_, shape.longest},
        products_{matrices_of(shape, Cell::gates, !lives_on_), batch_, batch_ * shape.longest,
                  setup.threads} {}
  RecurrentOp(RecurrentOp const&) = delete;
  RecurrentOp& operator=(RecurrentOp const&) = delete;

  [[nodiscard]] OpNeeds needs() const {
    std::int64_t const rows = batch_ * shape_.longest;
    std::int64_t const few = std::min(rows, rows_at_once + batch_);
    RecurrentWork<T> const work{shape_, Cell::gates, batch_, rows};
    RecurrentWork<T> const less{shape_, Cell::gates, batch_, few};
    return {
        .input = true,
        .saved_bytes = Memory::bytes(shape_, batch_, rows),
        .scratch_bytes =
            work_at() + std::max(work.bytes(), less.bytes() + Memory::bytes(shape_, batch_, few)),
        .packed_bytes = products_.packed_bytes(),
        .carried_bytes = shape_.directions == 1 ? Memory::carried_bytes(shape_) : 0,
        .carried_gradient_bytes =
            shape_.directions == 1 ? Memory::carried_gradient_bytes(shape_) : 0};
  }

  void pack(Operands<T, R> const& o, Device& device) requires Products::packs {
    products_.pack(o.parameter, o.packed, device);
  }

  void forward(Operands<T, R> const& o, Pass<Device> const& p) {
    expects(p.sequence.position < 0 || shape_.directions == 1,
            "generate(prompt): a Bidirectional layer looks at tokens that are not written yet; "
            "leave Bidirectional out");
    if (p.batch * p.time == 0) {
      return;
    }
    [[maybe_unused]] auto const guard = products_.begin();
    begin(p);
    rows_.clear_others(o.y, shape_.directions * shape_.handed);
    std::int64_t const most =
        p.training ? p.time
                   : std::min<std::int64_t>(p.time, (rows_at_once + p.batch - 1) / p.batch);
    for (int d = 0; d < shape_.directions; ++d) {
      for (std::int64_t done = 0; done < p.time; done += most) {
        std::int64_t const count = std::min(most, p.time - done);
        forward(o, p, {d, d == 0 ? done : p.time - done - count, count, most}, done > 0);
      }
    }
  }

  void input_gradient(Operands<T, R> const& o, Pass<Device> const& p) {
    std::int64_t const rows = std::int64_t{p.batch} * p.time;
    if (rows == 0) {
      return;
    }
    [[maybe_unused]] auto const guard = products_.begin();
    begin(p);
    RecurrentWork<T> const work = this->work(p, rows);
    std::int64_t const multiplied = rows_.multiplied(0, p.time);
    for (int d = 0; d < shape_.directions && multiplied > 0; ++d) {
      through_time(o, p, d, work);
      products_.backward(p.device, matrix(d, Matrix::input), weight(o, d, Matrix::input), o.packed,
                         multiplied, memory(o.saved, p, p.time, d).gates, work.dx);
    }
    rows_.clear_others(o.dx[0], shape_.inputs);
    times_to_rows<R, T>(p.device.team, rows_.times(), 0, p.time, shape_.inputs, work.dx,
                        rows_.outside(o.dx[0], shape_.inputs));
  }

  void weight_gradient(Operands<T, R> const& o, Pass<Device> const& p) {
    [[maybe_unused]] auto const guard = products_.begin();
    begin(p);
    RecurrentWork<T> const work = this->work(p, std::int64_t{p.batch} * p.time);
    for (int d = 0; d < shape_.directions && runs_in_weight_gradient_; ++d) {
      through_time(o, p, d, work);
    }
    std::int64_t const own_rows = rows_.start(p.time);
    std::int64_t const rows = rows_.multiplied(0, p.time);
    rows_.by_time(p.device.team, 0, p.time, shape_.inputs, o.x[0], work.x);
    for (int d = 0; d < shape_.directions; ++d) {
      gradient(o, p, d, Matrix::input, rows, memory(o.saved, p, p.time, d).gates, work.x);
    }
    for (int d = 0; d < shape_.directions; ++d) {
      Memory const own = memory(o.saved, p, p.time, d);
      T const* const of_state = lstm ? own.gates : own.kept;
      state_gradient(o, p, d, of_state, states_before(p, d, own, work.x));
      if (lstm && shape_.biases == 2 && !p.accumulate) {  // both alike
        bias_gradient(o, p, d, 0, own_rows, own.gates);
        std::copy_n(o.gradient[parameters_.bias(d, 0)], Cell::gates * shape_.hidden,
                    o.gradient[parameters_.bias(d, 1)]);
      } else {
        for (int b = 0; b < shape_.biases; ++b) {
          bias_gradient(o, p, d, b, own_rows, b == 0 ? own.gates : of_state);
        }
      }
      if (shape_.projected) {
        gradient(o, p, d, Matrix::projection, rows, own.dh, own.inner);
      }
    }
  }

 private:
  using Matrix = RecurrentMatrix;

  /// Rows [first, first + count) of time, for a direction.
  struct Part {
    int direction;
    std::int64_t first;
    std::int64_t count;
    std::int64_t most;  ///< of a part: what memory is laid out for
  };

  /// One row at a time: which of `count` the i-th is.
  static std::int64_t place(int direction, std::int64_t i, std::int64_t count) {
    return direction == 0 ? i : count - 1 - i;
  }
  static int matrix(int direction, Matrix::Kind kind) {
    return direction * Matrix::kinds + static_cast<int>(kind);
  }
  [[nodiscard]] R const* bias(Operands<T, R> const& o, int direction, int which) const {
    return which < shape_.biases ? o.parameter[parameters_.bias(direction, which)] : nullptr;
  }
  [[nodiscard]] R const* weight(Operands<T, R> const& o, int direction, Matrix::Kind kind) const {
    return o.parameter[parameters_.weight(direction, kind)];
  }
  [[nodiscard]] std::int64_t work_at() const { return (products_.scratch_bytes() + 63) / 64 * 64; }
  [[nodiscard]] RecurrentWork<T> work(Pass<Device> const& p, std::int64_t rows) const {
    RecurrentWork<T> work{shape_, Cell::gates, p.batch, rows};
    work.place(p.device.scratch + work_at());
    return work;
  }
  [[nodiscard]] Memory memory(std::byte* at, Pass<Device> const& p, std::int64_t count,
                              int direction) const {
    return {shape_, at, p.batch, count, direction};
  }
  /// Whether states before the first row are 0, so that their products are.
  [[nodiscard]] bool begins_empty(Pass<Device> const& p) const {
    return p.sequence.position <= 0 && !lives_on_;
  }
  // What a carry holds, samples in order, goes on from there.
  void begin(Pass<Device> const& p) {
    rows_.set(p.batch, p.time, p.lengths, p.sequence.position < 0 && !lives_on_);
  }
  [[nodiscard]] RecurrentRow row(std::int64_t time) const { return rows_.row(shape_.hidden, time); }
  /// h before each row: in @p to, where they are not all that there are.
  T const* states_before(Pass<Device> const& p, int d, Memory const& own, T* to) const {
    if (!rows_.sorted()) {
      return own.h_before(d, 0);
    }
    rows_.compact(p.device.team, shape_.handed, to,
                  [&](std::int64_t t) { return own.h_before(d, t); });
    return to;
  }
  /// Of y or dy, a direction's numbers of a row of time.
  template <class E>
  [[nodiscard]] SampleRows<E> outside(E* y, int direction, std::int64_t time) const {
    std::int64_t const stride = shape_.directions * shape_.handed;
    return rows_.outside(y + time * stride + direction * shape_.handed, stride);
  }

  void forward(Operands<T, R> const& o, Pass<Device> const& p, Part const& part, bool goes_on) {
    int const d = part.direction;
    RecurrentWork<T> const work = this->work(p, p.batch * part.most);
    std::byte* const at = p.training ? o.saved : p.device.scratch + work_at() + work.bytes();
    Memory const own = memory(at, p, part.most, d);
    if (goes_on) {
      own.go_on(d, part.count);
    } else if (p.sequence.position > 0 || lives_on(o, p)) {
      own.load(o.sequence.carry, Memory::carried_bytes(shape_));
    } else {
      own.clear(d, part.count);
    }
    rows_.by_time(p.device.team, part.first, part.count, shape_.inputs, o.x[0], work.x);
    bool const of_nothing = begins_empty(p) && !goes_on;  // the first row
    R* const sums = sums_of(own, work);
    if (std::int64_t const rows = rows_.multiplied(part.first, part.count); rows > 0) {
      products_.forward(p.device, matrix(d, Matrix::input), weight(o, d, Matrix::input), o.packed,
                        rows, work.x, sums);
    }
    for (std::int64_t i = 0; i < part.count; ++i) {
      std::int64_t const t = place(d, i, part.count);
      std::int64_t const first = rows_.start(part.first + t) - rows_.start(part.first);
      std::int64_t const samples = rows_.samples(part.first + t);
      if (samples == 0) {
        continue;
      }
      if (d == 1 && rows_.sorted()) {  // some begin here
        bool const last = part.first + t + 1 == p.time;
        own.clear(d, t, last ? 0 : rows_.samples(part.first + t + 1), samples);
      }
      SampleRows<T> const y = outside(o.y, d, part.first + t);
      R* const row_sums = sums + first * Cell::gates * shape_.hidden;
      if constexpr (lstm) {
        if (i > 0 || !of_nothing) {
          products_.forward(p.device, matrix(d, Matrix::state), weight(o, d, Matrix::state),
                            o.packed, samples, own.h_before(d, t), row_sums);
        }
        LstmRow<T> at_row = own.lstm_row(d, t, first);
        at_row.sums = row_sums;
        at_row.bias[0] = bias(o, d, 0);
        at_row.bias[1] = bias(o, d, 1);
        at_row.forget = static_cast<R>(shape_.forget_bias);
        at_row.y = shape_.projected ? SampleRows<T>{} : y;
        lstm_row(p.device.team, row(part.first + t), at_row);
        if (shape_.projected) {
          products_.forward(p.device, matrix(d, Matrix::projection),
                            weight(o, d, Matrix::projection), o.packed, samples, at_row.h,
                            work.row);
          std::int64_t const time = part.first + t;
          times_to_rows<R, T>(p.device.team, rows_.times(), time, 1, shape_.handed, work.row,
                              {own.h_after(d, t), 1, shape_.handed});
          times_to_rows<R, T>(p.device.team, rows_.times(), time, 1, shape_.handed, work.row, y);
        }
      } else {
        if (i > 0 || !of_nothing) {
          products_.forward(p.device, matrix(d, Matrix::state), weight(o, d, Matrix::state),
                            o.packed, samples, own.h_before(d, t), work.row);
        } else {
          std::fill_n(work.row, samples * Cell::gates * shape_.hidden, R{0});
        }
        GruRow<T> at_row = own.gru_row(d, t, first);
        at_row.of_input = row_sums;
        at_row.of_state = work.row;
        at_row.bias[0] = bias(o, d, 0);
        at_row.bias[1] = bias(o, d, 1);
        at_row.y = y;
        gru_row(p.device.team, row(part.first + t), at_row);
      }
    }
    if (p.sequence.is_chunk() || lives_on(o, p)) {
      leave(p, part, own, o.sequence.carried_on);
    } else if (p.sequence.position >= 0) {
      leave(p, part, own, o.sequence.carry);
    }
  }

  [[nodiscard]] bool lives_on(Operands<T, R> const& o, Pass<Device> const& p) const {
    return lives_on_ && (p.sequence.position < 0 || p.sequence.is_chunk()) &&
           o.sequence.carry != nullptr;
  }
  /// Leaves the states of the samples whose last row is in this part.
  void leave(Pass<Device> const& p, Part const& part, Memory const& own, std::byte* carry) const {
    for (std::int64_t b = 0; b < p.batch; ++b) {
      std::int64_t const rows = (p.lengths != nullptr ? p.lengths[b] : p.time) - part.first;
      if (rows <= part.count && (rows > 0 || part.first == 0)) {
        own.store(b, rows, carry, Memory::carried_bytes(shape_));
      }
    }
  }

  /// Where the products of a part are summed: where the gates will be, if these are of their type.
  static R* sums_of(Memory const& own, RecurrentWork<T> const& work) {
    if constexpr (std::is_same_v<T, R>) {
      return own.gates;
    } else {
      return work.sums;
    }
  }

  void through_time(Operands<T, R> const& o, Pass<Device> const& p, int d,
                    RecurrentWork<T> const& work) {
    Memory const own = memory(o.saved, p, p.time, d);
    begin_gradient(o, p, work);
    for (std::int64_t i = p.time; i-- > 0;) {
      std::int64_t const t = place(d, i, p.time);
      std::int64_t const first = rows_.start(t);
      std::int64_t const samples = rows_.samples(t);
      if (samples == 0) {
        continue;
      }
      SampleRows<T const> const dy = outside(o.dy, d, t);
      T const* of_state = nullptr;
      if constexpr (lstm) {
        StateGradient<T> dh{work.dh, dy};
        if (shape_.projected) {
          T* const whole = own.dh + first * shape_.handed;
          add_state_gradient<T>(p.device.team, row(t), shape_.handed, work.dh, dy, whole);
          products_.backward(p.device, matrix(d, Matrix::projection),
                             weight(o, d, Matrix::projection), o.packed, samples, whole, work.row);
          dh = {work.row, {}};
        }
        LstmRow<T> const at_row = own.lstm_row(d, t, first);
        lstm_row_gradient(p.device.team, row(t), at_row, dh, work.dc);
        of_state = at_row.gates;
      } else {
        GruRow<T> const at_row = own.gru_row(d, t, first);
        gru_row_gradient(p.device.team, row(t), at_row, {work.dh, dy});
        of_state = at_row.kept;
      }
      if (i > 0 || p.sequence.position > 0) {
        products_.backward(p.device, matrix(d, Matrix::state), weight(o, d, Matrix::state),
                           o.packed, samples, of_state, work.dh);
      }
    }
    own.clear_gradients(rows_.start(p.time), rows_.end(p.time));
    if (p.sequence.position > 0) {
      hand_back(o, p, work);
    }
  }

  /// Of what a row of a sample hands on, as its gradient is carried: dh, and of an LSTM dc.
  [[nodiscard]] std::int64_t dh_numbers() const { return shape_.handed; }
  [[nodiscard]] std::int64_t dc_numbers() const { return lstm ? shape_.hidden : 0; }

  /// Behind the last row: 0, or what the next chunk has handed back.
  void begin_gradient(Operands<T, R> const& o, Pass<Device> const& p,
                      RecurrentWork<T> const& work) const {
    std::fill_n(work.dh, p.batch * shape_.handed, R{0});
    std::fill_n(work.dc, p.batch * shape_.hidden, R{0});
    if (!p.is_last_chunk()) {
      auto const* const from = reinterpret_cast<R const*>(o.sequence.carry_gradient);
      std::copy_n(from, p.batch * dh_numbers(), work.dh);
      std::copy_n(from + p.batch * dh_numbers(), p.batch * dc_numbers(), work.dc);
    }
  }
  void hand_back(Operands<T, R> const& o, Pass<Device> const& p,
                 RecurrentWork<T> const& work) const {
    auto* const to = reinterpret_cast<R*>(o.sequence.carry_gradient);
    std::copy_n(work.dh, p.batch * dh_numbers(), to);
    std::copy_n(work.dc, p.batch * dc_numbers(), to + p.batch * dh_numbers());
  }

  void bias_gradient(Operands<T, R> const& o, Pass<Device> const& p, int d, int which,
                     std::int64_t rows, T const* dy) {
    products_.bias_gradient(p.device, dy, rows, Cell::gates * shape_.hidden,
                            o.gradient[parameters_.bias(d, which)], p.accumulate);
  }

  void gradient(Operands<T, R> const& o, Pass<Device> const& p, int d, Matrix::Kind kind,
                std::int64_t rows, T const* dy, T const* x) {
    products_.gradient(p.device, matrix(d, kind), rows, dy, x,
                       o.gradient[parameters_.weight(d, kind)], p.accumulate);
  }

  /// Of the weights of the state, of which the first time knows nothing where it was 0.
  void state_gradient(Operands<T, R> const& o, Pass<Device> const& p, int d, T const* dy,
                      T const* h) {
    std::int64_t const left_out = begins_empty(p) && p.time > 0 ? 1 : 0;
    std::int64_t const first = d == 0 ? left_out : 0;
    std::int64_t const from = rows_.start(first);
    gradient(o, p, d, Matrix::state, rows_.multiplied(first, p.time - left_out),
             dy + from * Cell::gates * shape_.hidden, h + from * shape_.handed);
  }

  RecurrentShape shape_;
  RecurrentParameters parameters_;
  bool runs_in_weight_gradient_;
  bool lives_on_;  // its state, from step to step
  std::int64_t batch_;
  RecurrentRows rows_;  // of the pass
  Products products_;
};

}  // namespace host

namespace detail {

/// What the kernels know of a layer L on an input of shape @p in.
template <class L>
constexpr RecurrentShape recurrent_shape(Shape in) {
  constexpr RecurrentOptions o = L::options;
  return {in[1],        o.hidden, o.handed(),    in[0],
          o.directions, o.biases, o.forget_bias, o.projection > 0};
}

}  // namespace detail

template <int H, class... Options, class Precision>
struct Op<Lstm<H, Options...>, BasicHost<Portable, Precision>>
    : host::RecurrentOp<LstmFunction, typename Precision::Scalar,
                        host::PlainProducts<typename Precision::Scalar>> {
  explicit Op(OpSetup const& setup)
      : host::RecurrentOp<LstmFunction, typename Precision::Scalar,
                          host::PlainProducts<typename Precision::Scalar>>{
            setup, detail::recurrent_shape<Lstm<H, Options...>>(setup.node.in)} {}
};

template <int H, class... Options, class Precision>
struct Op<Gru<H, Options...>, BasicHost<Portable, Precision>>
    : host::RecurrentOp<GruFunction, typename Precision::Scalar,
                        host::PlainProducts<typename Precision::Scalar>> {
  explicit Op(OpSetup const& setup)
      : host::RecurrentOp<GruFunction, typename Precision::Scalar,
                          host::PlainProducts<typename Precision::Scalar>>{
            setup, detail::recurrent_shape<Gru<H, Options...>>(setup.node.in)} {}
};

}  // namespace tandem
