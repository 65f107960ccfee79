// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// dropout_columns: what of whole rows a Dropout has where several ranks share it.

#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// What of whole rows a rank drops that has a slice of them, or of their number; of no runs where
/// it has all.
template <class = void>  // compiled where it is called, not by every include
DropoutColumns dropout_columns(OpSetup const& setup) {
  DropoutColumns columns;
  if (setup.node.dealt == Dealt::between) {
    int const row = detail::row_size(setup.node.out);
    columns = {.own = row, .whole = row, .runs = 1, .count = {row}};
  } else if (setup.slice.count > 1) {
    columns.own = detail::row_size(setup.node.out);
    columns.whole = setup.node.parts.columns();
    setup.node.parts.each_run(setup.slice.number, setup.slice.count,
                              [&](int /*own*/, int whole, int count) {
                                columns.at[columns.runs] = whole;
                                columns.count[columns.runs++] = count;
                              });
  }
  return columns;
}

}  // namespace tandem
