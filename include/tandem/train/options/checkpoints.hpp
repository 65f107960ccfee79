// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checkpoints: where train() saves by itself, when, and how many stay.

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>

namespace tandem {

class CheckpointSaver;
struct TrainingPosition;

namespace detail {

class SavedRanks;

/// CheckpointSaver::obey(), whose body options.hpp brings along.
TANDEM_ONCE TANDEM_COLD void obey_checkpoints(CheckpointSaver& saver, SavedRanks& ranks,
                                              TrainingPosition const& position);

/// A folder's path. It brings the code that writes checkpoints along, so that a program which names
/// no folder does not compile that code.
class CheckpointFolder : public std::string {
 public:
  using Obey = void (*)(CheckpointSaver&, SavedRanks&, TrainingPosition const&);

  CheckpointFolder() = default;
  template <class Text>
    requires(std::convertible_to<Text, std::string> &&
             !std::derived_from<std::remove_cvref_t<Text>, CheckpointFolder>)
  CheckpointFolder(Text&& text) : std::string(std::forward<Text>(text)), obey_{&obey_checkpoints} {}

  template <class Text>
  CheckpointFolder& operator+=(Text const& more) {
    return *this = static_cast<std::string const&>(*this) + more;
  }

  /// Null where the path is none, or one was written into an empty string in place.
  [[nodiscard]] Obey obey() const { return obey_; }

 private:
  Obey obey_ = nullptr;
};

}  // namespace detail

/// TrainerOptions::checkpoints; without a folder train() saves nothing.
///
///   Trainer<Net, DataParallel<2>, Host> trainer{
///       {.checkpoints = {.folder = "run7", .every_steps = 500}}};
struct Checkpoints {
  /// They are `<folder>/step-000420`; on several machines one that all of them see.
  detail::CheckpointFolder folder{};
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
