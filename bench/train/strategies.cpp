// SPDX-License-Identifier: Apache-2.0

/// @file
/// Throughput and memory of strategies on two devices, one thread each: GoogLeNet and VGG-16 with
/// batch norm for CIFAR, the same global batch for all.
///
///   bench_strategies [--networks googlenet,vgg] [--batch 32] [--rounds 5] [--steps 8]
///                    [--json FILE]
///
/// All take turns, in one order and then in the reverse: a round is --steps steps through train(),
/// so that asynchronous pipelines are filled and emptied once in it. Medians. "Two workers alone"
/// each train on half of the batch at the same time. Exits with 1 if CrossModelParallel, under its
/// best rule, is less than 1.8 times as fast as ModelParallel.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <tandem/core/contract.hpp>

#include "flags.hpp"
#include "strategies/contender.hpp"
#include "strategies/networks.hpp"
#include "strategies/report.hpp"

namespace {

using namespace tandem::bench;

constexpr double bar = 1.8;  // of CrossModelParallel over ModelParallel

struct Settings {
  int batch;
  int rounds;
  int steps;
};

/// All strategies on @p Net, in turns.
template <class Net>
std::vector<Row> measure(char const* network, Settings const& settings) {
  Contenders all;
  add_synchronous<Net>(all, settings.batch);
  add_asynchronous<Net>(all, settings.batch);
  for (auto const& one : all) {
    one->train(1);  // warms up
  }
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Contender& one = *all[round % 2 == 0 ? i : all.size() - 1 - i];
      one.seconds.push_back(one.train(settings.steps) / settings.steps);
    }
  }
  std::vector<Row> rows;
  for (auto const& one : all) {
    rows.push_back(row_of(network, *one));
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) try {
  Flags const flags{argc, argv, {"networks", "batch", "rounds", "steps", "json"}};
  Settings const settings{.batch = flags.number("batch", 32),
                          .rounds = flags.number("rounds", 5),
                          .steps = flags.number("steps", 8)};
  std::string const networks = flags.text("networks", "googlenet,vgg");
  tandem::expects(settings.batch >= 4 && settings.rounds >= 1 && settings.steps >= 1,
                  "--batch must be 4 or more, --rounds and --steps 1 or more");
  tandem::expects(networks == "googlenet" || networks == "vgg" || networks == "googlenet,vgg",
                  "--networks takes googlenet, vgg or googlenet,vgg");
  std::printf("batch %d, medians of %d rounds of %d steps, one thread a device\n", settings.batch,
              settings.rounds, settings.steps);
  std::vector<Row> all;
  bool met = true;
  auto const take = [&](std::vector<Row> const& rows) {
    met = print_table(rows, settings.batch, bar) && met;
    all.insert(all.end(), rows.begin(), rows.end());
  };
  if (networks != "vgg") {
    take(measure<CifarGoogLeNet>("GoogLeNet", settings));
  }
  if (networks != "googlenet") {
    take(measure<CifarVgg>("VGG-16 with batch norm", settings));
  }
  if (std::string const path = flags.text("json", ""); !path.empty()) {
    write_json(path, all, settings.batch);
  }
  return met ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_strategies: %s\n", error.what());
  return 2;
}
