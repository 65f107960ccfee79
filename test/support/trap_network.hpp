// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TrapNet: a network with layers that throw, or are late, where a test wants it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <tandem/layers/linear.hpp>

namespace tandem::test {

enum class Pass { none, forward, backward };

/// Which layer springs, in which pass, at which of its calls, and whether it throws or is late.
struct Trap {
  static inline std::atomic<int> layer = -1;
  static inline std::atomic<Pass> pass = Pass::none;
  static inline std::atomic<int> calls = 0;
  static inline std::atomic<int> milliseconds = 0;
  static inline std::atomic<bool> const* until = nullptr;  ///< it waits for this, if not null

  /// @param late  how late the layer is; if not at all it throws
  static void set(int at_layer, Pass in_pass, int at_call, std::chrono::milliseconds late = {}) {
    layer = at_layer;
    calls = at_call;
    milliseconds = static_cast<int>(late.count());
    pass = in_pass;
  }
  static void step_on(int at_layer, Pass in_pass) {
    if (pass == in_pass && layer == at_layer && calls.fetch_sub(1) == 1) {
      while (until != nullptr && !until->load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      if (milliseconds == 0) {
        throw std::runtime_error{"sprung"};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{milliseconds});
    }
  }
};

/// Passes its input on, over the trap.
template <int Layer>
struct Passage {
  static constexpr std::string_view name = "Passage";
  static constexpr Shape output(Shape in) { return in; }
  static void forward(auto const& call) {
    Trap::step_on(Layer, Pass::forward);
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) {
    Trap::step_on(Layer, Pass::backward);
    std::ranges::copy(call.dy, call.dx.begin());
  }
};

/// For three stages: Split<2>, Split<2>, Split<3>.
struct TrapNet : Network<Vector<4>, Sequential<Linear<4>, Passage<0>, Linear<4>, Passage<1>,
                                               Linear<4>, Passage<2>, Linear<3>>> {};

}  // namespace tandem::test
