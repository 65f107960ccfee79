// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// FunctionRef: a function of the caller's, for code that is compiled once, whatever its type is.

#include <memory>
#include <type_traits>

namespace tandem {

template <class Signature>
class FunctionRef;

/// Refers to what it is made of, which outlives it; as std::function_ref of C++26.
template <class R, class... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Arguments...>)
  FunctionRef(F&& f)
  noexcept  // NOLINT: for a lambda in a call
      : f_{const_cast<void*>(static_cast<void const*>(std::addressof(f)))},
        call_{[](void* object, Arguments... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(
              static_cast<Arguments>(arguments)...);
        }} {}

  R operator()(Arguments... arguments) const {
    return call_(f_, static_cast<Arguments>(arguments)...);
  }

 private:
  void* f_;
  R (*call_)(void*, Arguments...);
};

}  // namespace tandem
