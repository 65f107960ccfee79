// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What measure_epochs() found: a table with the critical-batch law and a line to paste for people,
/// JSON for programs.

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/io/json/string.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/measure/epochs/task.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/plan/epochs/critical_batch.hpp>
#include <tandem/plan/epochs/epoch_points.hpp>

namespace tandem {

/// "64:1.2,128:1.3", as parse_epoch_points() reads it, with four digits of each number of epochs.
TANDEM_ONCE [[nodiscard]] std::string epoch_points_text(std::vector<EpochPoint> const& points);

namespace detail {

inline std::string column(std::string text) { return right(std::move(text), 10); }

/// Three digits, or whole samples.
inline std::string samples_text(double count) {
  return count < 100 ? digits(count, 3) : digits(std::round(count), 15);
}

}  // namespace detail

/// A line for each point, a sentence for each batch that missed the target, the law, and the flag
/// for `plan`.
TANDEM_ONCE [[nodiscard]] std::string epochs_text(EpochMeasurement const& measured);

/// An object with `target`, `samples`, `microbatch` and `seeds`; `points` with `batch`,
/// `learning_rate`, `epochs` (the median), `least` and `most`; `missed`, the batches that are no
/// points, a sentence each; and `law` with `least_epochs` and `slope` (epochs a sample), null where
/// there is none.
TANDEM_ONCE [[nodiscard]] std::string epochs_json(EpochMeasurement const& measured);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string law_text(std::optional<CriticalBatchLaw> const& law) {
  if (!law) {
    return "no critical-batch law: it needs two points whose epochs rise no faster than batches\n";
  }
  if (!is_finite(law->critical_batch())) {
    return "E(B) = " + digits(law->least_epochs(), 3) + ": epochs do not grow with the batch\n";
  }
  std::string text = "E(B) = " + digits(law->least_epochs(), 3) + " (1 + B / " +
                     samples_text(law->critical_batch()) + ")";
  if (law->freedom > 0) {
    text += "; standard errors: " + digits(law->least_epochs_error(), 2) + " epochs, " +
            samples_text(law->critical_batch_error()) + " samples";
  }
  return text + "\n";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string epoch_points_text(std::vector<EpochPoint> const& points) {
  std::string text;
  for (EpochPoint const& point : points) {
    text += text.empty() ? "" : ",";
    text += detail::digits(point.batch, 15) + ":" + detail::digits(point.epochs, 4);
  }
  return text;
}

/// The law nearest to the points; none if there is only one, or they rise too steeply for it.
TANDEM_ONCE [[nodiscard]] std::optional<CriticalBatchLaw> law_of(EpochMeasurement const& measured) {
  try {
    return fit_critical_batch(measured.epoch_points());
  } catch (ContractError const&) {
    return std::nullopt;
  }
}

TANDEM_ONCE std::string epochs_text(EpochMeasurement const& measured) {
  EpochTask const& task = measured.task;
  std::string text = "epochs to an accuracy of " + detail::digits(task.target, 4) +
                     ", microbatches of " + std::to_string(task.microbatch) + ", median of " +
                     std::to_string(task.seeds) + (task.seeds == 1 ? " run\n" : " runs\n");
  text += detail::column("batch") + detail::column("rate") + detail::column("epochs") +
          detail::column("least") + detail::column("most") + detail::column("law") + "\n";
  std::optional<CriticalBatchLaw> const law = law_of(measured);
  for (MeasuredPoint const& point : measured.points) {
    double const rate = learning_rate_of(scaled_optimizer(task, point.batch));
    text += detail::column(std::to_string(point.batch)) + detail::column(detail::digits(rate, 3));
    for (double const epochs : {point.epochs, point.least, point.most}) {
      text += detail::column(detail::digits(epochs, 3));
    }
    text += detail::column(law ? detail::digits(law->epochs(point.batch), 3) : "-") + "\n";
  }
  for (std::string const& sentence : measured.missed) {
    text += sentence + "\n";
  }
  text += detail::law_text(law);
  return measured.points.empty()
             ? text
             : text + "--epochs \"" + epoch_points_text(measured.epoch_points()) + "\"\n";
}

TANDEM_ONCE std::string epochs_json(EpochMeasurement const& measured) {
  EpochTask const& task = measured.task;
  std::string json = "{\"target\": " + detail::digits(task.target, 9) +
                     ", \"samples\": " + std::to_string(measured.samples) +
                     ", \"microbatch\": " + std::to_string(task.microbatch) +
                     ", \"seeds\": " + std::to_string(task.seeds) + ",\n \"points\": [";
  for (MeasuredPoint const& point : measured.points) {
    double const rate = learning_rate_of(scaled_optimizer(task, point.batch));
    json += std::string{&point == measured.points.data() ? "" : ","} +
            "\n  {\"batch\": " + std::to_string(point.batch) +
            ", \"learning_rate\": " + detail::digits(rate, 6) +
            ", \"epochs\": " + detail::digits(point.epochs, 9) +
            ", \"least\": " + detail::digits(point.least, 9) +
            ", \"most\": " + detail::digits(point.most, 9) + "}";
  }
  json += "],\n \"missed\": [";
  for (std::string const& sentence : measured.missed) {
    json += &sentence == measured.missed.data() ? "" : ", ";
    detail::append_json_string(json, sentence);
  }
  std::optional<CriticalBatchLaw> const law = law_of(measured);
  return json + "],\n \"law\": " +
         (law ? "{\"least_epochs\": " + detail::digits(law->least_epochs(), 9) +
                    ", \"slope\": " + detail::digits(law->slope, 9) + "}"
              : "null") +
         "}\n";
}

}  // namespace tandem

#endif
