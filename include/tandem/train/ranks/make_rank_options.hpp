// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the ranks of a trainer are made for, from its options.

#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/options/replicas_by_world.hpp>
#include <tandem/train/ranks/imported_table.hpp>

namespace tandem {

/// @param table  outlives the ranks' construction
/// @throws ContractError  the batch has fewer samples than there are microbatches
template <class Program>
RankOptions make_rank_options(TrainerOptions const& options, ImportedTable const& table) {
  int const replicas = replicas_of<Program>(options.world);
  Batching const batching =
      batching_with(Program::batching, Program::any_replicas, table.microbatches, replicas);
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
