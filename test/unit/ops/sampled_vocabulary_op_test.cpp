// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/host/sampled_vocabulary.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/log_uniform.hpp>
#include <tandem/layers/vocabulary.hpp>
#if defined(TANDEM_ONEDNN)
#include <onednn_op.hpp>
#include <tandem/ops/onednn/vocabulary.hpp>
#endif

#include "../kernels/support.hpp"
#include "sequence_op.hpp"

namespace sampled_vocabulary_op_test {

using namespace tandem;
using test::Numbers;
using test::OpTask;

using Double = BasicHost<Portable, Fp64>;
struct Words;

constexpr int words = 23;
constexpr int channels = 5;
constexpr int drawn = 6;

using Plain = Vocabulary<words, Sampled<drawn>>;
using Chunks = Vocabulary<words, Shares<Words>, NoBias, PerSample, Chunked<5>, Sampled<drawn>>;
using Whole = Vocabulary<words>;

static_assert(Layer<Plain> && Layer<Chunks>);
static_assert(Plain::options.sampled == drawn && Whole::options.sampled == 0);
static_assert(Plain::macs(timed_shape(7, 4)) == 7 * 4 * (drawn + 1));
static_assert(Plain::kept(timed_shape(7, 4)).scalars == 7 * (drawn + 1));
static_assert(Chunks::kept(timed_shape(7, 4)).scalars == 0);
static_assert(Plain::parameters(timed_shape(7, 4)).item[0].shape == Shape{2, {words, 4}});

struct Case {
  Shape in;
  OpTask task;
  Numbers x;
  std::vector<Numbers> weights{test::random<double>(words * channels, 2),
                               test::random<double>(words, 3)};

  Case(int batch, int time)
      : in{timed_shape(time + 2, channels)},
        task{.batch = batch, .time = time, .row_scale = 0.375},
        x{test::random<double>(batch * time * channels, 1)} {
    for (int r = 0; r < batch * time; ++r) {
      task.targets.push_back(r % 5 == 3 ? -1 : r * 7 % words);
    }
  }
};

template <class L, class Backend = Double>
test::OpResult run(Case const& c) {
  auto weights = c.weights;
  if (!L::bias) {
    weights.pop_back();
  }
  return test::run_op<L, Backend>(c.in, c.task, c.x, weights, {});
}

/// The words of a step and layer 9, which is run_op()'s, and their expected counts.
struct Draws {
  std::vector<std::int32_t> word = std::vector<std::int32_t>(drawn);
  std::int64_t tries;

  explicit Draws(std::int64_t step)
      : tries{LogUniformSampler{words}.draw(word, 5, static_cast<std::uint32_t>(step), 9)} {}

  [[nodiscard]] double count(int c) const {
    double const p = std::log((c + 2.0) / (c + 1.0)) / std::log(words + 1.0);
    return 1 - std::pow(1 - p, static_cast<double>(tries));
  }
};

double logit(Case const& c, std::size_t row, int word, bool bias) {
  double z = bias ? c.weights[1][static_cast<std::size_t>(word)] : 0.0;
  for (std::size_t d = 0; d < channels; ++d) {
    z += c.weights[0][static_cast<std::size_t>(word * channels) + d] * c.x[row * channels + d];
  }
  return z;
}

/// Of each row the loss, and 1 where no drawn word's logit is larger than the target's; by the
/// formula, with no thought for speed or overflow.
Numbers reference(Case const& c, bool bias) {
  Draws const draws{c.task.step};
  Numbers list;
  for (std::size_t r = 0; r < c.task.targets.size(); ++r) {
    int const target = c.task.targets[r];
    if (target < 0) {
      list.insert(list.end(), {0.0, 0.0});
      continue;
    }
    double const own = std::exp(logit(c, r, target, bias)) / draws.count(target);
    double sum = own;
    bool right = true;
    for (int const word : draws.word) {
      if (word != target) {
        double const other = std::exp(logit(c, r, word, bias)) / draws.count(word);
        sum += other;
        right = right && other < own;
      }
    }
    list.insert(list.end(), {-std::log(own / sum), right ? 1.0 : 0.0});
  }
  return list;
}

/// The sum of all losses, both parts.
double loss(test::OpResult const& result) {
  double sum = 0;
  for (std::size_t i = 0; i < result.y.size(); i += 3) {
    sum += result.y[i] + result.y[i + 1];
  }
  return sum;
}

template <class L>
void follows_the_formula() {
  int hits = 0;
  for (int step = 0; step < 5; ++step) {
    Case c{2, 12};
    c.task.step = step;
    auto const found = run<L>(c).y;
    auto const wanted = reference(c, L::bias);
    Draws const draws{step};
    for (std::size_t r = 0; r < c.task.targets.size(); ++r) {
      CHECK(std::fabs(found[3 * r] + found[3 * r + 1] - wanted[2 * r]) <= 1e-13);
      CHECK(found[3 * r + 2] == wanted[2 * r + 1]);
      hits += static_cast<int>(std::count(draws.word.begin(), draws.word.end(), c.task.targets[r]));
    }
  }
  CHECK(hits > 10);  // words that were drawn and wanted
}

TEST_CASE("a sampled softmax is TensorFlow's formula") {
  follows_the_formula<Plain>();
  follows_the_formula<Chunks>();
}

template <class L>
void passes_finite_differences() {
  Case const c{2, 6};
  auto const found = run<L>(c);
  auto const difference = [&](Numbers const& at, auto const& set) {
    return test::finite_differences(at, [&](Numbers const& list) {
      Case changed = c;
      set(changed, list);
      return c.task.row_scale * loss(run<L>(changed));
    });
  };
  auto const same = [](Numbers const& a, Numbers const& b) {
    // h² / 6 times third derivatives below 4, and the rounding of a sum below 60 divided by h.
    return test::within(a, b, test::constant(b.size(), 8e-9));
  };
  CHECK(same(found.dx, difference(c.x, [](Case& to, Numbers const& list) { to.x = list; })));
  for (std::size_t p = 0; p < found.gradients.size(); ++p) {
    CHECK(same(found.gradients[p], difference(c.weights[p], [p](Case& to, Numbers const& list) {
                 to.weights[p] = list;
               })));
  }
}

TEST_CASE("the op of a sampled Vocabulary passes finite differences") {
  passes_finite_differences<Plain>();
  passes_finite_differences<Chunks>();
  passes_finite_differences<Vocabulary<words, Sampled<words>>>();
  passes_finite_differences<Vocabulary<words, Sampled<1>, NoBias>>();
}

TEST_CASE("where all words are wanted, a sampled Vocabulary is Vocabulary") {
  Case c{3, 11};
  c.task.training = false;
  CHECK(test::same_bits(run<Plain>(c).y, run<Whole>(c).y));
  CHECK(test::same_bits(run<Vocabulary<words, Sampled<1>>>(c).y, run<Whole>(c).y));
  CHECK(test::same_bits(run<Chunks>(c).y, run<Vocabulary<words, NoBias>>(c).y));
  c.task.targets.clear();
  CHECK(run<Plain>(c).y == Numbers(99));
}

TEST_CASE("a sampled Vocabulary: threads, chunks, parts of a batch and rows without targets") {
  Case c{3, 70};
  auto const whole = run<Plain>(c);
  c.task.threads = 3;
  CHECK(test::same_bits(run<Plain>(c).all(), whole.all()));
  auto const chunks = run<Vocabulary<words, Sampled<drawn>, Chunked<7>>>(c);
  CHECK(test::same_bits(chunks.y, whole.y));
  CHECK(test::same_bits(chunks.dx, whole.dx));
  for (std::size_t p = 0; p < 2; ++p) {  // 210 terms below 0.4
    CHECK(test::within(chunks.gradients[p], whole.gradients[p],
                       test::constant(whole.gradients[p].size(), 84 * 210 * test::eps<double>)));
  }
  Case last = c;  // the draws are the step's, whatever the samples
  last.task.batch = 1;
  last.task.first_sample = 2;
  last.x.erase(last.x.begin(), last.x.begin() + 140 * channels);
  last.task.targets.erase(last.task.targets.begin(), last.task.targets.begin() + 140);
  CHECK(test::same_bits(run<Plain>(last).y, Numbers(whole.y.begin() + 420, whole.y.end())));
  for (std::size_t r = 0; r < 210; ++r) {  // what stands in rows without a target is nothing
    for (std::size_t d = 0; d < channels && c.task.targets[r] < 0; ++d) {
      c.x[r * channels + d] = 1e3;
    }
  }
  CHECK(test::same_bits(run<Plain>(c).all(), whole.all()));
  c.task.step = 5;
  CHECK(!test::same_bits(run<Plain>(c).y, whole.y));
}

TEST_CASE("a sampled Vocabulary adds gradients when asked to, and gives 0 for no rows") {
  Case c{2, 9};
  auto const once = run<Chunks>(c);
  c.task.twice = true;
  auto const twice = run<Chunks>(c);
  for (std::size_t i = 0; i < once.gradients[0].size(); ++i) {
    CHECK(std::abs(twice.gradients[0][i] - 2 * once.gradients[0][i]) <= 1e-13);
  }
  Case const none{0, 9};
  CHECK(run<Plain>(none).gradients[0] == Numbers(words * channels));
  CHECK(run<Plain>(none).gradients[1] == Numbers(words));
}

/// The mean over steps of the gradient over one row's x, and of its square.
struct Mean {
  Numbers value = Numbers(channels);
  Numbers square = Numbers(channels);
};

template <class L>
Mean mean_gradient(Case c, int steps) {
  Mean mean;
  for (int step = 0; step < steps; ++step) {
    c.task.step = step;
    auto const dx = run<L>(c).dx;
    for (std::size_t d = 0; d < channels; ++d) {
      mean.value[d] += dx[d] / steps;
      mean.square[d] += dx[d] * dx[d] / steps;
    }
  }
  return mean;
}

/// Its expectation where two words are drawn: over all pairs and all numbers of tries. Words a and
/// b are there after n tries where all but the last were a, or all but the last b.
Numbers expected_gradient_of_two(Case const& c, int vocabulary) {
  LogUniform const law{vocabulary};
  Numbers mean(channels);
  auto const target = c.task.targets[0];
  auto const weight = [&](int word, std::size_t d) {
    return c.weights[0][static_cast<std::size_t>(word * channels) + d];
  };
  for (int a = 0; a < vocabulary; ++a) {
    for (int b = 0; b < vocabulary; ++b) {
      if (a == b) {
        continue;
      }
      double const pa = law.probability(a);
      for (int n = 2; n < 200; ++n) {
        double const chance = std::pow(pa, n - 1) * law.probability(b);
        auto const part = [&](int word) {
          return std::exp(logit(c, 0, word, false)) / law.expected_count(word, n);
        };
        double sum = part(target);
        for (int const word : {a, b}) {
          sum += word == target ? 0.0 : part(word);
        }
        for (std::size_t d = 0; d < channels; ++d) {
          double gradient = (part(target) / sum - 1) * weight(target, d);
          for (int const word : {a, b}) {
            gradient += word == target ? 0.0 : part(word) / sum * weight(word, d);
          }
          mean[d] += chance * gradient;
        }
      }
    }
  }
  return mean;
}

TEST_CASE("the mean of 10,000 sampled gradients is their expectation") {
  constexpr int few = 7;
  constexpr int steps = 10'000;
  Case c{1, 1};
  c.weights[0].resize(few * channels);
  c.task.row_scale = 1.0;
  for (int const target : {0, 2, 6}) {
    c.task.targets[0] = target;
    auto const mean = mean_gradient<Vocabulary<few, Sampled<2>, NoBias>>(c, steps);
    auto const wanted = expected_gradient_of_two(c, few);
    for (std::size_t d = 0; d < channels; ++d) {
      double const variance = mean.square[d] - mean.value[d] * mean.value[d];
      CHECK(!(std::fabs(mean.value[d] - wanted[d]) > 4.5 * std::sqrt(variance / steps)));
      CHECK(variance > 0);
    }
  }
}

TEST_CASE("where targets come as the softmax says, sampled gradients are 0 in the mean, too") {
  constexpr int many = 60;
  constexpr int steps = 10'000;
  Case c{1, many};  // a row for each target, of the same x
  c.weights[0] = test::random<double>(many * channels, 2);
  c.task.row_scale = 1.0;
  Numbers share;
  double total = 0;
  for (int word = 0; word < many; ++word) {
    share.push_back(std::exp(logit(c, 0, word, false)));
    total += share.back();
    c.task.targets[static_cast<std::size_t>(word)] = word;
    std::copy_n(c.x.begin(), channels, c.x.begin() + word * channels);
  }
  Mean mean;
  for (int step = 0; step < steps; ++step) {
    c.task.step = step;
    auto const dx = run<Vocabulary<many, Sampled<8>, NoBias>>(c).dx;
    for (std::size_t d = 0; d < channels; ++d) {
      double sum = 0;
      for (std::size_t word = 0; word < many; ++word) {
        sum += share[word] / total * dx[word * channels + d];
      }
      mean.value[d] += sum / steps;
      mean.square[d] += sum * sum / steps;
    }
  }
  for (std::size_t d = 0; d < channels; ++d) {
    double const variance = mean.square[d] - mean.value[d] * mean.value[d];
    CHECK(!(std::fabs(mean.value[d]) > 4.5 * std::sqrt(variance / steps)));
    CHECK(variance > 0);
  }
}

#if defined(TANDEM_ONEDNN)

template <class Precision>
void follows_double(double bound) {
  using T = typename Precision::Scalar;
  if (!test::computes<T>()) {
    return;
  }
  Case c{2, 30};
  c.x = test::numbers<T>(60 * channels, 1);
  c.weights = {test::numbers<T>(words * channels, 2), test::numbers<T>(words, 3)};
  auto const exact = run<Plain>(c);
  auto const found = run<Plain, BasicHost<OneDnn, Precision>>(c);
  CHECK(std::abs(loss(found) - loss(exact)) <= 60 * bound);
  CHECK(test::within(found.dx, exact.dx, test::constant(exact.dx.size(), 4 * bound)));
  for (std::size_t p = 0; p < 2; ++p) {
    CHECK(test::within(found.gradients[p], exact.gradients[p],
                       test::constant(exact.gradients[p].size(), 60 * bound)));
  }
  auto const chunked =
      run<Vocabulary<words, Sampled<drawn>, Chunked<16>>, BasicHost<OneDnn, Precision>>(c);
  auto const all = found.all();
  CHECK(test::within(chunked.all(), all, test::constant(all.size(), 60 * bound)));
  c.task.training = false;
  auto const whole = run<Plain, BasicHost<OneDnn, Precision>>(c);
  CHECK(std::abs(loss(whole) - loss(run<Whole>(c))) <= 60 * bound);
}

TEST_CASE("a sampled Vocabulary by oneDNN is the portable one") {
  follows_double<Fp32>(16 * test::eps<float>);
  follows_double<Bf16>(0x1P-8);  // logits below 4 and their gradients are rounded
}

#endif

}  // namespace sampled_vocabulary_op_test
