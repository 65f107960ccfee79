// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankCore: what a rank is composed of, but for its ops: whichever way it goes through its
/// actions, and compiled for a backend, not for each device of each program. What a program does
/// not need is null.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/concepts.hpp>
#include <tandem/engine/links/gradient_reduction.hpp>
#include <tandem/engine/links/no_part.hpp>
#include <tandem/engine/links/parameter_shares.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/links/rank_links.hpp>
#include <tandem/engine/links/slice_sums.hpp>
#include <tandem/engine/links/tied_sums.hpp>
#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/engine/memory/rank_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/prepare/memory_report.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/branch_streams.hpp>
#include <tandem/engine/rank/node_passes.hpp>
#include <tandem/engine/rank/pass_pairs.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/sums.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/engine/step/update.hpp>
#include <tandem/ops/phases.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// How a rank gets its ends of RankGroups.
template <class Communicator>
struct RankEnds {
  /// Receives numbers from a rank of the group, unless that is -1, and sends them to others.
  using PassOn = void (*)(Communicator&, std::span<double>, int from, std::span<int const> to,
                          typename Communicator::Stream&, Label);

  std::function<Communicator(int)> connect;  ///< the rank's end of a group
  RankGroups groups;
  int rank;
  PassOn pass_on = nullptr;  ///< null: there is one process, or the communicator sends no doubles

  /// The rank's ends of the groups over which each local stage's gradients are summed.
  [[nodiscard]] TANDEM_COLD std::vector<Communicator> connect_stages(
      std::span<LocalStage const> stages) const {
    std::vector<Communicator> ends;
    for (LocalStage const& stage : stages) {
      ends.push_back(connect(groups.of_stage(rank, stage.id)));
    }
    return ends;
  }
};

/// What a rank has before there are ops.
template <class Backend>
struct RankDevice {
  using Device = typename Backend::Device;
  using Branching = typename std::conditional_t<HasSides<Device>, BranchesOn<Backend>,
                                                std::type_identity<NoPart>>::type;
  using Pairs = typename std::conditional_t<HasSides<Device>, PairsOn<Backend>,
                                            std::type_identity<NoPart>>::type;

  TANDEM_COLD RankDevice(DeviceTables const& tables, RankOptions const& options, RankPlan plan)
      : plan_of_rank{std::move(plan)},
        device_of_rank{options.device},
        branches_of_rank{tables.graph, can_branch(tables) ? options.cuda.branches : 1,
                         tables.recomputes ? tables.segments : nullptr} {}

  RankPlan plan_of_rank;
  Device device_of_rank;
  Branching branches_of_rank;
  Pairs pairs_of_rank;

 private:
  // Where gradients are made in two slots, branches end one after the other.
  static bool can_branch(DeviceTables const& tables) {
    return !tables.sharded_gradients && has_joins(tables.graph);
  }
};

/// The ops, and what they ask for.
template <class Backend>
struct OpsWants {
  OpList<Backend> const& list;
  std::vector<OpNeeds> const& needs;
  std::int64_t scratch;
  std::int64_t staged;
  int metrics;  ///< sums of a microbatch besides its loss
};

/// All memory and communicators, made once: a StageHost. Its fields refer to each other, so it
/// stays where it is.
template <class BackendType, class CommunicatorType, RankWay Way>
struct RankCore : PhaseHost<typename BackendType::Scalar> {
  using Backend = BackendType;
  using Communicator = CommunicatorType;
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using PassType = Pass<Device>;
  using Memory = RankMemory<Backend>;
  using Table = typename Memory::Table;
  using Parts = RankDevice<Backend>;
  using Ends = RankEnds<Communicator>;
  using Branching = typename Parts::Branching;
  using Pairs = typename Parts::Pairs;
  static constexpr RankWay way = Way;
  static constexpr bool has_branches = HasSides<Device>;
  static constexpr bool has_slices = Way.slices && SharesLayers<Communicator, Backend>;
  using States =
      std::conditional_t<Way.states && KeepsStates<Backend>, CarriedStates<Backend>, NoPart>;
  using Gradients = GradientReduction<Backend, Communicator, Way>;
  using Ties = std::conditional_t<Way.ties, TiedSums<Backend, Gradients>, NoPart>;
  using Shares =
      std::conditional_t<Gradients::can_share, ParameterShares<Backend, Gradients>, NoPart>;
  using Links = std::conditional_t<Way.links && SendsAndReceives<Communicator, T>,
                                   RankLinks<Backend, Communicator>, NoPart>;
  using Slices = std::conditional_t<has_slices, SliceSums<Backend, Communicator>, NoPart>;

  TANDEM_COLD RankCore(Parts& parts, DeviceTables const& own, RankOptions const& options,
                       OpsWants<Backend> const& ops, Ends const& ends)
      : tables{own},
        needs{ops.needs},
        passes{tables, ops.list},
        plan{parts.plan_of_rank},
        device{parts.device_of_rank},
        branches{parts.branches_of_rank},
        pairs{parts.pairs_of_rank},
        memory{tables,
               device,
               ops.needs,
               ops.scratch,
               arrays_of(options),
               plan_task(options),
               plan.batching.leaves_of_copy(tables.map.copies),
               plan.batching.replicas},
        states{make_part<States>(tables.stateful, device, tables.graph, ops.needs,
                                 samples_of(options))},
        chunks{make_part<CarriedChunks<Backend>>(plan.batching.chunks > 1, device, tables.graph,
                                                 ops.needs, options.largest_microbatch)},
        staged{device, static_cast<std::size_t>(ops.staged)},
        gradients{tables, device, ends.connect(RankGroups::all), ends.connect_stages(tables.stages),
                  plan,   tracer},
        shares{make_shares()},
        uses_parameters{shares && (tables.sharded_parameters || Shares::comes_late)},
        slices{make_part<Slices>(tables.slices > 1, tables, device, options.largest_microbatch,
                                 ends.connect, ends.groups.of_slices(ends.rank), tracer)},
        partials{make_part<PartialSums<Backend>>(tables.sequence_rows && slices, tables, device)},
        links{make_part<Links>(
            tables.devices > 1, tables, memory.plan().waits, device,
            [&](int link, bool forward) {
              return ends.connect(
                  ends.groups.of_link(ends.groups.line_of(ends.rank), link, forward));
            },
            tracer, options.largest_microbatch)},
        ties{make_part<Ties>(!tables.tied.empty(), tables, device, ends, tracer)},
        sums{device, plan.batching.passes(), ops.metrics,
             plan.batching.replicas * tables.devices * tables.slices > 1},
        pass_on{ends.pass_on},
        more{links || shares || states || chunks || tables.reads_two} {
    device.scratch = memory.scratch();
    device.scratch_bytes = ops.scratch;
    if constexpr (requires { device.casts; }) {
      device.casts.memory = staged.data();
      device.casts.bytes = ops.staged;
    }
    if constexpr (requires { device.compute.overlap_launches(true); }) {
      device.compute.overlap_launches(options.cuda.overlap_launches);
    }
    branches.open(device, ops.needs);
    if (options.cuda.overlap_passes && branches.plan() == nullptr && !tables.sharded_gradients &&
        tables.stages.size() > 1 && !states && !chunks) {
      pairs.open(device, plan, ops.scratch);
    }
    expects(
        !tables.sharded_parameters || !memory.packs(),
        "ShardedParameters: a layer of this backend keeps its weights in a layout of its own, as "
        "convolutions and recurrent ones of OneDnn; take BasicHost<Portable>, or "
        "ShardedGradients");
  }

  RankCore(RankCore const&) = delete;
  RankCore& operator=(RankCore const&) = delete;
  TANDEM_COLD virtual ~RankCore() {
    if (!arrived()) {  // what is on its way is written to memory that goes
      try {
        arrive();
      } catch (...) {  // said too late for anyone to act on it
        settle();
      }
    }
  }

  /// The passes over the nodes of a stage: NodePasses.
  void forward(PassType const& pass, Table const& table, LocalStage const& stage);
  void backward(PassType const& pass, Table const& table, LocalStage const& stage,
                BackwardPart part, int leaf);

  /// Has the weights of a stage, to which @p table points, as products read them.
  void pack(Table const& table, LocalStage const& stage);
  /// Has the weights of stage @p id as products read them, or those of all stages.
  void pack(int id = -1) {
    for (LocalStage const& stage : tables.stages) {
      if (id < 0 || stage.id == id) {
        pack(memory.table(0), stage);
      }
    }
  }

  /// Of a step, on this rank, at most.
  [[nodiscard]] std::int64_t samples_of(RankOptions const& options) const {
    return std::int64_t{options.largest_microbatch} * plan.batching.microbatches;
  }
  [[nodiscard]] RankMicrobatches microbatches(RankOptions const& options) const {
    return {plan.batching, mesh().coordinate(options.rank, Axis::data), tables.map.copies};
  }
  /// Of all ranks.
  [[nodiscard]] Mesh mesh() const { return tables.mesh_of(plan.batching.replicas); }

  /// Which of the ranks that share the model's layers it is.
  [[nodiscard]] Slice slice() const { return slices ? slices->slice() : Slice{}; }

  /// What is allocated here.
  [[nodiscard]] MemoryReport report() const {
    MemoryReport all = memory.report();
    all.scratch += static_cast<std::int64_t>(staged.bytes()) + branches.bytes() + pairs.bytes();
    all.wire = gradients.wire_bytes() + bytes_of(partials) + bytes_of(slices);
    all.tables = sums.bytes();
    all.messages = bytes_of(links);
    all.states = bytes_of(states) + bytes_of(chunks);
    return all;
  }

  /// Before rows of sequences that come in pieces, from row @p position on, unless that is -1:
  /// there is room for what they hand on, and each sample has what its parent, of @p parents, has.
  void carry(RankMicrobatches const& own, int position, std::int32_t const* parents) {
    if (position < 0) {
      return;
    }
    std::int64_t const begin = own.begin();
    std::int64_t const samples = own.end() - begin;
    expects(memory.carries_all(),
            "translate(data): a Join that reads both inputs must carry what it has read of the "
            "first from row to row, as Bahdanau does");
    if (position == 0) {
      memory.carried().begin(device, samples);
    } else if (parents != nullptr) {
      parents_.assign(parents + begin, parents + begin + samples);
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
    if (links) {
      links->settle(device);
    }
  }

  /// NodePasses calls it: the parameters of node @p n are read now, then those of the nodes before
  /// it or behind it. In a backward pass they are there where a rank has all.
  void use_parameters(int n, PassDirection direction) { shares->use(device, memory, n, direction); }

  /// What is computed from now on reads what other ranks have updated.
  void arrive() {
    if (shares) {
      shares->arrive(device);
    }
  }
  [[nodiscard]] bool arrived() const { return !shares || shares->arrived(); }
  /// Parameters have changed, or a step begins.
  void forget_parameters() {
    if (shares) {
      shares->forget();
    }
  }
  void gather_parameters() {
    if (shares) {
      shares->gather(device, memory);
    }
  }

  /// NodePasses calls it: the gradients of @p bucket are whole for @p leaf, unless that is -1.
  TANDEM_NOINLINE void bucket_ready(int bucket, int leaf) {
    if constexpr (requires { Verbs<Backend>::finish_gradients(device); }) {
      Verbs<Backend>::finish_gradients(device);
    }
    if (slices && tables.has_tiles && leaf >= 0) {
      add_tiles(bucket);
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

  void join(std::span<double> data, int stage) final { gradients.synchronize(device, data, stage); }
  void gather(std::span<double> data) final {
    if (slices) {
      slices->bring_together(device, data, Label{"vocabulary"});
    }
  }
  void join_tiles(std::span<double> data) final {
    if (slices) {
      slices->add_up(device, data, Label{"statistics"});
    }
  }
  void exchange_tiles(std::span<TileMessage<T> const> messages) final {
    if (slices) {
      slices->exchange(device, messages, Label{"tiles"});
    }
  }

  /// What collective node @p n has, @p data, becomes the sums over the ranks that have slices of
  /// the layers; until they are awaited nothing reads or writes it. One at a time.
  void begin_slices(T* data, std::int64_t elements, int n, char const* label) {
    slices->begin(device, data, elements, Label{label, n});
  }
  void await_slices() { slices->await(device); }

  /// Collective node @p n has rows of @p width numbers: of all slices in @p all, this one's in @p
  /// own.
  void gather_rows(T const* own, T* all, DealtRows const& rows, std::int64_t width, int n,
                   char const* label) {
    slices->gather_rows(device, own, all, rows, width, Label{label, n});
  }
  void begin_scatter(T const* all, T* own, DealtRows const& rows, std::int64_t width, int n,
                     char const* label) {
    slices->begin_scatter(device, all, own, rows, width, Label{label, n});
  }
  void end_scatter(T* own, DealtRows const& rows, std::int64_t width) {
    slices->end_scatter(device, own, rows, width);
  }
  void take_rows(T const* all, T* own, DealtRows const& rows, std::int64_t width) {
    slices->take_rows(device, all, own, rows, width);
  }

  /// What is computed from now on comes after the messages of a pass, or after all.
  void await_links(ActionKind before, int stage, bool training, int chunk) {
    if (links) {
      links->await(device, before, stage, training, chunk);
    }
  }
  void await_links() {
    if (links) {
      links->await_all(device);
    }
  }

  /// Gradients to come are new.
  void begin_gradients() {
    if (partials) {
      partials->begin_step();
    }
    if (ties) {
      ties->begin_step();
    }
  }
  /// Gradients are those of the whole model: what is computed from now on reads them. Once a step.
  /// @pre they are reduced over the replicas
  void join_gradients() {
    if (partials) {
      partials->add(device, memory, *slices);
    }
    if (ties) {
      ties->add(device, memory, gradients);
    }
  }

  /// Puts the gradient of received tensor @p node where it is sent from: @p to, and behind it those
  /// of other readers that are sent apart.
  void gather_outgoing(int node, T const* const* forks, int count, std::int64_t elements, T* to) {
    if ((tables.batching.reproducible && !tables.graph.node[node].named) || count == 1) {
      for (int i = 0; i < count; ++i) {
        T* const own = to + (memory.outgoing(0, node, i) - memory.outgoing(0, node));
        if (forks[i] != own) {
          Verbs<Backend>::copy(device, forks[i], own, elements);
        }
      }
    } else {
      Verbs<Backend>::sum(device, forks, count, to, elements, rounding_of(tables.graph.node[node]));
    }
  }

  DeviceTables const& tables;
  std::vector<OpNeeds> const& needs;  // of each node's op
  NodePasses<Backend> passes;
  RankPlan& plan;
  Device& device;
  Branching& branches;
  Pairs& pairs;
  Memory memory;
  RankPart<States> states;
  RankPart<CarriedChunks<Backend>> chunks;
  typename Backend::Buffer staged;  // see OpNeeds::staged_bytes
  Tracer<Device> tracer;
  Gradients gradients;
  RankPart<Shares> shares;
  bool uses_parameters;  // NodePasses says which
  RankPart<Slices> slices;
  RankPart<PartialSums<Backend>> partials;
  RankPart<Links> links;
  RankPart<Ties> ties;
  StepSums<Backend> sums;
  typename Ends::PassOn pass_on;
  bool more;  // a pass begins with more than the input of the rank's microbatch

 private:
  // Gradients of layers on tiles are parts of a sum over the ranks; of all else in the bucket, as
  // of statistics, each rank has the same, which the first gives.
  void add_tiles(int bucket) {
    GraphView const& graph = tables.graph;
    ElementRange const range = tables.bucket(bucket);
    auto const is_part = [&](GraphParameter const& p) {
      return p.parameter.role == Role::weight && graph.node[p.node].is_tile();
    };
    bool any = false;
    for (int p = 0; p < graph.parameters; ++p) {
      any = any || (range.has(tables.layout.offset[p]) && is_part(graph.parameter[p]));
    }
    if (!any) {
      return;
    }
    for (int p = 0; p < graph.parameters && slice().number > 0; ++p) {
      std::int64_t const at = tables.layout.offset[p];
      if (range.has(at) && !is_part(graph.parameter[p])) {
        Verbs<Backend>::zero(device, memory.gradients() + at,
                             graph.parameter[p].parameter.shape.elements());
      }
    }
    slices->add_up(
        device,
        std::span{memory.gradients() + range.begin, static_cast<std::size_t>(range.count())},
        Label{"gradients of tiles"});
  }

  RankPart<Shares> make_shares() {
    if constexpr (Gradients::can_share) {
      if (tables.sharded_parameters) {
        return std::make_unique<ParameterSlots<Backend, Gradients>>(tables, device, gradients,
                                                                    tracer);
      }
    }
    return make_part<Shares>(tables.state_shares > 1, tables, device, gradients, tracer);
  }
  static std::int64_t bytes_of(auto const& part) {
    return part ? static_cast<std::int64_t>(part->bytes()) : 0;
  }

  std::vector<std::int32_t> parents_;  // among the samples of this rank
  std::int64_t carried_from_ = 0;      // the first of these in the batch before

  [[nodiscard]] PlanTask plan_task(RankOptions const& options) const {
    return {.batch = options.largest_microbatch,
            .element_bytes = sizeof(T),
            .microbatches = plan.batching.passes(),
            .chunks = plan.batching.chunks,
            .stages = plan.stages,
            .segment = tables.recomputes ? tables.segments : nullptr,
            .apart = tables.batching.reproducible,
            .branches = branches.plan()};
  }
};

template <class B, class C, RankWay Way>
void RankCore<B, C, Way>::forward(PassType const& pass, Table const& table,
                                  LocalStage const& stage) {
  passes.forward(*this, pass, table, stage);
}

template <class B, class C, RankWay Way>
void RankCore<B, C, Way>::backward(PassType const& pass, Table const& table,
                                   LocalStage const& stage, BackwardPart part, int leaf) {
  passes.backward(*this, pass, table, stage, part, leaf);
}

template <class B, class C, RankWay Way>
void RankCore<B, C, Way>::pack(Table const& table, LocalStage const& stage) {
  passes.pack(*this, table, stage);
}

}  // namespace tandem
