// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ways to use the devices of a worker that the search tries.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/schedule/orders/all.hpp>

namespace tandem::detail {

/// Whether more microbatches than one of each copy of the model are none of its own: its strategy
/// has no Count, or it updates behind every microbatch.
constexpr bool takes_one_wave(NamedSchedule const& schedule, int devices) {
  bool const has_count = std::string_view{schedule.words.type}.find("{count}") != std::string::npos;
  return !has_count || (schedule.is_asynchronous && schedule.fits(devices, 1));
}

/// How many microbatches are tried one after another where a stage has all layers.
TANDEM_ONCE std::vector<int> accumulated(int batch, bool wide);

/// What is tried on so many devices of a worker, where none share layers.
/// @param wide  in any number of microbatches, and computing passes again in pipelines of other
///              orders than 1F1B, too
TANDEM_ONCE std::vector<StrategyValue> worker_strategies(int devices, int batch, bool wide = false);

/// What is tried where devices share layers, or passes have chunks of time.
/// @param sequences  the network has some
/// @param wide       as worker_strategies()
TANDEM_ONCE std::vector<StrategyValue> rewriting_strategies(int devices, int batch, bool sequences,
                                                            bool wide = false);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<int> accumulated(int batch, bool wide) {
  std::vector<int> all{1};
  for (int m = 2; wide && m <= batch && batch % m == 0; m *= 2) {
    all.push_back(m);
  }
  return all;
}

TANDEM_ONCE std::vector<StrategyValue> worker_strategies(int devices, int batch, bool wide) {
  std::vector<StrategyValue> all;
  if (devices == 1) {
    for (int const m : accumulated(batch, wide)) {
      all.push_back({.batching = {.microbatches = m}});
    }
    return all;
  }
  auto const add = [&](NamedSchedule const& schedule, int microbatches) {
    if (schedule.words.runs_on(devices) && schedule.fits(devices, microbatches)) {
      all.push_back(
          chain_worker(schedule.name, devices, microbatches, schedule.words.tried_chunks));
    }
  };
  for (NamedSchedule const& schedule : all_schedules) {
    if (takes_one_wave(schedule, devices) && batch % schedule.copies == 0) {
      add(schedule, schedule.copies);
    }
  }
  if (devices <= 4) {  // no network here has branches for more
    all.push_back(placed_worker(devices));
  }
  for (int times = 1; times <= (wide ? batch / devices : 4); times *= 2) {
    int const m = times * devices;
    if (m > batch || batch % m != 0) {  // microbatches would not be equal
      continue;
    }
    std::size_t const before = all.size();
    for (NamedSchedule const& schedule : all_schedules) {
      if (!takes_one_wave(schedule, devices)) {
        add(schedule, m);
      }
    }
    std::size_t const plain = all.size();
    all.push_back(chain_worker(OneFOneB::name, devices, m));
    all.back().checkpoint = {CheckpointRule::boundaries};
    for (std::size_t i = before; i < plain && wide; ++i) {
      if (all[i].schedule == GPipe::name || all[i].schedule == "interleaved") {
        all.push_back(all[i]);
        all.back().checkpoint = {CheckpointRule::boundaries};
      }
    }
  }
  return all;
}

/// The strategies of @p plain that gain without a barrier between steps, and then have none.
TANDEM_ONCE std::vector<StrategyValue> unbarred_strategies(
    std::vector<StrategyValue> const& plain) {
  std::vector<StrategyValue> all;
  for (StrategyValue const& worker : plain) {
    if (worker.schedule == ZeroBubbleH2::name || worker.schedule == ZeroBubbleV::name) {
      all.push_back(worker);
      all.back().post_validated = true;
    }
  }
  return all;
}

TANDEM_ONCE std::vector<StrategyValue> rewriting_strategies(int devices, int batch, bool sequences,
                                                            bool wide) {
  std::vector<StrategyValue> all;
  auto const add = [&](StrategyValue worker) {
    all.push_back(worker);
    worker.sequence_rows = sequences && worker.tensor > 1;
    if (worker.sequence_rows) {
      all.push_back(worker);
    }
  };
  for (int slices = devices; slices > 1; slices /= 2) {
    int const cut = devices / slices;
    if (cut == 1) {
      for (int const m : accumulated(batch, wide)) {
        add({.batching = {.microbatches = m}, .tensor = slices});
      }
      continue;
    }
    for (StrategyValue worker : worker_strategies(cut, batch, wide)) {
      bool const is_tried = worker.schedule == OneFOneB::name || worker.schedule == "interleaved";
      if (is_tried) {
        worker.tensor = slices;
        add(worker);
      }
    }
  }
  for (int slices = 1; slices < devices; slices *= 2) {  // in stages, of which chunks are a wave
    for (int const microbatches : {1, devices / slices}) {
      for (int chunks = 2; chunks <= 8 && sequences && batch % microbatches == 0; chunks *= 2) {
        all.push_back(chain_worker(OneFOneB::name, devices / slices, microbatches));
        all.back().tensor = slices;
        all.back().batching.chunks = chunks;
      }
    }
  }
  return all;
}

}  // namespace tandem::detail

#endif
