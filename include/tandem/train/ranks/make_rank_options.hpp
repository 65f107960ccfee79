// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the ranks of a trainer are made for, from its options, and the rows that these ask for in
/// place of the strategy's, if they do.

#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/ranks/imported_table.hpp>
#include <tandem/train/ranks/program_facts.hpp>

namespace tandem {

/// Rows that were imported, or those of as many microbatches as the world leaves a replica; empty
/// where the strategy's own stand.
/// @throws ContractError  a table that cannot run, or does not fit the strategy; or microbatches or
///                        leaves that cannot be dealt to the replicas
TANDEM_ONCE TANDEM_COLD ImportedTable table_for(ProgramFacts const& facts,
                                                TrainerOptions const& options);

/// @param table  outlives the ranks' construction
/// @throws ContractError  the batch has fewer samples than there are microbatches
TANDEM_ONCE TANDEM_COLD RankOptions make_rank_options(ProgramFacts const& facts,
                                                      TrainerOptions const& options,
                                                      ImportedTable const& table);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ImportedTable table_for(ProgramFacts const& facts, TrainerOptions const& options) {
  DeviceTables const& tables = facts.tables();
  bool const in_one = tables.devices == 1;
  ImportedTable table;
  if (!options.rows.empty()) {
    Batching const batching = tables.any_replicas  // whose leaves are looked at below
                                  ? Batching{.microbatches = tables.batching.microbatches}
                                  : tables.batching;
    table = in_one ? detail::import_passes(options.rows, batching)
                   : facts.import_rows(options.rows, tables.map, batching, facts.splits_backward);
  }
  expects(options.microbatches >= 0,
          "TrainerOptions: microbatches must be 0 (as the type says) or more");
  if (tables.any_replicas) {
    int const all = options.microbatches > 0 ? options.microbatches
                    : table.rows.empty()     ? facts.all_microbatches
                                             : 0;
    table = facts.share_table(std::move(table), tables, in_one ? all : 0,
                              facts.replicas_of(options.world));
  }
  expects(options.microbatches == 0 || (tables.any_replicas && in_one),
          "TrainerOptions: microbatches are of DataParallel<>, whose replicas take a share each; "
          "give them to any other strategy in its type, as Microbatches<k> or a Pipeline's Count");
  return table;
}

TANDEM_ONCE RankOptions make_rank_options(ProgramFacts const& facts, TrainerOptions const& options,
                                          ImportedTable const& table) {
  int const replicas = facts.replicas_of(options.world);
  Batching const batching = batching_with(facts.tables(), table.microbatches, replicas);
  check_microbatches(options.batch, batching);
  return {.largest_microbatch = largest_microbatch(options.batch, batching),
          .device = {.threads = options.threads_per_device},
          .optimizer = options.optimizer,
          .groups = options.groups,
          .clip_value = options.clip_value,
          .average = options.average,
          .scaling = options.loss_scaling.value_or(LossScaling::off()),
          .rows = table.microbatches > 0 ? &table.rows : nullptr,
          .microbatches = table.microbatches,
          .replicas = replicas,
          .record = options.record,
          .debug = options.record == false,
          .cuda = options.cuda};
}

}  // namespace tandem

#endif
