// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMirror: parameters, gradients and states of a rank where the calling program can read and
/// write them, whichever part of them the rank has.

#include <concepts>
#include <memory>

#include <tandem/core/config.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/memory/sharded_mirror.hpp>
#include <tandem/engine/memory/sliced_mirror.hpp>
#include <tandem/engine/prepare/device_tables.hpp>

namespace tandem {

/// The memory's own mirror; where replicas have shares of gradients and states, a ShardedMirror in
/// its place; and where ranks have slices, a SlicedMirror of either.
/// @tparam Core  RankCore
template <class Core>
class RankMirror {
 public:
  using Backend = typename Core::Backend;
  using T = typename Backend::Master;

  RankMirror(DeviceTables const& tables, int states) : whole_{tables, states} {
    if constexpr (has_shares) {
      if (tables.state_shares > 1) {
        shares_ = std::make_unique<ShardedMirror<Backend>>(tables, states);
      }
    }
    if constexpr (has_slices) {
      if (tables.layer_slices > 1) {
        slices_ = std::make_unique<SlicedMirror<Backend>>(tables, states);
      }
    }
  }

  /// Shows what the rank has; the rest is as it was.
  TANDEM_COLD void download(Core& core) {
    of_slice([&](auto& own) {
      if constexpr (is_shared<decltype(own)>) {
        own.download(core.device, core.memory, *core.shares);
      } else {
        own.download(core.device, core.memory);
      }
      if constexpr (has_slices) {
        if (slices_) {
          slices_->show(own, core.slice());
        }
      }
    });
  }

  /// Shows what other ranks have, too, where the rank has a part alone; all of them call it. Blocks
  /// until that is there.
  TANDEM_COLD void gather(Core& core) {
    of_slice([&](auto& own) {
      if constexpr (is_shared<decltype(own)>) {
        own.gather(core.device, core.memory, *core.shares);
      } else if (slices_) {
        own.download(core.device, core.memory);
      }
      if constexpr (has_slices) {
        if (slices_) {
          slices_->show(own, core.slice());
        }
        if constexpr (Core::has_slices) {
          if (slices_ && core.slices) {
            slices_->gather(core.device, own, *core.slices);
          }
        }
      }
    });
  }

  /// The rank takes its part of what was written.
  TANDEM_COLD void upload(Core& core) {
    of_slice([&](auto& own) {
      bool is_new = true;
      if constexpr (has_slices) {
        is_new = !slices_ || slices_->give(own, core.slice());
      }
      if constexpr (is_shared<decltype(own)>) {
        own.upload(core.device, core.memory, *core.shares);
      } else if (is_new) {
        own.upload(core.device, core.memory);
      }
    });
    release();
  }

  /// Gives the memory of copies of other ranks' parts back.
  void release() {
    if constexpr (has_shares) {
      if (shares_) {
        shares_->release();
      }
    }
    if constexpr (has_slices) {
      if (slices_) {
        slices_->release();
      }
    }
  }

  /// @pre download() was called
  [[nodiscard]] T* parameters() {
    return shown([](auto& mirror) { return mirror.parameters(); });
  }
  [[nodiscard]] T* gradients() {
    return shown([](auto& mirror) { return mirror.gradients(); });
  }
  [[nodiscard]] T* state(int s) {
    return shown([s](auto& mirror) { return mirror.state(s); });
  }

 private:
  static constexpr bool has_shares = Core::Gradients::can_share;
  static constexpr bool has_slices = Core::way.slices;

  // f(mirror) of what the program sees.
  template <class F>
  T* shown(F const& f) {
    if constexpr (has_slices) {
      if (slices_) {
        return f(*slices_);
      }
    }
    if constexpr (has_shares) {
      if (shares_) {
        return f(*shares_);
      }
    }
    return f(whole_);
  }

  template <class Mirror>
  static constexpr bool is_shared = std::same_as<Mirror, ShardedMirror<Backend>&>;

  // f(mirror) of what the rank has of its slice.
  template <class F>
  void of_slice(F const& f) {
    if constexpr (has_shares) {
      if (shares_) {
        f(*shares_);
        return;
      }
    }
    f(whole_);
  }

  ParameterMirror<Backend> whole_;
  std::unique_ptr<ShardedMirror<Backend>> shares_{};
  std::unique_ptr<SlicedMirror<Backend>> slices_{};
};

}  // namespace tandem
