// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Update on Cuda: a few launches for all parameters, with nothing for the host to decide.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/engine/step/cuda/sums.cuh>
#include <tandem/engine/step/update.hpp>
#include <tandem/ops/cuda/update.cuh>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

template <class Kernels, class Precision>
class Update<BasicCuda<Kernels, Precision>> {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using Device = cuda::RankDevice;
  using Backend = BasicCuda<Kernels, Precision>;
  using Memory = ParameterMemory<Backend>;
  using UpdateKernels = cuda::UpdateKernels<P, T>;

  /// As the primary template's.
  Update(Device& device, Memory const& memory, Optimizer const& optimizer,
         std::vector<UpdateRun> const& parameters, bool counted, ClipSets const& clips,
         LossScaling const& scaling = LossScaling::off(), std::vector<OwnedRange> const& owned = {})
      : chunks_{device, update_chunks(parameters, cuda::update_chunk)},
        own_chunks_{device,
                    part_chunks(parameters, runs_within(parameters, owned), cuda::update_chunk)},
        settings_{device, settings_of(memory.tables(), parameters, optimizer, owned)},
        ranges_{device, chunk_ranges(counted ? parameters : std::vector<UpdateRun>{},
                                     cuda::update_chunk, clips.parameters())},
        clip_rows_{device, clip_rows(clips)},
        largest_norms_{device, clips.sets() > 1 ? clips.largest : std::vector<double>{}},
        scales_{device, std::max(largest_norms_.size(), own_of(optimizer)) * sizeof(double)},
        functors_{device, static_cast<std::size_t>(
                              UpdateKernels::functor_bytes(static_cast<int>(parameters.size())))},
        squares_{device, (chunks_.size() + row_chunks(parameters)) * sizeof(double)},
        sums_{device, ranges_.size() * sizeof(double)},
        norm_ranges_{device, is_by_tensor(optimizer) ? norm_ranges(parameters, cuda::update_chunk)
                                                     : std::vector<cuda::ChunkRange>{}},
        norm_squares_{device, norm_ranges_.size() > 0 ? 2 * chunks_.size() * sizeof(double) : 0},
        norms_{device, norm_ranges_.size() * sizeof(double)},
        stopped_{device, sizeof(int)},
        scaled_{device, scaling.on() ? sizeof(ScaledLoss) : 0},
        kernels_{optimizer, update_memory(memory, optimizer, clips, scaling, !owned.empty()),
                 row_updates(memory, parameters)} {
    set_loss_scale(device, {.scale = static_cast<float>(scaling.initial)});
    std::int64_t first = 0;
    for (UpdateRun const& run : parameters) {
      auto const parts = owned.empty() ? std::vector{run} : runs_within({run}, owned);
      auto const count =
          static_cast<std::int64_t>(part_chunks({run}, parts, cuda::update_chunk).size());
      if (stages_.empty() || stages_.back().stage != run.stage) {
        stages_.push_back({.stage = run.stage, .first_chunk = first});
      }
      stages_.back().chunks += count;
      first += count;
    }
    std::int64_t chunk = 0;
    for (UpdateRun const& run :
         memory.tables().sharded_gradients ? parameters : std::vector<UpdateRun>{}) {
      runs_.push_back({run.begin, chunk});
      chunk += static_cast<std::int64_t>(update_chunks({run}, cuda::update_chunk).size());
    }
  }

  /// Likewise, in the device's memory.
  std::span<double> sum_squares(Device& device, Memory const& /*memory*/) const {
    kernels_.sum_squares(device.compute);
    return {sums_.template as<double>(), ranges_.size()};
  }

  /// The same where the gradients come a bucket at a time: those of the parameters in @p range,
  /// whose gradients begin at @p gradients; and when all have come, the sums.
  void clear_squares() const {}
  void sum_squares_of(Device& device, ElementRange range, P const* gradients) const {
    std::int64_t const first = first_chunk(range.begin);
    if (std::int64_t const count = first_chunk(range.end) - first; count > 0) {
      kernels_.sum_squares_of(device.compute, first, count, gradients, range.begin);
    }
  }
  std::span<double> join_squares(Device& device) const {
    kernels_.join_squares_of_chunks(device.compute);
    return {sums_.template as<double>(), ranges_.size()};
  }

  /// Looks for gradients that are not finite, of all weights that are updated here.
  void check_gradients(Device& device, Memory const& /*memory*/) {
    checked_ = true;
    kernels_.check_gradients(device.compute);
  }
  /// As the primary template's.
  void spoil(Device& device, double& sum) const { kernels_.spoil(device.compute, &sum); }

  void finish(Device& device, Memory const& /*memory*/, StepState const* state,
              StepSums<Backend> const& sums, StepKey const& key, StepResult* result) {
    kernels_.finish(device.compute, state, sums.loss(0), sums.microbatches(), sums.metrics(),
                    sums.lanes(), key.samples, std::exchange(checked_, false) || key.clips,
                    key.clips, result);
  }

  void apply(Device& device, Memory const& /*memory*/, StepState const* state,
             int stage = all_stages) const {
    if (stage == all_stages) {
      kernels_.apply(device.compute, state);
    }
    for (StageChunks const& own : stages_) {
      if (own.stage == stage && own.chunks > 0) {
        kernels_.apply(device.compute, state, own.first_chunk, own.chunks);
      }
    }
  }

  /// In the device's memory.
  [[nodiscard]] int const* stopped() const { return stopped_.template as<int>(); }

  /// In the device's memory; null where gradients are not scaled.
  [[nodiscard]] ScaledLoss const* scaled() const {
    return scaled_.bytes() > 0 ? scaled_.template as<ScaledLoss>() : nullptr;
  }
  /// Multiplies the step's row scales, for criteria.
  void scale_rows(Device& device, StepState const* state) const {
    Verbs<Backend>::each(device, 2, ScaleRow{state, scaled_.template as<ScaledLoss>()});
  }
  void set_loss_scale(Device& device, LossScale const& scale) {
    if (scaled_.bytes() > 0) {
      ScaledLoss const scaled{.now = scale};
      cuda::check(cudaMemcpyAsync(scaled_.data(), &scaled, sizeof scaled, cudaMemcpyHostToDevice,
                                  device.compute.get()));
      device.compute.synchronize();  // it goes
    }
  }

  /// See set_missed().
  void set_missed_steps(Device& device, std::span<std::int64_t const> missed, int slices) {
    std::vector<RunSettings> settings(settings_.size());
    auto const copy = [&](void* to, void const* from, cudaMemcpyKind way) {
      cuda::copy_bytes(to, from, settings_.buffer.bytes(), way, device.compute);
      device.compute.synchronize();  // the vector goes
    };
    copy(settings.data(), settings_.buffer.data(), cudaMemcpyDeviceToHost);
    for (RunSettings& run : settings) {
      run.missed = missed[static_cast<std::size_t>(run.parameter / slices)];
    }
    copy(settings_.buffer.data(), settings.data(), cudaMemcpyHostToDevice);
  }

  /// Rounds all parameters again, where products read rounded ones.
  void refresh(Device& device) { kernels_.refresh_rounded(device.compute); }

  /// Steps queued behind one whose loss was not finite have changed nothing; those from now on may.
  void forgive(Device& device) {
    cuda::clear_bytes(stopped_.data(), sizeof(int), device.compute);
    cuda::clear_bytes(sums_.data(), sums_.bytes(), device.compute);
  }

  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(
        chunks_.buffer.bytes() + own_chunks_.buffer.bytes() + settings_.buffer.bytes() +
        ranges_.buffer.bytes() + clip_rows_.buffer.bytes() + largest_norms_.buffer.bytes() +
        scales_.bytes() + functors_.bytes() + squares_.bytes() + sums_.bytes() + stopped_.bytes() +
        norm_ranges_.buffer.bytes() + norm_squares_.bytes() + norms_.bytes() + scaled_.bytes());
  }

 private:
  // The chunks of a stage are neighbours, since their runs are.
  struct StageChunks {
    int stage = 0;
    std::int64_t first_chunk = 0;
    std::int64_t chunks = 0;
  };

  // Where gradients come a bucket at a time: a run, and how many chunks are before it.
  struct RunChunks {
    std::int64_t begin = 0;
    std::int64_t first_chunk = 0;
  };
  [[nodiscard]] std::int64_t first_chunk(std::int64_t element) const {
    auto const run = std::find_if(runs_.begin(), runs_.end(),
                                  [&](RunChunks const& r) { return r.begin >= element; });
    return run == runs_.end() ? static_cast<std::int64_t>(chunks_.size()) : run->first_chunk;
  }

  static std::vector<RunSettings> settings_of(DeviceTables const& tables,
                                              std::vector<UpdateRun> const& parameters,
                                              Optimizer const& optimizer,
                                              std::vector<OwnedRange> const& owned) {
    auto settings = run_settings(parameters, optimizer, runs_within(parameters, owned));
    for (RunSettings& run : settings) {
      run.gradient_lag = tables.sharded_gradients ? run.lag : 0;
      run.parameter_lag = tables.sharded_parameters ? run.lag : 0;
    }
    return settings;
  }

  // Scales that must be there: one of an own optimizer.
  static std::size_t own_of(Optimizer const& optimizer) {
    return std::holds_alternative<OwnOptimizer>(optimizer) ? 1 : 0;
  }

  static std::size_t row_chunks(std::vector<UpdateRun> const& parameters) {
    std::int64_t chunks = 0;
    for (RowRun const& own : row_runs(parameters, cuda::update_chunk)) {
      chunks += own.chunks;
    }
    return static_cast<std::size_t>(chunks);
  }
  static std::vector<cuda::RowUpdate<P>> row_updates(Memory const& memory,
                                                     std::vector<UpdateRun> const& parameters) {
    std::vector<cuda::RowUpdate<P>> all;
    for (RowRun const& own : row_runs(parameters, cuda::update_chunk)) {
      all.push_back({own, memory.rows().sum(own.rows)});
    }
    return all;
  }

  // A host table's copy on the device.
  template <class Row>
  struct Table {
    Table(Device& device, std::vector<Row> const& rows)
        : buffer{device, rows.size() * sizeof(Row)}, count{rows.size()} {
      if (count > 0) {
        cuda::copy_bytes(buffer.data(), rows.data(), buffer.bytes(), cudaMemcpyHostToDevice,
                         device.compute);
        device.compute.synchronize();  // the rows go
      }
    }
    [[nodiscard]] std::size_t size() const { return count; }
    [[nodiscard]] Row const* get() const { return count > 0 ? buffer.template as<Row>() : nullptr; }

    cuda::Buffer buffer;
    std::size_t count;
  };

  cuda::UpdateMemory<P, T> update_memory(Memory const& memory, Optimizer const& optimizer,
                                         ClipSets const& clips, LossScaling const& scaling,
                                         bool owns_some) const {
    Table<cuda::UpdateChunk> const& own = owns_some ? own_chunks_ : chunks_;
    cuda::UpdateMemory<P, T> all{
        .parameters = memory.parameters(),
        .gradients = memory.gradients(),
        .parameter_count = memory.tables().layout.elements,
        .chunks = chunks_.buffer.template as<cuda::UpdateChunk>(),
        .chunk_count = static_cast<std::int64_t>(chunks_.size()),
        .own_chunks = own.get(),
        .own_count = static_cast<std::int64_t>(own.size()),
        .settings = settings_.buffer.template as<RunSettings>(),
        .run_count = static_cast<int>(settings_.size()),
        .functors = functors_.data(),
        .squares = squares_.template as<double>(),
        .ranges = ranges_.buffer.template as<cuda::ChunkRange>(),
        .range_count = static_cast<int>(ranges_.size()),
        .sums = sums_.template as<double>(),
        .clip_rows = clip_rows_.get(),
        .clip_sets = clips.sets(),
        .largest_norms = largest_norms_.get(),
        .scales = scales_.bytes() > 0 ? scales_.template as<double>() : nullptr,
        .norm_ranges = norm_ranges_.get(),
        .norm_squares = norm_squares_.template as<double>(),
        .norms = norms_.template as<double>(),
        .stopped = stopped_.template as<int>(),
        .scaling = scaled_.bytes() > 0 ? scaled_.template as<ScaledLoss>() : nullptr,
        .scaling_rule = scaling};
    for (int s = 0; s < states_of(optimizer); ++s) {
      all.state[s] = memory.state(s);
    }
    if constexpr (Memory::mixed) {
      if (!memory.tables().sharded_parameters) {  // else as they are gathered
        all.rounded = memory.weights();
      }
    }
    return all;
  }

  Table<cuda::UpdateChunk> chunks_;
  Table<cuda::UpdateChunk> own_chunks_;  // where some alone are updated here
  Table<RunSettings> settings_;
  Table<cuda::ChunkRange> ranges_;
  Table<cuda::ClipRow> clip_rows_;
  Table<double> largest_norms_;  // of the sets, where there are several
  cuda::Buffer scales_;
  cuda::Buffer functors_;
  cuda::Buffer squares_;
  cuda::Buffer sums_;
  Table<cuda::ChunkRange> norm_ranges_;  // of an optimizer by tensor, as the next two
  cuda::Buffer norm_squares_;
  cuda::Buffer norms_;
  cuda::Buffer stopped_;
  cuda::Buffer scaled_;  // a ScaledLoss, where gradients are scaled
  std::vector<StageChunks> stages_;
  std::vector<RunChunks> runs_;
  bool checked_ = false;  // the step that is being queued looks for what is not finite
  UpdateKernels kernels_;
};

}  // namespace tandem
