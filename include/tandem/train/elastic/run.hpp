// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// run: a program that trains with whatever devices there are, and says by its exit code how it
/// ended.

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <tandem/comm/lifeline/first_to_say.hpp>
#include <tandem/core/type_text.hpp>
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/train/elastic/choice.hpp>
#include <tandem/train/elastic/exit_code.hpp>
#include <tandem/train/options/devices_there.hpp>
#include <tandem/train/trainer.hpp>

namespace tandem {

namespace detail {

/// Devices of each process: as the world says, one of several processes, else all that are there.
template <class Backend>
int devices_of(World const& world) {
  if (world.devices > 0) {
    return world.devices;
  }
  return world.processes > 1 ? 1 : DevicesThere<Backend>::of_this_process();
}

template <class Net, class S, class Backend, class LossType, class MetricType,
          template <int> class Transport, class Work>
void train_by(TrainerOptions options, Work& work) {
  Trainer<Net, S, Backend, LossType, MetricType, Transport> trainer{std::move(options)};
  if (trainer.options().checkpoints.on()) {
    std::string const from = trainer.resume();
    if (!from.empty() && trainer.options().world.process == 0) {
      std::fprintf(stderr, "goes on from '%s'\n", from.c_str());
    }
  }
  work(trainer);
}

}  // namespace detail

/// Trains Net on Backend by the first strategy of Plan that fits what is there, and returns what
/// main() should: an ExitCode.
///
///   int main() {
///     using Plan = td::Elastic<td::DataParallel<8, td::Reproducible<>>, td::DownTo<1>>;
///     return td::run<Net, Plan, td::Host>({.batch = 256}, [](auto& trainer) {
///       for (auto epoch : td::epochs(90)) trainer.train(data, epoch, td::Progress{});
///     });
///   }
///
/// `work(trainer)` is called in each process that trains, with a Trainer of that strategy: it is
/// compiled for each. With a folder of checkpoints the trainer has gone on from the newest one. A
/// process that is not needed returns `done` at once. Process 0 prints on standard error which
/// strategy it is, of a Plan of several. An error is printed by whoever has it; what several
/// processes have alike, as another's failure, by the first of them on each machine, so that it is
/// read whichever process is dead.
/// Cost: each strategy of the Plan is compiled.
/// @tparam Plan  an Elastic, or a Strategy alone
template <class Net, class Plan, class Backend, class LossType = DefaultLoss<Net>,
          class MetricType = DefaultMetric<LossType>,
          template <int> class Transport = DefaultTransport<Backend>::template type, class Work>
int run(TrainerOptions options, Work&& work) try {
  using Strategies = typename StrategiesOf<Plan>::type;
  std::span<int const> const ranks{Strategies::ranks};
  static constexpr bool is_elastic = Strategies::count > 1;  // one strategy has its own sentences
  int const processes = options.world.processes;
  int const devices = is_elastic ? detail::devices_of<Backend>(options.world) : ranks[0];
  ElasticChoice const choice =
      is_elastic ? choose_strategy(ranks, processes, devices) : ElasticChoice{0, processes};
  bool const spare = options.world.process >= choice.processes;
  options.world.processes = choice.processes;
  [&]<int... I>(std::integer_sequence<int, I...>) {
    auto const train = [&]<int At>(std::integral_constant<int, At>) {
      using S = typename Strategies::template At<At>;
      if (is_elastic && options.world.process == 0) {
        std::fprintf(stderr, "%s\n",
                     choice_text(ranks, processes, devices, choice, type_text<S>()).c_str());
      }
      if (!spare) {
        detail::train_by<Net, S, Backend, LossType, MetricType, Transport>(options, work);
      }
    };
    ((I == choice.index ? train(std::integral_constant<int, I>{}) : void()), ...);
  }
  (std::make_integer_sequence<int, Strategies::count>{});
  return static_cast<int>(ExitCode::done);
} catch (std::exception const& error) {
  ExitCode const code = exit_code_of(error);
  std::string const text =
      code == ExitCode::peer_failed ? detail::innermost_text(error) : std::string{error.what()};
  if (options.world.processes == 1 || detail::is_first_to_say(text)) {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  return static_cast<int>(code);
}

}  // namespace tandem
