// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// table_for: the rows that a trainer's options ask for in place of its strategy's, if they do.

#include <cstddef>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/options/replicas_by_world.hpp>
#include <tandem/train/ranks/imported_table.hpp>

namespace tandem {

namespace detail {

/// What each of @p replicas does of @p all microbatches, one after another.
TANDEM_ONCE TANDEM_COLD ImportedTable shared_passes(int all, int replicas);

/// Of a strategy that takes any number of replicas, once that is known.
/// @param copies  of the model in a replica
TANDEM_ONCE TANDEM_COLD void check_world_leaves(Batching const& batching, int copies);

}  // namespace detail

/// Rows that were imported, or those of as many microbatches as the world leaves a replica; empty
/// where the strategy's own stand.
/// @throws ContractError  import_table() does; or the microbatches or leaves cannot be dealt to the
///                        replicas
template <class Program>
TANDEM_COLD ImportedTable table_for(TrainerOptions const& options) {
  ImportedTable table = import_table<Program>(options.rows);
  expects(options.microbatches >= 0,
          "TrainerOptions: microbatches must be 0 (as the type says) or more");
  if constexpr (Program::any_replicas) {
    int const replicas = replicas_of<Program>(options.world);
    if constexpr (Program::devices == 1) {
      expects(options.microbatches == 0 || options.rows.empty(),
              "TrainerOptions: .rows are of so many microbatches; leave .microbatches out");
      int const all = options.microbatches > 0
                          ? options.microbatches
                          : detail::all_microbatches_of<typename Program::Strategy>;
      if (options.rows.empty() && all > 0) {
        table = detail::shared_passes(all, replicas);
      }
    }
    detail::check_world_leaves(batching_with(Program::batching, true, table.microbatches, replicas),
                               Program::map.copies);
  }
  expects(options.microbatches == 0 || (Program::any_replicas && Program::devices == 1),
          "TrainerOptions: microbatches are of DataParallel<>, whose replicas take a share each; "
          "give them to any other strategy in its type, as Microbatches<k> or a Pipeline's Count");
  return table;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE ImportedTable shared_passes(int all, int replicas) {
  if (all % replicas != 0) {
    throw ContractError{"DataParallel<>: the batch is cut into " + std::to_string(all) +
                        " microbatches, which cannot be dealt to " + std::to_string(replicas) +
                        " replicas; start as many as divide them, or give another number "
                        "(TrainerOptions::microbatches)"};
  }
  ImportedTable table{.rows = ActionRows(1), .microbatches = all / replicas};
  for (int m = 0; m < table.microbatches; ++m) {
    table.rows[0].push_back({.kind = ActionKind::forward, .index = m});
    table.rows[0].push_back({.kind = ActionKind::backward, .index = m});
  }
  return table;
}

TANDEM_ONCE void check_world_leaves(Batching const& batching, int copies) {
  bool const fit = !batching.reproducible ||
                   (batching.microbatches % copies == 0 && batching.leaves % copies == 0 &&
                    leaves_fit({.microbatches = batching.microbatches / copies,
                                .leaves = batching.leaves / copies}));
  if (!fit) {
    int const all =
        batching.all_leaves > 0 ? batching.all_leaves : batching.leaves * batching.replicas;
    throw ContractError{"DataParallel<>: Reproducible<> adds " + std::to_string(all) +
                        " leaves, of which each of " + std::to_string(batching.replicas) +
                        " replicas must have a power of two that divides its microbatches, " +
                        std::to_string(batching.microbatches) +
                        (copies > 1 ? " in two copies of the model" : "") +
                        "; start another number of them, or write other leaves or microbatches"};
  }
}

}  // namespace tandem::detail

#endif
