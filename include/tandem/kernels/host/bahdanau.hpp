// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Additive attention of the rows of one sequence to those of another, between the products before
/// it and behind it. What goes through tanh is computed row by row and never kept.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/channels_last/elementary.hpp>
#include <tandem/kernels/functors/elementary.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Sizes of one call. Rows of keys behind a sample's length are not looked at.
struct AdditiveRows {
  int batch = 0;
  int queries = 0;  ///< rows of each sample
  int keys = 0;
  int hidden = 0;                         ///< of a query and a key
  int channels = 0;                       ///< of a value
  std::int32_t const* lengths = nullptr;  ///< of each sample's keys; null: all

  [[nodiscard]] int length(std::int64_t sample) const {
    return lengths != nullptr ? std::min<int>(lengths[sample], keys) : keys;
  }
};

/// unit = g v / |v|.
template <class T>
void normalise_scores(int n, T const* v, T g, T* unit) {
  T squares{0};
  for (int i = 0; i < n; ++i) {
    squares += v[i] * v[i];
  }
  T const scale = g / std::sqrt(squares);
  for (int i = 0; i < n; ++i) {
    unit[i] = v[i] * scale;
  }
}

/// dv and dg = [+=] of the gradient of unit.
template <class T>
void normalise_scores_gradient(int n, T const* v, T g, T const* dunit, T* dv, T* dg,
                               bool accumulate) {
  T squares{0};
  T along{0};
  for (int i = 0; i < n; ++i) {
    squares += v[i] * v[i];
    along += dunit[i] * v[i];
  }
  T const inverse = T{1} / std::sqrt(squares);
  for (int i = 0; i < n; ++i) {
    T const own = g * inverse * (dunit[i] - v[i] * along / squares);
    dv[i] = accumulate ? dv[i] + own : own;
  }
  *dg = accumulate ? *dg + along * inverse : along * inverse;
}

namespace detail {

/// All lanes of a Wide<T>, for numbers of Real<T>.
template <class T>
using WholeLanes = std::conditional_t<std::is_same_v<T, double>, OneLane, channels_last::AllLanes>;
template <class T>
inline constexpr int wide_lanes = std::is_same_v<T, double> ? 1 : channels_last::lanes;

}  // namespace detail

/// share = softmax over j of unit·tanh(query + key[j] + bias); out = Σ share[j] value[j].
///
/// Shapes: query, unit and bias (hidden), keys (length, hidden), values (length, channels); share
///         (length), out (channels).
/// Order:  as additive_forward().
template <class T>
void additive_row(int hidden, int channels, int length, T const* query, T const* keys,
                  Real<T> const* unit, Real<T> const* bias, T const* values, Real<T>* share,
                  T* out) {
  using R = Real<T>;
  using elementary::hyperbolic_tangent;
  R largest = -std::numeric_limits<R>::infinity();
  for (int j = 0; j < length; ++j) {
    T const* const key = keys + std::int64_t{j} * hidden;
    auto sum = wide<T>(0);
    for_wide<T>(0, hidden, [&](std::int64_t h, auto some) {
      auto const a =
          hyperbolic_tangent(some.load(query + h) + some.load(key + h) + some.load(bias + h));
      sum += some.keep(some.load(unit + h) * a, wide<T>(0));
    });
    share[j] = lane_total(sum);
    largest = std::max(largest, share[j]);
  }
  R total{0};
  for (int j = 0; j < length; ++j) {
    share[j] = elementary::exponential(R{share[j] - largest});
    total += share[j];
  }
  for (int j = 0; j < length; ++j) {
    share[j] = share[j] / total;
  }
  for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
    auto sum = wide<T>(0);
    for (int j = 0; j < length; ++j) {
      sum += wide<T>(share[j]) * some.load(values + std::int64_t{j} * channels + c);
    }
    some.store(out + c, sum);
  });
}

/// p = softmax over j of unit·tanh(q + k[j] + bias); y = Σ p[j] value[j].
///
/// Shapes: q (B, Tq, H), k (B, Tk, H), unit and bias (H), value (B, Tk, C); p (B, Tq, Tk), 0 behind
///         a sample's keys; y (B, Tq, C).
/// Cost:   B Tq Tk (H + C) multiply-accumulates and B Tq Tk H hyperbolic tangents.
/// Order:  a score by lanes and a tree, in double in order of h; all else in order of j.
template <class T>
TANDEM_NOINLINE void additive_forward(Team& team, AdditiveRows const& rows, T const* q, T const* k,
                                      Real<T> const* unit, Real<T> const* bias, T const* value,
                                      Real<T>* p, T* y) {
  team.parallel_for(
      std::int64_t{rows.batch} * rows.queries, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          std::int64_t const sample = row / rows.queries;
          std::int64_t const first_key = sample * rows.keys;
          Real<T>* const share = p + row * rows.keys;
          int const length = rows.length(sample);
          additive_row<T>(rows.hidden, rows.channels, length, q + row * rows.hidden,
                          k + first_key * rows.hidden, unit, bias,
                          value + first_key * rows.channels, share, y + row * rows.channels);
          std::fill(share + length, share + rows.keys, Real<T>{0});
        }
      });
}

/// Numbers of Real<T> that additive_gradient wants as scratch.
template <class T>
constexpr std::int64_t additive_gradient_scratch(AdditiveRows const& rows) {
  return std::int64_t{rows.batch} * rows.keys * (rows.queries + 2 * detail::wide_lanes<T>);
}

/// The gradients of q and k, and of unit and bias for each sample.
///
/// Lane by lane of H: what a sample's keys get is summed in as many numbers a key, and rounded
/// once.
///
/// Shapes: as above; dy (B, Tq, C), dq (B, Tq, H), dk (B, Tk, H), dunit and dbias (B, H); scratch
///         of additive_gradient_scratch() numbers.
/// Cost:   B Tq Tk (2 H + C) multiply-accumulates and B Tq Tk H hyperbolic tangents.
/// Order:  of a sample, query by query, key by key.
template <class T>
TANDEM_NOINLINE void additive_gradient(Team& team, AdditiveRows const& rows, T const* q, T const* k,
                                       Real<T> const* unit, Real<T> const* bias, T const* value,
                                       Real<T> const* p, T const* dy, T* dq, T* dk, Real<T>* dunit,
                                       Real<T>* dbias, Real<T>* scratch) {
  using R = Real<T>;
  using elementary::hyperbolic_tangent;
  constexpr int lanes = detail::wide_lanes<T>;
  team.parallel_for(rows.batch, [=](std::int64_t begin, std::int64_t end) {
    detail::WholeLanes<T> const all;
    for (std::int64_t sample = begin; sample < end; ++sample) {
      int const length = rows.length(sample);
      std::int64_t const first_key = sample * rows.keys;
      std::int64_t const first_query = sample * rows.queries;
      R* const dscore = scratch + first_key * (rows.queries + 2 * lanes);  // (Tq, Tk)
      R* const key = dscore + std::int64_t{rows.queries} * rows.keys;      // (Tk, lanes)
      R* const dkey = key + std::int64_t{rows.keys} * lanes;
      for (int t = 0; t < rows.queries; ++t) {
        R const* const share = p + (first_query + t) * rows.keys;
        R* const own = dscore + std::int64_t{t} * rows.keys;
        T const* const given = dy + (first_query + t) * rows.channels;
        R mean{0};
        for (int j = 0; j < length; ++j) {
          T const* const values = value + (first_key + j) * rows.channels;
          auto sum = wide<T>(0);
          for_wide<T>(0, rows.channels, [&](std::int64_t c, auto some) {
            sum += some.keep(some.load(given + c) * some.load(values + c), wide<T>(0));
          });
          own[j] = lane_total(sum);
          mean += share[j] * own[j];
        }
        for (int j = 0; j < length; ++j) {
          own[j] = share[j] * (own[j] - mean);
        }
      }
      for_wide<T>(0, rows.hidden, [&](std::int64_t h, auto some) {
        auto const weight = some.load(unit + h);
        auto const shift = some.load(bias + h);
        for (int j = 0; j < length; ++j) {
          all.store(key + j * lanes, some.load(k + (first_key + j) * rows.hidden + h) + shift);
          all.store(dkey + j * lanes, wide<T>(0));
        }
        auto of_unit = wide<T>(0);
        auto of_bias = wide<T>(0);
        for (int t = 0; t < rows.queries; ++t) {
          std::int64_t const at = (first_query + t) * rows.hidden + h;
          R const* const own = dscore + std::int64_t{t} * rows.keys;
          auto const query = some.load(q + at);
          auto sum = wide<T>(0);
          for (int j = 0; j < length; ++j) {
            auto const a = hyperbolic_tangent(query + all.load(key + j * lanes));
            auto const along = wide<T>(own[j]) * a;
            auto const slope = wide<T>(own[j]) - along * a;
            sum += slope;
            of_unit += along;
            all.store(dkey + j * lanes, all.load(dkey + j * lanes) + slope);
          }
          some.store(dq + at, sum * weight);
          of_bias += sum * weight;
        }
        some.store(dunit + sample * rows.hidden + h, of_unit);
        some.store(dbias + sample * rows.hidden + h, of_bias);
        for (int j = 0; j < rows.keys; ++j) {
          some.store(dk + (first_key + j) * rows.hidden + h,
                     j < length ? all.load(dkey + j * lanes) * weight : wide<T>(0));
        }
      });
    }
  });
}

/// dvalue += the gradient of value.
///
/// Shapes: p (B, Tq, Tk), dy (B, Tq, C), dvalue (B, Tk, C).
/// Cost:   B Tq Tk C multiply-accumulates.
/// Order:  of a value, query by query; added once.
template <class T>
TANDEM_NOINLINE void additive_value_gradient(Team& team, AdditiveRows const& rows, Real<T> const* p,
                                             T const* dy, T* dvalue) {
  team.parallel_for(rows.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t sample = begin; sample < end; ++sample) {
      Real<T> const* const share = p + sample * rows.queries * rows.keys;
      T const* const given = dy + sample * rows.queries * rows.channels;
      for (int j = 0; j < rows.length(sample); ++j) {
        T* const to = dvalue + (sample * rows.keys + j) * rows.channels;
        for_wide<T>(0, rows.channels, [&](std::int64_t c, auto some) {
          auto sum = wide<T>(0);
          for (std::int64_t t = 0; t < rows.queries; ++t) {
            sum += wide<T>(share[t * rows.keys + j]) * some.load(given + t * rows.channels + c);
          }
          some.store(to + c, some.load(to + c) + sum);
        });
      }
    }
  });
}

}  // namespace tandem::host
