// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One row of all samples through an LSTM or a GRU, forward and backward, but for its products; and
/// rows of samples to rows of times and back.
///
/// Products are sums of R (double, or float), what is kept and multiplied is T. Everything inside a
/// recurrent layer is (T, B, ·), so that a row of all samples is one matrix.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/recurrent.hpp>
#include <tandem/kernels/functors/recurrent.hpp>
#include <tandem/kernels/host/smooth_activation.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Rows of samples: (B, `rows`, ·), of which some rows in a run and n numbers of each are meant.
template <class T>
struct SampleRows {
  T* first;                             ///< the first row that is meant, of sample 0
  std::int64_t rows;                    ///< from sample to sample
  std::int64_t stride;                  ///< numbers from row to row
  std::int32_t const* order = nullptr;  ///< which sample is called the i-th; null: that one

  [[nodiscard]] T* at(std::int64_t i, std::int64_t row) const {
    std::int64_t const sample = order != nullptr ? order[i] : i;
    return first + (sample * rows + row) * stride;
  }
};

/// Rows of times, one behind the other: of time t the first samples, start[t + 1] - start[t].
struct RowsByTime {
  std::int64_t const* start;  ///< (T + 1)

  [[nodiscard]] std::int64_t samples(std::int64_t t) const { return start[t + 1] - start[t]; }
  /// f(t, sample, row) of rows [begin, end) of those of @p count times from @p first on.
  template <class F>
  void each(std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t end,
            F const& f) const {
    std::int64_t const* const last = start + first + count;
    std::int64_t t = std::upper_bound(start + first, last, start[first] + begin) - start - 1;
    for (std::int64_t row = begin; row < end; ++t) {
      for (std::int64_t i = start[first] + row - start[t]; i < samples(t) && row < end; ++i) {
        f(t - first, i, row++);
      }
    }
  }
};

/// out[row] = x[sample][t] of @p count times from @p first on, n numbers each; x begins at the
/// first.
template <class T>
TANDEM_NOINLINE void rows_to_times(Team& team, RowsByTime const& rows, std::int64_t first,
                                   std::int64_t count, std::int64_t n, SampleRows<T const> const& x,
                                   T* out) {
  std::int64_t const all = rows.start[first + count] - rows.start[first];
  team.parallel_for(all, [=](std::int64_t begin, std::int64_t end) {
    rows.each(first, count, begin, end, [=](std::int64_t t, std::int64_t b, std::int64_t row) {
      T const* const from = x.at(b, t);
      T* const to = out + row * n;
      for_wide<T>(0, n,
                  [=](std::int64_t i, auto some) { some.store(to + i, some.load(from + i)); });
    });
  });
}

/// y[sample][t] = x[row], n numbers each, rounded once.
template <class From, class T>
TANDEM_NOINLINE void times_to_rows(Team& team, RowsByTime const& rows, std::int64_t first,
                                   std::int64_t count, std::int64_t n, From const* x,
                                   SampleRows<T> const& y) {
  std::int64_t const all = rows.start[first + count] - rows.start[first];
  team.parallel_for(all, [=](std::int64_t begin, std::int64_t end) {
    rows.each(first, count, begin, end, [=](std::int64_t t, std::int64_t b, std::int64_t row) {
      From const* const from = x + row * n;
      T* const to = y.at(b, t);
      for_wide<T>(0, n,
                  [=](std::int64_t i, auto some) { some.store(to + i, some.load(from + i)); });
    });
  });
}

/// 0 to those of @p time rows of @p batch samples that are no RowsByTime, n numbers each.
template <class T>
TANDEM_NOINLINE void clear_other_rows(RowsByTime const& rows, std::int64_t batch, std::int64_t time,
                                      std::int64_t n, SampleRows<T> const& y) {
  for (std::int64_t t = 0; t < time; ++t) {
    for (std::int64_t b = rows.samples(t); b < batch; ++b) {
      std::fill_n(y.at(b, t), n, T{});
    }
  }
}

/// out = dh + dy where a sample counts, else 0; rows of n numbers, of which dy has its own places.
template <class T>
TANDEM_NOINLINE void add_state_gradient(Team& team, RecurrentRow const& row, std::int64_t n,
                                        Real<T> const* dh, SampleRows<T const> const& dy, T* out) {
  team.parallel_for(row.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      bool const counts = row.counts(b);
      T const* const from = dy.at(b, 0);
      for_wide<T>(0, n, [=](std::int64_t i, auto some) {
        auto const sum = some.load(dh + b * n + i) + some.load(from + i);
        some.store(out + b * n + i, counts ? sum : wide<T>(0));
      });
    }
  });
}

/// What of a bias is added; null: none.
template <class R, class Lanes>
[[gnu::always_inline]] inline Wide<R> with_biases(Wide<R> const& sum, R const* const (&bias)[2],
                                                  std::int64_t at, Lanes const& some) {
  Wide<R> result = sum;
  for (R const* const one : bias) {
    if (one != nullptr) {
      result = result + some.load(one + at);
    }
  }
  return result;
}

/// Where one row of an LSTM lies; a direction's.
template <class T>
struct LstmRow {
  Real<T> const* sums;     ///< (B, 4 H) of products; forward
  Real<T> const* bias[2];  ///< (4 H) each, or null
  Real<T> forget;          ///< added to f
  T* gates;                ///< (B, 4 H) i, f, g, o; backward puts their gradients there
  Real<T> const* before;   ///< (B, H) c of the row before
  Real<T>* c;              ///< (B, H)
  T* h;                    ///< (B, H)
  SampleRows<T> y;         ///< h once more, or null
};

/// Cost: reads 5 B H and writes 7 B H elements; five elementary functions each. `gates` may be
///       `sums`.
template <class T>
TANDEM_NOINLINE void lstm_row(Team& team, RecurrentRow const& row, LstmRow<T> const& at) {
  using R = Real<T>;
  std::int64_t const n = row.hidden;
  team.parallel_for(row.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      R const* const sums = at.sums + b * 4 * n;
      T* const gates = at.gates + b * 4 * n;
      bool const counts = row.counts(b);
      for_wide<T>(0, n, [=](std::int64_t j, auto some) {
        auto const sum = [&](int k) {
          return with_biases<R>(some.load(sums + k * n + j), at.bias, k * n + j, some);
        };
        auto s = OfWide<LstmFunction, T>::value(sum(0), sum(1) + wide<T>(at.forget), sum(2), sum(3),
                                                some.load(at.before + b * n + j));
        if (!counts) {
          s.c = wide<T>(0);
          s.h = wide<T>(0);
        }
        some.store(gates + j, s.i);
        some.store(gates + n + j, s.f);
        some.store(gates + 2 * n + j, s.g);
        some.store(gates + 3 * n + j, s.o);
        some.store(at.c + b * n + j, s.c);
        some.store(at.h + b * n + j, s.h);
        if (at.y.first != nullptr) {
          some.store(at.y.at(b, 0) + j, s.h);
        }
      });
    }
  });
}

/// The gradient of h: `sum`, of later rows, and dy, which may be null.
template <class T>
struct StateGradient {
  Real<T>* sum;  ///< (B, H)
  SampleRows<T const> dy;
};

/// @param dc  (B, H) of this row's c, from later rows; becomes that of the row before
/// Cost: reads 9 B H and writes 5 B H elements; one elementary function each.
template <class T>
TANDEM_NOINLINE void lstm_row_gradient(Team& team, RecurrentRow const& row, LstmRow<T> const& at,
                                       StateGradient<T> const& dh, Real<T>* dc) {
  std::int64_t const n = row.hidden;
  team.parallel_for(row.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      T* const gates = at.gates + b * 4 * n;
      bool const counts = row.counts(b);
      for_wide<T>(0, n, [=](std::int64_t j, auto some) {
        using V = Wide<T>;
        auto sum = some.load(dh.sum + b * n + j);
        if (dh.dy.first != nullptr) {
          sum = sum + some.load(dh.dy.at(b, 0) + j);
        }
        LstmFunction::State<V> const s{some.load(gates + j),         some.load(gates + n + j),
                                       some.load(gates + 2 * n + j), some.load(gates + 3 * n + j),
                                       some.load(at.c + b * n + j),  wide<T>(0)};
        LstmFunction::Gradient<V> d{wide<T>(0), wide<T>(0), wide<T>(0), wide<T>(0), wide<T>(0)};
        if (counts) {
          d = OfWide<LstmFunction, T>::gradient(s, some.load(at.before + b * n + j), sum,
                                                some.load(dc + b * n + j));
        }
        some.store(gates + j, d.i);
        some.store(gates + n + j, d.f);
        some.store(gates + 2 * n + j, d.g);
        some.store(gates + 3 * n + j, d.o);
        some.store(dc + b * n + j, d.c);
      });
    }
  });
}

/// Where one row of a GRU lies; a direction's.
template <class T>
struct GruRow {
  Real<T> const* of_input;  ///< (B, 3 H) of products
  Real<T> const* of_state;  ///< (B, 3 H)
  Real<T> const* bias[2];   ///< (3 H) of the input's, of the state's, or null
  T* gates;                 ///< (B, 3 H) r, z, n; backward puts the gradients of `of_input` there
  T* kept;                  ///< (B, 3 H) of whose last third is h_n; those of `of_state`
  T const* before;          ///< (B, H) h of the row before
  T* h;                     ///< (B, H)
  SampleRows<T> y;          ///< h once more, or null
};

/// Cost: reads 7 B H and writes 6 B H elements; three elementary functions each.
template <class T>
TANDEM_NOINLINE void gru_row(Team& team, RecurrentRow const& row, GruRow<T> const& at) {
  using R = Real<T>;
  std::int64_t const n = row.hidden;
  team.parallel_for(row.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::int64_t const first = b * 3 * n;
      bool const counts = row.counts(b);
      R const* const of_input[2] = {at.bias[0], nullptr};
      R const* const of_state[2] = {at.bias[1], nullptr};
      for_wide<T>(0, n, [=](std::int64_t j, auto some) {
        auto const x = [&](int k) {
          return with_biases<R>(some.load(at.of_input + first + k * n + j), of_input, k * n + j,
                                some);
        };
        auto const h = [&](int k) {
          return with_biases<R>(some.load(at.of_state + first + k * n + j), of_state, k * n + j,
                                some);
        };
        auto s = OfWide<GruFunction, T>::value(x(0) + h(0), x(1) + h(1), x(2), h(2),
                                               some.load(at.before + b * n + j));
        if (!counts) {
          s.h = wide<T>(0);
        }
        some.store(at.gates + first + j, s.r);
        some.store(at.gates + first + n + j, s.z);
        some.store(at.gates + first + 2 * n + j, s.n);
        some.store(at.kept + first + 2 * n + j, s.of_state);
        some.store(at.h + b * n + j, s.h);
        if (at.y.first != nullptr) {
          some.store(at.y.at(b, 0) + j, s.h);
        }
      });
    }
  });
}

/// `dh.sum` becomes what goes to the row before without a product.
/// Cost: reads 7 B H and writes 7 B H elements.
template <class T>
TANDEM_NOINLINE void gru_row_gradient(Team& team, RecurrentRow const& row, GruRow<T> const& at,
                                      StateGradient<T> const& dh) {
  std::int64_t const n = row.hidden;
  team.parallel_for(row.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      T* const gates = at.gates + b * 3 * n;
      T* const kept = at.kept + b * 3 * n;
      bool const counts = row.counts(b);
      for_wide<T>(0, n, [=](std::int64_t j, auto some) {
        using V = Wide<T>;
        auto const sum = some.load(dh.sum + b * n + j) + some.load(dh.dy.at(b, 0) + j);
        GruFunction::State<V> const s{some.load(gates + j), some.load(gates + n + j),
                                      some.load(gates + 2 * n + j), some.load(kept + 2 * n + j),
                                      wide<T>(0)};
        GruFunction::Gradient<V> d{wide<T>(0), wide<T>(0), wide<T>(0), wide<T>(0), wide<T>(0)};
        if (counts) {
          d = OfWide<GruFunction, T>::gradient(s, some.load(at.before + b * n + j), sum);
        }
        some.store(gates + j, d.r);
        some.store(gates + n + j, d.z);
        some.store(gates + 2 * n + j, d.n);
        some.store(kept + j, d.r);
        some.store(kept + n + j, d.z);
        some.store(kept + 2 * n + j, d.of_state);
        some.store(dh.sum + b * n + j, d.before);
      });
    }
  });
}

}  // namespace tandem::host
