// SPDX-License-Identifier: Apache-2.0
#pragma once

// tandem in one file, written by single_include/amalgamate.py from include/tandem/. Do not edit.

#include <cstdint>
#include <stdexcept>
#include <string>

// ---- tandem/tandem.hpp

/// @file
/// All of tandem that a plain C++20 compiler takes.

// ---- tandem/core/config.hpp

/// @file
/// Version and the two compiler attributes that the rest of the library spells as macros.
///
/// Macros are defined here and in contract.hpp only. None of them changes the body of a type or of
/// a function, so that two translation units of one program may be compiled by different compilers.

#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 1
#define TANDEM_VERSION_PATCH 0

/// Marks what device code may call: nothing to a plain C++ compiler.
#if defined(__CUDACC__)
#define TANDEM_HOST_DEVICE __host__ __device__
#else
#define TANDEM_HOST_DEVICE
#endif

/// A function of its own even where the optimiser would inline it: one for each stage and pass, and
/// kernels whose bits must not depend on their caller.
#if defined(__GNUC__) || defined(__clang__)
#define TANDEM_NOINLINE __attribute__((noinline))
#else
#define TANDEM_NOINLINE
#endif

// ---- tandem/core/contract.hpp

/// @file
/// Checks of preconditions: expects() at the public door, TANDEM_ASSERT inside.

// ---- tandem/core/error.hpp

/// @file
/// The exceptions that tandem throws; all derive from Error.
///
/// A broken contract (the program is wrong) is a ContractError; a broken world (files, ranks, numbers
/// that overflow) has a type of its own. Every message is one sentence that says what to do.

namespace tandem {

/// Base of every exception that tandem throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller broke a stated precondition.
class ContractError : public Error {
 public:
  using Error::Error;
};

/// A file is missing, unreadable, truncated or not what it claims to be.
class FileError : public Error {
 public:
  FileError(std::string const& path, std::string const& what)
      : Error{"'" + path + "': " + what}, path_{path} {}

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The loss of a step is not a finite number; the parameters are those of before the step.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

/// Some rank did not reach a collective in time.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// Another rank of the group failed first; its error is the one worth reading.
class AbortedError : public Error {
 public:
  using Error::Error;
};

/// The first error of a group of ranks, with the rank that threw it.
class RankError : public Error {
 public:
  RankError(int rank, std::string const& what)
      : Error{"rank " + std::to_string(rank) + ": " + what}, rank_{rank} {}

  [[nodiscard]] int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

}  // namespace tandem

namespace tandem {

namespace detail {

[[noreturn]] inline void fail_contract(char const* message, char const* file, int line) {
  throw ContractError{std::string{message} + " (" + file + ":" + std::to_string(line) + ")"};
}

}  // namespace detail

/// Always on, O(1), at the public door. The message says what is wrong and what to do.
/// @throws ContractError  @p condition is false
constexpr void expects(bool condition, char const* message, char const* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  if (!condition) {
    detail::fail_contract(message, file, line);
  }
}

}  // namespace tandem

/// A check inside the library, on in debug builds only; the body of no type depends on it.
#if defined(NDEBUG)
#define TANDEM_ASSERT(condition) static_cast<void>(0)
#else
#define TANDEM_ASSERT(condition) ::tandem::expects((condition), "internal check: " #condition)
#endif

// ---- tandem/core/philox.hpp

/// @file
/// Philox4x32-10, a counter-based generator: the random numbers of a place, with no state to carry.
///
/// A number depends on its key and its counter only, never on which device draws it or in which
/// order, so that dropout, augmentation and initial weights are the same under every strategy.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

namespace tandem {

/// Four words drawn at once.
struct Random4 {
  std::uint32_t word[4];
};

/// What a random number is for; part of every key, so that no two uses share numbers.
enum class RandomUse : std::uint32_t { initial_weights = 1, dropout, order, augmentation, user };

/// The 128 bits at counter (@p low, @p high) of the stream with key (@p seed, @p use).
TANDEM_HOST_DEVICE constexpr Random4 philox(std::uint64_t seed, RandomUse use, std::uint64_t low,
                                            std::uint64_t high) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(use) << 24);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  Random4 r{{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
             static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const a = 0xD2511F53ULL * r.word[0];
    std::uint64_t const b = 0xCD9E8D57ULL * r.word[2];
    r = Random4{{static_cast<std::uint32_t>(b >> 32) ^ r.word[1] ^ key0,
                 static_cast<std::uint32_t>(b),
                 static_cast<std::uint32_t>(a >> 32) ^ r.word[3] ^ key1,
                 static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return r;
}

/// Uniform in [0, 1), 24 bits.
TANDEM_HOST_DEVICE constexpr float uniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

/// Uniform in {0, …, n - 1}; the bias is below n / 2^32.
TANDEM_HOST_DEVICE constexpr std::uint32_t below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * n) >> 32);
}

}  // namespace tandem

// ---- tandem/core/shape.hpp

/// @file
/// Shape: the extents of one sample, known to the compiler; and Image, Vector, the network inputs.
///
/// The batch is never part of a Shape: it is a run-time number. A Shape of rank 0 is "no shape".

namespace tandem {

/// Extents of one sample, outermost first: (C, H, W) for an image, (N) for a vector.
struct Shape {
  int rank = 0;
  int extent[4] = {};

  [[nodiscard]] constexpr int operator[](int axis) const { return extent[axis]; }

  /// 0 for a shape of rank 0.
  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t product = rank > 0 ? 1 : 0;
    for (int axis = 0; axis < rank; ++axis) {
      product *= extent[axis];
    }
    return product;
  }

  [[nodiscard]] constexpr bool valid() const { return elements() > 0; }

  friend constexpr bool operator==(Shape const&, Shape const&) = default;
};

/// The shape of an image: @p channels maps of @p height rows and @p width columns.
constexpr Shape image_shape(int channels, int height, int width) {
  return {3, {channels, height, width, 0}};
}

/// The shape of a vector of @p elements.
constexpr Shape vector_shape(int elements) { return {1, {elements, 0, 0, 0}}; }

/// A network's input: an image of C channels, H rows, W columns.
template <int C, int H, int W>
struct Image {
  static constexpr Shape shape = image_shape(C, H, W);
};

/// A network's input: a vector of N numbers.
template <int N>
struct Vector {
  static constexpr Shape shape = vector_shape(N);
};

/// "3x32x32", "10", or "none" for a shape of rank 0.
inline std::string to_string(Shape const& shape) {
  std::string text;
  for (int axis = 0; axis < shape.rank; ++axis) {
    text += (axis > 0 ? "x" : "") + std::to_string(shape[axis]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace tandem

#undef TANDEM_ASSERT
#undef TANDEM_HOST_DEVICE
#undef TANDEM_NOINLINE
