// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sample of a LogUniformSampler, drawn on the device.
///
/// There and not on the host, which knows seed and step as well: a recorded step draws anew each
/// time it is replayed, with nothing to copy and nothing for the host to do meanwhile. A launch
/// makes a number of draws that never changes, of which the first so many different ones count:
/// sorted by CUB, without atomics, so that the sample repeats.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/log_uniform.hpp>
#include <tandem/kernels/cuda/token_runs.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// A sample in the device's memory, for kernels to read.
struct SampleView {
  LogUniform law;
  std::int32_t count;         ///< classes of the sample
  std::int32_t const* word;   ///< (count) in the order in which they were drawn first
  std::int32_t const* draw;   ///< (count) that draw, ascending
  std::uint32_t const* kind;  ///< (*kinds) the different classes of all draws, ascending
  std::int32_t const* first;  ///< (*kinds) their first draws
  std::int32_t const* kinds;

  /// Where class @p c stands in the sample; -1 where it does not.
  [[nodiscard]] TANDEM_HOST_DEVICE int place(std::int32_t c) const {
    int const at = lower_bound(kind, *kinds, static_cast<std::uint32_t>(c));
    if (at == *kinds || kind[at] != static_cast<std::uint32_t>(c) || first[at] > draw[count - 1]) {
      return -1;
    }
    return lower_bound(draw, count, first[at]);
  }
  /// What a sampled softmax takes from the logit of class @p c.
  [[nodiscard]] TANDEM_HOST_DEVICE double log_expected_count(int c) const {
    return std::log(law.expected_count(c, std::int64_t{draw[count - 1]} + 1));
  }

 private:
  template <class E>
  TANDEM_HOST_DEVICE static int lower_bound(E const* list, int n, E value) {
    int begin = 0;
    while (begin < n) {
      int const middle = begin + (n - begin) / 2;
      if (list[middle] < value) {
        begin = middle + 1;
      } else {
        n = middle;
      }
    }
    return begin;
  }
};

/// Draws after which @p count different ones of @p law have come, but once in 2^64 times.
///
/// With 1 - (1 - p)^n of each class, E is how many are expected; they are negatively associated, so
/// that fewer than E - t come with probability exp(-t²/2E) at most; or, where nearly all are
/// wanted, as Markov's inequality has it of those that have not come. Classes are taken together
/// where their probabilities are alike, with the least of them.
/// Cost: some thousand powers.
/// @throws ContractError  they are more than 2^26
inline std::int32_t draws_for(LogUniform const& law, int count) {
  constexpr double rare = 0x1p-64;
  auto const suffice = [&](std::int64_t draws) {
    double expected = 0;
    for (std::int64_t begin = 0; begin < law.classes;) {
      std::int64_t const end = std::min<std::int64_t>(law.classes, begin + 1 + begin / 32);
      expected +=
          static_cast<double>(end - begin) * law.expected_count(static_cast<int>(end - 1), draws);
      begin = end;
    }
    double const more = expected - count + 1;
    double const missing = law.classes - expected;
    return (more > 0 && std::exp(-more * more / (2 * expected)) <= rare) ||
           missing / (law.classes - count + 1) <= rare;
  };
  constexpr std::int64_t most = std::int64_t{1} << 26;
  expects(suffice(most),
          "Vocabulary<V, Sampled<Words>> on a GPU: so nearly all words would take more than 2^26 "
          "draws; sample fewer, or leave Sampled out");
  std::int64_t too_few = 0;
  std::int64_t enough = most;
  while (enough - too_few > 1) {
    std::int64_t const middle = (too_few + enough) / 2;
    (suffice(middle) ? enough : too_few) = middle;
  }
  return static_cast<std::int32_t>(enough);
}

namespace detail {

/// Draw i of a step and a layer, as LogUniformSampler makes it.
struct DrawClass {
  LogUniform law;
  std::uint64_t const* seed;
  std::int64_t const* step;
  std::uint32_t layer;
  std::uint32_t* key;
  std::int32_t* counted;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    key[i] =
        static_cast<std::uint32_t>(law.draw(*seed, static_cast<std::uint32_t>(*step), layer, i));
    counted[i] = static_cast<std::int32_t>(i);
  }
};

/// The different classes by their first draws; what stands behind them comes last.
struct OrderKinds {
  std::int32_t const* kinds;
  std::uint32_t const* kind;
  std::int32_t const* first;
  std::int32_t draws;
  std::uint32_t* key;
  std::int32_t* word;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    bool const is = i < *kinds;
    key[i] = static_cast<std::uint32_t>(is ? first[i] : draws);
    word[i] = is ? static_cast<std::int32_t>(kind[i]) : 0;
  }
};

}  // namespace detail

/// Where samples of a layer are drawn, in scratch memory.
class LogUniformDraws {
 public:
  /// @pre 1 <= count <= law.classes
  LogUniformDraws(Stream const& stream, LogUniform const& law, int count)
      : law_{law}, count_{count}, draws_{draws_for(law, count)} {
    std::size_t sort = 0;
    std::size_t select = 0;
    std::size_t order = 0;
    Arrays const none{};
    sort_draws(stream, none, nullptr, sort);
    select_kinds(stream, none, nullptr, select);
    order_kinds(stream, none, nullptr, order);
    rest_ = static_cast<std::int64_t>(std::max({sort, select, order}));
  }

  [[nodiscard]] std::int32_t draws() const { return draws_; }
  /// Of draw()'s scratch.
  [[nodiscard]] std::int64_t bytes() const { return 8 * each() + 256 + rest_; }

  /// Queues the sample of the step that @p seed and @p step, in the device's memory, name; it lies
  /// in @p scratch.
  ///
  /// Cost:  two radix sorts of draws() pairs, a selection, two kernels.
  /// @pre   scratch is at a multiple of 256
  SampleView draw(Stream const& stream, std::uint64_t const* seed, std::int64_t const* step,
                  std::uint32_t layer, std::byte* scratch) const {
    Arrays const a = at(scratch);
    tandem::cuda::each(stream, draws_,
                       detail::DrawClass{law_, seed, step, layer, a.key, a.counted});
    auto bytes = static_cast<std::size_t>(rest_);
    sort_draws(stream, a, a.rest, bytes);
    select_kinds(stream, a, a.rest, bytes);
    tandem::cuda::each(stream, draws_,
                       detail::OrderKinds{a.kinds, a.kind, a.first, draws_, a.key, a.counted});
    order_kinds(stream, a, a.rest, bytes);
    return view(scratch);
  }

  /// Of what was drawn last in @p scratch.
  [[nodiscard]] SampleView view(std::byte* scratch) const {
    Arrays const a = at(scratch);
    return {law_,   count_,  a.word, reinterpret_cast<std::int32_t const*>(a.draw),
            a.kind, a.first, a.kinds};
  }

 private:
  struct Arrays {
    std::uint32_t* key;
    std::int32_t* counted;
    std::uint32_t* sorted;
    std::int32_t* position;
    std::uint32_t* kind;
    std::int32_t* first;
    std::uint32_t* draw;
    std::int32_t* word;
    std::int32_t* kinds;
    std::byte* rest;  ///< of CUB
  };

  [[nodiscard]] std::int64_t each() const { return (draws_ * std::int64_t{4} + 255) / 256 * 256; }
  [[nodiscard]] Arrays at(std::byte* scratch) const {
    auto const numbers = [&](int i) {
      return reinterpret_cast<std::int32_t*>(scratch + i * each());
    };
    auto const keys = [&](int i) { return reinterpret_cast<std::uint32_t*>(scratch + i * each()); };
    return {keys(0),    numbers(1), keys(2),    numbers(3), keys(4),
            numbers(5), keys(6),    numbers(7), numbers(8), scratch + 8 * each() + 256};
  }

  // Each queues its work, or says in `bytes` how much scratch it needs, where that is null.
  void sort_draws(Stream const& stream, Arrays const& a, void* rest, std::size_t& bytes) const {
    sort_pairs(stream, KeyedValues<std::int32_t>{a.key, a.sorted, a.counted, a.position, draws_},
               index_bits(law_.classes), rest, bytes);
  }
  void select_kinds(Stream const& stream, Arrays const& a, void* rest, std::size_t& bytes) const {
    first_of_equals(stream,
                    KeyedValues<std::int32_t>{a.sorted, a.kind, a.position, a.first, draws_},
                    a.kinds, rest, bytes);
  }
  void order_kinds(Stream const& stream, Arrays const& a, void* rest, std::size_t& bytes) const {
    sort_pairs(stream, KeyedValues<std::int32_t>{a.key, a.draw, a.counted, a.word, draws_},
               index_bits(std::int64_t{draws_} + 1), rest, bytes);
  }

  LogUniform law_;
  std::int32_t count_;
  std::int32_t draws_;
  std::int64_t rest_ = 0;
};

}  // namespace tandem::cuda
