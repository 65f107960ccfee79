// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ElasticChoice: which of an Elastic's strategies the processes that are there train by.

#include <span>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

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

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

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
