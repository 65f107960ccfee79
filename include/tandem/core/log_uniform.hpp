// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LogUniform: classes that are the rarer the larger their number is, as words sorted by how often
/// they occur; and LogUniformSampler, which draws some of them, each once.
///
/// For a softmax over a sample of the words. A draw depends on seed, step and layer only, so that
/// one set serves the global batch under every strategy.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>

namespace tandem {

/// P(c) = log((c + 2) / (c + 1)) / log(V + 1) for c in [0, V), V being the number of classes: about
/// Zipf's law. As TensorFlow's log_uniform_candidate_sampler.
struct LogUniform {
  int classes = 1;

  [[nodiscard]] TANDEM_HOST_DEVICE double probability(int c) const {
    return std::log1p(1.0 / (static_cast<double>(c) + 1.0)) / range();
  }

  /// The class of @p u, uniform in [0, 1).
  [[nodiscard]] TANDEM_HOST_DEVICE int at(double u) const {
    int const c = static_cast<int>(std::exp(u * range())) - 1;
    return c < classes ? c : classes - 1;  // where exp() was rounded up
  }

  /// How often class @p c is expected among the different classes of @p tries draws: 1 - (1 -
  /// P(c))^tries, which a sampled softmax takes the logarithm of from the logit.
  [[nodiscard]] TANDEM_HOST_DEVICE double expected_count(int c, std::int64_t tries) const {
    return -std::expm1(static_cast<double>(tries) * std::log1p(-probability(c)));
  }

  /// The class of draw number @p i of a step and a layer.
  [[nodiscard]] TANDEM_HOST_DEVICE int draw(std::uint64_t seed, std::uint32_t step,
                                            std::uint32_t layer, std::int64_t i) const {
    return of_block(block(seed, step, layer, i), i);
  }
  /// What draws 2 k and 2 k + 1 are made of, and draw @p i of it.
  [[nodiscard]] TANDEM_HOST_DEVICE static Random4 block(std::uint64_t seed, std::uint32_t step,
                                                        std::uint32_t layer, std::int64_t i) {
    return philox(seed, RandomUse::sampling, (std::uint64_t{step} << 32) | layer,
                  static_cast<std::uint64_t>(i / 2));
  }
  [[nodiscard]] TANDEM_HOST_DEVICE int of_block(Random4 const& block, std::int64_t i) const {
    bool const first = i % 2 == 0;  // not an index, for which a GPU keeps words in memory
    std::uint64_t const high = first ? block.word[0] : block.word[2];
    std::uint64_t const bits = (high << 32 | (first ? block.word[1] : block.word[3])) >> 11;
    return at(static_cast<double>(bits) * 0x1p-53);
  }

 private:
  [[nodiscard]] TANDEM_HOST_DEVICE double range() const {
    return std::log(static_cast<double>(classes) + 1.0);
  }
};

/// Draws different classes.
///
/// Memory: a bit a class. Cost: of a sample of S its draws, an exponential each; 8,192 of 793,472
/// classes take some 16,000 draws. Samples nearly as large as V take many more.
class LogUniformSampler {
 public:
  /// @pre classes >= 1
  TANDEM_ONCE explicit LogUniformSampler(int classes);

  [[nodiscard]] LogUniform const& law() const { return law_; }

  /// Fills @p sample with different classes, in the order in which they were drawn first.
  /// @returns the draws that it took, repeated ones among them
  /// @pre     sample.size() <= classes
  TANDEM_ONCE std::int64_t draw(std::span<std::int32_t> sample, std::uint64_t seed,
                                std::uint32_t step, std::uint32_t layer);

 private:
  LogUniform law_;
  std::vector<bool> seen_;  // of the sample that is being drawn
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::int64_t LogUniformSampler::draw(std::span<std::int32_t> sample, std::uint64_t seed,
                                                 std::uint32_t step, std::uint32_t layer) {
  expects(sample.size() <= seen_.size(),
          "LogUniformSampler: a sample may have each class once, so at most all of them");
  std::int64_t tries = 0;
  Random4 block{};
  for (std::size_t have = 0; have < sample.size(); ++tries) {
    if (tries % 2 == 0) {
      block = LogUniform::block(seed, step, layer, tries);
    }
    int const c = law_.of_block(block, tries);
    if (!seen_[static_cast<std::size_t>(c)]) {
      seen_[static_cast<std::size_t>(c)] = true;
      sample[have++] = c;
    }
  }
  for (std::int32_t const c : sample) {
    seen_[static_cast<std::size_t>(c)] = false;
  }
  return tries;
}

TANDEM_ONCE LogUniformSampler::LogUniformSampler(int classes) : law_{classes} {
  expects(classes >= 1, "LogUniformSampler: there must be a class");
  seen_.resize(static_cast<std::size_t>(classes));
}

}  // namespace tandem

#endif
