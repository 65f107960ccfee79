// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerGroup: the ranks of one process, a thread each, that run steps in lockstep, or those of a
/// pipeline without a barrier between steps one after another.

#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/core/own_process.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/data/loader_options.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/rank/rank_interface.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/train/agreement.hpp>
#include <tandem/train/checkpoint/elsewhere.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/progress_words.hpp>
#include <tandem/train/ranks/group_transport.hpp>
#include <tandem/train/ranks/launch.hpp>
#include <tandem/train/ranks/program_facts.hpp>
#include <tandem/train/ranks/rank_stream.hpp>
#include <tandem/train/ranks/trace.hpp>

namespace tandem {

/// What a WorkerGroup is made of.
struct GroupOptions {
  ProgramFacts const& facts;  ///< outlives the group
  StallLimit limit;
  Shape targets;         ///< of a sample
  int steps_in_flight;   ///< that may be queued before the result of the first is collected
  bool passes_on;        ///< there may be several processes, and communicators send doubles
  bool captured_beside;  ///< they can be recorded while others of the process work
};

/// Makes the ranks on their own threads and hands them steps; after a rank has failed it refuses
/// further work, but for reading parameters that were not being changed (work_kind.hpp). A child of
/// fork() has none of the ranks' threads: there all work is refused, and the destructor does
/// nothing. It knows no type of the program's: WorkersOf makes one for a Program.
/// @tparam BatchType  StepBatch
template <class BatchType>
class WorkerGroup {
 public:
  using Batch = BatchType;
  using P = typename Batch::Scalar;
  using RankType = RankInterface<Batch>;
  /// Makes the rank of these options, while the group is constructed.
  struct MakeRank {
    std::unique_ptr<RankType> (*call)(void const* program, GroupTransport&, Mesh const&,
                                      RankOptions const&);
    void const* program = nullptr;  ///< what `call` knows of a program that no type says
  };
  /// Compares a call, and its numbers, with those of the other processes.
  using Meet = void (*)(WorkerGroup&, World const&, char const* call, detail::CallNumbers const&);

  using MakeTransport = std::unique_ptr<GroupTransport> (*)(TransportOptions const&);

  /// @param options  of every rank but for the field `rank`, and of its device the ordinal
  /// @param compare  null: the transport has one process
  TANDEM_COLD WorkerGroup(GroupOptions const& group, RankOptions const& options, World const& world,
                          MakeTransport connect, MakeRank make, Meet compare);

  WorkerGroup(WorkerGroup const&) = delete;
  WorkerGroup& operator=(WorkerGroup const&) = delete;

  TANDEM_COLD virtual ~WorkerGroup() {
    if (process_.is_own()) {
      try_drain();
    }
  }

  [[nodiscard]] ProgramFacts const& facts() const { return group_.facts; }
  [[nodiscard]] int steps_in_flight() const { return group_.steps_in_flight; }
  [[nodiscard]] bool passes_on() const { return group_.passes_on; }

  /// One training step, whose result comes from collect(); at most steps_in_flight() may wait.
  /// @param traced  walked, and stamped, by all ranks together: not in an asynchronous pipeline
  void queue(StepState const& state, Batch const& batch, bool traced = false);

  /// The result of the oldest step that was queued. If its loss was not finite, the steps behind it
  /// are dropped: they have changed nothing.
  StepResult collect();

  /// Empties a pipeline that stays filled between steps: all updates of queued steps are done.
  /// @throws RankError      a rank has failed meanwhile
  /// @throws NonFiniteLoss  or has met a gradient that is not finite
  TANDEM_NOINLINE void drain();

  /// The same where nobody can be told of an error.
  void try_drain() noexcept {
    try {
      drain();
    } catch (...) {  // the group refuses further work
    }
  }

  /// What rank number @p local of this process has allocated; batches that all ranks read are the
  /// first one's.
  [[nodiscard]] MemoryReport memory(int local) const {
    MemoryReport report = rank(local).memory_report();
    report.feed += local == 0 && stream_ ? stream_->bytes() : 0;
    return report;
  }

  /// When each action of the traced step that was collected last began and ended, on all ranks.
  [[nodiscard]] Trace traced() const {
    Trace trace;
    for (auto const& rank : ranks_) {
      std::vector<TraceEvent> const own = rank->traced();
      trace.events.insert(trace.events.end(), own.begin(), own.end());
    }
    return trace;
  }

  /// @throws ContractError  a rank has failed, so that work of this kind is refused
  void check_can(WorkKind kind) const { tandem::check_can(state_, kind); }

  /// f(rank) on every rank's thread; gives the result of the first, if any. No allocation.
  /// @throws RankError  the first error of a rank; what the group can do then depends on the kind
  template <class F>
  auto run(F const& f, WorkKind kind = WorkKind::writes) {
    using Result = std::invoke_result_t<F const&, RankType&>;
    if constexpr (std::is_void_v<Result>) {
      run_where(everywhere, f, kind);
    } else {
      Result result{};
      auto const keep_first = [&](RankType& own) {
        Result const value = f(own);
        if (&own == &rank(0)) {
          result = value;
        }
      };
      run_where(everywhere, keep_first, kind);
      return result;
    }
  }

  /// The same where nobody can be told of an error.
  void try_run(FunctionRef<void(RankType&)> f, WorkKind kind) noexcept {
    try {
      run_where(everywhere, f, kind);
    } catch (...) {  // the group refuses further work
    }
  }

  /// f(rank) on the thread of rank number @p local of this process only.
  void run_on(int local, FunctionRef<void(RankType&)> f, WorkKind kind) {
    run_where(local, f, kind);
  }

  /// The rank that worked out the loss of a microbatch, counted over all replicas.
  [[nodiscard]] int rank_of_loss(int microbatch) const {
    return facts().rank_of_result(microbatch, batching_, mesh_);
  }
  /// The step whose gradient was not finite, after collect() has said so with the result of step
  /// @p collected: that step itself, or in an asynchronous pipeline one before it.
  [[nodiscard]] std::int64_t step_of_bad_gradient(std::int64_t collected) const {
    return bad_gradient_.parameter >= 0 ? bad_gradient_.step : collected;
  }
  /// A parameter of the network.
  [[nodiscard]] std::string name_of(int parameter) const {
    return parameter_name(facts().tables().network, parameter);
  }

  /// All processes make this call: what they differ in is said before it begins.
  void meet(World const& world, char const* call, detail::CallNumbers const& what) {
    if (meet_ != nullptr) {
      meet_(*this, world, call, what);
    }
  }
  /// A Meet of several processes.
  TANDEM_COLD static void agree(WorkerGroup& own, World const& world, char const* call,
                                detail::CallNumbers const& what) {
    agree_on_call(own, world, call, what);
  }

  /// What all processes are about to throw is no failure of one of them, which a transport would
  /// tell the others, who may not have come so far.
  void leave_in_order() { transport_.leave_in_order(); }

  /// How the ranks of all processes are arranged.
  [[nodiscard]] Mesh const& mesh() const { return mesh_; }
  /// Of the table that the ranks run.
  [[nodiscard]] Batching const& batching() const { return batching_; }
  /// Whether this process has the rank that makes the outputs of a microbatch.
  [[nodiscard]] bool has_result(int microbatch) const {
    int const local = rank_of_loss(microbatch) - first_rank_;
    return local >= 0 && local < size();
  }
  /// What of a batch of @p size samples the ranks of this process take.
  [[nodiscard]] BatchPart part_of(int size) const;

  /// Makes the ranks of all processes fail, for an error of this process that no rank has had and
  /// that other processes cannot know of: they would wait for its ranks.
  TANDEM_COLD void abort(char const* what) noexcept {
    OnError const error = on_error();
    error.call(error.context, first_rank_, what);
  }

  [[nodiscard]] int first_rank() const { return first_rank_; }
  /// Ranks of this process.
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// The parameters that this process has none of.
  [[nodiscard]] ParametersElsewhere<P>& elsewhere() { return elsewhere_; }
  /// The process's rank number @p local.
  [[nodiscard]] RankType& rank(int local) const { return *ranks_[static_cast<std::size_t>(local)]; }

 private:
  static constexpr int everywhere = -1;

  void end_stream() {
    guarded([this] { stream_->finish(threads_); }, WorkKind::writes);
  }

  /// A copy of the call that fork() was called in goes on in the child.
  void expect_own(char const* verb) const { process_.expect_own(verb, "Trainer or Predictor"); }

  /// Tells a transport that asks for it that the ranks have work.
  class [[nodiscard]] AtWork {
   public:
    explicit AtWork(GroupTransport& transport) : transport_{transport} { transport_.enter(); }
    AtWork(AtWork const&) = delete;
    AtWork& operator=(AtWork const&) = delete;
    ~AtWork() { transport_.leave(); }

   private:
    GroupTransport& transport_;
  };

  /// @param only  the rank of this process that works, or everywhere
  void run_where(int only, FunctionRef<void(RankType&)> f, WorkKind kind);

  // Nothing more is done after an error, but what its kind leaves.
  void guarded(FunctionRef<void()> f, WorkKind kind);

  // No task may still read a rank's memory when the first rank goes.
  void settle() noexcept {
    for (auto const& rank : ranks_) {
      if (rank) {
        rank->settle();
      }
    }
  }

  // A rank has failed: nobody waits for it, or for a step.
  TANDEM_COLD OnError on_error();

  static void look(void* transport, int rank, Watch::Duration waited) {
    static_cast<GroupTransport*>(transport)->poll(rank, waited);
  }

  GroupOptions group_;
  Meet meet_;
  Batching batching_;
  Mesh mesh_;
  detail::OwnProcess process_;
  detail::UnlessForked<std::unique_ptr<GroupTransport>> held_transport_;
  GroupTransport& transport_ = **held_transport_;
  int first_rank_;  // of this process
  detail::UnlessForked<std::vector<std::unique_ptr<RankType>>> held_ranks_;
  std::vector<std::unique_ptr<RankType>>& ranks_ = *held_ranks_;
  ParametersElsewhere<P> elsewhere_;
  ProgressWords words_;
  GroupState state_ = GroupState::works;
  BadGradient bad_gradient_{};  // of the step that was collected last
  bool in_lockstep_;            // the step that was queued last: the ranks end it together
  detail::UnlessForked<std::optional<RankStream<RankType>>> held_stream_;
  std::optional<RankStream<RankType>>& stream_ = *held_stream_;
  detail::UnlessForked<RankThreads> held_threads_;  // joined before anything that it uses goes
  RankThreads& threads_ = *held_threads_;
};

template <class BatchType>
WorkerGroup<BatchType>::WorkerGroup(GroupOptions const& group, RankOptions const& options,
                                    World const& world, MakeTransport connect, MakeRank make,
                                    Meet compare)
    : group_{group},
      meet_{compare},
      batching_{batching_with(facts().tables(), options.microbatches, options.replicas)},
      mesh_{facts().tables().mesh_of(options.replicas)},
      held_transport_{connect(detail::transport_options(
          group.limit, world, RankGroups{facts().groups, mesh_}.list(), mesh_.size()))},
      first_rank_{transport_.first_rank()},
      held_ranks_{static_cast<std::size_t>(transport_.local_ranks())},
      elsewhere_{facts().devices, options, mesh_, first_rank_, size()},
      words_{transport_},
      in_lockstep_{!facts().streams()},
      held_threads_{size(), on_error(), first_rank_, group_.limit, words_.reader()} {
  if (facts().streams()) {
    GraphView const network = facts().tables().network;
    stream_.emplace(ranks_, StreamSizes{.steps = group.steps_in_flight,
                                        .ranks = facts().tables().mesh.size(),
                                        .limit = group.limit,
                                        .samples = std::int64_t{options.largest_microbatch} *
                                                   batching_.all_microbatches(),
                                        .input = network.node[0].out,
                                        .second = input_shape(network, 1),
                                        .targets = group.targets});
  }
  AtWork const at_work{transport_};
  auto const begin = [&](int local) TANDEM_COLD {
    RankOptions own = options;
    own.rank = first_rank_ + local;
    own.device.ordinal = transport_.device_of(local);
    own.record = options.record.value_or(size() == 1 || group_.captured_beside);
    if (own.device.threads == 0) {
      own.device.threads = host::threads_of_each(size());
    }
    auto& place = ranks_[static_cast<std::size_t>(local)];
    place = make.call(make.program, transport_, mesh_, own);
    for (int other = 0; other < size(); ++other) {
      place->share_with({.ordinal = transport_.device_of(other)});
    }
    place->report_progress_to(&words_.of(local));
    place->watch_with({.look = look,
                       .context = &transport_,
                       .rank = own.rank,
                       .timeout = transport_timeout(group_.limit.timeout)});
  };
  threads_.run(begin, "its construction");
}

template <class BatchType>
void WorkerGroup<BatchType>::queue(StepState const& state, Batch const& batch, bool traced) {
  expect_own("a training step");
  transport_.at_step(state.step + 1);
  in_lockstep_ = !facts().streams() || (traced && !facts().asynchrony.on());
  if (!in_lockstep_) {
    check_can(WorkKind::steps);
    AtWork const at_work{transport_};
    if (!stream_->push(threads_, state, batch)) {
      drain();
    }
    return;
  }
  auto const verb = traced ? &RankType::queue_traced : &RankType::queue_training;
  run([&](RankType& rank) { (rank.*verb)(state, batch); }, WorkKind::steps);
}

template <class BatchType>
StepResult WorkerGroup<BatchType>::collect() {
  expect_own("a training step");
  if (in_lockstep_) {
    return run([](RankType& rank) { return rank.collect(); }, WorkKind::steps);
  }
  StepResult result;
  AtWork const at_work{transport_};
  if (!stream_->collect(threads_, result)) {
    drain();
    check_can(WorkKind::steps);
    return result;
  }
  if (result.failed()) {
    end_stream();
    bad_gradient_ = stream_->take_bad_gradient();
  }
  return result;
}

template <class BatchType>
void WorkerGroup<BatchType>::drain() {
  if (stream_) {
    end_stream();
    if (BadGradient const bad = stream_->take_bad_gradient(); bad.parameter >= 0) {
      throw non_finite_gradient(bad.step, name_of(bad.parameter));
    }
  }
}

template <class BatchType>
BatchPart WorkerGroup<BatchType>::part_of(int size) const {
  int const replica = mesh_.coordinate(first_rank_, Axis::data);
  int const last = mesh_.coordinate(first_rank_ + this->size() - 1, Axis::data);
  BatchPart part;
  for (int i = 0; i < batching_.global(last + 1, 0); ++i) {
    int const samples = microbatch_size(size, i, batching_);
    part.begin += i < batching_.global(replica, 0) ? samples : 0;
    part.end += samples;
  }
  return part;
}

template <class BatchType>
void WorkerGroup<BatchType>::run_where(int only, FunctionRef<void(RankType&)> f, WorkKind kind) {
  expect_own(doing(kind));
  drain();
  check_can(kind);
  if (is_together(kind)) {
    transport_.begin_work();
  }
  auto const work = [&](int local) {
    if (only == everywhere || only == local) {
      words_.of(local).store(at_no_action, std::memory_order_relaxed);
      f(rank(local));
    }
  };
  guarded([&] { threads_.run(work, doing(kind)); }, kind);
}

template <class BatchType>
void WorkerGroup<BatchType>::guarded(FunctionRef<void()> f, WorkKind kind) {
  AtWork const at_work{transport_};
  GroupState const before = std::exchange(state_, GroupState::torn);
  try {
    f();
  } catch (...) {
    settle();
    MeshGroup const saved = mesh_.group(0, Axis::model);
    state_ = after_failure(before, kind,
                           all_say(ranks_, saved, [](RankType& own) { return own.untouched(); }),
                           all_say(ranks_, saved, [](RankType& own) { return own.arrived(); }));
    throw;
  }
  state_ = before;
}

template <class BatchType>
OnError WorkerGroup<BatchType>::on_error() {
  return {[](void* group, int rank, char const* what) {
            auto& own = *static_cast<WorkerGroup*>(group);
            if (own.stream_) {
              own.stream_->abort();
            }
            try {
              own.transport_.abort(rank, what);
            } catch (std::exception const&) {  // no memory: the others' time-out ends their wait
            }
          },
          this};
}

}  // namespace tandem
