// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RecurrentMemory: what a direction of an Lstm or Gru keeps of some rows; RecurrentWork: what its
/// passes need besides.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tandem/graph/layer.hpp>
#include <tandem/kernels/functors/recurrent.hpp>
#include <tandem/kernels/host/recurrent.hpp>

namespace tandem::host {

/// Of `count` rows of time, or fewer. States have a block more: direction 0 finds the state before
/// row t in block t and leaves its own in block t + 1, direction 1 the other way round.
///
/// A block of states has a place for each sample; all else has RowsByTime without gaps.
///
/// Per row: c (H of R) of an LSTM, its gates (4 H of T) or a GRU's and those of its state (6 H), h
/// (P), and with a projection what it is of (H) and the gradient of h (P). No gaps.
template <class Cell, class T>
struct RecurrentMemory {
  using R = Real<T>;
  static constexpr bool lstm = std::is_same_v<Cell, LstmFunction>;

  R* c = nullptr;
  T* gates = nullptr;
  T* kept = nullptr;  ///< of a GRU: what its state gave, later the gradients of that
  T* h = nullptr;
  T* inner = nullptr;  ///< what a projection is of
  T* dh = nullptr;     ///< the gradient of what it gives
  std::int64_t batch;
  std::int64_t count;
  std::int64_t hidden;
  std::int64_t handed;
  bool projected;

  RecurrentMemory(RecurrentShape const& shape, std::byte* at, std::int64_t samples,
                  std::int64_t rows_of_time, int direction)
      : batch{samples},
        count{rows_of_time},
        hidden{shape.hidden},
        handed{shape.handed},
        projected{shape.projected} {
    std::int64_t const rows = batch * count;
    std::int64_t const states = rows + batch;
    R* const of_c = reinterpret_cast<R*>(at);
    c = lstm ? of_c + direction * states * hidden : nullptr;
    // Those of R of all directions come first, for the sake of alignment.
    T* next = reinterpret_cast<T*>(of_c + (lstm ? shape.directions * states * hidden : 0));
    next += direction * numbers(shape, batch, rows);
    gates = next;
    kept = gates + rows * Cell::gates * hidden;
    h = kept + (lstm ? 0 : rows * Cell::gates * hidden);
    inner = h + states * handed;
    dh = inner + rows * hidden;
  }

  /// Of all directions, for @p rows of @p batch samples together.
  static std::int64_t bytes(RecurrentShape const& shape, std::int64_t batch, std::int64_t rows) {
    std::int64_t const of_c = lstm ? (rows + batch) * shape.hidden : 0;
    return shape.directions * (of_c * static_cast<std::int64_t>(sizeof(R)) +
                               numbers(shape, batch, rows) * static_cast<std::int64_t>(sizeof(T)));
  }

  [[nodiscard]] T* h_before(int direction, std::int64_t t) const {
    return h + (t + direction) * batch * handed;
  }
  [[nodiscard]] T* h_after(int direction, std::int64_t t) const {
    return h + (t + 1 - direction) * batch * handed;
  }

  /// What forward and backward have in common; @p first is where rows of time t begin.
  [[nodiscard]] LstmRow<T> lstm_row(int direction, std::int64_t t, std::int64_t first) const {
    LstmRow<T> row{};
    row.gates = gates + first * 4 * hidden;
    row.before = c + (t + direction) * batch * hidden;
    row.c = c + (t + 1 - direction) * batch * hidden;
    row.h = projected ? inner + first * hidden : h_after(direction, t);
    return row;
  }
  [[nodiscard]] GruRow<T> gru_row(int direction, std::int64_t t, std::int64_t first) const {
    GruRow<T> row{};
    row.gates = gates + first * 3 * hidden;
    row.kept = kept + first * 3 * hidden;
    row.before = h_before(direction, t);
    row.h = h_after(direction, t);
    return row;
  }

  /// 0 before row t for samples [first, end), which begin there.
  void clear(int direction, std::int64_t t, std::int64_t first, std::int64_t end) const {
    std::int64_t const block = (t + direction) * batch;
    if (first < end) {
      std::fill(h + (block + first) * handed, h + (block + end) * handed, T{});
      if (lstm) {
        std::fill(c + (block + first) * hidden, c + (block + end) * hidden, R{});
      }
    }
  }
  /// 0 behind the first @p rows in what is multiplied, up to @p end.
  void clear_gradients(std::int64_t rows, std::int64_t end) const {
    auto const clear = [=](T* of, std::int64_t n) { std::fill(of + rows * n, of + end * n, T{}); };
    clear(gates, Cell::gates * hidden);
    if (!lstm) {
      clear(kept, Cell::gates * hidden);
    }
    if (projected) {
      clear(inner, hidden);
      clear(dh, handed);
    }
  }
  /// 0 before the first of @p rows of time, which are `count` or fewer.
  void clear(int direction, std::int64_t rows) const { put(direction * rows, nullptr, nullptr); }
  /// Before the first of @p rows what `count` rows have left behind the last.
  void go_on(int direction, std::int64_t rows) const {
    std::int64_t const last = (1 - direction) * count;
    put(direction * rows, h + last * batch * handed, lstm ? c + last * batch * hidden : nullptr);
  }
  /// Of a sample, what is carried from row to row: c and then h, of direction 0.
  static std::int64_t carried_bytes(RecurrentShape const& shape) {
    return carried(shape.hidden, shape.handed).bytes(sizeof(R), sizeof(T));
  }
  static std::int64_t carried_gradient_bytes(RecurrentShape const& shape) {
    return carried(shape.hidden, shape.handed).bytes(sizeof(R), sizeof(R));
  }
  /// From and to the carries of all samples, one behind the other.
  void load(std::byte const* carry, std::int64_t each) const {
    for (std::int64_t b = 0; b < batch; ++b, carry += each) {
      if (lstm) {
        std::memcpy(c + b * hidden, carry, static_cast<std::size_t>(carried_c()));
      }
      std::memcpy(h + b * handed, carry + h_at(), static_cast<std::size_t>(carried_h()));
    }
  }
  /// What sample @p b has left behind its row number @p rows, counted from 1.
  void store(std::int64_t b, std::int64_t rows, std::byte* carry, std::int64_t each) const {
    carry += b * each;
    if (lstm) {
      std::memcpy(carry, c + (rows * batch + b) * hidden, static_cast<std::size_t>(carried_c()));
    }
    std::memcpy(carry + h_at(), h + (rows * batch + b) * handed,
                static_cast<std::size_t>(carried_h()));
  }

 private:
  // Numbers of T of a direction.
  static std::int64_t numbers(RecurrentShape const& shape, std::int64_t batch, std::int64_t rows) {
    return rows * (lstm ? 4 : 6) * shape.hidden + (rows + batch) * shape.handed +
           (shape.projected ? rows * (shape.hidden + shape.handed) : 0);
  }
  static CarriedState carried(std::int64_t hidden, std::int64_t handed) {
    return {lstm ? static_cast<int>(hidden) : 0, static_cast<int>(handed)};
  }
  [[nodiscard]] std::int64_t h_at() const { return carried(hidden, handed).h_at(sizeof(R)); }
  [[nodiscard]] std::int64_t carried_c() const {
    return lstm ? hidden * static_cast<std::int64_t>(sizeof(R)) : 0;
  }
  [[nodiscard]] std::int64_t carried_h() const {
    return handed * static_cast<std::int64_t>(sizeof(T));
  }
  // A block of states; 0 where null.
  void put(std::int64_t block, T const* from_h, R const* from_c) const {
    copy(from_h, h + block * batch * handed, batch * handed);
    if (lstm) {
      copy(from_c, c + block * batch * hidden, batch * hidden);
    }
  }
  template <class E>
  static void copy(E const* from, E* to, std::int64_t n) {
    from == nullptr ? static_cast<void>(std::fill_n(to, n, E{}))
                    : static_cast<void>(std::copy_n(from, n, to));
  }
};

/// Memory of one pass over `rows` rows of all samples together.
template <class T>
class RecurrentWork {
  using R = Real<T>;

 public:
  T* x = nullptr;     ///< (rows, inputs) the input by time, or (rows, handed) states
  R* dx = nullptr;    ///< (rows, inputs) its gradient; both are never wanted at once
  R* sums = nullptr;  ///< (rows, gates hidden), where gates are of another type than sums
  R* row = nullptr;   ///< of a row of all samples: products with the state, or with the projection
  R* dh = nullptr;    ///< (batch, handed)
  R* dc = nullptr;    ///< (batch, hidden)

  RecurrentWork(RecurrentShape const& shape, int gates, std::int64_t batch, std::int64_t rows)
      : inputs_{rows * std::max<std::int64_t>(shape.inputs, shape.handed)},
        sums_{std::is_same_v<T, R> ? 0 : rows * gates * shape.hidden},
        row_{batch * (gates == 3 ? 3 * shape.hidden : std::max(shape.hidden, shape.handed))},
        dh_{batch * shape.handed},
        dc_{batch * shape.hidden} {}

  [[nodiscard]] std::int64_t bytes() const {
    return aligned(inputs_) + aligned(sums_) + aligned(row_) + aligned(dh_) + aligned(dc_);
  }
  void place(std::byte* at) {
    x = reinterpret_cast<T*>(at);
    dx = next(at, inputs_);
    sums = next(at, sums_);
    row = next(at, row_);
    dh = next(at, dh_);
    dc = next(at, dc_);
  }

 private:
  static std::int64_t aligned(std::int64_t numbers) {
    return (numbers * static_cast<std::int64_t>(sizeof(R)) + 63) / 64 * 64;
  }
  static R* next(std::byte*& at, std::int64_t numbers) {
    auto* const here = reinterpret_cast<R*>(at);
    at += aligned(numbers);
    return here;
  }

  std::int64_t inputs_;
  std::int64_t sums_;
  std::int64_t row_;
  std::int64_t dh_;
  std::int64_t dc_;
};

}  // namespace tandem::host
