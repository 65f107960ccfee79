// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepLog: a watcher of Trainer::train() that writes each step as a line of JSON, or of CSV.

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/step_report.hpp>

namespace tandem {

struct StepLogOptions {
  std::int64_t every = 1;  ///< steps a line
  /// For a run that goes on: keeps the file's lines up to the first step or evaluation that comes
  /// again, and writes on after them. false: a new file.
  bool append = false;
};

/// StepLog log{"run.jsonl"};  // or "run.csv"
/// for (auto epoch : epochs(10)) {
///   trainer.train(data.train(), epoch, Progress{}, log);
///   log.evaluation(trainer.position(), trainer.evaluate(data.test()));
/// }
///
/// Fields, of a JSON line as names and of CSV as columns, in this order: kind ("step" or
/// "evaluation"), step, epoch, samples (of the epoch), loss, the trainer's metrics under their
/// names, learning_rate, gradient_norm (0 where TrainerOptions::clip_norm is), seconds (of training
/// since the log was begun); in JSON, where the loss is scaled, loss_scale and skipped (1 where the
/// step was, or 0). What an evaluation has not is left out, or empty; a number that is not
/// finite is null, or empty. Each line is handed to the system as it is written, so that others may
/// read along. Of several processes one should have a log.
class StepLog {
 public:
  /// @throws FileError      the file cannot be written
  /// @throws ContractError  its name ends neither in .jsonl nor in .csv, or `every` is less than 1
  TANDEM_ONCE explicit StepLog(std::string path, StepLogOptions const& options = {});
  StepLog(StepLog const&) = delete;
  StepLog& operator=(StepLog const&) = delete;
  ~StepLog() {
    if (file_ != nullptr) {
      std::fclose(file_);
    }
  }

  /// @throws FileError      the line cannot be written
  /// @throws ContractError  it is a line of CSV, and the metrics are not those of the line before
  void operator()(StepReport const& report) {
    go_on(place(false, report.step));
    if (report.epoch != epoch_ || report.seconds < last_) {  // train() began anew
      before_ += last_;
    }
    epoch_ = report.epoch;
    last_ = report.seconds;
    if (report.step % every_ != 0) {
      return;
    }
    begin("step", report.step, report.epoch, report.samples, report.metrics);
    number("loss", report.loss);
    numbers(report.metrics);
    number("learning_rate", report.learning_rate);
    number("gradient_norm", report.gradient_norm);
    number("seconds", before_ + report.seconds);
    if (!csv_ && report.loss_scale > 0.0) {
      number("loss_scale", report.loss_scale);
      count("skipped", report.skipped ? 1 : 0);
    }
    end();
  }

  /// A line of an evaluation, at Trainer::position().
  /// @throws FileError  the line cannot be written
  template <class Position>
  void evaluation(Position const& position, Evaluation const& result) {
    go_on(place(true, position.step));
    begin("evaluation", position.step, position.epoch, position.position, result.metrics);
    number("loss", result.loss);
    numbers(result.metrics);
    if (csv_) {
      line_ += ",,";
    }
    number("seconds", before_ + last_);
    end();
  }

 private:
  // Where a line is in a run: an evaluation comes after its step.
  static std::int64_t place(bool evaluation, std::int64_t step) {
    return 2 * step + (evaluation ? 1 : 0);
  }
  // -1: it is the line of the columns, say.
  TANDEM_ONCE [[nodiscard]] std::int64_t place_of(std::string_view line) const;
  [[nodiscard]] std::string up_to_step(std::string_view kind) const {
    std::string text{csv_ ? "" : "{\"kind\":\""};
    text += kind;
    return text += csv_ ? "," : "\",\"step\":";
  }

  // Before the first line, which is at @p next: cuts off the file's lines from there on, which a
  // run has written that was not saved behind them, and a line that has no end.
  TANDEM_ONCE void go_on(std::int64_t next);

  TANDEM_ONCE void begin(std::string_view kind, std::int64_t step, std::int64_t epoch,
                         std::int64_t samples, MetricValues const& metrics);
  // The first line says which metrics there are.
  TANDEM_ONCE void begin_columns(MetricValues const& metrics);
  // A name as a string of JSON, or as a column of CSV where that asks for quotes.
  TANDEM_ONCE [[nodiscard]] std::string quoted(std::string_view name) const;
  void numbers(MetricValues const& metrics) {
    for (auto const [name, value] : metrics) {
      number(name, value);
    }
  }
  void count(char const* name, std::int64_t value) {
    field(name);
    line_ += std::to_string(value);
  }
  TANDEM_ONCE void field(std::string_view name);
  // 9 digits, which tell each float from every other.
  TANDEM_ONCE void number(std::string_view name, double value);
  void end() { write(line_ += csv_ ? "\n" : "}\n"); }

  void write(std::string const& text) {
    check(std::fwrite(text.data(), 1, text.size(), file_) == text.size() &&
          std::fflush(file_) == 0);
  }
  void check(bool good) const {
    if (!good) {
      throw FileError{path_, std::string{"the log cannot be written: "} + std::strerror(errno)};
    }
  }

  std::string path_;
  std::int64_t every_;
  bool csv_;
  bool goes_on_ = false;  // the file has lines, of which some may be of steps that come again
  bool headed_ = false;   // the names of the columns stand in the file
  bool known_ = false;    // columns_ are those of a line
  std::string columns_{};
  std::FILE* file_ = nullptr;
  std::string line_{};
  double before_ = 0.0;  // seconds of earlier calls of train()
  double last_ = 0.0;
  std::int64_t epoch_ = -1;  // of the last step
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE StepLog::StepLog(std::string path, StepLogOptions const& options)
    : path_{std::move(path)}, every_{options.every}, csv_{path_.ends_with(".csv")} {
  expects(csv_ || path_.ends_with(".jsonl"),
          "StepLog: the name of the file must end in .jsonl or in .csv, which says its format");
  expects(options.every >= 1, "StepLog: `every` must be 1 step or more");
  file_ = std::fopen(path_.c_str(), options.append ? "ae" : "we");
  check(file_ != nullptr);
  goes_on_ = options.append && std::ftell(file_) > 0;
  headed_ = !csv_;
}

TANDEM_ONCE std::int64_t StepLog::place_of(std::string_view line) const {
  for (bool const evaluation : {false, true}) {
    std::string const before = up_to_step(evaluation ? "evaluation" : "step");
    std::int64_t step = 0;
    if (line.starts_with(before) &&
        std::from_chars(line.data() + before.size(), line.data() + line.size(), step).ec ==
            std::errc{}) {
      return place(evaluation, step);
    }
  }
  return -1;
}

TANDEM_ONCE void StepLog::go_on(std::int64_t next) {
  if (!std::exchange(goes_on_, false)) {
    return;
  }
  std::ifstream file{path_, std::ios::binary};
  check(file.is_open());
  std::string last;
  off_t end = 0;
  for (std::string line; std::getline(file, line) && !file.eof() && place_of(line) < next;) {
    end += static_cast<off_t>(line.size() + 1);
    last = std::move(line);
  }
  check(!file.bad() && ::ftruncate(::fileno(file_), end) == 0);
  headed_ = !csv_ || end > 0;
  auto const seconds = csv_ ? last.rfind(',') + 1 : last.rfind("\"seconds\":") + 10;
  before_ = place_of(last) >= 0 ? std::strtod(last.c_str() + seconds, nullptr) : 0.0;
}

TANDEM_ONCE void StepLog::begin(std::string_view kind, std::int64_t step, std::int64_t epoch,
                                std::int64_t samples, MetricValues const& metrics) {
  if (csv_) {
    begin_columns(metrics);
  }
  line_ = up_to_step(kind) + std::to_string(step);
  count("epoch", epoch);
  count("samples", samples);
}

TANDEM_ONCE void StepLog::begin_columns(MetricValues const& metrics) {
  std::string columns;
  for (auto const [name, value] : metrics) {
    columns += ',';
    columns += quoted(name);
  }
  expects(!known_ || columns == columns_,
          "StepLog: the metrics are not those of the lines before, which are the columns of a "
          ".csv; give each trainer a log of its own, or take .jsonl");
  known_ = true;
  columns_ = columns;
  if (!headed_) {
    write("kind,step,epoch,samples,loss" + columns + ",learning_rate,gradient_norm,seconds\n");
    headed_ = true;
  }
}

TANDEM_ONCE std::string StepLog::quoted(std::string_view name) const {
  if (csv_ && name.find_first_of(",\"\r\n") == name.npos) {
    return std::string{name};
  }
  std::string text{'"'};
  for (char const c : name) {
    if (csv_ && c == '"') {
      text += '"';
    } else if (!csv_ && (c == '"' || c == '\\')) {
      text += '\\';
    }
    if (!csv_ && c == '<') {
      text += "\\u003c";  // so that a page may have the line as it is
    } else {
      text += !csv_ && static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return text += '"';
}

TANDEM_ONCE void StepLog::field(std::string_view name) {
  line_ += ',';
  if (!csv_) {
    line_ += quoted(name) + ':';
  }
}

TANDEM_ONCE void StepLog::number(std::string_view name, double value) {
  field(name);
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  line_ += is_finite(value) ? text : csv_ ? "" : "null";
}

}  // namespace tandem

#endif
