// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OwnProcess: whether an object is in the process that made it; UnlessForked: an object that a
/// child of fork() leaves alone.
///
/// A child of fork() has a copy of all memory and only the thread that called fork(). So whoever
/// waits there for another thread waits for ever, and a destructor that joins one crashes.

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// A member of what has threads.
class OwnProcess {
 public:
  [[nodiscard]] bool is_own() const noexcept { return ::getpid() == id_; }

  /// @param verb  what was called, such as "step()"
  /// @param what  of what, such as "Loader"
  /// @throws ContractError  this is a child of the process that made the object
  void expect_own(char const* verb, char const* what) const {
    if (!is_own()) {
      refuse(verb, what);
    }
  }

 private:
  TANDEM_ONCE [[noreturn]] TANDEM_COLD static void refuse(std::string const& verb,
                                                          std::string const& what);

  ::pid_t id_ = ::getpid();
};

/// A T that is destroyed by the process that made it, and by no child of that.
template <class T>
class UnlessForked {
 public:
  template <class... Arguments>
  explicit UnlessForked(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
  UnlessForked(UnlessForked const&) = delete;
  UnlessForked& operator=(UnlessForked const&) = delete;
  ~UnlessForked() {
    if (process_.is_own()) {
      std::destroy_at(std::addressof(value_));
    }
  }

  [[nodiscard]] T& operator*() noexcept { return value_; }
  [[nodiscard]] T* operator->() noexcept { return std::addressof(value_); }

 private:
  OwnProcess process_;
  union {
    T value_;
  };
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void OwnProcess::refuse(std::string const& verb, std::string const& what) {
  throw ContractError{verb + ": this " + what +
                      " was made before fork(), and its threads are in the parent process only; "
                      "make another one in the child, after fork()"};
}

}  // namespace tandem::detail

#endif
