// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A small network on two inputs, and sentences that it translates.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

namespace tandem {
namespace test::translated {

using Double = BasicHost<Portable, Fp64>;
inline constexpr int vocabulary = 7;
inline constexpr int longest = 6;
inline constexpr std::int32_t begin = 5;
inline constexpr std::int32_t end = 6;
struct Net : models::Gnmt<vocabulary, 5, 3, longest> {};

/// Sentences of 1 to 4 tokens between begin and end.
struct Data {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 7; }
  [[nodiscard]] Shape shape() const { return tokens_shape(longest); }
  [[nodiscard]] Shape second_shape() const { return tokens_shape(longest); }
  [[nodiscard]] int targets() const { return longest; }
  [[nodiscard]] int length(std::int64_t index) const { return 3 + static_cast<int>(index * 3 % 4); }
  [[nodiscard]] int second_length(std::int64_t index) const {
    return 2 + static_cast<int>(index % 4);
  }
  [[nodiscard]] std::int32_t begin() const { return translated::begin; }
  [[nodiscard]] std::int32_t end() const { return translated::end; }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> second,
            std::span<std::int32_t> y) const {
    auto const fill = [&](std::span<std::int32_t> words, std::int64_t step) {
      for (std::size_t t = 0; t < words.size(); ++t) {
        words[t] = static_cast<std::int32_t>((index + static_cast<std::int64_t>(t) * step) % 5);
      }
    };
    fill(x, 3);
    fill(second, 2);
    std::copy(second.begin() + 1, second.end(), y.begin());
    x.front() = second.front() = translated::begin;
    x.back() = y.back() = translated::end;
  }
};

inline DecodeTask task() {
  Data const data;
  DecodeTask task{.begin = begin, .end = end};
  for (std::int64_t i = 0; i < data.size(); ++i) {
    std::vector<std::int32_t> x(static_cast<std::size_t>(data.length(i)));
    std::vector<std::int32_t> second(static_cast<std::size_t>(data.second_length(i)));
    std::vector<std::int32_t> y(second.size());
    data.read(i, x, second, y);
    task.sources.push_back(x);
  }
  return task;
}

}  // namespace test::translated
}  // namespace tandem
