// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// dropout_columns, chunk_columns, dropout_rows: what a Dropout has of a batch where several ranks
/// share it, or where its rows come in chunks of time.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// What of whole rows a rank drops that has a slice of them, or of their number; of no runs where
/// it has all.
TANDEM_ONCE DropoutColumns dropout_columns(OpSetup const& setup);

/// Which columns, and which rows of a sample, a pass over a chunk of time has.
/// @param own  as dropout_columns() has it
template <class Device>
DropoutColumns chunk_columns(DropoutColumns const& own, Shape const& shape, Pass<Device> const& p) {
  DropoutColumns columns = own.runs > 0 ? own : DropoutColumns::of_rows(detail::row_size(shape), 0);
  columns.first_row = p.sequence.position;
  return columns;
}

/// Which rows of the batch a pass has.
template <class Device>
DropoutRows dropout_rows(Shape const& shape, Pass<Device> const& p) {
  std::int64_t const of_sample =
      p.shard.sample_time > 0 ? p.shard.sample_time : shape.rows(1, p.time);
  return {p.shard.first_row, p.rows(shape), of_sample};
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE DropoutColumns dropout_columns(OpSetup const& setup) {
  DropoutColumns columns;
  if (setup.node.sharing.dealt == Dealt::between) {
    int const row = detail::row_size(setup.node.out);
    columns = {.own = row, .whole = row, .runs = 1, .count = {row}};
  } else if (setup.slice.count > 1) {
    Shape const& own = setup.node.out;  // an image is one row of its elements, (C, H, W)
    int const pixels = own.rank == 3 ? own[1] * own[2] : 1;
    columns.own = detail::row_columns(own) * pixels;
    columns.whole = setup.node.sharing.parts.columns() * pixels;
    setup.node.sharing.parts.each_run(setup.slice.number, setup.slice.count,
                                      [&](int /*own*/, int whole, int count) {
                                        columns.at[columns.runs] = whole * pixels;
                                        columns.count[columns.runs++] = count * pixels;
                                      });
  }
  return columns;
}

}  // namespace tandem

#endif
