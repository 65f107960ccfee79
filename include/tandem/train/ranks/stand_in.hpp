// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StandIn: which of two models an evaluation computes with.

#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>

namespace tandem {

/// For as long as it lives both copies of each stage have the weights of one model, or the average;
/// nothing where a strategy trains one model.
/// @tparam Two  the strategy trains two that may differ
template <class Workers, bool Two>
class [[nodiscard]] StandIn {
 public:
  using RankType = typename Workers::RankType;

  /// @param workers  outlives this
  StandIn(Workers& workers, WhichModel which) : workers_{workers} {
    if constexpr (Two) {
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
    if constexpr (Two) {
      restore();
    }
  }

 private:
  void restore() noexcept {
    workers_.try_run([](RankType& rank) { rank.restore(); }, WorkKind::restores);
  }

  Workers& workers_;
};

}  // namespace tandem
