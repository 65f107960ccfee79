// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bytes that a collective must send, for the planner's predictions and for the records' check.
///
/// These are the least possible, which rings reach and shared memory too; not what a library sends.

#include <cstdint>

#include <tandem/comm/operation.hpp>

namespace tandem {

/// Bytes each of @p ranks sends, on average and rounded up, when @p bytes are reduced onto all:
/// 2 (n - 1) / n * bytes. As many are received.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
constexpr std::int64_t all_reduce_bytes(int ranks, std::int64_t bytes) {
  return (2 * (ranks - std::int64_t{1}) * bytes + ranks - 1) / ranks;
}

/// Bytes each of @p ranks sends, on average and rounded up, when @p bytes go from one to all:
/// (n - 1) / n * bytes.
constexpr std::int64_t broadcast_bytes(int ranks, std::int64_t bytes) {
  return ((ranks - std::int64_t{1}) * bytes + ranks - 1) / ranks;
}

/// Bytes each of @p ranks sends, on average and rounded up, when @p bytes that all hold are reduced
/// and each keeps its part: (n - 1) / n * bytes.
constexpr std::int64_t reduce_scatter_bytes(int ranks, std::int64_t bytes) {
  return broadcast_bytes(ranks, bytes);
}

/// Bytes each of @p ranks sends, on average and rounded up, when the parts of all make @p bytes:
/// (n - 1) / n * bytes.
constexpr std::int64_t all_gather_bytes(int ranks, std::int64_t bytes) {
  return broadcast_bytes(ranks, bytes);
}

/// Of any, by name. @p bytes are those of the whole: of a reduce-scatter's input, of an
/// all-gather's output. A barrier sends nothing that counts, and a receive nothing at all.
constexpr std::int64_t bytes_sent(Operation operation, int ranks, std::int64_t bytes) {
  switch (operation) {
    case Operation::all_reduce:
      return all_reduce_bytes(ranks, bytes);
    case Operation::broadcast:
      return broadcast_bytes(ranks, bytes);
    case Operation::reduce_scatter:
      return reduce_scatter_bytes(ranks, bytes);
    case Operation::all_gather:
      return all_gather_bytes(ranks, bytes);
    case Operation::send:
      return bytes;
    case Operation::receive:
    case Operation::barrier:
      break;
  }
  return 0;
}

}  // namespace tandem
