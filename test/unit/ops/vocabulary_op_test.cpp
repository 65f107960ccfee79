// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/host/vocabulary.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/layers/vocabulary.hpp>
#if defined(TANDEM_ONEDNN)
#include <onednn_op.hpp>
#include <tandem/ops/onednn/vocabulary.hpp>
#endif

#include "../kernels/support.hpp"
#include "sequence_op.hpp"

namespace vocabulary_op_test {

using namespace tandem;
using test::Numbers;
using test::OpTask;

using Double = BasicHost<Portable, Fp64>;
struct Words;
using Smooth = Vocabulary<11, Smoothing<Percent<20>>>;
using Shared = Vocabulary<11, Shares<Words>, NoBias, PerSample, Chunked<5>>;

static_assert(Layer<Smooth> && Layer<Shared>);
static_assert(Smooth::bias && Smooth::options.smoothing == 0.2 && Smooth::options.chunk_rows == 0);
static_assert(!Shared::bias && Shared::options.chunk_rows == 5 && Shared::classes == 11);
static_assert(std::same_as<Smooth::Divisor, PerToken> && std::same_as<Shared::Divisor, PerSample>);
static_assert(std::same_as<SharedBy<Shared>::type, Words> &&
              std::is_void_v<SharedBy<Smooth>::type>);
static_assert(is_criterion<Smooth>() && Smooth::output(timed_shape(7, 4)) == timed_shape(7, 3));
static_assert(Smooth::fault(timed_shape(7, 4)) == Fault::none);
static_assert(Smooth::fault(vector_shape(4)) == Fault::not_timed);
static_assert(Smooth::fault(tokens_shape(4)) == Fault::not_timed);
static_assert(Smooth::macs(timed_shape(7, 4)) == 7 * 4 * 11);
static_assert(Smooth::parameters(timed_shape(7, 4)).count == 2);
static_assert(Shared::parameters(timed_shape(7, 4)).count == 1);
static_assert(Smooth::parameters(timed_shape(7, 4)).item[0].shape == Shape{2, {11, 4}});
static_assert(Vocabulary<11, InitNormal<1, 2>>::parameters(timed_shape(7, 4)).item[0].init.law ==
              Init::Law::normal);
static_assert(Vocabulary<11, InitNormal<1, 2>>::parameters(timed_shape(7, 4)).item[1].init.law ==
              Init::Law::constant);
static_assert(Smooth::kept(timed_shape(7, 4)).scalars == 77);
static_assert(Shared::kept(timed_shape(7, 4)).scalars == 0 &&
              Shared::kept(timed_shape(7, 4)).input);
static_assert(!VocabularyOption<int> && !VocabularyOption<Percent<10>>);

constexpr int words = 11;
constexpr int channels = 4;

std::vector<std::int32_t> targets_for(int rows) {
  std::vector<std::int32_t> targets;
  for (int r = 0; r < rows; ++r) {
    targets.push_back(r % 5 == 3 ? -1 : r * 7 % words);
  }
  return targets;
}

struct Case {
  Shape in;
  OpTask task;
  Numbers x;
  std::vector<Numbers> weights{test::random<double>(words * channels, 2),
                               test::random<double>(words, 3)};

  Case(int batch, int time)
      : in{timed_shape(time + 2, channels)},
        task{
            .batch = batch, .time = time, .targets = targets_for(batch * time), .row_scale = 0.375},
        x{test::random<double>(batch * time * channels, 1)} {}
};

template <class L, class Backend = Double>
test::OpResult run(Case const& c) {
  auto weights = c.weights;
  if (!L::bias) {
    weights.pop_back();
  }
  return test::run_op<L, Backend>(c.in, c.task, c.x, weights, {});
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
    // h² / 6 times third derivatives below 4, and the rounding of a sum below 40 divided by h.
    return test::within(a, b, test::constant(b.size(), 5e-9));
  };
  CHECK(same(found.dx, difference(c.x, [](Case& to, Numbers const& list) { to.x = list; })));
  for (std::size_t p = 0; p < found.gradients.size(); ++p) {
    CHECK(same(found.gradients[p], difference(c.weights[p], [p](Case& to, Numbers const& list) {
                 to.weights[p] = list;
               })));
  }
}

TEST_CASE("the op of Vocabulary passes finite differences") {
  passes_finite_differences<Smooth>();
  passes_finite_differences<Shared>();
  passes_finite_differences<Vocabulary<words, Chunked<12>>>();
}

TEST_CASE("Vocabulary counts the rows whose target has the largest logit") {
  Case c{2, 6};
  auto const y = run<Smooth>(c).y;
  int right = 0;
  for (std::size_t r = 0; r < 12; ++r) {
    double best = -INFINITY;
    int at = 0;
    for (int v = 0; v < words; ++v) {
      double z = c.weights[1][static_cast<std::size_t>(v)];
      for (std::size_t d = 0; d < channels; ++d) {
        z += c.weights[0][static_cast<std::size_t>(v * channels) + d] * c.x[r * channels + d];
      }
      at = z > best ? v : at;
      best = std::max(best, z);
    }
    c.task.targets[r] = r % 3 == 0 ? at : c.task.targets[r];
    right += c.task.targets[r] == at ? 1 : 0;
  }
  auto const counted = run<Smooth>(c).y;
  double sum = 0;
  for (std::size_t i = 2; i < counted.size(); i += 3) {
    sum += counted[i];
  }
  CHECK(sum == right);
  CHECK(y.size() == 36);
}

TEST_CASE("Vocabulary: threads, chunks and rows without targets") {
  Case c{3, 200};
  auto const whole = run<Smooth>(c);
  c.task.threads = 3;
  CHECK(test::same_bits(run<Smooth>(c).all(), whole.all()));
  // Chunks as long as gemm's blocks of 256 rows change no bit of the weight's gradient.
  auto const blocks = run<Vocabulary<words, Smoothing<Percent<20>>, Chunked<256>>>(c);
  CHECK(test::same_bits(blocks.y, whole.y));
  CHECK(test::same_bits(blocks.dx, whole.dx));
  CHECK(test::same_bits(blocks.gradients[0], whole.gradients[0]));
  auto const chunks = run<Vocabulary<words, Smoothing<Percent<20>>, Chunked<7>>>(c);
  CHECK(test::same_bits(chunks.y, whole.y));
  CHECK(test::same_bits(chunks.dx, whole.dx));
  for (std::size_t p = 0; p < 2; ++p) {  // 600 terms below 0.4
    CHECK(test::within(chunks.gradients[p], whole.gradients[p],
                       test::constant(whole.gradients[p].size(), 240 * 600 * test::eps<double>)));
  }
  for (std::size_t r = 0; r < 600; ++r) {  // what stands in rows without a target is nothing
    for (std::size_t d = 0; d < channels && c.task.targets[r] < 0; ++d) {
      c.x[r * channels + d] = 1e3;
    }
  }
  CHECK(test::same_bits(run<Smooth>(c).all(), whole.all()));
}

TEST_CASE("Vocabulary adds gradients when asked to, and gives 0 for no rows") {
  Case c{2, 9};
  auto const once = run<Shared>(c);
  c.task.twice = true;
  auto const twice = run<Shared>(c);
  for (std::size_t i = 0; i < once.gradients[0].size(); ++i) {
    CHECK(std::abs(twice.gradients[0][i] - 2 * once.gradients[0][i]) <= 1e-13);
  }
  Case const none{0, 9};
  CHECK(run<Shared>(none).gradients[0] == Numbers(words * channels));
  CHECK(run<Smooth>(none).gradients[1] == Numbers(words));
}

TEST_CASE("Vocabulary without targets, as in prediction, gives losses of 0") {
  Case c{1, 3};
  c.task.targets.clear();
  c.task.training = false;
  CHECK(run<Smooth>(c).y == Numbers(9));
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
  auto const exact = run<Smooth>(c);
  auto const found = run<Smooth, BasicHost<OneDnn, Precision>>(c);
  CHECK(std::abs(loss(found) - loss(exact)) <= 60 * bound);
  CHECK(test::within(found.dx, exact.dx, test::constant(exact.dx.size(), 4 * bound)));
  for (std::size_t p = 0; p < 2; ++p) {
    CHECK(test::within(found.gradients[p], exact.gradients[p],
                       test::constant(exact.gradients[p].size(), 60 * bound)));
  }
  auto const chunked =
      run<Vocabulary<words, Smoothing<Percent<20>>, Chunked<16>>, BasicHost<OneDnn, Precision>>(c);
  auto const all = found.all();
  CHECK(test::within(chunked.all(), all, test::constant(all.size(), 60 * bound)));
  c.task.twice = true;
  auto const twice = run<Smooth, BasicHost<OneDnn, Precision>>(c).gradients[0];
  for (std::size_t i = 0; i < twice.size(); ++i) {
    CHECK(std::abs(twice[i] - 2 * found.gradients[0][i]) <= 1e-5);
  }
}

TEST_CASE("Vocabulary by oneDNN is the portable one") {
  follows_double<Fp32>(16 * test::eps<float>);
  follows_double<Bf16>(0x1P-8);  // logits below 4 and their gradients are rounded
}

#endif

}  // namespace vocabulary_op_test
