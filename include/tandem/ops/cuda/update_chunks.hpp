// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UpdateRuns as two flat tables that a device can keep: the settings of each run, and the runs cut
/// into chunks of equal work, so that one launch updates all parameters.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/update_chunk.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>

namespace tandem {

/// What an UpdateRun says, without its place and without an optional.
struct RunSettings {
  float rate = 0.0F;  ///< of a statistic
  float learning_rate_scale = 1.0F;
  float weight_decay = 0.0F;  ///< the run's own, or else the optimizer's
  bool statistic = false;
  std::int32_t clip_set = 0;
  float gradient_scale = 1.0F;
  double clip_value = 0.0;  ///< 0: none
  std::int64_t missed = 0;  ///< as UpdateRun's
  int parameter = 0;        ///< of the network
  std::int64_t lag = 0;     ///< how far before its parameters, in their array, its states stand
  std::int64_t gradient_lag = 0;   ///< likewise its gradients
  std::int64_t parameter_lag = 0;  ///< and these themselves, where a rank has a part of them
};

/// The settings of each run, by the run's index.
/// @param parts  what runs_within() has made of them, where the states of these alone are there:
///               one of each run at most; none: all are
TANDEM_ONCE TANDEM_COLD std::vector<RunSettings> run_settings(
    std::vector<UpdateRun> const& runs, Optimizer const& optimizer,
    std::vector<UpdateRun> const& parts = {});

/// The runs that are not frozen in chunks of at most @p chunk parameters, in order; those whose
/// gradients are GradientRows have none.
/// @pre 1 <= chunk < 2^31
TANDEM_ONCE TANDEM_COLD std::vector<cuda::UpdateChunk> update_chunks(
    std::vector<UpdateRun> const& runs, std::int64_t chunk);

/// The chunks of what runs_within() has made of @p runs, each with the index of its run.
TANDEM_ONCE TANDEM_COLD std::vector<cuda::UpdateChunk> part_chunks(
    std::vector<UpdateRun> const& runs, std::vector<UpdateRun> const& parts, std::int64_t chunk);

/// A parameter whose gradient is GradientRows.
struct RowRun {
  std::int32_t run = 0;
  int parameter = 0;             ///< of the network
  int rows = 0;                  ///< of UpdateRun
  std::int64_t begin = 0;        ///< likewise
  std::int64_t first_chunk = 0;  ///< in tables of a number a chunk: behind all others
  std::int64_t chunks = 0;
};

/// The parameters with GradientRows among the runs that are not frozen, in order.
/// @pre as of update_chunks
TANDEM_ONCE TANDEM_COLD std::vector<RowRun> row_runs(std::vector<UpdateRun> const& runs,
                                                     std::int64_t chunk);

/// For each of the network's @p all parameters: which of update_chunks(parameters, chunk), or of
/// the chunks of row_runs, count in the norm of the gradient. None of a statistic, of what is
/// frozen or counted elsewhere, or of a parameter that is not among @p parameters.
/// @param parameters  a run each
/// @pre 1 <= chunk < 2^31
TANDEM_ONCE TANDEM_COLD std::vector<cuda::ChunkRange> chunk_ranges(
    std::vector<UpdateRun> const& parameters, std::int64_t chunk, int all);

/// Which of update_chunks(runs, chunk) are each run's, in the first of two tables of a number a
/// chunk, and behind them the same in the second.
/// @pre 1 <= chunk < 2^31
TANDEM_ONCE TANDEM_COLD std::vector<cuda::ChunkRange> norm_ranges(
    std::vector<UpdateRun> const& runs, std::int64_t chunk);

/// The sets' rows; none where every row would be the same.
TANDEM_ONCE TANDEM_COLD std::vector<cuda::ClipRow> clip_rows(ClipSets const& sets);

}  // namespace tandem

#if TANDEM_BODIES

#include <algorithm>
#include <variant>

#include <tandem/core/contract.hpp>

namespace tandem::detail {

/// f(index of its run, part) of each of @p parts, which runs_within() has made of @p runs.
template <class F>
void each_part(std::vector<UpdateRun> const& runs, std::vector<UpdateRun> const& parts,
               F const& f) {
  std::size_t r = 0;
  for (UpdateRun const& part : parts) {
    while (runs[r].end <= part.begin) {
      ++r;
    }
    f(r, part);
  }
}

/// Chunks of a run in tables of a number a chunk.
TANDEM_ONCE std::int64_t chunks_of(UpdateRun const& run, std::int64_t chunk) {
  return run.frozen ? 0 : (run.end - run.begin + chunk - 1) / chunk;
}

TANDEM_ONCE void add_chunks(UpdateRun const& part, std::size_t run, std::int64_t chunk,
                            std::vector<cuda::UpdateChunk>& chunks) {
  expects(chunk >= 1 && chunk <= INT32_MAX, "update_chunks: give a chunk of 1 to 2^31 - 1");
  bool const has_none = part.frozen || part.rows >= 0;
  for (std::int64_t at = part.begin; at < part.end && !has_none; at += chunk) {
    chunks.push_back({.begin = at,
                      .count = static_cast<std::int32_t>(std::min(chunk, part.end - at)),
                      .run = static_cast<std::int32_t>(run)});
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<RunSettings> run_settings(std::vector<UpdateRun> const& runs,
                                                  Optimizer const& optimizer,
                                                  std::vector<UpdateRun> const& parts) {
  float const decay = std::visit([](auto const& o) { return o.weight_decay; }, optimizer);
  std::vector<RunSettings> settings;
  for (UpdateRun const& run : runs) {
    settings.push_back({.rate = run.rate,
                        .learning_rate_scale = run.learning_rate_scale,
                        .weight_decay = run.weight_decay.value_or(decay),
                        .statistic = run.role == Role::statistic,
                        .clip_set = run.clip_set,
                        .gradient_scale = run.gradient_scale,
                        .clip_value = run.clip_value,
                        .parameter = run.origin});
  }
  detail::each_part(runs, parts,
                    [&](std::size_t run, UpdateRun const& part) { settings[run].lag = part.lag; });
  return settings;
}

TANDEM_ONCE std::vector<cuda::UpdateChunk> update_chunks(std::vector<UpdateRun> const& runs,
                                                         std::int64_t chunk) {
  std::vector<cuda::UpdateChunk> chunks;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    detail::add_chunks(runs[r], r, chunk, chunks);
  }
  return chunks;
}

TANDEM_ONCE std::vector<cuda::UpdateChunk> part_chunks(std::vector<UpdateRun> const& runs,
                                                       std::vector<UpdateRun> const& parts,
                                                       std::int64_t chunk) {
  std::vector<cuda::UpdateChunk> chunks;
  detail::each_part(runs, parts, [&](std::size_t run, UpdateRun const& part) {
    detail::add_chunks(part, run, chunk, chunks);
  });
  return chunks;
}

TANDEM_ONCE std::vector<RowRun> row_runs(std::vector<UpdateRun> const& runs, std::int64_t chunk) {
  std::vector<RowRun> rows;
  auto next = static_cast<std::int64_t>(update_chunks(runs, chunk).size());
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (std::int64_t const chunks = detail::chunks_of(runs[r], chunk);
        runs[r].rows >= 0 && chunks > 0) {
      rows.push_back({.run = static_cast<std::int32_t>(r),
                      .parameter = runs[r].origin,
                      .rows = runs[r].rows,
                      .begin = runs[r].begin,
                      .first_chunk = next,
                      .chunks = chunks});
      next += chunks;
    }
  }
  return rows;
}

TANDEM_ONCE std::vector<cuda::ChunkRange> chunk_ranges(std::vector<UpdateRun> const& parameters,
                                                       std::int64_t chunk, int all) {
  std::vector<cuda::ChunkRange> ranges(static_cast<std::size_t>(all));
  std::int32_t next = 0;
  for (bool const rows : {false, true}) {
    for (UpdateRun const& r : parameters) {
      if ((r.rows >= 0) != rows) {
        continue;
      }
      auto const last = static_cast<std::int32_t>(next + detail::chunks_of(r, chunk));
      if (r.counted && r.role == Role::weight) {
        ranges[static_cast<std::size_t>(r.origin)] = {.first = next, .last = last};
      }
      next = last;
    }
  }
  return ranges;
}

TANDEM_ONCE std::vector<cuda::ChunkRange> norm_ranges(std::vector<UpdateRun> const& runs,
                                                      std::int64_t chunk) {
  std::vector<cuda::ChunkRange> ranges;
  std::int32_t next = 0;
  for (UpdateRun const& r : runs) {
    std::int64_t const chunks = r.rows >= 0 ? 0 : detail::chunks_of(r, chunk);
    ranges.push_back({.first = next, .last = static_cast<std::int32_t>(next + chunks)});
    next = ranges.back().last;
  }
  for (std::size_t r = 0; r < runs.size(); ++r) {
    ranges.push_back({.first = ranges[r].first + next, .last = ranges[r].last + next});
  }
  return ranges;
}

TANDEM_ONCE std::vector<cuda::ClipRow> clip_rows(ClipSets const& sets) {
  std::vector<cuda::ClipRow> rows;
  bool alike = true;
  for (std::size_t p = 0; p < sets.set.size(); ++p) {
    rows.push_back({.factor = sets.factor[p], .set = sets.set[p]});
    alike = alike && sets.factor[p] == 1.0 && sets.set[p] == 0;
  }
  return alike ? std::vector<cuda::ClipRow>{} : rows;
}

}  // namespace tandem

#endif
