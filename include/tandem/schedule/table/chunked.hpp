// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// chunked(): a table whose microbatches come in chunks of time, from one of whole microbatches.
///
/// Each pass becomes one for each of its microbatch's K chunks, one behind the other: F1 becomes FK
/// … F(2K-1), B1 BK … B(2K-1). Numbers count chunks in the order in which a stage passes them:
/// forward from the first rows to the last, backward from the last to the first. lower() then puts
/// a message behind each chunk, so that the next device begins with it: a wave.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>

namespace tandem {

/// Which chunk pass number @p index is of, counted over the replica's microbatches in the order of
/// time.
constexpr int chunk_of(ActionKind kind, int index, int chunks) {
  bool const back = kind == ActionKind::backward || kind == ActionKind::input_gradient ||
                    kind == ActionKind::weight_gradient || kind == ActionKind::send_backward ||
                    kind == ActionKind::receive_backward;
  return back ? index + chunks - 1 - 2 * (index % chunks) : index;
}

/// Places for @p live passes where microbatches come in chunks: those of whole microbatches, since
/// chunks are passed in one order forward and in the other backward.
constexpr int whole_chunks(int live, int chunks) { return (live + chunks - 1) / chunks * chunks; }

namespace detail {

template <class Table, class Sink>
constexpr void cut_in_chunks(Table const& table, int chunks, Sink& sink) {
  expects(chunks >= 1, "chunked(table, chunks): give 1 chunk or more");
  for (int d = 0; d < devices_of(table); ++d) {
    for (Action action : row_of(table, d)) {
      std::int32_t const first = action.index * chunks;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        action.index = first + chunk;
        sink(d, action);
      }
    }
  }
}

}  // namespace detail

/// How many of @p devices are at work at most, on average, where each has a stage of one cost and
/// passes follow each other as the wave fills and runs out: p m K / (m K + p - 1), of one
/// microbatch p K / (K + p - 1).
constexpr double ranks_in_wave(int devices, int microbatches, int chunks) {
  double const passes = static_cast<double>(microbatches) * chunks;
  return devices * passes / (passes + devices - 1);
}

/// @param table  compute actions only, of a synchronous schedule
template <int Chunks, int Devices, int Length>
constexpr auto chunked(ActionTable<Devices, Length> const& table) {
  if constexpr (Chunks == 1) {
    return table;
  } else {
    ActionTable<Devices, Chunks * Length> cut;
    auto sink = [&cut](int device, Action action) { cut.add(device, action); };
    detail::cut_in_chunks(table, Chunks, sink);
    return cut;
  }
}

/// The same of a number of chunks that is known at run time only.
TANDEM_ONCE ActionRows chunked(ActionRows const& table, int chunks);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ActionRows chunked(ActionRows const& table, int chunks) {
  ActionRows cut(table.size());
  auto sink = [&cut](int device, Action action) {
    cut[static_cast<std::size_t>(device)].push_back(action);
  };
  detail::cut_in_chunks(table, chunks, sink);
  return cut;
}

}  // namespace tandem

#endif
