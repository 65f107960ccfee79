// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointSaver: the checkpoints that train() writes by itself.
///
/// Between two steps the parameters are copied; a thread writes the copy while training goes on.
/// One that cannot be written is said, and training goes on: the last complete one stays, and the
/// next is tried when it is due.

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/folder/writer.hpp>
#include <tandem/train/checkpoint/replicas.hpp>
#include <tandem/train/checkpoint/schedule.hpp>
#include <tandem/train/checkpoint/states.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// Of a trainer; all processes call the same verbs behind the same steps.
template <class Program, class Workers>
class CheckpointSaver {
 public:
  explicit CheckpointSaver(TrainerOptions const& options)
      : options_{options}, schedule_{options.checkpoints, std::chrono::steady_clock::now()} {}
  CheckpointSaver(CheckpointSaver const&) = delete;
  CheckpointSaver& operator=(CheckpointSaver const&) = delete;
  /// Finishes what is being written, and says where it cannot be.
  ~CheckpointSaver() {
    writer_.join();
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

  /// Whether save() is to be called behind step @p step.
  [[nodiscard]] bool is_due(std::int64_t step) const {
    return schedule_.by_steps(step) ||
           (!schedule_.has(step) && schedule_.by_time(std::chrono::steady_clock::now()));
  }

  /// Begins a checkpoint. @pre no step is queued
  TANDEM_COLD void save(Workers& workers, TrainingPosition position) {
    auto const states = states_of<Program>(workers, position.streams, options_.world.processes);
    schedule_.saved(position.step, std::chrono::steady_clock::now());
    if (options_.world.process != 0) {
      return;
    }
    writer_.join();
    look();
    told_ = false;
    writer_.begin(options_.checkpoints.folder,
                  detail::checkpoint_contents(Replicas<Program, Workers>{workers}.whole(),
                                              state_names(options_.optimizer), position,
                                              optimizer_name(options_.optimizer), states),
                  options_.checkpoints.keep);
  }

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
  [[nodiscard]] std::int64_t newest(Workers& workers) {
    writer_.join();
    double beyond = 0.0;
    if (options_.world.process == 0) {
      auto const steps = detail::complete_checkpoints(options_.checkpoints.folder);
      beyond = steps.empty() ? 0.0 : static_cast<double>(steps.back() + 1);
    }
    if (options_.world.processes > 1) {
      add_over_processes(workers, std::span{&beyond, 1});
    }
    return static_cast<std::int64_t>(beyond) - 1;
  }

  /// The trainer goes on from the folder's checkpoint of this step.
  void loaded(std::int64_t step) { schedule_.saved(step, std::chrono::steady_clock::now()); }

 private:
  TrainerOptions const& options_;
  CheckpointSchedule schedule_;
  std::string failure_;
  std::string taken_;
  bool told_ = false;  // of the writer's failure
  detail::CheckpointWriter writer_;
};

}  // namespace tandem
