// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checkpoints: where train() saves by itself, when, and how many stay.

#include <cstdint>
#include <string>

namespace tandem {

/// TrainerOptions::checkpoints; without a folder train() saves nothing.
///
///   Trainer<Net, DataParallel<2>, Host> trainer{
///       {.checkpoints = {.folder = "run7", .every_steps = 500}}};
struct Checkpoints {
  /// They are `<folder>/step-000420`; on several machines one that all of them see.
  std::string folder{};
  std::int64_t every_steps = 0;  ///< behind each step whose number this divides; 0: none
  double every_seconds = 0.0;    ///< behind the first step so long after the last one; 0: none
  int keep = 3;                  ///< that stay, the newest; the disk has one more for a moment
  /// SIGTERM and SIGUSR1, in any process, end train() in all of them behind the same step, with a
  /// checkpoint, by StoppedBySignal: the program returns its exit_status(), 75. So does SIGINT,
  /// whose status is 130, and a second one ends the process. The Trainer has their handlers while
  /// it lives.
  bool on_signals = false;

  [[nodiscard]] bool on() const { return !folder.empty(); }
};

}  // namespace tandem
