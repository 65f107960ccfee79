// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the ranks of a trainer are made for, from its options.

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/ranks/imported_table.hpp>
#include <tandem/train/ranks/program_facts.hpp>

namespace tandem {

/// @param table  outlives the ranks' construction
/// @throws ContractError  the batch has fewer samples than there are microbatches
TANDEM_ONCE TANDEM_COLD RankOptions make_rank_options(ProgramFacts const& facts,
                                                      TrainerOptions const& options,
                                                      ImportedTable const& table);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

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
