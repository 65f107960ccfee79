// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Floats: 16 channels of one pixel in a register, read from and written to float or BFloat16.
///
/// Made of the compilers' vector extension: AVX-512 takes one register, a lesser machine several.
/// A struct, passed by reference: without AVX-512 compilers warn of any function that takes or
/// returns a bare vector of this size. All is inlined, so that no such call remains.

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

#include <tandem/core/bfloat16.hpp>

namespace tandem::host::channels_last {

namespace detail {

using FloatVector = float __attribute__((vector_size(64)));
using IntVector = int __attribute__((vector_size(64)));
using WordVector = std::uint32_t __attribute__((vector_size(64)));
using HalfVector = std::uint16_t __attribute__((vector_size(32)));

/// result = compare(a, b), -1 or 0 in each lane. Without AVX-512 a part at a time: g++ 12 compares
/// larger vectors than the machine's lane by lane (batch norm's backward took 38 ms, not 5).
template <class Compare>
[[gnu::always_inline]] inline void compare_to(IntVector& result, FloatVector const& a,
                                              FloatVector const& b, Compare const& compare) {
#if defined(__AVX512F__)
  result = compare(a, b);
#else
  using FloatPart = float __attribute__((vector_size(16)));
  using IntPart = int __attribute__((vector_size(16)));
  IntPart part[4];
  FloatPart x[4];
  FloatPart y[4];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  for (int i = 0; i < 4; ++i) {
    part[i] = compare(x[i], y[i]);
  }
  std::memcpy(&result, part, sizeof result);
#endif
}

/// result = @p a where the mask is -1, @p b where it is 0.
[[gnu::always_inline]] inline void select_to(WordVector& result, IntVector const& mask,
                                             WordVector const& a, WordVector const& b) {
#if defined(__AVX512F__)
  result = mask ? a : b;
#else
  result = (reinterpret_cast<WordVector>(mask) & a) | (~reinterpret_cast<WordVector>(mask) & b);
#endif
}

/// result = the square root of each lane of @p a. Not a loop of std::sqrt, which sets errno: no
/// compiler makes vectors of it.
[[gnu::always_inline]] inline void root_to(FloatVector& result, FloatVector const& a) {
#if defined(__AVX512F__)
  asm("vsqrtps %1, %0" : "=v"(result) : "v"(a));
#elif defined(__SSE2__)
  __m128 part[4];
  std::memcpy(part, &a, sizeof a);
  for (__m128& p : part) {
    p = _mm_sqrt_ps(p);
  }
  std::memcpy(&result, part, sizeof result);
#else
  for (int i = 0; i < 16; ++i) {
    result[i] = std::sqrt(a[i]);
  }
#endif
}

}  // namespace detail

/// Lanes of a Floats.
inline constexpr int lanes = 16;

/// What a comparison gives: true or false in each lane, for select().
struct Mask {
  detail::IntVector v;  ///< -1 or 0
};

/// 16 floats; starts undefined. Each operator works on all lanes and rounds as float does.
struct Floats {
  detail::FloatVector v;

  Floats() = default;
  /// @p value in every lane.
  [[gnu::always_inline]] explicit Floats(float value) : v{value - detail::FloatVector{}} {}

  [[gnu::always_inline]] friend Floats operator+(Floats const& a, Floats const& b) {
    return of(a.v + b.v);
  }
  [[gnu::always_inline]] friend Floats operator-(Floats const& a, Floats const& b) {
    return of(a.v - b.v);
  }
  [[gnu::always_inline]] friend Floats operator*(Floats const& a, Floats const& b) {
    return of(a.v * b.v);
  }
  [[gnu::always_inline]] friend Floats operator/(Floats const& a, Floats const& b) {
    return of(a.v / b.v);
  }
  [[gnu::always_inline]] Floats& operator+=(Floats const& b) {
    v += b.v;
    return *this;
  }
  [[gnu::always_inline]] friend Mask operator>(Floats const& a, Floats const& b) {
    Mask result;
    detail::compare_to(result.v, a.v, b.v, [](auto const& x, auto const& y) { return x > y; });
    return result;
  }
  [[gnu::always_inline]] friend Mask operator<=(Floats const& a, Floats const& b) {
    Mask result;
    detail::compare_to(result.v, a.v, b.v, [](auto const& x, auto const& y) { return x <= y; });
    return result;
  }
  [[gnu::always_inline]] friend Mask operator==(Floats const& a, Floats const& b) {
    Mask result;
    detail::compare_to(result.v, a.v, b.v, [](auto const& x, auto const& y) { return x == y; });
    return result;
  }

  /// a b + c, in one rounding where the machine can.
  [[gnu::always_inline]] friend Floats multiply_add(Floats const& a, Floats const& b,
                                                    Floats const& c) {
    return of(a.v * b.v + c.v);
  }
  /// @p a where the mask is true, @p b elsewhere.
  [[gnu::always_inline]] friend Floats select(Mask const& mask, Floats const& a, Floats const& b) {
    Floats result;
    detail::WordVector words;
    detail::select_to(words, mask.v, reinterpret_cast<detail::WordVector>(a.v),
                      reinterpret_cast<detail::WordVector>(b.v));
    result.v = reinterpret_cast<detail::FloatVector>(words);
    return result;
  }
  /// The square root of each, rounded as float's.
  [[gnu::always_inline]] friend Floats sqrt(Floats const& a) {
    Floats result;
    detail::root_to(result.v, a.v);
    return result;
  }
  /// The larger of each pair; a NaN in @p a stays, one in @p b is passed over.
  [[gnu::always_inline]] friend Floats max(Floats const& a, Floats const& b) {
    return of(b.v > a.v ? b.v : a.v);
  }
  /// The smaller of each pair; a NaN in @p a stays, one in @p b is passed over.
  [[gnu::always_inline]] friend Floats min(Floats const& a, Floats const& b) {
    return of(b.v < a.v ? b.v : a.v);
  }

 private:
  template <class Vector>
  [[gnu::always_inline]] static Floats of(Vector const& vector) {
    Floats result;
    result.v = vector;
    return result;
  }
};

/// @p value where @p y is positive or a NaN, 0 elsewhere: a ReLU, or its gradient.
[[gnu::always_inline]] inline Floats where_positive(Floats const& y, Floats const& value) {
  return select(y <= Floats{0.0F}, Floats{0.0F}, value);
}

/// p[0] to p[15]; any alignment.
[[gnu::always_inline]] inline Floats load(float const* p) {
  Floats result;
  std::memcpy(&result.v, p, sizeof result.v);
  return result;
}
[[gnu::always_inline]] inline Floats load(BFloat16 const* p) {
  detail::HalfVector halves;
  std::memcpy(&halves, p, sizeof halves);
  Floats result;
#if defined(__AVX512BW__)  // the same numbers; g++ 12 takes five instructions to convert, one here
  result.v = reinterpret_cast<detail::FloatVector>(__builtin_shufflevector(
      detail::HalfVector{}, halves, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24,
      9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
#else
  result.v = reinterpret_cast<detail::FloatVector>(
      __builtin_convertvector(halves, detail::WordVector) << 16);
#endif
  return result;
}

/// To p[0] to p[15]; any alignment. BFloat16 rounds to nearest, ties to even; a NaN stays one.
[[gnu::always_inline]] inline void store(float* p, Floats const& value) {
  std::memcpy(p, &value.v, sizeof value.v);
}
[[gnu::always_inline]] inline void store(BFloat16* p, Floats const& value) {
#if defined(__AVX512BF16__)  // takes numbers below 2^-126 for 0
  detail::HalfVector halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(value.v));
#else
  auto const words = reinterpret_cast<detail::WordVector>(value.v);
  detail::WordVector const upper = words >> 16;
  detail::WordVector rounded = (words + 0x7FFFU + (upper & 1U)) >> 16;
  detail::select_to(rounded, (value == value).v, rounded, upper | 0x40U);
  auto const halves = __builtin_convertvector(rounded, detail::HalfVector);
#endif
  std::memcpy(static_cast<void*>(p), &halves, sizeof halves);
}

/// p[0] to p[n - 1], and 0 in the other lanes, whose memory is not touched. Slower than load(p):
/// where a pixel has 16 channels or more, rather take its last 16 once more.
/// @pre 0 <= n <= 16
template <class T>
[[gnu::always_inline]] inline Floats load(T const* p, int n) {
  T part[lanes] = {};
  for (int i = 0; i < n; ++i) {
    part[i] = p[i];
  }
  return load(part);
}

/// Lanes 0 to n - 1 to p[0] to p[n - 1]; the memory behind them is not touched.
/// @pre 0 <= n <= 16
template <class T>
[[gnu::always_inline]] inline void store(T* p, Floats const& value, int n) {
  T part[lanes];
  store(part, value);
  for (int i = 0; i < n; ++i) {
    p[i] = part[i];
  }
}

}  // namespace tandem::host::channels_last
