// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// token_runs: for each index of a vocabulary the positions at which it stands, in their order.
///
/// Sorted on the device, without a word to the host: sizes depend on the numbers of tokens and of
/// indices only, so a graph may capture it.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/kernels/cuda/sort_pairs.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Index v stands at position[begin[v]], …, position[end[v] - 1], ascending; nowhere if they are
/// equal. All in the device's memory.
struct TokenRuns {
  std::int32_t const* position;
  std::int32_t const* begin;
  std::int32_t const* end;
};

namespace detail {

/// The arrays that token_runs makes, one behind another in its scratch.
struct TokenRunsMemory {
  std::uint32_t* sorted;
  std::int32_t* counted;  ///< 0, 1, 2, …
  std::int32_t* position;
  std::int32_t* begin;  ///< and `end` behind it, without a gap
  std::int32_t* end;
  std::byte* sort;

  /// From the start to the scratch of the sort, which follows.
  static constexpr std::int64_t bytes(std::int64_t tokens, std::int64_t vocabulary) {
    return 3 * array_bytes(tokens) + array_bytes(2 * vocabulary);
  }
  static TokenRunsMemory at(std::byte* memory, std::int64_t tokens, std::int64_t vocabulary) {
    std::int64_t const each = array_bytes(tokens);
    auto* const begin = reinterpret_cast<std::int32_t*>(memory + 3 * each);
    return {reinterpret_cast<std::uint32_t*>(memory),
            reinterpret_cast<std::int32_t*>(memory + each),
            reinterpret_cast<std::int32_t*>(memory + 2 * each),
            begin,
            begin + vocabulary,
            memory + bytes(tokens, vocabulary)};
  }

 private:
  static constexpr std::int64_t array_bytes(std::int64_t n) { return (n * 4 + 255) / 256 * 256; }
};

struct Count {
  std::int32_t* out;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    out[i] = static_cast<std::int32_t>(i);
  }
};

/// The first and the last of equal neighbours write where these stand; others write nothing.
struct MarkRun {
  std::uint32_t const* sorted;
  std::int32_t count;
  std::int32_t* begin;
  std::int32_t* end;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::uint32_t const own = sorted[i];
    if (i == 0 || sorted[i - 1] != own) {
      begin[own] = static_cast<std::int32_t>(i);
    }
    if (i == count - 1 || sorted[i + 1] != own) {
      end[own] = static_cast<std::int32_t>(i + 1);
    }
  }
};

/// Queues the sort, or says in @p bytes how much scratch it needs, where that is null.
inline void sort_tokens(Stream const& stream, std::int32_t const* tokens, std::int32_t count,
                        std::int64_t vocabulary, TokenRunsMemory const& to, void* scratch,
                        std::size_t& bytes) {
  sort_pairs(stream,
             KeyedValues<std::int32_t>{reinterpret_cast<std::uint32_t const*>(tokens), to.sorted,
                                       to.counted, to.position, count},
             index_bits(vocabulary), scratch, bytes);
}

inline std::int64_t sort_tokens_bytes(Stream const& stream, std::int32_t count,
                                      std::int64_t vocabulary) {
  std::size_t bytes = 0;
  sort_tokens(stream, nullptr, count, vocabulary, {}, nullptr, bytes);
  return static_cast<std::int64_t>(bytes);
}

}  // namespace detail

/// Scratch of token_runs for at most @p tokens tokens on the stream's device.
inline std::int64_t token_runs_scratch_bytes(Stream const& stream, std::int32_t tokens,
                                             std::int64_t vocabulary) {
  return detail::TokenRunsMemory::bytes(tokens, vocabulary) +
         detail::sort_tokens_bytes(stream, tokens, vocabulary);
}

/// Where each index stands among the tokens; the result lies in @p scratch.
///
/// Shapes: tokens (count), each in [0, vocabulary).
/// Cost:   a radix sort of pairs by ceil(log2 vocabulary) bits, two passes over the positions and
///         one over the vocabulary; bound by memory.
/// Order:  positions of an index ascend, since the sort is stable.
/// @pre    scratch has @p bytes, as token_runs_scratch_bytes says, at a multiple of 256
inline TokenRuns token_runs(Stream const& stream, std::int32_t const* tokens, std::int32_t count,
                            std::int64_t vocabulary, std::byte* scratch, std::int64_t bytes) {
  std::int64_t const left = bytes - detail::TokenRunsMemory::bytes(count, vocabulary);
  expects(left >= (count > 0 ? detail::sort_tokens_bytes(stream, count, vocabulary) : 0),
          "token_runs: the scratch memory is smaller than token_runs_scratch_bytes");
  auto const memory = detail::TokenRunsMemory::at(scratch, count, vocabulary);
  clear_bytes(memory.begin, static_cast<std::size_t>(vocabulary) * 8, stream);
  if (count > 0) {
    auto sort_bytes = static_cast<std::size_t>(left);
    each(stream, count, detail::Count{memory.counted});
    detail::sort_tokens(stream, tokens, count, vocabulary, memory, memory.sort, sort_bytes);
    each(stream, count, detail::MarkRun{memory.sorted, count, memory.begin, memory.end});
  }
  return {memory.position, memory.begin, memory.end};
}

}  // namespace tandem::cuda
