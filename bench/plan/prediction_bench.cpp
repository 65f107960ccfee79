// SPDX-License-Identifier: Apache-2.0

/// @file
/// Predicted against measured training steps on two Host devices, one thread each.
///
///   bench_prediction [--network googlenet|resnet18|both] [--batch 32] [--rounds 5] [--json FILE]
///                    [--profile FOLDER]
///
/// A round has two steps of each strategy, of which the second counts, and the steps of the
/// profile, which train on one device, and on two that have nothing to do with each other; every
/// second round goes in the reverse order. Predictions are made from the medians of the profile's
/// nodes, and compared with the medians of the strategies' steps. With --profile the profiles are
/// written there.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

#include "../train/flags.hpp"
#include "prediction/predictions.hpp"

namespace {

using namespace tandem::bench;

double error_of(Prediction const& row) { return row.predicted / row.measured - 1; }

void print_table(std::vector<Prediction> const& rows) {
  std::printf("%-10s %-57s %12s %12s %8s\n", "network", "strategy", "predicted ms", "measured ms",
              "error");
  std::vector<double> errors;
  for (Prediction const& row : rows) {
    std::printf("%-10s %-57s %12.1f %12.1f %+7.1f%%\n", row.network.c_str(), row.strategy.c_str(),
                1e3 * row.predicted, 1e3 * row.measured, 100 * error_of(row));
    errors.push_back(std::abs(error_of(row)));
  }
  std::sort(errors.begin(), errors.end());
  std::size_t const half = errors.size() / 2;
  double const median =
      errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
  std::printf("median error %.1f %%, worst %.1f %%\n", 100 * median, 100 * errors.back());
}

void write_json(std::string const& path, std::vector<Prediction> const& rows, int batch) {
  std::ofstream file{path};
  file << "{\"batch\": " << batch << ", \"steps\": [";
  char const* separator = "\n";
  for (Prediction const& row : rows) {
    file << separator << "{\"network\": \"" << row.network << "\", \"strategy\": \"" << row.strategy
         << "\", \"predicted\": " << row.predicted << ", \"measured\": " << row.measured
         << ", \"error\": " << error_of(row) << "}";
    separator = ",\n";
  }
  file << "\n]}\n";
  if (!file.flush()) {
    throw tandem::FileError{path, "cannot be written"};
  }
}

}  // namespace

int main(int argc, char** argv) try {
  Flags const flags{argc, argv, {"network", "batch", "rounds", "json", "profile"}};
  PredictionSettings const settings{.batch = flags.number("batch", 32),
                                    .rounds = flags.number("rounds", 5),
                                    .folder = flags.text("profile", "")};
  std::string const network = flags.text("network", "both");
  tandem::expects(settings.batch >= 8 && settings.batch % 8 == 0 && settings.rounds >= 1,
                  "--batch must be a multiple of 8, --rounds 1 or more");
  tandem::expects(network == "googlenet" || network == "resnet18" || network == "both",
                  "--network takes googlenet, resnet18 or both");
  std::vector<Prediction> rows;
  if (network != "resnet18") {
    predict_googlenet(rows, settings);
  }
  if (network != "googlenet") {
    predict_resnet18(rows, settings);
  }
  std::printf("batch %d, medians of %d rounds, one thread a device\n", settings.batch,
              settings.rounds);
  print_table(rows);
  if (std::string const path = flags.text("json", ""); !path.empty()) {
    write_json(path, rows, settings.batch);
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_prediction: %s\n", error.what());
  return 2;
}
