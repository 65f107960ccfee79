// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AnyStrategy: a Trainer whose strategy is chosen at start.

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/value.hpp>
#include <tandem/train/ranks/chosen_workers.hpp>
#include <tandem/train/trainer.hpp>

namespace tandem {

/// In place of a strategy: which one it is, a Trainer is told at start, so that a program tries
/// many with one compilation, and what `plan` prints runs without another:
///
///   Trainer<Net, AnyStrategy, Host> trainer{"Hybrid<DataParallel<2>, ModelParallel<Auto<2>>>",
///                                           {.batch = 128}};
///
/// Losses and parameters are those of a Trainer of the type. On Host, in one process; gradients
/// travel exactly (no Wire). What does not go together is a ContractError with the sentence that
/// the compiler has for the type.
struct AnyStrategy {};

namespace detail {

/// What Trainer takes AnyStrategy for wherever a type decides.
struct ChosenAtStart : SingleDevice<> {};

template <class Backend, bool OneProcess>
struct ChoosesAtStart {
  static constexpr bool value = true;
  static_assert(is_host<ComputingBackend<Backend>>(),
                "Trainer<Net, AnyStrategy, Backend>: strategies are chosen at start on Host; for "
                "another backend write the strategy as a type");
  static_assert(OneProcess,
                "Trainer<Net, AnyStrategy, ...>: strategies are chosen at start in one process; "
                "for several write the strategy as a type");
};

}  // namespace detail

template <class Net, class Backend, class LossType, class MetricType,
          template <int> class Transport>
class Trainer<Net, AnyStrategy, Backend, LossType, MetricType, Transport>
    : public Trainer<Net, detail::ChosenAtStart, Backend, LossType, MetricType, Transport> {
  using Base = Trainer<Net, detail::ChosenAtStart, Backend, LossType, MetricType, Transport>;
  using Named = detail::ComputingBackend<Backend>;
  using Facts = ChosenFacts<Net, Named, LossType, MetricType>;
  using Group = typename Base::Core::Group;
  using TransportType = Transport<by_world>;
  static_assert(detail::ChoosesAtStart<Backend, in_one_process<TransportType>>::value);

 public:
  using Workers = ChosenWorkers<Facts, typename Group::Batch, TransportType, LossType>;
  using RankType = typename Workers::RankType;

  /// @throws ContractError  as a Trainer of the type; or the strategy and the network do not go
  ///                        together
  explicit Trainer(StrategyValue strategy, TrainerOptions options = {})
      : Trainer{std::make_unique<Facts>(std::move(strategy)), std::move(options)} {}

  /// The one that it was told.
  [[nodiscard]] StrategyValue const& strategy() const {
    return static_cast<Workers&>(this->group()).strategy();
  }
  [[nodiscard]] Workers& workers() { return static_cast<Workers&>(this->group()); }

 private:
  TANDEM_COLD Trainer(std::unique_ptr<Facts> facts, TrainerOptions options)
      : Base{[&](TrainerOptions const& own) -> std::unique_ptr<Group> {
               ImportedTable const table = table_for(facts->facts, own);
               RankOptions const ranks = make_rank_options(facts->facts, own, table);
               return std::make_unique<Workers>(std::move(facts), ranks, stall_limit(own),
                                                own.world);
             },
             checked(facts->facts, bound<Named>(std::move(options)))} {}
};

}  // namespace tandem
