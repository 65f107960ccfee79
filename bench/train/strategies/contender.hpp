// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Contender: a strategy of bench_strategies at work, on one network.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tandem::bench {

class Contender {
 public:
  Contender() = default;
  Contender(Contender const&) = delete;
  Contender& operator=(Contender const&) = delete;
  virtual ~Contender() = default;

  /// Trains @p steps steps, from an empty pipeline to an empty pipeline; seconds.
  virtual double train(int steps) = 0;
  /// Bytes of each device's tensors.
  [[nodiscard]] virtual std::vector<std::int64_t> memory() const = 0;

  std::string name;
  std::vector<double> seconds;  ///< a step, in each round
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// On two devices with one thread each, and at last two workers that train alone on half of the
/// batch each at the same time. Compiled in the units of this folder.
template <class Net>
void add_synchronous(Contenders& all, int batch);
template <class Net>
void add_asynchronous(Contenders& all, int batch);

}  // namespace tandem::bench
