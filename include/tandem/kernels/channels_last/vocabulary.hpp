// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rows of a softmax over a vocabulary, of float or BFloat16, in vectors;
/// kernels/host/vocabulary.hpp has the definition.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/channels_last/elementary.hpp>
#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/kernels/host/vocabulary.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

/// Logits whose exponentials are added in float, before they are added in double.
inline constexpr int vocabulary_block = 256 * lanes;

/// The sum of the lanes, in double, in order.
inline double sum_of(Floats const& value) {
  float lane[lanes];
  store(lane, value);
  double total = 0;
  for (float const one : lane) {
    total += static_cast<double>(one);
  }
  return total;
}

/// The largest of the logits, a NaN passed over; -infinity if there are none.
template <class T>
float largest_logit(int vocabulary, T const* z) {
  Floats most{-std::numeric_limits<float>::infinity()};
  int v = 0;
  for (; v + lanes <= vocabulary; v += lanes) {
    Floats const value = load(z + v);
    most = select(value > most, value, most);
  }
  float lane[lanes];
  store(lane, most);
  float largest = lane[0];
  for (float const one : lane) {
    largest = one > largest ? one : largest;
  }
  for (; v < vocabulary; ++v) {
    float const one = static_cast<float>(z[v]);
    largest = one > largest ? one : largest;
  }
  return largest;
}

/// Sums over a row of logits.
struct LogitSums {
  double exponentials;  ///< of z - largest
  double logits;
};

template <class T>
LogitSums logit_sums(int vocabulary, T const* z, float largest) {
  LogitSums sums{0, 0};
  Floats const shift{largest};
  for (int first = 0; first < vocabulary; first += vocabulary_block) {
    Floats total{0.0F};
    Floats logits{0.0F};
    int const end = std::min(vocabulary, first + vocabulary_block);
    int v = first;
    for (; v + lanes <= end; v += lanes) {
      Floats const value = load(z + v);
      total += exponential(value - shift);
      logits += value;
    }
    if (v < end) {  // lanes behind the last logit are far below it
      float last[lanes];
      std::fill_n(last, lanes, -std::numeric_limits<float>::infinity());
      float own = 0;
      for (int i = 0; i < end - v; ++i) {
        last[i] = static_cast<float>(z[v + i]);
        own += last[i];
      }
      total += exponential(load(last) - shift);
      sums.logits += static_cast<double>(own);
    }
    sums.exponentials += sum_of(total);
    sums.logits += sum_of(logits);
  }
  return sums;
}

}  // namespace detail

/// As host::vocabulary_part, of float or BFloat16.
template <class T>
VocabularyPart vocabulary_part(int count, T const* z, int target) {
  if (count == 0) {
    return no_words;
  }
  float const largest = detail::largest_logit(count, z);
  auto const [total, sum] = detail::logit_sums(count, z, largest);
  float const own =
      target < count ? static_cast<float>(z[target]) : -std::numeric_limits<float>::infinity();
  bool const right = target < count && own == largest &&
                     (target == 0 || detail::largest_logit(target, z) < largest);
  return {static_cast<double>(largest), right ? -total : total, static_cast<double>(own), sum};
}

/// As host::vocabulary_gradient, of float or BFloat16.
template <class T>
void vocabulary_gradient(int count, T* z, int target, VocabularyPart const& all, double elsewhere,
                         double on_target, double scale) {
  double const total = std::fabs(all.total);
  float const largest = static_cast<float>(all.largest);
  float const own = target < count ? static_cast<float>(z[target]) : 0.0F;
  Floats const shift{largest};
  Floats const factor{static_cast<float>(scale / total)};
  Floats const other{static_cast<float>(-elsewhere * scale)};
  auto const gradient = [=](int v, auto some) {
    some.store(z + v, multiply_add(exponential(some.load(z + v) - shift), factor, other));
  };
  int v = 0;
  for (; v + lanes <= count; v += lanes) {
    gradient(v, AllLanes{});
  }
  if (v < count) {
    gradient(v, FirstLanes{count - v});
  }
  if (target < count) {
    double const p = std::exp(static_cast<double>(own - largest)) / total;
    z[target] = static_cast<T>(static_cast<float>((p - elsewhere - on_target) * scale));
  }
}

/// As host::vocabulary_rows, of float or BFloat16.
///
/// Cost:  reads the logits twice, and once more with the gradient, which it writes; V exponentials
///        a row, 2 V with the gradient.
/// Order: a row by itself; exponentials in 16 lanes of float over blocks of 4096 logits, those in
///        double.
template <class T>
TANDEM_NOINLINE void vocabulary_rows(Team& team, std::int64_t rows, int vocabulary, T* logits,
                                     std::int32_t const* targets, double smoothing,
                                     double const* scale, VocabularyRow* results) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    double const elsewhere = smoothing / vocabulary;
    for (std::int64_t r = begin; r < end; ++r) {
      T* const z = logits + r * vocabulary;
      std::int32_t const target = targets != nullptr ? targets[r] : -1;
      if (target < 0) {
        results[r] = {};
        if (scale != nullptr) {
          std::fill_n(z, vocabulary, T{});
        }
        continue;
      }
      VocabularyPart const all = vocabulary_part(vocabulary, z, target);
      results[r] = vocabulary_row(all, vocabulary, smoothing);
      if (scale != nullptr) {
        vocabulary_gradient(vocabulary, z, target, all, elsewhere, 1 - smoothing, *scale);
      }
    }
  });
}

}  // namespace tandem::host::channels_last
