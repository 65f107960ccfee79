// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankInterface: what the ranks of a program have in common, whichever device of a replica they
/// are. Called a few times a step, never by an action.

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/engine/memory/carried_states.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/engine/prepare/memory_report.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/schedule/rules/averaging.hpp>

namespace tandem {

template <class Batch>
class StepStream;  // engine/step/stream.hpp

/// @tparam P  of parameters and of the data that the caller passes
template <class BatchType>
class RankInterface {
 public:
  using Batch = BatchType;
  using P = typename Batch::Scalar;

  RankInterface() = default;
  RankInterface(RankInterface const&) = delete;
  RankInterface& operator=(RankInterface const&) = delete;
  virtual ~RankInterface() = default;

  /// Forward only, in evaluation mode: losses if the batch has targets, outputs if it wants them.
  virtual StepResult forward(StepState const& state, Batch const& batch) = 0;

  // What follows is for ranks that do step after step in lockstep, or, if their schedule is
  // PostValidated, up to the first backward pass of the next step ahead of the others.

  /// One training step on @p batch, without its result: at most steps_in_flight may wait.
  virtual void queue_training(StepState const& /*state*/, Batch const& /*batch*/) {}
  /// A step that is walked; once it is collected, traced() says when each action began and ended.
  virtual void queue_traced(StepState const& /*state*/, Batch const& /*batch*/) {}
  virtual std::vector<TraceEvent> traced() { return {}; }
  /// Queues what has the loss 0 where all ranks say yes, and one that is not finite otherwise.
  virtual void vote(bool /*yes*/) {}
  /// Each number becomes its sum over all ranks, which give as many. Of whole numbers below 2^53
  /// the sums are exact.
  virtual void add_up(std::span<double> /*numbers*/) {}
  /// Gets the bytes of @p numbers from rank @p from, -1: has them, and sends them to each of @p to,
  /// which call it likewise. Does nothing in one process, or where the communicator sends no
  /// doubles.
  virtual void pass_on(std::span<double> /*numbers*/, int /*from*/, std::span<int const> /*to*/) {}
  /// The result of the oldest step that was queued, the same on every rank. If a loss was not
  /// finite, or the loss scale is lost, the steps behind it are dropped: they have changed nothing.
  virtual StepResult collect() { return {}; }

  /// Trains on the steps of @p stream until there are no more, and has the weights then: a rank of
  /// an asynchronous pipeline, which may be several steps ahead of others, or of a PostValidated
  /// schedule.
  virtual void run_stream(StepStream<BatchType>& /*stream*/) {}

  /// The rank's parameters where the calling program can read and write them, and their indices in
  /// the network; download() first, and upload() after writing.
  virtual std::vector<NamedParameter<P>> parameters() = 0;
  virtual void download() = 0;
  /// Where each rank has its part of the optimizer's states alone: all of them and the gradients,
  /// of the last step, for parameters(); where it has slices of parameters, these as well. All
  /// ranks call it; elsewhere it does nothing.
  virtual void gather_pieces() {}
  virtual void upload() = 0;

  /// Where a strategy trains two models which may differ: both copies of each stage get the weights
  /// of one of them, or their average, until restore(). Where weights are averaged over steps, they
  /// are their averages meanwhile. All ranks call both; elsewhere they do nothing.
  virtual void stand_in(WhichModel /*which*/) {}
  virtual void restore() {}

  /// What Stateful layers hand from step to step becomes 0.
  virtual void reset_states() {}
  /// Writes the rank's rows of the states of a batch of @p samples, or takes them. The states of
  /// other samples stay.
  virtual void get_states(int /*samples*/, std::vector<NamedState<P>>& /*all*/) {}
  virtual void put_states(int /*samples*/, std::vector<NamedState<P>>& /*all*/) {}

  /// The scale of the next step's loss, where losses are scaled; no step is queued.
  virtual void set_loss_scale(LossScale const& /*scale*/) {}
  /// Steps that did not update a parameter, of each of the network; no step is queued.
  virtual void set_missed_steps(std::span<std::int64_t const> missed) = 0;

  /// What is allocated for tensors on the rank's device.
  [[nodiscard]] virtual MemoryReport memory_report() const = 0;
  /// Lets another rank's device, of this process, reach this one's memory.
  virtual void share_with(DeviceSpec const& other) = 0;
  /// Where the rank says which action it is at, for other threads' error messages.
  virtual void report_progress_to(std::atomic<std::uint64_t>* board) = 0;
  /// What to call while the host waits for the device.
  virtual void watch_with(Watch watch) = 0;
  /// Whether the last step has not begun to change parameters or optimizer states, as far as the
  /// host knows.
  [[nodiscard]] virtual bool untouched() const { return false; }
  /// Whether what other ranks have updated in the last step is here.
  [[nodiscard]] virtual bool arrived() const { return true; }
  /// After an error: nothing queued reads or writes memory any more.
  virtual void settle() = 0;
};

}  // namespace tandem
