// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerGroup: the ranks of one process, a thread each, that run steps in lockstep, or those of a
/// pipeline without a barrier between steps one after another.

#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/transport.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/core/own_process.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/data/loader_options.hpp>
#include <tandem/engine/rank/asynchronous_rank.hpp>
#include <tandem/engine/rank/rank.hpp>
#include <tandem/train/checkpoint/elsewhere.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/progress_words.hpp>
#include <tandem/train/ranks/launch.hpp>
#include <tandem/train/ranks/rank_stream.hpp>
#include <tandem/train/ranks/trace.hpp>

namespace tandem {

namespace detail {

template <bool PostValidates, bool OnHost>
struct PostValidatesOn {
  static constexpr bool value = true;
  static_assert(!PostValidates || OnHost,
                "PostValidated<Schedule>: only Host's devices go on into the next step before an "
                "update is known to be right; take Host, or leave PostValidated out");
};

}  // namespace detail

/// Makes the ranks on their own threads and hands them steps; after a rank has failed it refuses
/// further work, but for reading parameters that were not being changed (work_kind.hpp). A child of
/// fork() has none of the ranks' threads: there all work is refused, and the destructor does
/// nothing.
template <class Program, class Backend, class LossType, class MetricType,
          template <int> class Transport>
  requires RankTransport<Transport<Program::transport_ranks>>
class WorkerGroup {
 public:
  using TransportType = Transport<Program::transport_ranks>;
  using Communicator = typename TransportType::Communicator;
  using P = typename Backend::Master;
  using Target = typename LossType::Target;
  using Batch = StepBatchOf<typename Program::template Device<0>, Backend, LossType>;
  /// Whether steps hand states on, sample by sample.
  static constexpr bool stateful = Program::stateful;
  /// Whether the ranks run without a barrier between steps.
  static constexpr bool streams = Program::asynchrony.on() || Program::post_validated;
  using RankType =
      std::conditional_t<Program::asynchrony.on(), StreamedRank<Batch>, SteppedRank<Batch>>;
  /// The rank that is device @p D of its replica.
  template <int D>
  using RankOf = std::conditional_t<
      Program::asynchrony.on(),
      AsynchronousRank<typename Program::template Device<D>, Backend, LossType, MetricType,
                       Communicator>,
      Rank<typename Program::template Device<D>, Backend, LossType, MetricType, Communicator>>;

  /// Steps that may be queued before the result of the first is collected. In a pipeline that stays
  /// filled: those that the first stage has not finished, and the next one.
  static constexpr int steps_in_flight = Program::asynchrony.on()
                                             ? Program::asynchrony.late_steps(0) + 2
                                         : streams ? 2
                                                   : RankOf<0>::FeedType::steps_in_flight;
  static_assert(detail::PostValidatesOn<Program::post_validated,
                                        RankOf<0>::FeedType::steps_in_flight == 1>::value);

  /// @param options    of every rank but for the field `rank`, and of its device the ordinal
  /// @param transport  but for describe_progress; its time-out 0 is for no limit
  /// @param on_stall   what to do about a rank that makes no progress for longer than the time-out
  TANDEM_COLD WorkerGroup(RankOptions const& options, TransportOptions transport,
                          OnStall on_stall = {})
      : limit_{transport.timeout, on_stall},
        batching_{batching_with<Program>(options.microbatches, options.replicas)},
        mesh_{Program::mesh_of(batching_.replicas)},
        held_transport_{described<Program>(std::move(transport), batching_.replicas, on_stall)},
        held_ranks_{static_cast<std::size_t>(transport_.local_ranks())},
        elsewhere_{options, mesh_, transport_.first_rank(), transport_.local_ranks()},
        words_{transport_},
        held_stream_{ranks_,
                     stream_sizes<Program, LossType>(options, batching_, steps_in_flight, limit_)},
        held_threads_{transport_.local_ranks(), on_error(), transport_.first_rank(), limit_,
                      words_.reader()} {
    AtWork const at_work{transport_};
    threads_.run(
        [&](int local) {
          RankOptions own = options;
          own.rank = transport_.first_rank() + local;
          own.device.ordinal = transport_.device_of(local);
          own.record =
              options.record.value_or(size() == 1 || is_capturable_beside_others<Communicator>);
          if (own.device.threads == 0) {
            own.device.threads = host::threads_of_each(size());
          }
          auto& place = ranks_[static_cast<std::size_t>(local)];
          place = make_rank(own);
          for (int other = 0; other < size(); ++other) {
            place->share_with({.ordinal = transport_.device_of(other)});
          }
          place->report_progress_to(&words_.of(local));
          place->watch_with({.look = look,
                             .context = &transport_,
                             .rank = own.rank,
                             .timeout = transport_timeout(limit_.timeout)});
        },
        "its construction");
  }

  WorkerGroup(WorkerGroup const&) = delete;
  WorkerGroup& operator=(WorkerGroup const&) = delete;

  TANDEM_COLD ~WorkerGroup() {
    if (process_.is_own()) {
      try_drain();
    }
  }

  /// One training step, whose result comes from collect(); at most steps_in_flight may wait.
  /// @param traced  walked, and stamped, by all ranks together: not in an asynchronous pipeline
  void queue(StepState const& state, Batch const& batch, bool traced = false) {
    expect_own("a training step");
    if constexpr (requires { transport_.at_step(state.step); }) {
      transport_.at_step(state.step + 1);
    }
    in_lockstep_ = !streams || (traced && !Program::asynchrony.on());
    if constexpr (streams) {
      if (!in_lockstep_) {
        check_can(WorkKind::steps);
        AtWork const at_work{transport_};
        if (!stream_.push(threads_, state, batch)) {
          drain();
        }
        return;
      }
    }
    if constexpr (!Program::asynchrony.on()) {
      auto const verb = traced ? &RankType::queue_traced : &RankType::queue_training;
      run([&](RankType& rank) { (rank.*verb)(state, batch); }, WorkKind::steps);
    }
  }

  /// The result of the oldest step that was queued. If its loss was not finite, the steps behind it
  /// are dropped: they have changed nothing.
  StepResult collect() {
    expect_own("a training step");
    StepResult result;
    if constexpr (streams) {
      if (!in_lockstep_) {
        AtWork const at_work{transport_};
        if (!stream_.collect(threads_, result)) {
          drain();
          check_can(WorkKind::steps);
          return result;
        }
        if (result.failed()) {
          end_stream();
          bad_gradient_ = stream_.take_bad_gradient();
        }
        return result;
      }
    }
    if constexpr (!Program::asynchrony.on()) {
      result = run([](RankType& rank) { return rank.collect(); }, WorkKind::steps);
    }
    return result;
  }

  /// Empties a pipeline that stays filled between steps: all updates of queued steps are done.
  /// @throws RankError      a rank has failed meanwhile
  /// @throws NonFiniteLoss  or has met a gradient that is not finite
  void drain() {
    if constexpr (streams) {
      end_stream();
      if (BadGradient const bad = stream_.take_bad_gradient(); bad.parameter >= 0) {
        throw non_finite_gradient(bad.step, name_of(bad.parameter));
      }
    }
  }

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
    report.feed += local == 0 ? stream_.bytes() : 0;
    return report;
  }

  /// When each action of the traced step that was collected last began and ended, on all ranks.
  [[nodiscard]] Trace traced() const {
    Trace trace;
    if constexpr (!Program::asynchrony.on()) {
      for (auto const& rank : ranks_) {
        std::vector<TraceEvent> const own = rank->traced();
        trace.events.insert(trace.events.end(), own.begin(), own.end());
      }
    }
    return trace;
  }

  /// @throws ContractError  a rank has failed, so that work of this kind is refused
  void check_can(WorkKind kind) const { tandem::check_can(state_, kind); }

  /// f(rank) on every rank's thread; gives the result of the first, if any. No allocation.
  /// @throws RankError  the first error of a rank; what the group can do then depends on the kind
  template <class F>
  auto run(F const& f, WorkKind kind = WorkKind::writes) {
    return run_where([](int) { return true; }, f, kind);
  }

  /// The same where nobody can be told of an error.
  template <class F>
  void try_run(F const& f, WorkKind kind) noexcept {
    try {
      run(f, kind);
    } catch (...) {  // the group refuses further work
    }
  }

  /// f(rank) on the thread of rank number @p local of this process only.
  template <class F>
  auto run_on(int local, F const& f, WorkKind kind) {
    return run_where([local](int l) { return l == local; }, f, kind);
  }

  /// The rank that worked out the loss of a microbatch, counted over all replicas.
  [[nodiscard]] int rank_of_loss(int microbatch) const {
    return rank_of_result<Program>(microbatch, batching_);
  }
  /// The step whose gradient was not finite, after collect() has said so with the result of step
  /// @p collected: that step itself, or in an asynchronous pipeline one before it.
  [[nodiscard]] std::int64_t step_of_bad_gradient(std::int64_t collected) const {
    return bad_gradient_.parameter >= 0 ? bad_gradient_.step : collected;
  }
  /// A parameter of the network.
  [[nodiscard]] static std::string name_of(int parameter) {
    return parameter_name(Program::network, parameter);
  }

  /// What all processes are about to throw is no failure of one of them, which a transport would
  /// tell the others, who may not have come so far.
  void leave_in_order() {
    if constexpr (requires { transport_.leave_in_order(); }) {
      transport_.leave_in_order();
    }
  }

  /// How the ranks of all processes are arranged.
  [[nodiscard]] Mesh const& mesh() const { return mesh_; }
  /// Of the table that the ranks run.
  [[nodiscard]] Batching const& batching() const { return batching_; }
  /// Whether this process has the rank that makes the outputs of a microbatch.
  [[nodiscard]] bool has_result(int microbatch) const {
    int const local = rank_of_loss(microbatch) - transport_.first_rank();
    return local >= 0 && local < size();
  }
  /// What of a batch of @p size samples the ranks of this process take.
  [[nodiscard]] BatchPart part_of(int size) const {
    int const first = transport_.first_rank();
    int const replica = mesh_.coordinate(first, Axis::data);
    int const last = mesh_.coordinate(first + transport_.local_ranks() - 1, Axis::data);
    BatchPart part;
    for (int i = 0; i < batching_.global(last + 1, 0); ++i) {
      int const samples = microbatch_size(size, i, batching_);
      part.begin += i < batching_.global(replica, 0) ? samples : 0;
      part.end += samples;
    }
    return part;
  }

  /// Makes the ranks of all processes fail, for an error of this process that no rank has had and
  /// that other processes cannot know of: they would wait for its ranks.
  TANDEM_COLD void abort(char const* what) noexcept {
    OnError const error = on_error();
    error.call(error.context, transport_.first_rank(), what);
  }

  [[nodiscard]] int first_rank() const { return transport_.first_rank(); }
  /// Ranks of this process.
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// The parameters that this process has none of.
  [[nodiscard]] ParametersElsewhere<Program, P>& elsewhere() { return elsewhere_; }
  /// The process's rank number @p local.
  [[nodiscard]] RankType& rank(int local) const { return *ranks_[static_cast<std::size_t>(local)]; }

 private:
  void end_stream() {
    guarded([this] { stream_.finish(threads_); }, WorkKind::writes);
  }

  /// A copy of the call that fork() was called in goes on in the child.
  void expect_own(char const* verb) const { process_.expect_own(verb, "Trainer or Predictor"); }

  /// Tells a transport that asks for it that the ranks have work.
  class [[nodiscard]] AtWork {
   public:
    explicit AtWork(TransportType& transport) : transport_{transport} {
      if constexpr (requires { transport.enter(); }) {
        transport_.enter();
      }
    }
    AtWork(AtWork const&) = delete;
    AtWork& operator=(AtWork const&) = delete;
    ~AtWork() {
      if constexpr (requires { transport_.leave(); }) {
        transport_.leave();
      }
    }

   private:
    [[maybe_unused]] TransportType& transport_;
  };

  template <class Chosen, class F>
  auto run_where(Chosen const& chosen, F const& f, WorkKind kind) {
    expect_own(doing(kind));
    drain();
    check_can(kind);
    if constexpr (requires { transport_.begin_work(); }) {
      if (is_together(kind)) {
        transport_.begin_work();
      }
    }
    using Result = std::invoke_result_t<F const&, RankType&>;
    std::conditional_t<std::is_void_v<Result>, char, Result> result{};
    auto const work = [&](int local) {
      if (!chosen(local)) {
        return;
      }
      words_.of(local).store(at_no_action, std::memory_order_relaxed);
      RankType& own = rank(local);
      if constexpr (std::is_void_v<Result>) {
        f(own);
      } else {
        Result const value = f(own);
        if (local == 0) {
          result = value;
        }
      }
    };
    guarded([&] { threads_.run(work, doing(kind)); }, kind);
    if constexpr (!std::is_void_v<Result>) {
      return result;
    }
  }

  // Nothing more is done after an error, but what its kind leaves.
  template <class F>
  void guarded(F const& f, WorkKind kind) {
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

  // No task may still read a rank's memory when the first rank goes.
  void settle() noexcept {
    for (auto const& rank : ranks_) {
      if (rank) {
        rank->settle();
      }
    }
  }

  // Its type depends on which device of its replica it is.
  TANDEM_COLD std::unique_ptr<RankType> make_rank(RankOptions const& options) {
    auto const connect = [&](int group) {
      return group == RankGroups<Program>::all ? transport_.communicator(options.rank)
                                               : transport_.communicator(options.rank, group);
    };
    int const device = mesh_.coordinate(options.rank, Axis::model);
    std::unique_ptr<RankType> made;
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (void)((device == D && (made = std::make_unique<RankOf<D>>(options, connect), true)) || ...);
    }
    (std::make_integer_sequence<int, Program::devices>{});
    return made;
  }

  // A rank has failed: nobody waits for it, or for a step.
  TANDEM_COLD OnError on_error() {
    return {[](void* group, int rank, char const* what) {
              static_cast<WorkerGroup*>(group)->stream_.abort();
              try {
                static_cast<WorkerGroup*>(group)->transport_.abort(rank, what);
              } catch (std::exception const&) {  // no memory: the others' time-out ends their wait
              }
            },
            this};
  }

  static void look(void* transport, int rank, Watch::Duration waited) {
    static_cast<TransportType*>(transport)->poll(rank, waited);
  }

  StallLimit limit_;
  Batching batching_;
  Mesh mesh_;
  detail::OwnProcess process_;
  detail::UnlessForked<TransportType> held_transport_;
  TransportType& transport_ = *held_transport_;
  detail::UnlessForked<std::vector<std::unique_ptr<RankType>>> held_ranks_;
  std::vector<std::unique_ptr<RankType>>& ranks_ = *held_ranks_;
  ParametersElsewhere<Program, P> elsewhere_;
  ProgressWords words_;
  GroupState state_ = GroupState::works;
  BadGradient bad_gradient_{};   // of the step that was collected last
  bool in_lockstep_ = !streams;  // the step that was queued last: the ranks end it together
  detail::UnlessForked<StreamOf<streams, RankType>> held_stream_;
  StreamOf<streams, RankType>& stream_ = *held_stream_;
  detail::UnlessForked<RankThreads> held_threads_;  // joined before anything that it uses goes
  RankThreads& threads_ = *held_threads_;
};

}  // namespace tandem
