// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointSaver: the checkpoints that train() writes by itself.
///
/// Between two steps the parameters are copied; a thread writes the copy while training goes on.
/// One that cannot be written is said, and training goes on: the last complete one stays, and the
/// next is tried when it is due. What one process alone knows, process 0's clock and a signal that
/// came to any, is added up over all behind steps that all know beforehand, about twice a second.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/folder/writer.hpp>
#include <tandem/train/checkpoint/signals.hpp>
#include <tandem/train/options/checkpoints.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// Steps until as much time has gone by as @p every, if @p steps have taken @p seconds: 1 or more,
/// and no more than twice as many and one, since steps may become slower.
inline std::int64_t steps_until(double every, std::int64_t steps, double seconds) {
  auto const most = static_cast<double>(2 * steps + 1);
  double const wanted = seconds > 0.0 ? every * static_cast<double>(steps) / seconds : most;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(wanted, most)));
}

/// By numbers of steps, which all processes count alike, and by one process's clock.
class CheckpointSchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;

  CheckpointSchedule(Checkpoints const& when, Time now)
      : every_steps_{when.every_steps}, every_seconds_{when.every_seconds}, last_{now} {}

  /// Whether one is due behind step @p step, whatever the clock says.
  [[nodiscard]] bool by_steps(std::int64_t step) const {
    return every_steps_ > 0 && step % every_steps_ == 0 && step != step_;
  }
  [[nodiscard]] bool has_clock() const { return every_seconds_ > 0.0; }
  /// Whether so long has gone by since the last one, or since training could begin.
  [[nodiscard]] bool by_time(Time now) const {
    return has_clock() && std::chrono::duration<double>(now - last_).count() >= every_seconds_;
  }
  /// Whether this step's is there, or being written.
  [[nodiscard]] bool has(std::int64_t step) const { return step == step_; }

  void saved(std::int64_t step, Time now) {
    step_ = step;
    last_ = now;
  }

 private:
  std::int64_t every_steps_;
  double every_seconds_;
  std::int64_t step_ = -1;  // of the last one
  Time last_;
};

namespace detail {

/// The ranks of a trainer for its CheckpointSaver, whatever the type of its steps is.
class SavedRanks {
 public:
  SavedRanks() = default;
  SavedRanks(SavedRanks const&) = delete;
  SavedRanks& operator=(SavedRanks const&) = delete;
  virtual ~SavedRanks() = default;

  /// Each number becomes its sum over the processes, which all call it with as many.
  virtual void add_up(std::span<double> numbers) = 0;
  /// f() with what all processes have, which all call it. @param streams  TrainingPosition::streams
  virtual void with_model(int streams, int processes, FunctionRef<void(SavedModel const&)> f) = 0;
  /// WorkerGroup::leave_in_order()
  virtual void leave_in_order() = 0;
};

}  // namespace detail

/// Of a trainer; all processes call the same verbs behind the same steps.
class CheckpointSaver {
 public:
  TANDEM_COLD explicit CheckpointSaver(TrainerOptions const& options)
      : options_{options}, schedule_{options.checkpoints, std::chrono::steady_clock::now()} {
    if (options.checkpoints.on_signals) {
      signals_.emplace();
    }
  }
  CheckpointSaver(CheckpointSaver const&) = delete;
  CheckpointSaver& operator=(CheckpointSaver const&) = delete;
  /// Finishes what is being written, and says where it cannot be.
  ~CheckpointSaver() {
    writer_.end();
    look();
  }

  /// Whether train() is to ask for more than on().
  [[nodiscard]] bool on() const { return options_.checkpoints.on(); }

  /// Says what has failed since.
  TANDEM_COLD void look() noexcept {
    std::exception_ptr const failure = writer_.failure();
    if (!failure || told_) {
      return;
    }
    told_ = true;
    try {
      std::rethrow_exception(failure);
    } catch (std::exception const& error) {
      failure_ = error.what();
      detail::write_to_stderr("tandem: ");
      detail::write_to_stderr(error.what());
      detail::write_to_stderr("\n");
    } catch (...) {
    }
  }
  /// What look() has said since the last call; empty where it had nothing to say. Good until the
  /// next call.
  [[nodiscard]] std::string_view take_failure() { return taken_ = std::exchange(failure_, {}); }

  /// Whether obey() is to be called behind step @p step: the same in all processes.
  [[nodiscard]] bool looks(std::int64_t step) const {
    if (schedule_.by_steps(step)) {
      return true;
    }
    if (options_.world.processes > 1) {
      return (schedule_.has_clock() || signals_) && step >= next_look_;
    }
    return due_by_time(step) || (signals_ && signals_->any());
  }

  /// Begins a checkpoint where one is due. @pre no step is queued
  /// @throws StoppedBySignal  one came, and there is a checkpoint of this step
  TANDEM_ONCE TANDEM_COLD void obey(detail::SavedRanks& ranks, TrainingPosition const& position);

  /// Begins a checkpoint. @pre no step is queued
  TANDEM_ONCE TANDEM_COLD void save(detail::SavedRanks& ranks, TrainingPosition position);

  /// Writes one into @p folder now. All processes call it; it is complete when one returns.
  /// @returns its path
  TANDEM_ONCE TANDEM_COLD std::string save_in(std::string const& folder, detail::SavedRanks& ranks,
                                              TrainingPosition position, NonFinite non_finite);

  /// Waits for what is being written.
  /// @throws what the last checkpoint has failed by, if it has
  void await() {
    writer_.join();
    if (std::exception_ptr const failure = writer_.failure()) {
      told_ = true;
      std::rethrow_exception(failure);
    }
  }

  /// The step of the newest complete checkpoint in the folder, as process 0 sees it; -1: there is
  /// none. All processes call it.
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::int64_t newest(detail::SavedRanks& ranks);

  /// The trainer goes on from another step, which is that of the folder's checkpoint, or -1.
  void loaded(std::int64_t step) {
    schedule_.saved(step, std::chrono::steady_clock::now());
    next_look_ = 0;
  }

 private:
  /// What processes have to say; each number is added up over them.
  struct Wishes {
    double saves = 0.0;
    std::array<double, detail::watched_signals.size()> came{};
  };

  // By this process's clock.
  [[nodiscard]] bool due_by_time(std::int64_t step) const {
    return !schedule_.has(step) && schedule_.by_time(std::chrono::steady_clock::now());
  }

  // The same in all processes, which all call it.
  TANDEM_ONCE TANDEM_COLD detail::CheckpointPeers peers(detail::SavedRanks& ranks);

  TANDEM_ONCE TANDEM_COLD void agree(detail::SavedRanks& ranks, Wishes& wishes, std::int64_t step);

  // No process ends before the checkpoint is complete: a launcher may end the others then.
  TANDEM_ONCE [[noreturn]] TANDEM_COLD void stop(detail::SavedRanks& ranks, std::int64_t step,
                                                 int signal);

  TrainerOptions const& options_;
  CheckpointSchedule schedule_;
  std::string failure_;
  std::string taken_;
  bool told_ = false;  // of the writer's failure
  std::optional<detail::SignalWatch> signals_;
  double run_ = 0.0;  // of several processes: when they first saved, by process 0's clock
  std::uint64_t saves_ = 0;
  // Of several processes: behind which step they look next, the same in all.
  std::int64_t next_look_ = 0;
  std::int64_t last_look_step_ = 0;
  CheckpointSchedule::Time last_look_ = std::chrono::steady_clock::now();
  detail::CheckpointWriter writer_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void CheckpointSaver::obey(detail::SavedRanks& ranks,
                                       TrainingPosition const& position) {
  Wishes wishes;
  wishes.saves = due_by_time(position.step) ? 1.0 : 0.0;
  for (std::size_t i = 0; signals_ && i < wishes.came.size(); ++i) {
    wishes.came[i] = signals_->came(i) ? 1.0 : 0.0;
  }
  if (options_.world.processes > 1 && position.step >= next_look_) {
    agree(ranks, wishes, position.step);
  } else if (options_.world.processes > 1) {
    wishes = {};
  }
  auto const came = std::find_if(wishes.came.begin(), wishes.came.end(),
                                 [](double processes) { return processes > 0.0; });
  bool const stops = came != wishes.came.end();
  if (schedule_.by_steps(position.step) || wishes.saves > 0.0 ||
      (stops && !schedule_.has(position.step))) {
    save(ranks, position);
  }
  if (stops) {
    signals_->forget();
    stop(ranks, position.step,
         detail::watched_signals[static_cast<std::size_t>(came - wishes.came.begin())]);
  }
}

TANDEM_ONCE void CheckpointSaver::save(detail::SavedRanks& ranks, TrainingPosition position) {
  schedule_.saved(position.step, std::chrono::steady_clock::now());
  writer_.join();
  look();
  told_ = false;
  detail::CheckpointPeers const own = peers(ranks);
  ranks.with_model(position.streams, own.processes, [&](detail::SavedModel const& model) {
    writer_.begin(options_.checkpoints.folder,
                  detail::checkpoint_contents(model, state_names(options_.optimizer), position,
                                              optimizer_name(options_.optimizer)),
                  options_.checkpoints.keep, own);
  });
}

TANDEM_ONCE std::string CheckpointSaver::save_in(std::string const& folder,
                                                 detail::SavedRanks& ranks,
                                                 TrainingPosition position, NonFinite non_finite) {
  writer_.join();  // which may be writing the checkpoint of the same step into the same folder
  detail::CheckpointPeers const own = peers(ranks);
  std::string path = detail::in_folder(folder, detail::checkpoint_name(position.step));
  std::exception_ptr failure;
  ranks.with_model(position.streams, own.processes, [&](detail::SavedModel const& model) {
    detail::CheckpointContents contents = detail::checkpoint_contents(
        model, state_names(options_.optimizer), position, optimizer_name(options_.optimizer));
    detail::take_share(contents, own);
    try {
      detail::write_checkpoint_folder(folder, contents, non_finite, own);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  double failed = failure ? 1.0 : 0.0;
  if (own.processes > 1) {
    ranks.add_up(std::span{&failed, 1});
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  if (failed > 0.0) {
    throw FileError{path,
                    "another process could not write its share of this checkpoint; its "
                    "message says why"};
  }
  return path;
}

TANDEM_ONCE std::int64_t CheckpointSaver::newest(detail::SavedRanks& ranks) {
  writer_.join();
  double beyond = 0.0;
  if (options_.world.process == 0) {
    auto const steps = detail::complete_checkpoints(options_.checkpoints.folder);
    beyond = steps.empty() ? 0.0 : static_cast<double>(steps.back() + 1);
  }
  if (options_.world.processes > 1) {
    ranks.add_up(std::span{&beyond, 1});
  }
  return static_cast<std::int64_t>(beyond) - 1;
}

TANDEM_ONCE detail::CheckpointPeers CheckpointSaver::peers(detail::SavedRanks& ranks) {
  detail::CheckpointPeers own{
      .process = options_.world.process,
      .processes = options_.world.processes,
      .run = 0,
      .timeout = options_.timeout / 2};  // the next save waits, too, and others for it
  if (own.processes > 1 && run_ == 0.0) {
    using Microseconds = std::chrono::duration<double, std::micro>;  // whole ones have 51 bits
    if (own.process == 0) {
      run_ = std::floor(Microseconds{std::chrono::system_clock::now().time_since_epoch()}.count());
    }
    ranks.add_up(std::span{&run_, 1});
  }
  own.run = static_cast<std::uint64_t>(run_) + ++saves_;
  return own;
}

TANDEM_ONCE void CheckpointSaver::agree(detail::SavedRanks& ranks, Wishes& wishes,
                                        std::int64_t step) {
  constexpr double every = 0.5;  // seconds
  auto const now = std::chrono::steady_clock::now();
  bool const leads = options_.world.process == 0;
  double const seconds = std::chrono::duration<double>(now - last_look_).count();
  std::int64_t const steps = step - last_look_step_;
  std::array<double, 2 + detail::watched_signals.size()> numbers{};
  numbers[0] = leads ? wishes.saves : 0.0;
  numbers[1] =
      leads ? static_cast<double>(steps_until(every, steps > 0 ? steps : 1, seconds)) : 0.0;
  std::copy(wishes.came.begin(), wishes.came.end(), numbers.begin() + 2);
  ranks.add_up(std::span<double>{numbers});
  wishes.saves = numbers[0];
  std::copy(numbers.begin() + 2, numbers.end(), wishes.came.begin());
  next_look_ = step + static_cast<std::int64_t>(numbers[1]);
  last_look_ = now;
  last_look_step_ = step;
}

TANDEM_ONCE void CheckpointSaver::stop(detail::SavedRanks& ranks, std::int64_t step, int signal) {
  writer_.join();
  look();
  double failed = writer_.failure() ? 1.0 : 0.0;
  if (options_.world.processes > 1) {
    ranks.add_up(std::span{&failed, 1});
  }
  std::string const path =
      detail::in_folder(options_.checkpoints.folder, detail::checkpoint_name(step));
  ranks.leave_in_order();
  throw StoppedBySignal{
      signal, std::string{detail::name_of_signal(signal)} + " came, so training ends behind step " +
                  std::to_string(step) +
                  (failed > 0.0 ? ", which could not be saved as '" + path +
                                      "'; started again it goes on from the newest checkpoint"
                                : ", saved as '" + path + "'; started again it goes on there")};
}

namespace detail {

TANDEM_ONCE void obey_checkpoints(CheckpointSaver& saver, SavedRanks& ranks,
                                  TrainingPosition const& position) {
  saver.obey(ranks, position);
}

}  // namespace detail

}  // namespace tandem

#endif
