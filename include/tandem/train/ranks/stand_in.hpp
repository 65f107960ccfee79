// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StandIn: which of two models an evaluation computes with, or that it does with averages.

#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>
#include <tandem/train/ranks/worker_group.hpp>

namespace tandem {

/// For as long as it lives both copies of each stage have the weights of one model, or the average;
/// or the weights are their averages over the steps.
template <class Batch>
class [[nodiscard]] StandIn {
 public:
  using Workers = WorkerGroup<Batch>;
  using RankType = typename Workers::RankType;

  /// @param workers  outlives this
  /// @param needed   there are two models that may differ, or averages; else this does nothing
  StandIn(Workers& workers, WhichModel which, bool needed) : workers_{workers}, needed_{needed} {
    if (needed_) {
      try {
        workers_.run([&](RankType& rank) { rank.stand_in(which); }, WorkKind::computes);
      } catch (...) {
        restore();
        throw;
      }
    }
  }
  StandIn(StandIn const&) = delete;
  StandIn& operator=(StandIn const&) = delete;
  ~StandIn() {
    if (needed_) {
      restore();
    }
  }

 private:
  void restore() noexcept {
    workers_.try_run([](RankType& rank) { rank.restore(); }, WorkKind::restores);
  }

  Workers& workers_;
  bool needed_;
};

}  // namespace tandem
