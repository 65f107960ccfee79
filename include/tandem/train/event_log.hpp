// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// EventLog: a watcher of Trainer::train() that writes each step for TensorBoard.

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/metric_values.hpp>
#include <tandem/io/event_record.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/step_report.hpp>

namespace tandem {

struct EventLogOptions {
  std::int64_t every = 1;  ///< steps a record
};

/// EventLog log{"runs/a"};  // tensorboard --logdir runs
/// for (auto epoch : epochs(10)) {
///   trainer.train(data.train(), epoch, Progress{}, log);
///   log.evaluation(trainer.position(), trainer.evaluate(data.test()));
/// }
///
/// Each log is a file of its own in the folder of its run, which is made where it is missing; a run
/// that goes on has another file in the same folder. Scalars by step: loss/train, accuracy/train
/// and so on by the names of the metrics, learning_rate, gradient_norm (where
/// TrainerOptions::clip_norm is), loss_scale (where the loss is scaled), samples_per_second (since
/// the last record), loss/evaluation, accuracy/evaluation. Each record is handed to the system as
/// it is written. Of several processes one should have a log.
class EventLog {
 public:
  /// @throws FileError      the folder or the file cannot be made
  /// @throws ContractError  the folder has no name, or `every` is less than 1
  TANDEM_ONCE explicit EventLog(std::string folder, EventLogOptions const& options = {});
  EventLog(EventLog const&) = delete;
  EventLog& operator=(EventLog const&) = delete;
  ~EventLog() {
    if (file_ != nullptr) {
      std::fclose(file_);
    }
  }

  /// @throws FileError  the record cannot be written
  void operator()(StepReport const& report) {
    if (report.epoch != epoch_ || report.seconds < last_) {  // train() began anew
      since_ = 0.0;
      samples_ = 0;
    }
    epoch_ = report.epoch;
    last_ = report.seconds;
    samples_ += report.batch;
    if (report.step % every_ != 0) {
      return;
    }
    double const rate = static_cast<double>(samples_) / (report.seconds - since_);
    since_ = report.seconds;
    samples_ = 0;
    detail::ProtocolBuffer scalars;
    detail::add_scalar(scalars, "loss/train", report.loss);
    add_metrics(scalars, report.metrics, "/train");
    detail::add_scalar(scalars, "learning_rate", report.learning_rate);
    if (report.loss_scale > 0.0) {
      detail::add_scalar(scalars, "loss_scale", report.loss_scale);
    }
    if (report.gradient_norm != 0.0 && !report.skipped) {
      detail::add_scalar(scalars, "gradient_norm", report.gradient_norm);
    }
    detail::add_scalar(scalars, "samples_per_second", rate);
    write(detail::scalar_event(now(), report.step, scalars));
  }

  /// A record of an evaluation, at Trainer::position().
  /// @throws FileError  the record cannot be written
  template <class Position>
  void evaluation(Position const& position, Evaluation const& result) {
    detail::ProtocolBuffer scalars;
    detail::add_scalar(scalars, "loss/evaluation", result.loss);
    add_metrics(scalars, result.metrics, "/evaluation");
    write(detail::scalar_event(now(), position.step, scalars));
  }

  /// Of the file.
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  static double now() {
    std::timespec time{};
    static_cast<void>(std::timespec_get(&time, TIME_UTC));
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  // And those above it.
  TANDEM_ONCE void make_folder() const;

  // TensorBoard knows a file by the word tfevents, and reads those of a folder by their names.
  TANDEM_ONCE void open();

  static void add_metrics(detail::ProtocolBuffer& scalars, MetricValues const& metrics,
                          char const* of) {
    for (auto const [name, value] : metrics) {
      detail::add_scalar(scalars, std::string{name} + of, value);
    }
  }
  TANDEM_ONCE void write(std::string const& record);
  [[noreturn]] void fail(int reason) const {
    throw FileError{path_, std::string{"the log cannot be written: "} + std::strerror(reason)};
  }

  std::string path_;  // of the folder, then of the file
  std::int64_t every_;
  std::FILE* file_ = nullptr;
  std::int64_t epoch_ = -1;   // of the last step
  double last_ = 0.0;         // and seconds of train()
  double since_ = 0.0;        // and at the last record
  std::int64_t samples_ = 0;  // since then
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE EventLog::EventLog(std::string folder, EventLogOptions const& options)
    : path_{std::move(folder)}, every_{options.every} {
  expects(!path_.empty(), "EventLog: give the name of a folder, such as \"runs/a\"");
  expects(options.every >= 1, "EventLog: `every` must be 1 step or more");
  make_folder();
  open();
  write(detail::first_event(now()));
}

TANDEM_ONCE void EventLog::make_folder() const {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path_.find('/', end + 1);
    std::string const folder = path_.substr(0, end);
    struct ::stat found {};
    if (::mkdir(folder.c_str(), 0777) != 0) {
      int const reason = errno;
      if (::stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
        fail(reason == EEXIST ? ENOTDIR : reason);
      }
    }
  }
}

TANDEM_ONCE void EventLog::open() {
  std::string const begin =
      path_ + "/events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now())) + '.';
  for (int i = 0; file_ == nullptr; ++i) {  // another log may have begun in the same second
    path_ = begin + std::to_string(i);
    file_ = std::fopen(path_.c_str(), "wxe");
    if (file_ == nullptr && errno != EEXIST) {
      fail(errno);
    }
  }
}

TANDEM_ONCE void EventLog::write(std::string const& record) {
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() ||
      std::fflush(file_) != 0) {
    fail(errno);
  }
}

}  // namespace tandem

#endif
