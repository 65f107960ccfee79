// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tokenizer: what turns text into tokens and back, as a concept; and Bytes, the plainest of them.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// Text to tokens in [0, size()) and back. All three may be called by several threads at once, and
/// size() never changes.
///
/// decode(encode(text)) is the text, for all that encode() takes; decode() takes any tokens below
/// size(), and says which one is not.
template <class T>
concept Tokenizer = requires(T const& tokenizer, std::string_view text,
                             std::span<std::int32_t const> tokens) {
  { tokenizer.encode(text) } -> std::same_as<std::vector<std::int32_t>>;
  { tokenizer.decode(tokens) } -> std::same_as<std::string>;
  { tokenizer.size() } -> std::same_as<int>;
};

namespace detail {

/// tokens[@p position] as an index below @p size.
/// @throws Error  it is none; @p name is the tokenizer's
TANDEM_ONCE std::size_t checked_token(std::span<std::int32_t const> tokens, std::size_t position,
                                      int size, char const* name);

}  // namespace detail

/// Each byte is its own token, of 256: no vocabulary to keep, and no text that it cannot write.
struct Bytes {
  TANDEM_ONCE [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// @throws Error  a token is not in [0, 256)
  TANDEM_ONCE [[nodiscard]] std::string decode(std::span<std::int32_t const> tokens) const;

  [[nodiscard]] int size() const noexcept { return 256; }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::size_t checked_token(std::span<std::int32_t const> tokens, std::size_t position,
                                      int size, char const* name) {
  std::int32_t const token = tokens[position];
  if (token < 0 || token >= size) {
    throw Error{std::string{name} + "::decode: the token " + std::to_string(token) +
                " at position " + std::to_string(position) + " is not in [0, " +
                std::to_string(size) + "), the tokens of this vocabulary"};
  }
  return static_cast<std::size_t>(token);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<std::int32_t> Bytes::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    tokens[i] = static_cast<unsigned char>(text[i]);
  }
  return tokens;
}

TANDEM_ONCE std::string Bytes::decode(std::span<std::int32_t const> tokens) const {
  std::string text(tokens.size(), '\0');
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text[i] = static_cast<char>(detail::checked_token(tokens, i, size(), "Bytes"));
  }
  return text;
}

}  // namespace tandem

#endif
