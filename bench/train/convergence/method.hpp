// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Method: a strategy of bench_convergence, compiled for one network in a unit of its own.

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/data/mnist.hpp>

namespace tandem::bench {

struct ConvergenceSettings {
  int epochs;
  int batch;
  float learning_rate;
  std::int64_t samples;       ///< of the training data, the first
  std::int64_t test_samples;  ///< likewise
};

struct EpochRecord {
  double accuracy;       ///< on the test data
  double training_loss;  ///< mean over the epoch's steps
  double seconds;        ///< of training since its beginning, evaluation not included
};

/// What one seed gave; `fault` says why if it did not reach the end.
struct Curve {
  std::vector<EpochRecord> epochs;
  std::string fault;
};

struct Method {
  char const* key;   ///< for --methods
  char const* name;  ///< for tables and plots
  Curve (*train)(ConvergenceSettings const&, FashionMnist const&, int seed);
  bool must_reach;  ///< ModelParallel's accuracy within the noise of the seeds
};

/// On two devices; ModelParallel first. Compiled in units of this folder for each of networks.hpp.
template <class Net>
std::vector<Method> synchronous_methods();
template <class Net>
std::vector<Method> asynchronous_methods();

}  // namespace tandem::bench
