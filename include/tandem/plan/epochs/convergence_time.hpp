// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvergenceTime: C = T·S·E, and what it says of data parallel against hybrid training.
///
/// Symbols: T seconds a step, S steps an epoch, E epochs to the target accuracy; N workers, each a
/// data-parallel replica of M devices with a minibatch of its own that stays the same size. So the
/// global batch, and with it E, depends on N alone. The equations are numbered as in
/// docs/planner.md. Source: Pal et al., "Optimizing Multi-GPU Parallelization Strategies for Deep
/// Learning Training", IEEE Micro 39(5), 2019.

#include <tandem/core/contract.hpp>

namespace tandem {

/// Equation 1: the time to converge is a step's time × steps an epoch × epochs.
struct ConvergenceTime {
  double step = 0;             ///< T, seconds
  double steps_per_epoch = 0;  ///< S: samples of an epoch / global batch
  double epochs = 0;           ///< E
  double goodput = 1;          ///< share of the time that trains; 1 where no device fails

  /// C, longer by the time in which failures undo or stop training.
  [[nodiscard]] constexpr double seconds() const {
    return step * steps_per_epoch * epochs / goodput;
  }
};

/// Equation 3: SE_N = T_1 / T_N, what is left of one worker's step rate when N must agree; 1 where
/// synchronisation costs nothing.
/// @throws ContractError  a step's time is not positive
constexpr double scaling_efficiency(double step_of_one, double step_of_workers) {
  expects(step_of_one > 0 && step_of_workers > 0,
          "scaling_efficiency(step_of_one, step_of_workers): give both steps a positive time");
  return step_of_one / step_of_workers;
}

/// Equation 4: SU^M = T_1 / T^M, how much faster M devices are than one at the same minibatch.
/// @throws ContractError  a step's time is not positive
constexpr double split_speedup(double step_of_one_device, double step_of_split) {
  expects(step_of_one_device > 0 && step_of_split > 0,
          "split_speedup(step_of_one_device, step_of_split): give both steps a positive time");
  return step_of_one_device / step_of_split;
}

/// N workers, and what their number costs.
struct Workers {
  int count = 1;          ///< N
  double efficiency = 1;  ///< SE_N
  double epochs = 1;      ///< E_N, at the global batch of N workers
};

/// Equations 2, 3 and 6: SU_N = SE_N · N · E_1 / E_N, the speedup of N workers of one device each
/// over one device. With the minibatch fixed, N workers take an N-th of the steps an epoch.
/// @throws ContractError  a count, an efficiency or epochs are not positive
constexpr double data_parallel_speedup(Workers const& workers, double epochs_of_one) {
  expects(workers.count > 0 && workers.efficiency > 0 && workers.epochs > 0 && epochs_of_one > 0,
          "data_parallel_speedup(workers, epochs_of_one): give workers, efficiency and epochs that "
          "are positive");
  return workers.efficiency * workers.count * (epochs_of_one / workers.epochs);
}

/// Equation 5: SU_N^M = SU^M · SE_N · N · E_1 / E_N, the speedup over one device of N workers of M
/// devices each.
/// @throws ContractError  @p split or what data_parallel_speedup() takes is not positive
constexpr double hybrid_speedup(double split, Workers const& workers, double epochs_of_one) {
  expects(split > 0, "hybrid_speedup(split, …): give the speedup of a worker, a positive number");
  return split * data_parallel_speedup(workers, epochs_of_one);
}

/// Whether to spend M times as many devices on larger workers (hybrid: N workers of M devices) or
/// on more of them (data parallel: M·N workers of one device).
struct HybridChoice {
  double split = 1;        ///< SU^M
  int devices = 2;         ///< M
  double epochs = 1;       ///< E_N, at the hybrid's batch
  double epochs_more = 1;  ///< E_MN, at data parallel's batch, M times as large
  /// SE_N. Taking it from workers of one device understates a hybrid: its all-reduces are over
  /// 1 / M of the weights each.
  double efficiency = 1;
  double efficiency_more = 1;  ///< SE_MN

  /// Equation 7, right side: M · (SE_MN / SE_N) · (E_N / E_MN). A worker needs no more speedup than
  /// that for the hybrid to win; it is below M as soon as more workers cost anything.
  /// @throws ContractError  a number is not positive
  [[nodiscard]] constexpr double threshold() const {
    expects(devices > 0 && epochs > 0 && epochs_more > 0 && efficiency > 0 && efficiency_more > 0,
            "HybridChoice: give devices, epochs and efficiencies that are positive");
    return devices * (efficiency_more / efficiency) * (epochs / epochs_more);
  }

  /// Equation 7: the hybrid converges first.
  /// @throws ContractError  as threshold()
  [[nodiscard]] constexpr bool hybrid_wins() const { return split > threshold(); }

  /// Equation 8: speedup of the hybrid over data parallel on the same devices, less 1; positive
  /// exactly where hybrid_wins().
  /// @throws ContractError  as threshold()
  [[nodiscard]] constexpr double gain() const { return split / threshold() - 1; }
};

}  // namespace tandem
