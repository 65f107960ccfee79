// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TextStream and ParallelStreams: windows of a long text's tokens, as a language model wants them.
///
/// A window is T inputs and T targets, the targets being what comes one token later. It depends on
/// the tokens and the numbers that name it, so that every strategy and every resumed run gets the
/// same batches.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/text/token_span.hpp>

namespace tandem {

namespace detail {

/// Writes the window of @p length tokens from @p first on; what is left of inputs and targets is 0
/// and -1, the target that a loss leaves out.
TANDEM_ONCE void read_window(TokenSpan const& tokens, std::int64_t first, std::size_t length,
                             std::span<std::int32_t> inputs, std::span<std::int32_t> targets);

}  // namespace detail

/// Random windows to train on, and consecutive ones to validate on.
///
/// An epoch has size() windows, as many as are needed to see each token once; a random one may
/// begin anywhere, so that an epoch sees some tokens twice and others not at all.
class TextStream {
 public:
  using Input = std::int32_t;
  using Target = std::int32_t;

  /// Numbers of Randomness::draw() that a window takes: transforms behind it begin there.
  static constexpr std::uint32_t draws = 1;

  /// @param tokens  must live, unchanged, as long as this does
  /// @param window  T: inputs of a window
  /// @pre   window >= 1, tokens.size() > window
  TANDEM_ONCE TextStream(TokenSpan tokens, int window);

  /// Window @p index of those that cover the text without overlap; gives its length, which is T but
  /// for the last one. Beyond it inputs are 0 and targets are -1.
  ///
  /// All windows together have each token but the first as a target once.
  /// @pre    0 <= index < size(), inputs.size() == targets.size() == T
  /// @throws Error  a token is not in the vocabulary: see TokenSpan
  TANDEM_ONCE int read(std::int64_t index, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;

  /// The window of T tokens that begins at start(@p randomness), whatever @p index is. As above.
  int read(std::int64_t index, std::span<std::int32_t> inputs, std::span<std::int32_t> targets,
           Randomness const& randomness) const {
    check(index, inputs, targets);
    detail::read_window(tokens_, start(randomness), inputs.size(), inputs, targets);
    return window_;
  }

  /// Uniform among the tokens.size() - T places where a window can begin, as nanoGPT draws it.
  ///
  /// It depends on the seed, the epoch and the sample; the bias is below tokens.size() / 2^64.
  [[nodiscard]] std::int64_t start(Randomness const& randomness) const {
    Random4 const random = randomness.draw(0);
    std::uint64_t const bits = std::uint64_t{random.word[0]} << 32 | random.word[1];
    return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(tokens_.size() - window_));
  }

  [[nodiscard]] std::int64_t size() const noexcept {
    return (tokens_.size() - 2) / window_ + 1;  // tokens.size() - 1 targets, rounded up
  }
  [[nodiscard]] int window() const noexcept { return window_; }
  /// In order each window goes on from the one before.
  [[nodiscard]] static int streams() noexcept { return 1; }
  [[nodiscard]] Shape shape() const noexcept { return tokens_shape(window_); }
  [[nodiscard]] int targets() const noexcept { return window_; }
  [[nodiscard]] int vocabulary() const noexcept { return tokens_.vocabulary(); }

 private:
  TANDEM_ONCE void check(std::int64_t index, std::span<std::int32_t> inputs,
                         std::span<std::int32_t> targets) const;

  TokenSpan tokens_;
  int window_;
};

/// B streams side by side, for networks that carry a state from batch to batch: the text in B equal
/// parts, each read from front to back.
///
/// Sample b of batch s, which is index s B + b, carries on where sample b of batch s - 1 ended:
/// read them in order, B a batch. The (tokens.size() - 1) mod B last tokens are in no part.
class ParallelStreams {
 public:
  using Input = std::int32_t;
  using Target = std::int32_t;

  /// @param tokens   must live, unchanged, as long as this does
  /// @param window   T: inputs of a window
  /// @param streams  B
  /// @pre   window >= 1, streams >= 1, tokens.size() > streams
  ParallelStreams(TokenSpan tokens, int window, int streams)
      : tokens_{tokens}, window_{window}, streams_{streams} {
    expects(window >= 1, "ParallelStreams: a window must have a token");
    expects(streams >= 1 && tokens.size() > streams,
            "ParallelStreams: there must be a stream, and more tokens than streams");
  }

  /// Window @p index / B of stream @p index mod B; gives its length, which is T but for the last
  /// one of each stream. Beyond it inputs are 0 and targets are -1.
  /// @pre    0 <= index < size(), inputs.size() == targets.size() == T
  /// @throws Error  a token is not in the vocabulary: see TokenSpan
  TANDEM_ONCE int read(std::int64_t index, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;

  [[nodiscard]] std::int64_t size() const noexcept {
    return ((part() - 1) / window_ + 1) * streams_;
  }
  [[nodiscard]] int window() const noexcept { return window_; }
  [[nodiscard]] Shape shape() const noexcept { return tokens_shape(window_); }
  [[nodiscard]] int targets() const noexcept { return window_; }
  [[nodiscard]] int streams() const noexcept { return streams_; }
  [[nodiscard]] int vocabulary() const noexcept { return tokens_.vocabulary(); }

 private:
  /// Tokens of a stream.
  [[nodiscard]] std::int64_t part() const noexcept { return (tokens_.size() - 1) / streams_; }

  TokenSpan tokens_;
  int window_;
  int streams_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void read_window(TokenSpan const& tokens, std::int64_t first, std::size_t length,
                             std::span<std::int32_t> inputs, std::span<std::int32_t> targets) {
  tokens.copy(first, inputs.first(length));
  tokens.copy(first + 1, targets.first(length));
  for (std::size_t i = length; i < inputs.size(); ++i) {
    inputs[i] = 0;
    targets[i] = -1;
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE TextStream::TextStream(TokenSpan tokens, int window)
    : tokens_{tokens}, window_{window} {
  expects(window >= 1, "TextStream: a window must have a token");
  expects(tokens.size() > window,
          "TextStream: there must be more tokens than a window has, one for the last target; "
          "take a longer text or a shorter window");
}

TANDEM_ONCE int TextStream::read(std::int64_t index, std::span<std::int32_t> inputs,
                                 std::span<std::int32_t> targets) const {
  check(index, inputs, targets);
  std::int64_t const first = index * window_;
  std::int64_t const left = tokens_.size() - 1 - first;
  int const length = left < window_ ? static_cast<int>(left) : window_;
  detail::read_window(tokens_, first, static_cast<std::size_t>(length), inputs, targets);
  return length;
}

TANDEM_ONCE void TextStream::check(std::int64_t index, std::span<std::int32_t> inputs,
                                   std::span<std::int32_t> targets) const {
  auto const window = static_cast<std::size_t>(window_);
  expects(index >= 0 && index < size(), "TextStream::read: the index must be in [0, size())");
  expects(inputs.size() == window && targets.size() == window,
          "TextStream::read: inputs and targets take a window's tokens each");
}

TANDEM_ONCE int ParallelStreams::read(std::int64_t index, std::span<std::int32_t> inputs,
                                      std::span<std::int32_t> targets) const {
  auto const window = static_cast<std::size_t>(window_);
  expects(index >= 0 && index < size(), "ParallelStreams::read: the index must be in [0, size())");
  expects(inputs.size() == window && targets.size() == window,
          "ParallelStreams::read: inputs and targets take a window's tokens each");
  std::int64_t const within = index / streams_ * window_;
  std::int64_t const left = part() - within;
  int const length = left < window_ ? static_cast<int>(left) : window_;
  detail::read_window(tokens_, index % streams_ * part() + within, static_cast<std::size_t>(length),
                      inputs, targets);
  return length;
}

}  // namespace tandem

#endif
