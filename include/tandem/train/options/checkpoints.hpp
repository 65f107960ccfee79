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

namespace detail {

class CheckpointFolder;
struct CheckpointContents;
struct CheckpointPeers;
class CheckpointWriter;

/// CheckpointWriter::begin(); its body is in train/checkpoint/folder/writer.hpp.
TANDEM_ONCE void begin_checkpoint(CheckpointWriter& writer, CheckpointFolder const& folder,
                                  CheckpointContents&& contents, int keep,
                                  CheckpointPeers const& peers);

/// A folder's path. It brings the code that writes checkpoints along, so that a program which names
/// no folder does not compile that code.
class CheckpointFolder : public std::string {
 public:
  using Begin = void (*)(CheckpointWriter&, CheckpointFolder const&, CheckpointContents&&, int,
                         CheckpointPeers const&);

  CheckpointFolder() = default;
  template <class Text>
    requires(std::convertible_to<Text, std::string> &&
             !std::derived_from<std::remove_cvref_t<Text>, CheckpointFolder>)
  CheckpointFolder(Text&& text)
      : std::string(std::forward<Text>(text)), begin_{&begin_checkpoint} {}

  template <class Text>
  CheckpointFolder& operator+=(Text const& more) {
    return *this = static_cast<std::string const&>(*this) + more;
  }

  /// Null where the path is none, or one was written into an empty string in place.
  [[nodiscard]] Begin begin_writing() const { return begin_; }

 private:
  Begin begin_ = nullptr;
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

#if TANDEM_BODIES

#include <tandem/train/checkpoint/folder/writer.hpp>

#endif
