// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What is trained on and evaluated: drawn images, vectors, texts and pairs of texts.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <tiny_network.hpp>

namespace tandem::fuzz {

/// What the networks of a program take, and how they may differ.
struct Task {
  Shape input;
  int classes = 0;            ///< of labels; of rows' targets, as many as there are words
  bool same_kernels = false;  ///< under all strategies, so that equal parameters give equal bits
  int words = 0;              ///< of tokens
  bool labelled = false;      ///< samples of tokens have a label each, not their rows a target
  Shape second{};             ///< another input of tokens
  int others = 0;             ///< words of it
  double rounding = 0.0;      ///< of the numbers in products, where they are not the parameters'
  bool sliced = false;        ///< sums within a layer, or over rows, are of other parts
};

/// A batch, of numbers or of tokens.
template <class T>
struct Samples {
  std::vector<T> x{};
  std::vector<std::int32_t> tokens{};
  std::vector<std::int32_t> y{};
  Sequences sequences{};  ///< of tokens
  std::vector<std::int32_t> lengths{};
  std::vector<std::int32_t> seconds{};  ///< tokens of the second input
  std::vector<std::int32_t> second_lengths{};
};

/// Sequences of several lengths, each @p longest long, and their targets, as a dataset.
struct Texts {
  using Input = std::int32_t;
  using Target = std::int32_t;
  int longest = 1;
  int targets_each = 1;  ///< of a sample: as many, or a label
  std::vector<std::int32_t> lengths{};
  std::vector<std::int32_t> tokens{};
  std::vector<std::int32_t> y{};

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(lengths.size()); }
  [[nodiscard]] Shape shape() const { return tokens_shape(longest); }
  [[nodiscard]] int targets() const { return targets_each; }
  [[nodiscard]] int length(std::int64_t index) const {
    return lengths[static_cast<std::size_t>(index)];
  }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> to) const {
    std::copy_n(tokens.begin() + index * longest, x.size(), x.begin());
    std::copy_n(y.begin() + index * targets_each, to.size(), to.begin());
  }
};

/// What is evaluated: images or vectors, or texts where there are none, or two of them a sample.
struct Data {
  TensorDataset<std::int32_t> images{vector_shape(1), {}, {}};
  std::vector<std::int32_t> labels{};  ///< of the images
  Texts texts{};
  Texts seconds{};
};

/// Pairs of texts, whose labels are those of the first ones.
struct TextPairs {
  using Input = std::int32_t;
  using Target = std::int32_t;
  Texts const& first;
  Texts const& second;

  [[nodiscard]] std::int64_t size() const { return first.size(); }
  [[nodiscard]] Shape shape() const { return first.shape(); }
  [[nodiscard]] Shape second_shape() const { return second.shape(); }
  [[nodiscard]] int targets() const { return first.targets(); }
  [[nodiscard]] int length(std::int64_t index) const { return first.length(index); }
  [[nodiscard]] int second_length(std::int64_t index) const { return second.length(index); }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> other,
            std::span<std::int32_t> to) const {
    first.read(index, x, to);
    second.read(index, other, to.first(0));
  }
};

namespace detail {

/// A number in [0, limit) that (seed, i, kind) decides.
inline std::int32_t drawn(std::uint64_t seed, std::int64_t i, std::uint32_t kind, int limit) {
  Random4 const r = philox(seed, RandomUse::user, static_cast<std::uint64_t>(i), kind);
  return static_cast<std::int32_t>(below(r.word[0], static_cast<std::uint32_t>(limit)));
}

/// Sequences of 1 to @p most rows, in @p time rows each; behind a sequence's end is what @p beyond
/// decides, and must not matter.
inline Texts texts(Task const& task, int count, int most, int time, std::uint64_t seed,
                   std::uint32_t beyond) {
  Texts all{.longest = time, .targets_each = task.labelled ? 1 : time};
  bool const whole = drawn(seed, 0, 3, 3) == 0;
  for (int s = 0; s < count; ++s) {
    int const length = whole ? most : 1 + drawn(seed, s, 4, most);
    bool const silent = drawn(seed, s, 5, 8) == 0;
    all.lengths.push_back(length);
    for (int t = 0; t < time; ++t) {
      std::int64_t const at = std::int64_t{s} * task.input[0] + t;
      bool const there = t < length;
      bool const counts = there && !silent && drawn(seed, at, 6, 6) > 0;
      all.tokens.push_back(drawn(seed, at, there ? 7 : beyond, task.words));
      if (!task.labelled) {
        all.y.push_back(counts ? drawn(seed, at, 8, task.classes) : -1);
      }
    }
    if (task.labelled) {
      all.y.push_back(drawn(seed, s, 8, task.classes));
    }
  }
  return all;
}

/// The same of the second input, without targets.
inline Texts second_texts(Task const& task, int count, int most, int time, std::uint64_t seed,
                          std::uint32_t beyond) {
  Task const alone{.input = task.second, .classes = 1, .words = task.others, .labelled = true};
  return texts(alone, count, most, time, seed ^ 0x5ec0d, beyond);
}

inline Data data_of(Task const& task, int count, std::uint64_t seed, std::uint32_t beyond) {
  if (task.input.timed) {
    Texts all = texts(task, count, task.input[0], task.input[0], seed, beyond);
    if (std::all_of(all.y.begin(), all.y.end(), [](std::int32_t y) { return y < 0; })) {
      all.y.front() = 0;  // an evaluation without a target is refused
    }
    Data data{.texts = std::move(all)};
    if (task.second.valid()) {
      data.seconds = second_texts(task, count, task.second[0], task.second[0], seed, beyond);
    }
    return data;
  }
  return {.images = test::dataset(task.input, task.classes, count, seed),
          .labels = test::Samples<float>{task.input, task.classes, count, seed}.y};
}

}  // namespace detail

}  // namespace tandem::fuzz
