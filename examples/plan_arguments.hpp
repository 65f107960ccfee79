// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the command line of the example plan says. plan_flags.hpp reads it.

#include <string>
#include <vector>

#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/machine/machine.hpp>

/// What plan is asked to do. As bits, since a flag may go with several.
enum PlanMode : unsigned { searching = 1, placing = 2, partitioning = 4, simulating = 8 };

struct PlanArguments {
  PlanMode mode = searching;
  bool help = false;
  bool late_gradients = false;
  std::string graph;
  std::string net;
  std::string profile;
  std::string machine;
  std::string all_reduces;
  std::string svg;
  std::string trace;
  std::string table;
  std::string schedule;
  tandem::MathPrecision precision = tandem::MathPrecision::fp32;
  int batch = 64;
  double samples = 0;                      // not given
  std::vector<tandem::EpochPoint> epochs;  // none: one epoch whatever the batch
  std::vector<int> counts;                 // of devices, where a strategy is sought
  std::string format = "text";
  std::string optimizer = "momentum";
  std::vector<double> loads;
  int parts = 0;
  int copies = 1;
  int depth = 1;
  double link_gbps = 0;
  double latency_us = -1;  // not given
  double memory = -1;      // bytes
  double seconds = 10;

  /// How many descriptions of a graph are given.
  [[nodiscard]] int graphs() const { return !graph.empty() + !net.empty() + !profile.empty(); }
};
