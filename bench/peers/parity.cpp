// SPDX-License-Identifier: Apache-2.0

/// @file
/// tandem's side of parity.py, which see; it can be asked for the networks that are linked with it.
///
///   bench_parity --network layers --precision fp64|fp32 --folder F [--optimizer sgd] [--clip 0]
///                [--batch 8] [--steps 3]

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "../train/flags.hpp"
#include "parity/parity.hpp"

namespace {

namespace td = tandem;
namespace parity = td::bench::parity;

/// parity.py has the same settings.
td::Optimizer optimizer(std::string const& name) {
  if (name == "sgd") {
    return td::Sgd{.learning_rate = 0.02F};
  }
  if (name == "momentum" || name == "nesterov") {
    return td::Sgd{.learning_rate = 0.005F,
                   .momentum = 0.9F,
                   .weight_decay = 0.01F,
                   .nesterov = name == "nesterov"};
  }
  if (name == "adam") {
    return td::Adam{.learning_rate = 0.001F, .weight_decay = 0.01F};
  }
  td::expects(name == "adamw", "--optimizer is sgd, momentum, nesterov, adam or adamw");
  return td::AdamW{.learning_rate = 0.001F, .weight_decay = 0.1F};
}

int run(td::bench::Flags const& flags) {
  parity::Settings const settings{
      .precision = flags.text("precision", "fp64"),
      .folder = flags.text("folder", "."),
      .steps = flags.number("steps", 3),
      .options = {.batch = flags.number("batch", 8),
                  .optimizer = optimizer(flags.text("optimizer", "sgd")),
                  .clip_norm = std::strtod(flags.text("clip", "0").c_str(), nullptr)}};
  std::string const wanted = flags.text("network", "");
  std::string known;
  for (parity::Case const& own : parity::Case::all()) {
    if (own.name == wanted) {
      own.run(settings);
      return 0;
    }
    known += std::string{" "} + own.name;
  }
  std::fprintf(stderr, "--network is one of%s\n", known.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(
        {argc, argv, {"network", "precision", "folder", "optimizer", "clip", "batch", "steps"}});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
