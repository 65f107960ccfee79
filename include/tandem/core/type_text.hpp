// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// type_text: a type as its user spells it, for messages.

#include <string>
#include <string_view>

namespace tandem {

/// "Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>": what the compiler calls T, without
/// this library's namespace. Compilers may differ in what is no template of integers and types.
template <class T>
std::string type_text() {
  // g++: "... type_text() [with T = X; std::string = ...]"; clang, nvcc: "... type_text() [T = X]"
  std::string_view const whole = __PRETTY_FUNCTION__;
  std::size_t const begin = whole.find("T = ") + 4;
  std::size_t const alias = whole.find("; std::", begin);  // of g++'s only
  std::size_t const end = alias < whole.size() ? alias : whole.rfind(']');
  std::string text{whole.substr(begin, end - begin)};
  constexpr std::string_view ours = "tandem::";
  for (std::size_t at = text.find(ours); at != std::string::npos; at = text.find(ours, at)) {
    text.erase(at, ours.size());
  }
  for (std::size_t at = text.find("> >"); at != std::string::npos; at = text.find("> >", at)) {
    text.erase(at + 1, 1);
  }
  return text;
}

}  // namespace tandem
