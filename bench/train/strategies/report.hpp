// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The table and the JSON of bench_strategies.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "contender.hpp"

namespace tandem::bench {

/// A strategy on a network; seconds a step, of all rounds the median, the least and the most.
struct Row {
  std::string network;
  std::string strategy;
  double step_s;
  double least_s;
  double most_s;
  std::vector<std::int64_t> bytes;  ///< of each device
};

inline Row row_of(std::string const& network, Contender const& contender) {
  std::vector<double> seconds = contender.seconds;
  std::sort(seconds.begin(), seconds.end());
  return {network,         contender.name, seconds[seconds.size() / 2],
          seconds.front(), seconds.back(), contender.memory()};
}

/// A table of one network's rows: ModelParallel, two workers alone, and others. Whether the best of
/// CrossModelParallel is at least @p bar times as fast as ModelParallel.
inline bool print_table(std::vector<Row> const& rows, int batch, double bar) {
  Row const& alone = rows[0];
  Row const& two = rows[1];
  double best = 0.0;
  std::printf("\n%-34s %9s %17s %9s %9s %7s %15s\n", alone.network.c_str(), "ms/step", "spread",
              "samples/s", "speedup", "of two", "MiB a device");
  for (Row const& row : rows) {
    double const speedup = alone.step_s / row.step_s;
    std::printf("%-34s %9.1f %8.1f-%8.1f %9.1f %8.2fx %7.3f", row.strategy.c_str(),
                1e3 * row.step_s, 1e3 * row.least_s, 1e3 * row.most_s, batch / row.step_s, speedup,
                two.step_s / row.step_s);
    for (std::int64_t const bytes : row.bytes) {
      std::printf(" %7.1f", static_cast<double>(bytes) / (1 << 20));
    }
    std::printf("\n");
    best = row.strategy.rfind("Cross", 0) == 0 ? std::max(best, speedup) : best;
  }
  std::printf("CrossModelParallel against ModelParallel: %.2f, wanted %.1f: %s\n", best, bar,
              best >= bar ? "met" : "MISSED");
  std::fflush(stdout);
  return best >= bar;
}

/// @throws std::runtime_error  the file cannot be written
inline void write_json(std::string const& path, std::vector<Row> const& rows, int batch) {
  std::ofstream file{path};
  file << "{\"batch\": " << batch << ", \"rows\": [";
  char const* before = "\n";
  for (Row const& row : rows) {
    file << before << "{\"network\": \"" << row.network << "\", \"strategy\": \"" << row.strategy
         << "\", \"step_s\": " << row.step_s << ", \"least_s\": " << row.least_s
         << ", \"most_s\": " << row.most_s << ", \"bytes\": [";
    before = "";
    for (std::int64_t const bytes : row.bytes) {
      file << before << bytes;
      before = ", ";
    }
    file << "]}";
    before = ",\n";
  }
  file << "\n]}\n" << std::flush;
  if (!file) {
    throw std::runtime_error{"cannot write '" + path + "'; give a path that may be written to"};
  }
}

}  // namespace tandem::bench
