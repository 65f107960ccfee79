// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a softmax over a sample of the words needs besides a Linear's products: the words' rows
/// together, each row's own target, and the gradients back in their places.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/core/log_uniform_sample.hpp>
#include <tandem/kernels/host/gradient_rows.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// rows[s] = table[sample[s]], rounded to T, and bias[s] = that of the word less the logarithm of
/// its expected count; behind them a row of zeros and a bias of 0, in whose column target_logits()
/// writes.
///
/// Shapes: table (V, C), word_bias (V) or null: zeros; rows (S + 1, C), bias (S + 1).
/// Cost:   reads and writes S C elements.
template <class T, class P>
TANDEM_NOINLINE void gather_sample(Team& team, LogUniformSample const& sample, int channels,
                                   P const* table, P const* word_bias, T* rows, P* bias) {
  std::span<std::int32_t const> const words = sample.classes();
  auto const count = static_cast<std::int64_t>(words.size());
  team.parallel_for(count, [&, words](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      std::int32_t const word = words[static_cast<std::size_t>(s)];
      P const* const from = table + std::int64_t{word} * channels;
      T* const to = rows + s * channels;
      for_wide<T>(0, channels,
                  [=](std::int64_t c, auto some) { some.store(to + c, some.load(from + c)); });
      double const own = word_bias != nullptr ? static_cast<double>(word_bias[word]) : 0.0;
      bias[s] = static_cast<P>(own - sample.log_expected_count(word));
    }
  });
  std::fill_n(rows + count * channels, channels, static_cast<T>(0.0F));
  bias[count] = P{0};
}

/// Writes behind each row's logits of the sample that of its target, less the logarithm of the
/// target's expected count; and where the sample has the target, too, -infinity in its place.
///
/// Shapes: x (rows, C), table (V, C), bias (V) or null, targets (rows) or null; logits (rows,
///         S + 1), columns (rows): S where there is a target, else -1.
/// Cost:   C multiply-accumulates a row.
/// Order:  a row by itself; in Real<T>, its lanes as a binary tree.
template <class T, class P>
TANDEM_NOINLINE void target_logits(Team& team, LogUniformSample const& sample, std::int64_t rows,
                                   int channels, T const* x, P const* table, P const* bias,
                                   std::int32_t const* targets, T* logits, std::int32_t* columns) {
  auto const count = static_cast<std::int64_t>(sample.classes().size());
  team.parallel_for(rows, [&, count](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::int32_t const target = targets != nullptr ? targets[r] : -1;
      columns[r] = target < 0 ? -1 : static_cast<std::int32_t>(count);
      if (target < 0) {
        continue;
      }
      T const* const in = x + r * channels;
      P const* const weight = table + std::int64_t{target} * channels;
      Wide<T> sum = wide<T>(0);
      for_wide<T>(0, channels, [&](std::int64_t c, auto some) {
        sum += some.load(in + c) * some.load(weight + c);
      });
      double const own = bias != nullptr ? static_cast<double>(bias[target]) : 0.0;
      T* const z = logits + r * (count + 1);
      z[count] = static_cast<T>(static_cast<P>(static_cast<double>(lane_total(sum)) + own -
                                               sample.log_expected_count(target)));
      int const place = sample.place(target);
      if (place >= 0) {
        z[place] = static_cast<T>(-std::numeric_limits<P>::infinity());
      }
    }
  });
}

/// dx[r] += the gradient of the target's logit times the target's row of the table.
///
/// Shapes: dlogits (rows, S + 1), of which the last column is the target's; dx (rows, C).
template <class T, class P>
TANDEM_NOINLINE void add_target_input_gradient(Team& team, std::int64_t rows, int sampled,
                                               int channels, T const* dlogits, P const* table,
                                               std::int32_t const* targets, T* dx) {
  if (targets == nullptr) {
    return;
  }
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (targets[r] < 0) {
        continue;
      }
      P const* const weight = table + std::int64_t{targets[r]} * channels;
      T* const out = dx + r * channels;
      auto const factor = wide<T>(static_cast<P>(dlogits[r * (sampled + 1) + sampled]));
      for_wide<T>(0, channels, [=](std::int64_t c, auto some) {
        some.store(out + c, some.load(out + c) + factor * some.load(weight + c));
      });
    }
  });
}

namespace detail {

/// Adds a sample's gradient to the rows of its words, and of each target what its row wants.
///
/// @param row_of   row_of(i): where the gradient of word i of the sample stands, and behind those
///                 row_of(S + r) of the target of row r
/// @param bias_of  likewise, of the biases; null where there are none
template <class T, class P, class RowOf, class BiasOf>
void add_sample(Team& team, std::int64_t count, std::int64_t rows, int channels, P const* drows,
                P const* dbias, T const* x, T const* dlogits, std::int32_t const* targets,
                RowOf const& row_of, BiasOf const& bias_of) {
  constexpr std::int64_t block = 64;
  std::int64_t const asked = targets != nullptr ? rows : 0;
  team.parallel_for((channels + block - 1) / block, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t const first = begin * block;
    std::int64_t const last = std::min<std::int64_t>(end * block, channels);
    for (std::int64_t s = 0; s < count; ++s) {
      P* const to = row_of(s);
      P const* const from = drows + s * channels;
      for_wide<T>(first, last, [=](std::int64_t c, auto some) {
        some.store(to + c, some.load(to + c) + some.load(from + c));
      });
    }
    for (std::int64_t r = 0; r < asked; ++r) {
      if (targets[r] < 0) {
        continue;
      }
      P* const to = row_of(count + r);
      T const* const in = x + r * channels;
      auto const factor = wide<T>(static_cast<P>(dlogits[r * (count + 1) + count]));
      for_wide<T>(first, last, [=](std::int64_t c, auto some) {
        some.store(to + c, some.load(to + c) + factor * some.load(in + c));
      });
    }
  });
  if constexpr (!std::is_null_pointer_v<BiasOf>) {
    for (std::int64_t s = 0; s < count; ++s) {
      *bias_of(s) += dbias[s];
    }
    for (std::int64_t r = 0; r < asked; ++r) {
      if (targets[r] >= 0) {
        *bias_of(count + r) += static_cast<P>(dlogits[r * (count + 1) + count]);
      }
    }
  }
}

}  // namespace detail

/// dtable = [+=] 0 but for the rows of the sample and of the targets; the bias likewise.
///
/// Shapes: drows (S + 1, C) and dbias_of (S + 1), whose last row is nothing; x (rows, C), dlogits
///         (rows, S + 1), targets (rows) or null; dtable (V, C), dbias (V) or null.
/// Cost:   writes V C elements unless it adds, then (S + rows) C.
/// Order:  what stood there, then the sample's gradient, then the rows that want the word, as they
///         stand.
template <class T, class P>
TANDEM_NOINLINE void spread_sample(Team& team, LogUniformSample const& sample, int vocabulary,
                                   std::int64_t rows, int channels, P const* drows,
                                   P const* dbias_of, T const* x, T const* dlogits,
                                   std::int32_t const* targets, P* dtable, P* dbias,
                                   bool accumulate) {
  std::span<std::int32_t const> const words = sample.classes();
  auto const count = static_cast<std::int64_t>(words.size());
  if (!accumulate) {
    for_wide<T>(team, std::int64_t{vocabulary} * channels,
                [=](std::int64_t i, auto some) { some.store(dtable + i, wide<T>(0)); });
  }
  auto const word = [=](std::int64_t i) -> std::int64_t {
    return i < count ? words[static_cast<std::size_t>(i)] : targets[i - count];
  };
  auto const row_of = [=](std::int64_t i) { return dtable + word(i) * channels; };
  if (dbias == nullptr) {
    detail::add_sample(team, count, rows, channels, drows, dbias_of, x, dlogits, targets, row_of,
                       nullptr);
    return;
  }
  if (!accumulate) {
    std::fill_n(dbias, vocabulary, P{0});
  }
  detail::add_sample(team, count, rows, channels, drows, dbias_of, x, dlogits, targets, row_of,
                     [=](std::int64_t i) { return dbias + word(i); });
}

/// Numbers of scratch of spread_sample_rows.
constexpr std::int64_t sample_rows_scratch(int sampled, std::int64_t rows) {
  return 6 * (sampled + rows);
}

/// The same as GradientRows, of the words of the sample and of the targets: spread_sample's bits.
///
/// Shapes: dtable of width C, dbias of width 1 or without values.
/// Cost:   reads and writes (S + rows) C elements; one thread sorts S + rows numbers before.
///         Nothing is of the size of the table.
/// @pre    scratch has sample_rows_scratch(S, rows) numbers
template <class T, class P>
TANDEM_NOINLINE void spread_sample_rows(Team& team, LogUniformSample const& sample, int vocabulary,
                                        std::int64_t rows, int channels, P const* drows,
                                        P const* dbias_of, T const* x, T const* dlogits,
                                        std::int32_t const* targets, GradientRows<P> const& dtable,
                                        GradientRows<P> const& dbias, bool accumulate,
                                        std::int32_t* scratch) {
  std::span<std::int32_t const> const words = sample.classes();
  auto const count = static_cast<std::int64_t>(words.size());
  std::int64_t const all = count + (targets != nullptr ? rows : 0);
  std::int32_t* const word = scratch;          // of each item: a word of the sample, a target
  std::int32_t* const number = scratch + all;  // of each row
  std::int32_t* const place = scratch + 2 * all;
  std::int32_t* const place_of = scratch + 3 * all;  // of each item
  std::copy(words.begin(), words.end(), word);
  for (std::int64_t i = count; i < all; ++i) {
    std::int32_t const target = targets[i - count];
    word[i] = target < 0 ? words.front() : target;  // none: no row is opened for it, nor written
  }
  std::int32_t const* const order =
      detail::sort_by_index(all, vocabulary, word, scratch + 4 * all, scratch + 5 * all);
  std::int64_t unique = 0;
  for (std::int64_t i = 0; i < all; ++i) {
    if (i == 0 || word[order[i]] != number[unique - 1]) {
      number[unique++] = word[order[i]];
    }
    place_of[order[i]] = static_cast<std::int32_t>(unique - 1);
  }
  auto const open = [&](GradientRows<P> const& gradient) {
    open_rows(gradient, unique, number, place, accumulate);
  };
  open(dtable);
  auto const row_of = [=](std::int64_t i) { return dtable.values_of(place[place_of[i]]); };
  if (dbias.value == nullptr) {
    detail::add_sample(team, count, rows, channels, drows, dbias_of, x, dlogits, targets, row_of,
                       nullptr);
    return;
  }
  open(dbias);  // rows of both have the same numbers, and so the same places
  detail::add_sample(team, count, rows, channels, drows, dbias_of, x, dlogits, targets, row_of,
                     [=](std::int64_t i) { return dbias.values_of(place[place_of[i]]); });
}

}  // namespace tandem::host
