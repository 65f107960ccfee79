// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Fibers: stacks that one host thread switches between, about 20 instructions a switch on x86-64.
///
/// Elsewhere <ucontext.h> does it, slower. The address sanitizer is told of each switch.

#include <cstddef>
#include <memory>

namespace cuda_emulator {

/// A stack and where it stopped.
class Fiber {
 public:
  static constexpr std::size_t stack_bytes = 128 * 1024;

  /// A fiber that calls entry(this) when first switched to; entry never returns.
  explicit Fiber(void (*entry)(Fiber*));
  ~Fiber();
  Fiber(Fiber const&) = delete;
  Fiber& operator=(Fiber const&) = delete;

  /// From the host thread into the fiber, until it calls leave().
  void enter();

  /// From inside the fiber back to the host thread that entered it.
  void leave();

 private:
  struct Context;
  static void start(void* fiber);

  std::unique_ptr<Context> context_;
  void (*entry_)(Fiber*);
};

}  // namespace cuda_emulator
