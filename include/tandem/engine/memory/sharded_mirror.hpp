// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ShardedMirror: the ParameterMirror of a rank that has its part of gradients and optimizer states
/// alone.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// The primary template is for devices whose memory is the host's: parameters are the memory
/// itself, unless a rank has its part of these alone, too; all else are copies, whole after
/// gather(), until the next step releases them. Before it they have this rank's part, and what is
/// written to the others goes nowhere.
template <class Backend>
class ShardedMirror {
 public:
  using T = typename Backend::Master;
  using Device = typename Backend::Device;
  using Memory = ParameterMemory<Backend>;

  ShardedMirror(DeviceTables const& tables, int states)
      : layout_{tables.layout}, shares_{tables.sharded_parameters}, states_{states} {}

  /// @param shares  ParameterShares
  template <class Shares>
  TANDEM_COLD void download(Device& /*device*/, Memory const& memory, Shares& shares) {
    memory_ = &memory;
    copies_.resize(static_cast<std::size_t>((1 + states_) * layout_.trained +
                                            (shares_ ? layout_.elements : 0)));
    if (shares_) {
      std::copy_n(memory.frozen(), layout_.elements - layout_.trained,
                  parameters() + layout_.trained);
    }
    for (OwnedRange const& own : shares.owned()) {
      if (shares_) {
        copy(memory.kept_parameters(own.range.begin, own.lag), parameters(), own.range);
      }
      copy(memory.summed_gradients(own.range.begin, own.lag), gradients(), own.range);
      for (int s = 0; s < states_; ++s) {
        copy(memory.state(s) + own.state_begin(), state(s), own.range);
      }
    }
  }

  /// The other ranks' parts, too; all of them call it. Blocks until they are there.
  template <class Shares>
  TANDEM_COLD void gather(Device& device, Memory const& memory, Shares& shares) {
    download(device, memory, shares);
    if (shares_) {
      shares.gather_array(device, parameters(), {"parameters"});
    }
    shares.gather_array(device, gradients(), {"gradients"});
    for (int s = 0; s < states_; ++s) {
      shares.gather_array(device, state(s), {"states"});
    }
    device.finish();
  }

  template <class Shares>
  TANDEM_COLD void upload(Device& /*device*/, Memory const& memory, Shares& shares) {
    if (shares_ && !copies_.empty()) {
      std::copy_n(parameters() + layout_.trained, layout_.elements - layout_.trained,
                  memory.frozen());
    }
    for (OwnedRange const& own : shares.owned()) {
      if (shares_ && !copies_.empty()) {
        std::copy_n(parameters() + own.range.begin, own.range.count(),
                    memory.kept_parameters(own.range.begin, own.lag));
      }
      for (int s = 0; s < states_ && !copies_.empty(); ++s) {
        std::copy_n(state(s) + own.range.begin, own.range.count(),
                    memory.state(s) + own.state_begin());
      }
    }
    release();
  }

  /// Gives the memory of the copies back.
  void release() { copies_ = std::vector<T>{}; }

  /// As of ParameterMemory. @pre download() was called
  [[nodiscard]] T* parameters() {
    return shares_ ? copies_.data() + (1 + states_) * layout_.trained : memory_->parameters();
  }
  [[nodiscard]] T* gradients() { return copies_.data(); }
  [[nodiscard]] T* state(int s) { return copies_.data() + (1 + s) * layout_.trained; }

 private:
  static void copy(T const* from, T* to, ElementRange range) {
    std::copy_n(from, range.count(), to + range.begin);
  }

  LayoutView layout_;
  bool shares_;  // parameters, too
  Memory const* memory_ = nullptr;
  int states_;
  std::vector<T> copies_;  // gradients, states, then parameters
};

}  // namespace tandem
