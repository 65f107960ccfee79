// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The table and the JSON of bench_convergence.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "method.hpp"

namespace tandem::bench {

/// A method on a network, a curve a seed.
struct Result {
  std::string network;
  Method method;
  std::vector<Curve> curves;
};

inline std::string four_digits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", number);
  return text;
}

/// Of the last epoch's accuracy over the seeds that reached it; deviation 0 with a single one.
struct Final {
  int seeds = 0;
  double mean = 0.0;
  double deviation = 0.0;
  double seconds = 0.0;  ///< of training an epoch, the mean
};

inline Final final_of(Result const& result, int epochs) {
  Final last;
  double squares = 0.0;
  for (Curve const& curve : result.curves) {
    if (static_cast<int>(curve.epochs.size()) == epochs) {
      EpochRecord const& record = curve.epochs.back();
      ++last.seeds;
      double const from_mean = record.accuracy - last.mean;  // Welford
      last.mean += from_mean / last.seeds;
      squares += from_mean * (record.accuracy - last.mean);
      last.seconds += (record.seconds / epochs - last.seconds) / last.seeds;
    }
  }
  last.deviation = last.seeds > 1 ? std::sqrt(squares / (last.seeds - 1)) : 0.0;
  return last;
}

/// How far @p a is above @p b, in standard errors of the difference; 0 where these are not known.
inline double standard_errors(Final const& a, Final const& b) {
  if (a.seeds < 2 || b.seeds < 2) {
    return 0.0;
  }
  double const error =
      std::sqrt(a.deviation * a.deviation / a.seeds + b.deviation * b.deviation / b.seeds);
  return error > 0.0 ? (a.mean - b.mean) / error : 0.0;
}

/// A line a method; whether those that must reach ModelParallel's accuracy do.
inline bool print_table(std::vector<Result> const& results, ConvergenceSettings const& settings) {
  bool reached = true;
  Result const* first = nullptr;  // of the network
  std::printf("test accuracy of %d epochs on %lld of Fashion-MNIST's images, batch %d\n",
              settings.epochs, static_cast<long long>(settings.samples), settings.batch);
  for (Result const& result : results) {
    if (first == nullptr || first->network != result.network) {
      first = &result;
      std::printf("\n%-30s %8s %9s %8s %16s  %s\n", result.network.c_str(), "mean", "deviation",
                  "s/epoch", "against the first", "each");
    }
    Final const last = final_of(result, settings.epochs);
    double const apart = standard_errors(last, final_of(*first, settings.epochs));
    bool const compared = std::string{first->method.key} == "model_parallel";
    bool const below = result.method.must_reach && compared && (last.seeds == 0 || apart < -3.0);
    reached = reached && !below;
    std::printf("%-30s %8.4f %9.4f %8.2f %+9.1f errors ", result.method.name, last.mean,
                last.deviation, last.seconds, apart);
    for (Curve const& curve : result.curves) {
      std::printf(" %s", curve.fault.empty() ? four_digits(curve.epochs.back().accuracy).c_str()
                                             : "diverged");
    }
    std::printf("%s\n", below ? "  BELOW" : "");
  }
  return reached;
}

/// @throws std::runtime_error  the file cannot be written
inline void write_json(std::string const& path, std::vector<Result> const& results,
                       ConvergenceSettings const& settings) {
  std::ofstream file{path};
  file.precision(8);
  file << "{\"samples\": " << settings.samples << ", \"test_samples\": " << settings.test_samples
       << ", \"epochs\": " << settings.epochs << ", \"batch\": " << settings.batch
       << ", \"learning_rate\": " << settings.learning_rate << ", \"runs\": [";
  char const* before = "\n";
  for (Result const& result : results) {
    for (std::size_t seed = 0; seed < result.curves.size(); ++seed) {
      Curve const& curve = result.curves[seed];
      file << before << "{\"network\": \"" << result.network << "\", \"method\": \""
           << result.method.name << "\", \"seed\": " << seed + 1
           << ", \"diverged\": " << (curve.fault.empty() ? "false" : "true") << ", \"epochs\": [";
      before = "";
      for (EpochRecord const& record : curve.epochs) {
        file << before << "{\"accuracy\": " << record.accuracy
             << ", \"training_loss\": " << record.training_loss
             << ", \"seconds\": " << record.seconds << "}";
        before = ", ";
      }
      file << "]}";
      before = ",\n";
    }
  }
  file << "\n]}\n" << std::flush;
  if (!file) {
    throw std::runtime_error{"cannot write '" + path + "'; give a path that may be written to"};
  }
}

}  // namespace tandem::bench
