// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AnyStrategy: a Trainer whose strategy is chosen at start; device_memory() and fits() of such
/// one.

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/runtime_program.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/read_strategy.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/value.hpp>
#include <tandem/strategy/value_text.hpp>
#include <tandem/train/options/check_asynchrony.hpp>
#include <tandem/train/options/default_transport.hpp>
#include <tandem/train/options/refused_trainer.hpp>
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

template <bool OnHost, bool OneProcess>
struct ChoosesAtStart {
  static constexpr bool value = true;
  static_assert(OnHost,
                "Trainer<Net, AnyStrategy, Backend>: strategies are chosen at start on Host; for "
                "another backend write the strategy as a type");
  static_assert(!OnHost || OneProcess,
                "Trainer<Net, AnyStrategy, ...>: strategies are chosen at start in one process; "
                "for several write the strategy as a type");
};

/// @tparam Base  the trainer of ChosenAtStart
template <class Base, class Net, class Backend, class LossType, class MetricType, class Transport>
class ChosenTrainer : public Base {
  using Facts = ChosenFacts<Net, Backend, LossType, MetricType>;
  using Group = typename Base::Core::Group;

 public:
  using Workers = ChosenWorkers<Facts, typename Group::Batch, Transport, LossType>;
  using RankType = typename Workers::RankType;

  explicit ChosenTrainer(StrategyValue strategy, TrainerOptions options = {})
      : ChosenTrainer{std::make_unique<Facts>(std::move(strategy)), std::move(options)} {}
  /// @param strategy  as a type is written
  explicit ChosenTrainer(std::string_view strategy, TrainerOptions options = {})
      : ChosenTrainer{read_strategy(strategy), std::move(options)} {}

  /// The one that it was told.
  [[nodiscard]] StrategyValue const& strategy() const {
    return static_cast<Workers&>(this->group()).strategy();
  }
  [[nodiscard]] Workers& workers() { return static_cast<Workers&>(this->group()); }

 private:
  TANDEM_COLD ChosenTrainer(std::unique_ptr<Facts> facts, TrainerOptions options)
      : Base{[&](TrainerOptions const& own) -> std::unique_ptr<Group> {
               ImportedTable const table = table_for(facts->facts, own);
               RankOptions const ranks = make_rank_options(facts->facts, own, table);
               return std::make_unique<Workers>(std::move(facts), ranks, stall_limit(own),
                                                own.world);
             },
             checked(facts->facts, bound<Backend>(std::move(options)))} {}
};

/// In its place where there is none.
class RefusedChoice : public RefusedTrainer {
 public:
  explicit RefusedChoice(std::string_view /*strategy*/, TrainerOptions const& /*options*/ = {}) {}
  explicit RefusedChoice(StrategyValue const& /*strategy*/,
                         TrainerOptions const& /*options*/ = {}) {}
  [[nodiscard]] StrategyValue const& strategy() const { return strategy_; }

 private:
  StrategyValue strategy_;
};

template <bool Fits, class Net, class Backend, class LossType, class MetricType,
          template <int> class Transport>
struct SelectChosen {
  using type = RefusedChoice;
};
template <class Net, class Backend, class LossType, class MetricType,
          template <int> class Transport>
struct SelectChosen<true, Net, Backend, LossType, MetricType, Transport> {
  using type =
      ChosenTrainer<Trainer<Net, ChosenAtStart, Backend, LossType, MetricType, Transport>, Net,
                    ComputingBackend<Backend>, LossType, MetricType, Transport<by_world>>;
};

template <class Net, class Backend, class LossType, class MetricType,
          template <int> class Transport>
using ChosenTrainerOf = typename SelectChosen<is_host<ComputingBackend<Backend>>() &&
                                                  in_one_process<Transport<by_world>>,
                                              Net, Backend, LossType, MetricType, Transport>::type;

}  // namespace detail

/// Its constructor takes the strategy, then the options.
/// @throws ContractError  as a Trainer of the type; or the strategy and the network do not go
///                        together
template <class Net, class Backend, class LossType, class MetricType,
          template <int> class Transport>
class Trainer<Net, AnyStrategy, Backend, LossType, MetricType, Transport>
    : public detail::ChosenTrainerOf<Net, Backend, LossType, MetricType, Transport> {
  static_assert(detail::ChoosesAtStart<detail::is_host<detail::ComputingBackend<Backend>>(),
                                       in_one_process<Transport<by_world>>>::value);

 public:
  using detail::ChosenTrainerOf<Net, Backend, LossType, MetricType, Transport>::ChosenTrainerOf;
};

/// What each device of a replica needs at most for steps of a global batch of @p batch samples, as
/// device_memory<Net, S, Optimizer, Precision>() says it of the strategy's type.
///
///   device_memory<Net, AdamW, Fp32>(read_strategy("Pipeline<GPipe, 4, Auto<2>>"), 64)[1].total()
///
/// @throws ContractError  batch < 1, the number of replicas is open, or the strategy and the
///                        network do not go together
template <class Net, class Optimizer, class Precision>
std::vector<DeviceMemory> device_memory(StrategyValue const& strategy, int batch,
                                        WeightAverages averages = WeightAverages::none,
                                        int branches = 1) {
  MemoryTask const sizes{.master_bytes = sizeof(typename Precision::Master),
                         .scalar_bytes = sizeof(typename Precision::Scalar),
                         .states = detail::counted_states<Optimizer>() + static_cast<int>(averages),
                         .branches = branches};
  RuntimeProgram const program{
      graph<Net>, graph<Net>.tops, strategy, {}, sizeof(typename Precision::Master)};
  std::vector<DeviceMemory> memory;
  for (int d = 0; d < program.devices(); ++d) {
    memory.push_back(program.memory(d, batch, sizes));
  }
  return memory;
}

/// Whether none of these devices needs more than @p bytes.
template <class Net, class Optimizer, class Precision>
bool fits(StrategyValue const& strategy, int batch, std::int64_t bytes,
          WeightAverages averages = WeightAverages::none, int branches = 1) {
  bool fit = true;
  for (DeviceMemory const& device :
       device_memory<Net, Optimizer, Precision>(strategy, batch, averages, branches)) {
    fit = fit && device.total() <= bytes;
  }
  return fit;
}

}  // namespace tandem
