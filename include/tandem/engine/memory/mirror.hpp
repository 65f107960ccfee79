// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterMirror: a rank's parameters, gradients and optimizer states for the host to read and
/// write, in the layout of the network as the user wrote it.

#include <tandem/engine/memory/parameter_memory.hpp>

namespace tandem {

/// The primary template is for devices whose memory is the host's: the mirror is the memory.
template <class Program, class Backend>
class ParameterMirror {
 public:
  using T = typename Backend::Master;
  using Device = typename Backend::Device;
  using Memory = ParameterMemory<Program, Backend>;
  static constexpr bool is_memory = true;

  explicit ParameterMirror(int /*states*/) {}

  /// Brings the mirror up to date; until the next step or upload it stays so.
  void download(Device& /*device*/, Memory const& memory) { memory_ = &memory; }
  /// Gives the device what the mirror has.
  void upload(Device& /*device*/, Memory const& /*memory*/) {}

  /// As of ParameterMemory. @pre download() was called
  [[nodiscard]] T* parameters() const { return memory_->parameters(); }
  [[nodiscard]] T* gradients() const { return memory_->gradients(); }
  [[nodiscard]] T* state(int s) const { return memory_->state(s); }

 private:
  Memory const* memory_ = nullptr;
};

}  // namespace tandem
