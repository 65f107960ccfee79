// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/finish_step.cuh>

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/config.hpp>
#include <tandem/core/exact_sum.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

namespace finish_step_test {

struct Result {
  double loss, metric, gradient_norm, weight, counted;
  int non_finite, bad_gradient, samples;
  struct {
    double value[8];
  } metrics;
  double loss_scale;
  bool skipped;
  tandem::LossScale scaling;
};

/// Notes the scale of each run.
struct Note {
  double* scales;
  TANDEM_HOST_DEVICE void operator()(int run, double const* of_sets) const {
    scales[run] = of_sets[0] + run;
  }
};

}  // namespace finish_step_test

namespace tandem {
namespace finish_step_cases {

using finish_step_test::Note;
using finish_step_test::Result;
using test::DeviceArray;

cuda::RankDevice& gpu() {
  static cuda::RankDevice device{cuda::Device{0}};
  return device;
}

std::vector<double> numbers(int n, std::uint64_t seed) {
  std::vector<double> x;
  for (int i = 0; i < n; ++i) {
    x.push_back(uniform(philox(seed, RandomUse::user, static_cast<std::uint64_t>(i), 0).word[0]));
  }
  return x;
}

/// The sum of every @p each-th number from @p first on.
double exact(std::vector<double> const& all, std::size_t first, std::size_t each) {
  double lanes[exact_lanes] = {};
  for (std::size_t i = first; i < all.size(); i += each) {
    add_exactly(all[i], lanes);
  }
  return exact_total(lanes);
}

Result finish(std::vector<double> const& sums, int samples, int* stopped = nullptr) {
  DeviceArray<double> const in{gpu(), sums};
  DeviceArray<Result> const result{gpu(), 1};
  cuda::finish_step(gpu().compute,
                    cuda::StepEnd<Result>{.sums = in.data(),
                                          .microbatches = static_cast<int>(sums.size() / 2),
                                          .samples = samples,
                                          .result = result.data(),
                                          .stopped = stopped},
                    cuda::PrepareNothing{}, 0);
  return result.host()[0];
}

TEST_CASE("finish_step: the means have the bits of exact sums") {
  for (int microbatches : {1, 2, 5, 127, 128, 129, 300}) {
    auto const sums = numbers(2 * microbatches, 1);
    double const loss = exact(sums, 0, 2);
    double const metric = exact(sums, 1, 2);
    Result const result = finish(sums, 7);
    CHECK(result.loss == loss / 7);
    CHECK(result.metric == metric / 7);
    CHECK(result.gradient_norm == 0);
    CHECK(result.non_finite == -1);
    CHECK(result.samples == 7);
  }
}

TEST_CASE("finish_step: several metrics, of more microbatches than a block sums at once") {
  constexpr int metrics = 8;
  for (int microbatches : {1, 28, 29, 100}) {
    auto const sums = numbers((1 + metrics) * microbatches, 3);
    DeviceArray<double> const in{gpu(), sums};
    DeviceArray<double> const over{gpu(), std::vector<double>{2.5, 5}};
    DeviceArray<Result> const made{gpu(), 1};
    cuda::finish_step(gpu().compute,
                      cuda::StepEnd<Result>{.sums = in.data(),
                                            .microbatches = microbatches,
                                            .metrics = metrics,
                                            .samples = 7,
                                            .targets = over.data(),
                                            .counted = over.data() + 1,
                                            .result = made.data()},
                      cuda::PrepareNothing{}, 0);
    Result const result = made.host()[0];
    for (std::size_t which = 0; which <= metrics; ++which) {
      CHECK((which == 0 ? result.loss : result.metrics.value[which - 1]) ==
            exact(sums, which, 1 + metrics) / (which == 0 ? 2.5 : 5));
    }
    CHECK(result.metric == result.metrics.value[0]);
    CHECK(result.weight == 2.5);
    CHECK(result.counted == 5);
  }
}

TEST_CASE("finish_step: sums over all ranks, beside the microbatches of this one") {
  std::vector<double> lanes(2 * exact_lanes);
  for (double const loss : {1e300, 1.0, -1e300}) {
    add_exactly(loss, lanes.data());
  }
  add_exactly(3.0, &lanes[exact_lanes]);
  DeviceArray<double> const own{gpu(), std::vector<double>{1.0, 2.0, NAN, 2.0}};
  DeviceArray<Result> const made{gpu(), 1};
  auto const finished = [&] {
    DeviceArray<double> const all{gpu(), lanes};
    cuda::finish_step(gpu().compute,
                      cuda::StepEnd<Result>{.sums = own.data(),
                                            .microbatches = 2,
                                            .lanes = all.data(),
                                            .samples = 2,
                                            .result = made.data()},
                      cuda::PrepareNothing{}, 0);
    return made.host()[0];
  };
  CHECK(finished().loss == 0.5);
  CHECK(finished().metric == 1.5);
  CHECK(finished().non_finite == -1);
  add_exactly(NAN, lanes.data());
  CHECK(finished().non_finite == 1);
}

TEST_CASE("finish_step: the first microbatch whose loss is not finite; the flag stays raised") {
  DeviceArray<int> const stopped{gpu(), std::vector<int>{0}};
  auto sums = numbers(600, 1);
  CHECK(finish(sums, 1, stopped.data()).non_finite == -1);
  CHECK(stopped.host()[0] == 0);
  sums[2 * 10 + 1] = NAN;  // a metric
  CHECK(finish(sums, 1, stopped.data()).non_finite == -1);
  CHECK(stopped.host()[0] == 0);
  sums[2 * 299] = NAN;
  CHECK(finish(sums, 1).non_finite == 299);  // in evaluation
  CHECK(stopped.host()[0] == 0);
  sums[2 * 130] = -INFINITY;
  CHECK(finish(sums, 1, stopped.data()).non_finite == 130);
  CHECK(stopped.host()[0] == 1);
  CHECK(finish(numbers(4, 1), 1, stopped.data()).non_finite == -1);
  CHECK(stopped.host()[0] == 1);
  CHECK(finish({1e308, 0, 1e308, 0}, 1).non_finite == 2);  // none, only the sum overflows
}

TEST_CASE("finish_step: the norm, and the scale that clips it, for each run") {
  for (int count : {0, 1, 5, 256, 1000}) {
    for (double clip : {0.5, 1e9}) {
      auto const squares = numbers(count, 2);
      double sum = 0;
      for (double const s : squares) {
        sum += s;
      }
      double const norm = std::sqrt(sum);
      DeviceArray<double> const in{gpu(), squares};
      DeviceArray<double> const sums{gpu(), numbers(4, 1)};
      DeviceArray<double> const clip_norm{gpu(), std::vector<double>{clip}};
      DeviceArray<Result> const result{gpu(), 1};
      DeviceArray<double> const scales{gpu(), 300};
      cuda::finish_step(gpu().compute,
                        cuda::StepEnd<Result>{.sums = sums.data(),
                                              .microbatches = 2,
                                              .samples = 1,
                                              .squares = in.data(),
                                              .squares_count = count,
                                              .clip_norm = clip_norm.data(),
                                              .result = result.data()},
                        Note{scales.data()}, 300);
      CHECK(std::abs(result.host()[0].gradient_norm - norm) <= 1e-13 * norm);
      double const scale = norm > clip ? clip / norm : 1.0;
      auto const noted = scales.host();
      for (std::size_t r = 0; r < noted.size(); ++r) {
        CHECK(std::abs(noted[r] - static_cast<double>(r) - scale) <= 1e-12);
      }
    }
  }
}

TEST_CASE("finish_step: a norm that is not finite stops the update, and names the first sum") {
  DeviceArray<double> const squares{gpu(), std::vector<double>{1.0, 2.0, INFINITY, NAN}};
  DeviceArray<double> const sums{gpu(), numbers(4, 1)};
  DeviceArray<double> const clip_norm{gpu(), std::vector<double>{1.0}};
  DeviceArray<int> const stopped{gpu(), std::vector<int>{0}};
  DeviceArray<Result> const made{gpu(), 1};
  for (int count : {2, 4}) {
    cuda::finish_step(gpu().compute,
                      cuda::StepEnd<Result>{.sums = sums.data(),
                                            .microbatches = 2,
                                            .samples = 1,
                                            .squares = squares.data(),
                                            .squares_count = count,
                                            .clip_norm = clip_norm.data(),
                                            .result = made.data(),
                                            .stopped = stopped.data()},
                      cuda::PrepareNothing{}, 0);
    CHECK(made.host()[0].non_finite == (count == 4 ? 2 : -1));
    CHECK(made.host()[0].bad_gradient == (count == 4 ? 2 : -1));
    CHECK(stopped.host()[0] == (count == 4 ? update_nothing : update_all_parameters));
  }
}

TEST_CASE("finish_step: a scaled gradient is skipped, alone, where a norm of a set is not finite") {
  constexpr LossScaling rule{.every = 2};
  DeviceArray<ScaledLoss> const scaling{gpu(), std::vector<ScaledLoss>{{.now = {.scale = 8.0F}}}};
  DeviceArray<int> const stopped{gpu(), std::vector<int>{0}};
  DeviceArray<cuda::ClipRow> const rows{
      gpu(), std::vector<cuda::ClipRow>{{.factor = 1.0, .set = 0}, {.factor = 4.0, .set = 1}}};
  DeviceArray<double> const largest{gpu(), std::vector<double>{0.0, 2.0}};
  DeviceArray<double> const scales{gpu(), 2};
  DeviceArray<double> const clip_norm{gpu(), std::vector<double>{0.0}};
  DeviceArray<Result> const result{gpu(), 1};
  LossScale wanted{.scale = 8.0F};
  auto const step = [&](double first, double second, double loss = 1.0) {
    DeviceArray<double> const squares{gpu(), std::vector<double>{first, second}};
    DeviceArray<double> const sums{gpu(), std::vector<double>{loss, 0.0}};
    cuda::finish_step(gpu().compute,
                      cuda::StepEnd<Result>{.sums = sums.data(),
                                            .microbatches = 1,
                                            .samples = 1,
                                            .squares = squares.data(),
                                            .squares_count = 2,
                                            .clip_norm = clip_norm.data(),
                                            .rows = rows.data(),
                                            .sets = 2,
                                            .largest = largest.data(),
                                            .scales = scales.data(),
                                            .result = result.data(),
                                            .stopped = stopped.data(),
                                            .scaling = scaling.data(),
                                            .rule = rule},
                      cuda::PrepareNothing{}, 0);
    Result const made = result.host()[0];
    CHECK(made.loss_scale == static_cast<double>(wanted.scale));
    bool const good = std::isfinite(first) && std::isfinite(second);
    if (std::isfinite(loss)) {
      wanted = wanted.after(rule, good);
      CHECK(made.skipped == !good);
      CHECK(stopped.host()[0] == (good ? update_all_parameters : update_statistics));
    }
    CHECK(made.scaling == wanted);
    CHECK(scaling.host()[0].now == wanted);
    return made.gradient_norm;
  };
  CHECK(step(9 * 64, 4 * 64) == 3.0);
  CHECK(scales.host() == std::vector<double>{1.0 / 8, 0.5 / 8});  // 2 of a norm of 4
  CHECK(step(1, NAN) == INFINITY);
  CHECK(step(16, 1) == 1.0);  // by 4 then
  CHECK(step(INFINITY, 1) == INFINITY);
  CHECK(step(4, 1) == 1.0);
  CHECK(step(4, 1) == 1.0);  // the second in a row
  CHECK(wanted == LossScale{4.0F, 0, 2});
  step(1, 1, NAN);
  CHECK(stopped.host()[0] == update_nothing);
  CHECK(scaling.host()[0].now == wanted);
}

}  // namespace finish_step_cases
}  // namespace tandem
