// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankParts: what a rank is composed of, whichever way it goes through its actions.

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/gradient_reduction.hpp>
#include <tandem/engine/links/no_links.hpp>
#include <tandem/engine/links/parameter_shares.hpp>
#include <tandem/engine/links/parameter_slots.hpp>
#include <tandem/engine/links/partial_sums.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/links/rank_links.hpp>
#include <tandem/engine/links/slice_sums.hpp>
#include <tandem/engine/links/tied_sums.hpp>
#include <tandem/engine/memory/carried_chunks.hpp>
#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/engine/memory/rank_memory.hpp>
#include <tandem/engine/prepare/memory_report.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/branch_streams.hpp>
#include <tandem/engine/rank/node_runs.hpp>
#include <tandem/engine/rank/pass_pairs.hpp>
#include <tandem/engine/rank/prepared_ops.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/sums.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/phases.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// A device with all memory, prepared ops and communicators; made once, and a StageHost. Its fields
/// refer to each other, so it stays where it is.
/// @tparam ProgramType  a DeviceProgram
template <class ProgramType, class BackendType, class LossType, class MetricType,
          class CommunicatorType>
struct RankParts {
  using Program = ProgramType;
  using Backend = BackendType;
  using Loss = LossType;
  using Communicator = CommunicatorType;
  using Whole = typename Program::Program;
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using PassType = Pass<Device>;
  using Ops = PreparedOps<Program, Backend, LossType, MetricType>;
  using Memory = RankMemory<Program, Backend>;
  using Table = typename Memory::Table;
  using Groups = RankGroups<Whole>;
  using Ties = std::conditional_t<(Whole::ties.count > 0), TiedSums<Program, Backend, Communicator>,
                                  NoTiedSums>;
  /// Where gradients are made in two slots, branches end one after the other.
  static constexpr bool has_branches =
      HasSides<Device> && has_joins(Program::graph) && !Whole::sharded_gradients;
  using Branching = typename std::conditional_t<has_branches, BranchesOn<Backend>,
                                                std::type_identity<NoBranchStreams>>::type;
  static constexpr bool has_pairs = HasSides<Device> && Program::stages.count > 1 &&
                                    !Whole::stateful && !Whole::sharded_gradients &&
                                    Whole::batching.chunks == 1;
  using Pairs = typename std::conditional_t<has_pairs, PairsOn<Backend>,
                                            std::type_identity<NoPassPairs>>::type;
  using States = std::conditional_t<Whole::stateful, CarriedStates<Backend>, NoCarriedStates>;
  using ChunkStates =
      std::conditional_t<(Whole::batching.chunks > 1), CarriedChunks<Backend>, NoCarriedChunks>;
  using Gradients = GradientReduction<Program, Backend, Communicator>;
  using Shares = std::conditional_t<
      Whole::sharded_parameters, ParameterSlots<Program, Backend, Gradients>,
      std::conditional_t<Whole::sharded_state, ParameterShares<Program, Backend, Gradients>,
                         NoParameterShares>>;
  static constexpr bool uses_parameters = Whole::sharded_parameters || Shares::comes_late;
  using Links = std::conditional_t<(Whole::devices > 1), RankLinks<Backend, Communicator>, NoLinks>;
  using Partials =
      std::conditional_t<Whole::sequence_rows, PartialSums<Program, Backend>, NoPartialSums>;
  using Slices = std::conditional_t<(Whole::slices > 1), SliceSums<Program, Backend, Communicator>,
                                    NoSliceSums>;

  /// @param rank_plan  what it does in a step
  /// @param connect    connect(group): the rank's end of a group of RankGroups
  template <class Connect>
  TANDEM_COLD RankParts(RankOptions const& options, RankPlan rank_plan, Connect const& connect)
      : plan{std::move(rank_plan)},
        device{options.device},
        branches{Program::graph, options.cuda.branches, segments()},
        ops{options.largest_microbatch, options.device.threads, slice_of(options), device},
        memory{device,
               ops,
               arrays_of(options),
               plan_task(options),
               plan.batching.leaves_of_copy(Whole::map.copies),
               plan.batching.replicas},
        states{device, Program::graph, ops.needs(), samples_of(options)},
        chunks{device, Program::graph, ops.needs(), options.largest_microbatch},
        staged{device, static_cast<std::size_t>(ops.staged_bytes())},
        gradients{device, connect(Groups::all),
                  groups().connect_stages(options.rank, Program::stages, connect), plan, tracer},
        shares{device, gradients, tracer},
        slices{device, options.largest_microbatch, connect, groups().of_slices(options.rank),
               tracer},
        partials{device},
        links{rank_links_task<Program>(),
              memory.plan().waits,
              device,
              groups().connect_links(options.rank, connect),
              tracer,
              options.largest_microbatch},
        ties{device, groups(), options.rank, connect, tracer},
        sums{device, plan.batching.passes(), metric_sums<MetricType>,
             plan.batching.replicas * Whole::devices * Whole::slices > 1} {
    device.scratch = memory.scratch();
    device.scratch_bytes = ops.scratch_bytes();
    if constexpr (requires { device.casts; }) {
      device.casts.memory = staged.data();
      device.casts.bytes = ops.staged_bytes();
    }
    if constexpr (requires { device.compute.overlap_launches(true); }) {
      device.compute.overlap_launches(options.cuda.overlap_launches);
    }
    branches.open(device, ops.needs());
    if (options.cuda.overlap_passes && branches.plan() == nullptr) {
      pairs.open(device, plan, ops.scratch_bytes());
    }
    expects(
        !Whole::sharded_parameters || !memory.packs(),
        "ShardedParameters: a layer of this backend keeps its weights in a layout of its own, as "
        "convolutions and recurrent ones of OneDnn; take BasicHost<Portable>, or "
        "ShardedGradients");
  }

  RankParts(RankParts const&) = delete;
  RankParts& operator=(RankParts const&) = delete;
  TANDEM_COLD ~RankParts() {
    if (!shares.arrived()) {  // what is on its way is written to memory that goes
      try {
        shares.arrive(device);
      } catch (...) {  // said too late for anyone to act on it
        settle();
      }
    }
  }

  /// Of one step's data on this rank.
  [[nodiscard]] FeedSizes feed_sizes(RankOptions const& options) const {
    return {.samples = samples_of(options),
            .targets = targets_shape<LossType>(Whole::network.output().out)};
  }
  [[nodiscard]] RankMicrobatches microbatches(RankOptions const& options) const {
    return {plan.batching, mesh().coordinate(options.rank, Axis::data), Whole::map.copies};
  }
  /// Of all ranks.
  [[nodiscard]] Mesh mesh() const { return Whole::mesh_of(plan.batching.replicas); }
  [[nodiscard]] Groups groups() const { return Groups{plan.batching.replicas}; }

  /// What a mirror of the parameters asks for the pieces of other ranks.
  struct Pieces {
    Shares& shares;
    Slices& slices;
  };
  [[nodiscard]] Pieces pieces() { return {shares, slices}; }

  /// What is allocated here.
  [[nodiscard]] MemoryReport report() const {
    MemoryReport all = memory.report();
    all.scratch += ops.staged_bytes() + branches.bytes() + pairs.bytes();
    all.wire =
        gradients.wire_bytes() + static_cast<std::int64_t>(partials.bytes()) + slices.bytes();
    all.tables = sums.bytes();
    all.messages = links.bytes();
    all.states = states.bytes() + chunks.bytes();
    return all;
  }

  /// Before rows of sequences that come in pieces: there is room for what they hand on, and each
  /// sample has what its parent has. @p slot has begun @p batch.
  template <class Slot, class Batch>
  void carry(Slot const& slot, Batch const& batch) {
    if (batch.position < 0) {
      return;
    }
    std::int64_t const begin = slot.microbatches.begin();
    std::int64_t const samples = slot.microbatches.end() - begin;
    expects(memory.carries_all(),
            "translate(data): a Join that reads both inputs must carry what it has read of the "
            "first from row to row, as Bahdanau does");
    if (batch.position == 0) {
      memory.carried().begin(device, samples);
    } else if (batch.parents != nullptr) {
      parents_.assign(batch.parents + begin, batch.parents + begin + samples);
      for (std::int32_t& parent : parents_) {
        parent -= parent >= 0 ? static_cast<std::int32_t>(carried_from_) : 0;
      }
      memory.carried().gather(device, parents_);
    }
    carried_from_ = begin;
  }

  /// After an error: nothing queued reads or writes memory any more.
  void settle() {
    branches.settle(device);
    pairs.settle(device);
    device.settle(device.communication);
    links.settle(device);
  }

  /// What Stage calls: the parameters of node @p n are read now, then those of the nodes before it
  /// or behind it. In a backward pass they are there where a rank has all.
  void use_parameters(int n, PassDirection direction) { shares.use(device, memory, n, direction); }

  /// What Stage calls: the gradients of @p bucket are whole for @p leaf, unless that is -1.
  void bucket_ready(int bucket, int leaf) {
    if constexpr (requires { Verbs<Backend>::finish_gradients(device); }) {
      Verbs<Backend>::finish_gradients(device);
    }
    if constexpr (Whole::has_tiles) {
      if (leaf >= 0) {
        add_tiles(bucket);
      }
    }
    if (leaf >= 0) {
      gradients.leaf_ready(device, memory, bucket, leaf);
    }
  }

  /// The same where the microbatch has no samples: it contributes zeros unless it adds to others.
  void finish_empty_bucket(int bucket, bool adds, int leaf) {
    if (leaf >= 0 && !adds) {
      gradients.clear(device, memory, bucket);
    }
    bucket_ready(bucket, leaf);
  }

  /// What is computed from now on reads in @p data what replicas of a local stage have joined. An
  /// op that joins over another axis needs its group here.
  template <Axis A, Joined How>
    requires(A == Axis::data && How == Joined::sum)
  void join(std::span<double> data, int stage) { gradients.synchronize(device, data, stage); }

  /// What is computed from now on reads in @p data what each rank that has slices has written.
  template <Axis A>
    requires(A == Axis::tensor)
  void gather(std::span<double> data) { slices.bring_together(device, data, {"vocabulary"}); }

  /// What collective node @p n has, @p data, becomes the sums over the ranks that have slices of
  /// the layers; until they are awaited nothing reads or writes it. One at a time.
  void begin_slices(T* data, std::int64_t elements, int n, char const* label) {
    slices.begin(device, data, elements, {label, n});
  }
  void await_slices() { slices.await(device); }

  /// Collective node @p n has rows of @p width numbers: of all slices in @p all, this one's in @p
  /// own.
  void gather_rows(T const* own, T* all, DealtRows const& rows, std::int64_t width, int n,
                   char const* label) {
    slices.gather_rows(device, own, all, rows, width, {label, n});
  }
  void begin_scatter(T const* all, T* own, DealtRows const& rows, std::int64_t width, int n,
                     char const* label) {
    slices.begin_scatter(device, all, own, rows, width, {label, n});
  }
  void end_scatter(T* own, DealtRows const& rows, std::int64_t width) {
    slices.end_scatter(device, own, rows, width);
  }
  void take_rows(T const* all, T* own, DealtRows const& rows, std::int64_t width) {
    slices.take_rows(device, all, own, rows, width);
  }

  /// Gradients are those of the whole model: what is computed from now on reads them. Once a step.
  /// @pre they are reduced over the replicas
  void join_gradients() {
    partials.add(device, memory, slices);
    ties.add(device, memory, gradients);
  }

  /// Likewise of numbers that are joined where images are in tiles.
  void join_tiles(std::span<double> data) { slices.add_up(device, data, {"statistics"}); }
  /// What is computed from now on reads what other tiles have sent.
  void exchange_tiles(std::span<TileMessage<T> const> messages) {
    slices.exchange(device, messages, {"tiles"});
  }

  /// Puts the gradient of received tensor @p node where it is sent from: @p to, and behind it those
  /// of other readers that are sent apart.
  void gather_outgoing(int node, T const* const* forks, int count, std::int64_t elements, T* to) {
    if ((Whole::batching.reproducible && !Program::graph.node[node].named) || count == 1) {
      for (int i = 0; i < count; ++i) {
        T* const own = to + (memory.outgoing(0, node, i) - memory.outgoing(0, node));
        if (forks[i] != own) {
          Verbs<Backend>::copy(device, forks[i], own, elements);
        }
      }
    } else {
      Verbs<Backend>::sum(device, forks, count, to, elements,
                          rounding_of(Program::graph.node[node]));
    }
  }

  RankPlan plan;
  Device device;
  Branching branches;
  Pairs pairs;
  Ops ops;
  Memory memory;
  States states;
  ChunkStates chunks;
  typename Backend::Buffer staged;  // see OpNeeds::staged_bytes
  Tracer<Device> tracer;
  Gradients gradients;
  Shares shares;
  Slices slices;
  Partials partials;
  Links links;
  Ties ties;
  StepSums<Backend> sums;

 private:
  // Known before there are communicators.
  [[nodiscard]] Slice slice_of(RankOptions const& options) const {
    return {mesh().coordinate(options.rank, Axis::tensor), Whole::slices};
  }
  // Gradients of layers on tiles are parts of a sum over the ranks; of all else in the bucket, as
  // of statistics, each rank has the same, which the first gives.
  void add_tiles(int bucket) {
    auto const& graph = Program::graph;
    ElementRange const range = bucket_range(Program::layout, bucket);
    auto const is_part = [&](GraphParameter const& p) {
      return p.parameter.role == Role::weight && graph.node[p.node].is_tile();
    };
    bool any = false;
    for (int p = 0; p < graph.parameters; ++p) {
      any = any || (range.has(Program::layout.offset[p]) && is_part(graph.parameter[p]));
    }
    if (!any) {
      return;
    }
    for (int p = 0; p < graph.parameters && slices.slice().number > 0; ++p) {
      std::int64_t const at = Program::layout.offset[p];
      if (range.has(at) && !is_part(graph.parameter[p])) {
        Verbs<Backend>::zero(device, memory.gradients() + at,
                             graph.parameter[p].parameter.shape.elements());
      }
    }
    slices.add_up(
        device,
        std::span{memory.gradients() + range.begin, static_cast<std::size_t>(range.count())},
        {"gradients of tiles"});
  }
  // Of a step, on this rank, at most.
  [[nodiscard]] std::int64_t samples_of(RankOptions const& options) const {
    return std::int64_t{options.largest_microbatch} * plan.batching.microbatches;
  }
  static constexpr int const* segments() {
    return Whole::checkpoint.every != 0 ? Program::segments.of : nullptr;
  }

  std::vector<std::int32_t> parents_;  // among the samples of this rank
  std::int64_t carried_from_ = 0;      // the first of these in the batch before

  [[nodiscard]] PlanTask plan_task(RankOptions const& options) const {
    return {.batch = options.largest_microbatch,
            .element_bytes = sizeof(T),
            .microbatches = plan.batching.passes(),
            .chunks = plan.batching.chunks,
            .stages = plan.stages,
            .segment = segments(),
            .apart = Whole::batching.reproducible,
            .branches = branches.plan()};
  }
};

}  // namespace tandem
