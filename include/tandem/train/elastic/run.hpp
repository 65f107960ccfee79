// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// run: a program that trains with whatever devices there are, and says by its exit code how it
/// ended.

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tandem/comm/lifeline/first_to_say.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/core/type_text.hpp>
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/train/checkpoint/signals.hpp>
#include <tandem/train/options/devices_there.hpp>
#include <tandem/train/trainer.hpp>

namespace tandem {

namespace detail {

/// The text of the error that came first, without those that were nested around it. All processes
/// have the same text of one failure.
TANDEM_ONCE std::string innermost_text(std::exception const& error);

}  // namespace detail

/// The status of a process that @p error ends. The rank that failed has its own error; a rank that
/// throws because of it, or that waited in vain, has a peer's.
TANDEM_ONCE ExitCode exit_code_of(std::exception const& error);

/// The strategy number `index`, its ranks dealt to the first `processes` of the world.
struct ElasticChoice {
  int index = 0;
  int processes = 1;

  friend constexpr bool operator==(ElasticChoice const&, ElasticChoice const&) = default;
};

/// The first strategy that the devices suffice for, in as many processes as its ranks can be dealt
/// to evenly; the others are spare.
/// @param ranks    devices of each strategy, falling
/// @param devices  of each process
/// @throws ContractError  there are fewer devices than the last strategy wants, or too few in a
///                        process to deal its ranks evenly
TANDEM_ONCE ElasticChoice choose_strategy(std::span<int const> ranks, int processes, int devices);

/// "8 devices listed, 6 there: DataParallel<4, Microbatches<2>>, 2 processes spare"
TANDEM_ONCE std::string choice_text(std::span<int const> ranks, int processes, int devices,
                                    ElasticChoice const& choice, std::string_view strategy);

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

#if TANDEM_BODIES

namespace tandem::detail {

/// Whether @p error, or what it is nested around, says that another rank failed or did not come.
TANDEM_ONCE bool is_of_another(std::exception const& error) {
  if (dynamic_cast<AbortedError const*>(&error) != nullptr ||
      dynamic_cast<TimeoutError const*>(&error) != nullptr) {
    return true;
  }
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& cause) {
    return is_of_another(cause);
  } catch (...) {
  }
  return false;
}

TANDEM_ONCE std::string innermost_text(std::exception const& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& cause) {
    return innermost_text(cause);
  } catch (...) {
  }
  return error.what();
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE ExitCode exit_code_of(std::exception const& error) {
  if (auto const* const stopped = dynamic_cast<StoppedBySignal const*>(&error)) {
    return static_cast<ExitCode>(stopped->exit_status());
  }
  return detail::is_of_another(error) ? ExitCode::peer_failed : ExitCode::error;
}

TANDEM_ONCE ElasticChoice choose_strategy(std::span<int const> ranks, int processes, int devices) {
  expects(!ranks.empty() && processes >= 1 && devices >= 1,
          "choose_strategy: there must be a strategy, a process and a device");
  for (int i = 0; i < static_cast<int>(ranks.size()); ++i) {
    int const wanted = ranks[static_cast<std::size_t>(i)];
    for (int p = wanted < processes ? wanted : processes; p >= 1; --p) {
      if (wanted % p == 0 && wanted / p <= devices) {
        return {.index = i, .processes = p};
      }
    }
  }
  throw ContractError{"run(): the smallest strategy of this plan is of " +
                      std::to_string(ranks.back()) +
                      " devices, which cannot be dealt evenly to what is there, " +
                      std::to_string(processes) + " x " + std::to_string(devices) +
                      " (processes x devices of each); start more processes, say that each has "
                      "more (.world.devices), or list a strategy of fewer devices"};
}

TANDEM_ONCE std::string choice_text(std::span<int const> ranks, int processes, int devices,
                                    ElasticChoice const& choice, std::string_view strategy) {
  std::string text = std::to_string(ranks.front()) + " devices listed, " +
                     std::to_string(processes * devices) + " there: " + std::string{strategy};
  int const spare = processes - choice.processes;
  if (spare > 0) {
    text += ", " + std::to_string(spare) + (spare == 1 ? " process spare" : " processes spare");
  }
  return text;
}

}  // namespace tandem

#endif
