// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ways to use the devices of a worker that the search tries, and their names as types.

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
TANDEM_ONCE std::vector<WorkerStrategy> worker_strategies(int devices, int batch,
                                                          bool wide = false);

/// What is tried where devices share layers, or passes have chunks of time.
/// @param sequences  the network has some
/// @param wide       as worker_strategies()
TANDEM_ONCE std::vector<WorkerStrategy> rewriting_strategies(int devices, int batch, bool sequences,
                                                             bool wide = false);

/// How the type begins: "Pipeline<Interleaved<2>, 8, ", "Pipeline<PostValidated<ZeroBubbleV>, 8, ".
TANDEM_ONCE std::string type_beginning(WorkerStrategy const& worker);

/// Two types, to stand in a Hybrid, where devices share the layers of a stage.
/// @param table  what stands between the brackets of Placed
TANDEM_ONCE std::string worker_type(WorkerStrategy const& worker, std::vector<int> const& sizes,
                                    std::string const& table);

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

TANDEM_ONCE std::vector<WorkerStrategy> worker_strategies(int devices, int batch, bool wide) {
  std::vector<WorkerStrategy> all;
  if (devices == 1) {
    for (int const m : accumulated(batch, wide)) {
      all.push_back({.microbatches = m});
    }
    return all;
  }
  auto const add = [&](NamedSchedule const& schedule, int microbatches) {
    if (schedule.words.runs_on(devices) && schedule.fits(devices, microbatches)) {
      all.push_back({.schedule = std::string{schedule.name},
                     .devices = devices,
                     .microbatches = microbatches,
                     .chunks = schedule.words.tried_chunks});
    }
  };
  for (NamedSchedule const& schedule : all_schedules) {
    if (takes_one_wave(schedule, devices) && batch % schedule.copies == 0) {
      add(schedule, schedule.copies);
    }
  }
  if (devices <= 4) {  // no network here has branches for more
    all.push_back({.schedule = WorkerStrategy::placed, .devices = devices});
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
    all.push_back(
        {.schedule = OneFOneB::name, .devices = devices, .microbatches = m, .recomputes = true});
    for (std::size_t i = before; i < plain && wide; ++i) {
      if (all[i].schedule == GPipe::name || all[i].schedule == "interleaved") {
        all.push_back(all[i]);
        all.back().recomputes = true;
      }
    }
  }
  return all;
}

/// The strategies of @p plain that gain without a barrier between steps, and then have none.
TANDEM_ONCE std::vector<WorkerStrategy> unbarred_strategies(
    std::vector<WorkerStrategy> const& plain) {
  std::vector<WorkerStrategy> all;
  for (WorkerStrategy const& worker : plain) {
    if (worker.schedule == ZeroBubbleH2::name || worker.schedule == ZeroBubbleV::name) {
      all.push_back(worker);
      all.back().post_validated = true;
    }
  }
  return all;
}

TANDEM_ONCE std::vector<WorkerStrategy> rewriting_strategies(int devices, int batch, bool sequences,
                                                             bool wide) {
  std::vector<WorkerStrategy> all;
  auto const add = [&](WorkerStrategy worker) {
    all.push_back(worker);
    worker.sequence_rows = sequences && worker.slices > 1;
    if (worker.sequence_rows) {
      all.push_back(worker);
    }
  };
  for (int slices = devices; slices > 1; slices /= 2) {
    int const cut = devices / slices;
    if (cut == 1) {
      for (int const m : accumulated(batch, wide)) {
        add({.devices = devices, .microbatches = m, .slices = slices});
      }
      continue;
    }
    for (WorkerStrategy worker : worker_strategies(cut, batch, wide)) {
      bool const is_tried = worker.schedule == OneFOneB::name || worker.schedule == "interleaved";
      if (is_tried) {
        worker.devices = devices;
        worker.slices = slices;
        add(worker);
      }
    }
  }
  for (int slices = 1; slices < devices; slices *= 2) {  // in stages, of which chunks are a wave
    for (int const microbatches : {1, devices / slices}) {
      for (int chunks = 2; chunks <= 8 && sequences && batch % microbatches == 0; chunks *= 2) {
        all.push_back({.schedule = OneFOneB::name,
                       .devices = devices,
                       .microbatches = microbatches,
                       .slices = slices,
                       .time_chunks = chunks});
      }
    }
  }
  return all;
}

TANDEM_ONCE std::string splits_text(WorkerStrategy const& worker, std::vector<int> const& sizes) {
  std::string text;
  if (sizes.empty()) {
    return "Auto<" + std::to_string(worker.stages()) + ">";
  }
  for (int const size : sizes) {
    text += (text.empty() ? "Split<" : ", Split<") + std::to_string(size) + ">";
  }
  return text;
}

/// ", Microbatches<4>" where there are more than one, of a type that does not have their number.
TANDEM_ONCE std::string accumulated_text(WorkerStrategy const& worker) {
  return worker.microbatches > 1 ? ", Microbatches<" + std::to_string(worker.microbatches) + ">"
                                 : "";
}

/// ", Checkpoint<Every<2>>" where such runs are computed again.
TANDEM_ONCE std::string again_text(WorkerStrategy const& worker) {
  return worker.every > 0 ? ", Checkpoint<Every<" + std::to_string(worker.every) + ">>" : "";
}

TANDEM_ONCE std::string type_beginning(WorkerStrategy const& worker) {
  NamedSchedule const* const schedule = find_schedule(worker.schedule);
  expects(schedule != nullptr, "worker_type(worker): the worker has no schedule that there is");
  std::string text = schedule->words.type;
  auto const fill = [&](std::string_view what, int number) {
    if (std::size_t const at = text.find(what); at != std::string::npos) {
      text.replace(at, what.size(), std::to_string(number));
    }
  };
  fill("{count}", worker.microbatches);
  fill("{chunks}", worker.chunks);
  if (worker.post_validated) {
    std::size_t const begin = text.find('<') + 1;
    std::size_t const end = text.find(',');
    text.replace(begin, end - begin, "PostValidated<" + text.substr(begin, end - begin) + ">");
  }
  return text;
}

TANDEM_ONCE std::string worker_type(WorkerStrategy const& worker, std::vector<int> const& sizes,
                                    std::string const& table) {
  if (worker.is_placed()) {
    return "ModelParallel<Placed<" + table + ">>";
  }
  if (worker.devices == 1) {  // SingleDevice has no such option, a model in one part has
    return "ModelParallel<Auto<1>" + accumulated_text(worker) + again_text(worker) + ">";
  }
  std::string const slices = worker.has_tiles()
                                 ? "SpatialParallel<" + std::to_string(worker.tiles.height) + ", " +
                                       std::to_string(worker.tiles.width)
                                 : "TensorParallel<" + std::to_string(worker.slices) +
                                       (worker.sequence_rows ? ", SequenceRows" : "");
  std::string const shared =
      slices + (worker.is_tensor() ? accumulated_text(worker) : "") + again_text(worker) + ">";
  if (worker.is_tensor()) {
    return shared;
  }
  std::string const chunks =
      worker.time_chunks > 1 ? "Chunks<" + std::to_string(worker.time_chunks) + ">, " : "";
  std::string const cut = type_beginning(worker) + chunks + splits_text(worker, sizes) +
                          (worker.recomputes ? ", Checkpoint<Boundaries>" : "") + ">";
  return worker.slices > 1 ? cut + ", " + shared : cut;
}

}  // namespace tandem::detail

#endif
