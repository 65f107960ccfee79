// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/core/log_uniform.hpp>

namespace log_uniform_test {

using tandem::LogUniform;
using tandem::LogUniformSampler;
using Sample = std::vector<std::int32_t>;

TEST_CASE("log-uniform probabilities add up to 1, and a number's class is where it falls") {
  for (int const classes : {1, 2, 10, 1000}) {
    LogUniform const law{classes};
    double sum = 0.0;
    for (int c = 0; c < classes; ++c) {
      // The numbers of class c lie between the sums of the probabilities up to it.
      CHECK(law.at(sum + 0.001 * law.probability(c)) == c);
      CHECK(law.at(sum + 0.999 * law.probability(c)) == c);
      sum += law.probability(c);
    }
    CHECK(std::fabs(sum - 1.0) <= 1e-12);
    CHECK(law.at(0.0) == 0);
    CHECK(law.at(1.0 - 0x1p-53) == classes - 1);
  }
  CHECK(std::fabs(LogUniform{1}.probability(0) - 1.0) <= 1e-15);
}

TEST_CASE("8,192 of 793,472 classes take as many draws as published: 14,500 to 17,000") {
  LogUniformSampler sampler{793'472};
  Sample sample(8192);
  for (std::uint32_t step = 0; step < 5; ++step) {
    std::int64_t const tries = sampler.draw(sample, 1, step, 0);
    CHECK(tries > 14'500);  // as MXNet's test of its sampler wants
    CHECK(tries < 17'000);
    double expected = 0.0;
    for (int c = 0; step == 0 && c < 793'472; ++c) {
      expected += sampler.law().expected_count(c, tries);
    }
    CHECK((step > 0 || std::fabs(expected / 8192.0 - 1.0) <= 0.02));  // of a set of 8,192
    std::sort(sample.begin(), sample.end());
    CHECK(std::adjacent_find(sample.begin(), sample.end()) == sample.end());
    CHECK(sample.front() == 0);  // which is nearly always in it
    CHECK(sample.back() < 793'472);
  }
}

TEST_CASE("a sample depends on seed, step and layer only, and is what it was") {
  auto const drawn = [](std::uint64_t seed, std::uint32_t step, std::uint32_t layer) {
    LogUniformSampler sampler{1000};
    Sample sample(6);
    sampler.draw(sample, seed, step + 1, layer);
    sampler.draw(sample, seed, step, layer);
    return sample;
  };
  CHECK(drawn(1, 2, 3) == Sample{10, 13, 2, 59, 115, 211});
  CHECK(drawn(1, 2, 3) == drawn(1, 2, 3));
  CHECK(drawn(2, 2, 3) != drawn(1, 2, 3));
  CHECK(drawn(1, 3, 3) != drawn(1, 2, 3));
  CHECK(drawn(1, 2, 4) != drawn(1, 2, 3));
}

TEST_CASE("expected counts are those of many samples") {
  constexpr int classes = 50;
  constexpr int runs = 4000;
  LogUniformSampler sampler{classes};
  Sample sample(10);
  std::vector<double> found(classes);
  std::vector<double> expected(classes);
  for (std::uint32_t run = 0; run < runs; ++run) {
    std::int64_t const tries = sampler.draw(sample, 7, run, 0);
    for (int c = 0; c < classes; ++c) {
      expected[static_cast<std::size_t>(c)] += sampler.law().expected_count(c, tries) / runs;
    }
    for (std::int32_t const c : sample) {
      found[static_cast<std::size_t>(c)] += 1.0 / runs;
    }
  }
  for (std::size_t c = 0; c < classes; ++c) {
    INFO(c, " ", found[c], " ", expected[c]);
    CHECK(std::fabs(found[c] - expected[c]) <= 0.03);
  }
}

TEST_CASE("a sample may have all classes, or none, but not more") {
  LogUniformSampler sampler{5};
  Sample all(5);
  CHECK(sampler.draw(all, 1, 0, 0) >= 5);
  std::sort(all.begin(), all.end());
  CHECK(all == Sample{0, 1, 2, 3, 4});
  CHECK(sampler.draw({}, 1, 0, 0) == 0);
  Sample more(6);
  CHECK_THROWS_AS(sampler.draw(more, 1, 0, 0), tandem::ContractError);
  CHECK_THROWS_AS(LogUniformSampler{0}, tandem::ContractError);
}

}  // namespace log_uniform_test
