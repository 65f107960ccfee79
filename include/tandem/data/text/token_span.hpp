// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TokenSpan: a view of tokens, of 16 or 32 bits each, that checks what it gives.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// Consecutive tokens that something else owns: a vector, or a TokenFile. Cheap to copy.
class TokenSpan {
 public:
  /// @param vocabulary  what all tokens must be below; a network's embedding has so many rows
  TokenSpan(std::span<std::int32_t const> tokens, int vocabulary)
      : wide_{tokens.data()}, size_{tokens.size()}, vocabulary_{vocabulary} {
    expects(vocabulary >= 1, "TokenSpan: the vocabulary must have a token");
  }
  TokenSpan(std::span<std::uint16_t const> tokens, int vocabulary)
      : narrow_{tokens.data()}, size_{tokens.size()}, vocabulary_{vocabulary} {
    expects(vocabulary >= 1, "TokenSpan: the vocabulary must have a token");
  }
  // The vector owns them: give it a name.
  TokenSpan(std::vector<std::int32_t> const&&, int) = delete;
  TokenSpan(std::vector<std::uint16_t> const&&, int) = delete;

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(size_); }
  [[nodiscard]] int vocabulary() const noexcept { return vocabulary_; }

  /// Writes the tokens from @p first on to @p to, which says how many.
  /// @pre    0 <= first, first + to.size() <= size()
  /// @throws Error  one of them is not in [0, vocabulary()), as in a file that lies
  TANDEM_ONCE void copy(std::int64_t first, std::span<std::int32_t> to) const;

  /// The @p count tokens from @p first on.
  /// @pre 0 <= first, 0 <= count, first + count <= size()
  TANDEM_ONCE [[nodiscard]] TokenSpan part(std::int64_t first, std::int64_t count) const;

  /// The first floor(@p fraction * size()) tokens, to train on, and the rest, to validate:
  /// nanoGPT's split is that of 0.9.
  /// @pre 0 <= fraction <= 1
  [[nodiscard]] std::pair<TokenSpan, TokenSpan> split(double fraction) const {
    expects(fraction >= 0 && fraction <= 1, "TokenSpan::split: the fraction must be in [0, 1]");
    auto const first = static_cast<std::int64_t>(fraction * static_cast<double>(size_));
    return {part(0, first), part(first, size() - first)};
  }

 private:
  std::int32_t const* wide_ = nullptr;  // this or the next; both may be null where there are none
  std::uint16_t const* narrow_ = nullptr;
  std::size_t size_ = 0;
  int vocabulary_ = 0;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void TokenSpan::copy(std::int64_t first, std::span<std::int32_t> to) const {
  auto const at = static_cast<std::size_t>(first);
  expects(first >= 0 && at <= size_ && to.size() <= size_ - at,
          "TokenSpan::copy: the tokens must be in [0, size())");
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::int32_t const token = wide_ != nullptr ? wide_[at + i] : narrow_[at + i];
    if (token < 0 || token >= vocabulary_) {
      throw Error{"TokenSpan: the token " + std::to_string(token) + " at position " +
                  std::to_string(at + i) + " is not in [0, " + std::to_string(vocabulary_) +
                  "), the vocabulary; the tokens are another tokenizer's, or damaged"};
    }
    to[i] = token;
  }
}

TANDEM_ONCE TokenSpan TokenSpan::part(std::int64_t first, std::int64_t count) const {
  expects(first >= 0 && count >= 0 && first <= size() && count <= size() - first,
          "TokenSpan::part: the tokens must be in [0, size())");
  TokenSpan out = *this;
  out.wide_ = wide_ != nullptr ? wide_ + first : nullptr;
  out.narrow_ = narrow_ != nullptr ? narrow_ + first : nullptr;
  out.size_ = static_cast<std::size_t>(count);
  return out;
}

}  // namespace tandem

#endif
