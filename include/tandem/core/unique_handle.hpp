// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UniqueHandle: sole ownership of a handle that a C library gave and takes back.

#include <utility>

namespace tandem {

/// Owns a @p Handle and passes it to @p destroy, once, unless it is the empty `Handle{}`.
///
/// What destroy returns is dropped: a destructor can neither throw nor repair. Move-only.
template <class Handle, auto destroy>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) noexcept : handle_{handle} {}

  UniqueHandle(UniqueHandle&& other) noexcept : handle_{other.release()} {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = other.release();
    }
    return *this;
  }
  ~UniqueHandle() { reset(); }

  /// Gives the handle up without destroying it.
  [[nodiscard]] Handle release() noexcept { return std::exchange(handle_, Handle{}); }

  void reset() noexcept {
    if (handle_ != Handle{}) {
      static_cast<void>(destroy(release()));
    }
  }

  [[nodiscard]] Handle get() const noexcept { return handle_; }
  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != Handle{}; }

 private:
  Handle handle_{};
};

}  // namespace tandem
