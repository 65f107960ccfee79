// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// type_text: a type as its user spells it, for messages.

#include <cstddef>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>

namespace tandem {

namespace detail {

/// T out of @p function, what the compiler calls type_text() of T.
TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string type_text_of(std::string_view function);

}  // namespace detail

/// "Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>": what the compiler calls T, without
/// this library's namespace. Compilers may differ in what is no template of integers and types.
template <class T>
std::string type_text() {
  return detail::type_text_of(__PRETTY_FUNCTION__);
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string type_text_of(std::string_view function) {
  // g++: "... type_text() [with T = X; std::string = ...]"; clang, nvcc: "... type_text() [T = X]"
  std::size_t const begin = function.find("T = ") + 4;
  std::size_t const alias = function.find("; std::", begin);  // of g++'s only
  std::size_t const end = alias < function.size() ? alias : function.rfind(']');
  std::string text{function.substr(begin, end - begin)};
  constexpr std::string_view ours = "tandem::";
  for (std::size_t at = text.find(ours); at != std::string::npos; at = text.find(ours, at)) {
    text.erase(at, ours.size());
  }
  for (std::size_t at = text.find("> >"); at != std::string::npos; at = text.find("> >", at)) {
    text.erase(at + 1, 1);
  }
  return text;
}

}  // namespace tandem::detail

#endif
