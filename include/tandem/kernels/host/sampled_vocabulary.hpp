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

#include <tandem/core/config.hpp>
#include <tandem/core/log_uniform_sample.hpp>
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
  constexpr std::int64_t block = 64;
  std::span<std::int32_t const> const words = sample.classes();
  auto const count = static_cast<std::int64_t>(words.size());
  if (!accumulate) {
    for_wide<T>(team, std::int64_t{vocabulary} * channels,
                [=](std::int64_t i, auto some) { some.store(dtable + i, wide<T>(0)); });
  }
  team.parallel_for((channels + block - 1) / block, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t const first = begin * block;
    std::int64_t const last = std::min<std::int64_t>(end * block, channels);
    for (std::int64_t s = 0; s < count; ++s) {
      P* const to = dtable + std::int64_t{words[static_cast<std::size_t>(s)]} * channels;
      P const* const from = drows + s * channels;
      for_wide<T>(first, last, [=](std::int64_t c, auto some) {
        some.store(to + c, some.load(to + c) + some.load(from + c));
      });
    }
    for (std::int64_t r = 0; r < rows && targets != nullptr; ++r) {
      if (targets[r] < 0) {
        continue;
      }
      P* const to = dtable + std::int64_t{targets[r]} * channels;
      T const* const in = x + r * channels;
      auto const factor = wide<T>(static_cast<P>(dlogits[r * (count + 1) + count]));
      for_wide<T>(first, last, [=](std::int64_t c, auto some) {
        some.store(to + c, some.load(to + c) + factor * some.load(in + c));
      });
    }
  });
  if (dbias == nullptr) {
    return;
  }
  if (!accumulate) {
    std::fill_n(dbias, vocabulary, P{0});
  }
  for (std::int64_t s = 0; s < count; ++s) {
    dbias[words[static_cast<std::size_t>(s)]] += dbias_of[s];
  }
  for (std::int64_t r = 0; r < rows && targets != nullptr; ++r) {
    if (targets[r] >= 0) {
      dbias[targets[r]] += static_cast<P>(dlogits[r * (count + 1) + count]);
    }
  }
}

}  // namespace tandem::host
