// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Additive attention of the rows of one sequence to those of another, between the products before
/// it and behind it. What goes through tanh is computed row by row and never kept.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
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

/// p = softmax over j of unit·tanh(q + k[j] + bias); y = Σ p[j] value[j].
///
/// Shapes: q (B, Tq, H), k (B, Tk, H), unit and bias (H), value (B, Tk, C); p (B, Tq, Tk), 0 behind
///         a sample's keys; y (B, Tq, C).
/// Cost:   B Tq Tk (H + C) multiply-accumulates and B Tq Tk H hyperbolic tangents.
/// Order:  a score by lanes and a tree, in double in order of h; all else in order of j.
template <class T>
TANDEM_NOINLINE void additive_forward(Team& team, AdditiveRows const& rows, T const* q, T const* k,
                                      T const* unit, T const* bias, T const* value, T* p, T* y) {
  using elementary::hyperbolic_tangent;
  team.parallel_for(std::int64_t{rows.batch} * rows.queries, [=](std::int64_t begin,
                                                                 std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const sample = row / rows.queries;
      int const length = rows.length(sample);
      T const* const query = q + row * rows.hidden;
      T* const share = p + row * rows.keys;
      T largest = -std::numeric_limits<T>::infinity();
      for (int j = 0; j < length; ++j) {
        T const* const key = k + (sample * rows.keys + j) * rows.hidden;
        auto sum = wide<T>(0);
        for_wide<T>(0, rows.hidden, [&](std::int64_t h, auto some) {
          auto const a =
              hyperbolic_tangent(some.load(query + h) + some.load(key + h) + some.load(bias + h));
          sum += some.keep(some.load(unit + h) * a, wide<T>(0));
        });
        share[j] = lane_total(sum);
        largest = std::max(largest, share[j]);
      }
      T total{0};
      for (int j = 0; j < length; ++j) {
        share[j] = elementary::exponential(T{share[j] - largest});
        total += share[j];
      }
      for (int j = 0; j < rows.keys; ++j) {
        share[j] = j < length ? share[j] / total : T{0};
      }
      T const* const values = value + sample * rows.keys * rows.channels;
      T* const out = y + row * rows.channels;
      for_wide<T>(0, rows.channels, [&](std::int64_t c, auto some) {
        auto sum = wide<T>(0);
        for (int j = 0; j < length; ++j) {
          sum += wide<T>(share[j]) * some.load(values + j * rows.channels + c);
        }
        some.store(out + c, sum);
      });
    }
  });
}

/// The gradients of q, k and unit, the last for each sample, and of value where it is not null.
///
/// Shapes: as above; dy (B, Tq, C), dq (B, Tq, H), dk (B, Tk, H), dunit (B, H), dvalue (B, Tk, C);
///         scratch (B, Tk).
/// Cost:   2 B Tq Tk (H + C) multiply-accumulates and B Tq Tk H hyperbolic tangents.
/// Order:  of a sample, query by query, key by key.
template <class T>
TANDEM_NOINLINE void additive_gradient(Team& team, AdditiveRows const& rows, T const* q, T const* k,
                                       T const* unit, T const* bias, T const* value, T const* p,
                                       T const* dy, T* dq, T* dk, T* dunit, T* dvalue, T* scratch) {
  using elementary::hyperbolic_tangent;
  team.parallel_for(rows.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t sample = begin; sample < end; ++sample) {
      int const length = rows.length(sample);
      std::int64_t const first_key = sample * rows.keys;
      T* const own_dunit = dunit + sample * rows.hidden;
      T* const own_dk = dk + first_key * rows.hidden;
      T* const score = scratch + first_key;  // the gradient of each
      std::fill_n(own_dunit, rows.hidden, T{0});
      std::fill_n(own_dk, std::int64_t{rows.keys} * rows.hidden, T{0});
      if (dvalue != nullptr) {
        std::fill_n(dvalue + first_key * rows.channels, std::int64_t{rows.keys} * rows.channels,
                    T{0});
      }
      for (int t = 0; t < rows.queries; ++t) {
        std::int64_t const row = sample * rows.queries + t;
        T const* const query = q + row * rows.hidden;
        T const* const share = p + row * rows.keys;
        T const* const given = dy + row * rows.channels;
        T* const own_dq = dq + row * rows.hidden;
        std::fill_n(own_dq, rows.hidden, T{0});
        T mean{0};
        for (int j = 0; j < length; ++j) {
          T const* const values = value + (first_key + j) * rows.channels;
          auto sum = wide<T>(0);
          for_wide<T>(0, rows.channels, [&](std::int64_t c, auto some) {
            auto const product = some.load(given + c) * some.load(values + c);
            sum += some.keep(product, wide<T>(0));
            if (dvalue != nullptr) {
              T* const to = dvalue + (first_key + j) * rows.channels + c;
              some.store(to, some.load(to) + wide<T>(share[j]) * some.load(given + c));
            }
          });
          score[j] = lane_total(sum);
          mean += share[j] * score[j];
        }
        for (int j = 0; j < length; ++j) {
          auto const dscore = wide<T>(share[j] * (score[j] - mean));
          T const* const key = k + (first_key + j) * rows.hidden;
          T* const key_gradient = own_dk + std::int64_t{j} * rows.hidden;
          for_wide<T>(0, rows.hidden, [&](std::int64_t h, auto some) {
            auto const a =
                hyperbolic_tangent(some.load(query + h) + some.load(key + h) + some.load(bias + h));
            auto const slope = dscore * some.load(unit + h) * (wide<T>(1) - a * a);
            some.store(own_dq + h, some.load(own_dq + h) + slope);
            some.store(key_gradient + h, some.load(key_gradient + h) + slope);
            some.store(own_dunit + h, some.load(own_dunit + h) + dscore * a);
          });
        }
      }
    }
  });
}

}  // namespace tandem::host
