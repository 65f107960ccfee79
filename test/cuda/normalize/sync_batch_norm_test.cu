// SPDX-License-Identifier: Apache-2.0
// A batch norm spread over replicas on Cuda against that of the whole batch, both in double.
#include <tandem/ops/cuda/batch_norm.cuh>
#include <tandem/ops/cuda/sync_batch_norm.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/cuda/transform.cuh>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace {

using test::DeviceArray;
using test::gpu;

constexpr int norm_channels = 6;
constexpr int norm_pixels = 35;

struct SpreadSettings {
  bool relu = false;
  bool accumulate = false;
  bool input_gradient = true;
  double middle = 0;  ///< of x
};

/// Of all samples: y, dx (rows, C), and the gradients (4, C), added over the replicas.
struct SpreadResult {
  std::vector<double> y, dx, gradient;
};

/// One op and its memory; x and dy are the same samples on every call.
template <class L>
class GpuReplica {
 public:
  GpuReplica(SpreadSettings const& s, std::int64_t first, int samples, int all)
      : op_{setup(s, samples), gpu()},
        elements_{std::int64_t{samples} * norm_pixels * norm_channels},
        x_{gpu(), part(first, 1, s.middle)},
        dy_{gpu(), part(first, 2, 0)},
        y_{gpu(), elements_},
        dx_{gpu(), elements_},
        parameter_{gpu(), test::numbers<double>(4 * norm_channels, 5, 0.5, 0.75)},
        gradient_{gpu(), 4 * norm_channels},
        saved_{gpu(), op_.needs().saved_bytes},
        scratch_{gpu(), op_.needs().scratch_bytes},
        samples_{samples},
        share_{static_cast<double>(samples) / all} {
    input_ = x_.data();
    input_gradient_ = dx_.data();
    for (int i = 0; i < 4; ++i) {
      parameters_[i] = parameter_.data() + i * norm_channels;
      gradients_[i] = gradient_.data() + i * norm_channels;
    }
  }

  auto& op() { return op_; }
  [[nodiscard]] Operands<double> operands() {
    return {.x = &input_,
            .y = y_.data(),
            .dy = dy_.data(),
            .dx = &input_gradient_,
            .parameter = parameters_,
            .weight = parameters_,
            .gradient = gradients_,
            .saved = saved_.data()};
  }
  [[nodiscard]] Pass<cuda::RankDevice> pass(bool accumulate = false) {
    gpu().scratch = scratch_.data();
    gpu().scratch_bytes = scratch_.size();
    return {.device = gpu(), .batch = samples_, .share = share_, .accumulate = accumulate};
  }

  void add_to(SpreadResult& result) {
    auto const y = y_.host();
    auto const dx = dx_.host();
    auto const gradient = gradient_.host();
    result.y.insert(result.y.end(), y.begin(), y.end());
    result.dx.insert(result.dx.end(), dx.begin(), dx.end());
    result.gradient.resize(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      result.gradient[i] += gradient[i];
    }
    static_cast<void>(saved_.host());  // nothing was written outside of them
    static_cast<void>(scratch_.host());
  }

 private:
  static OpSetup setup(SpreadSettings const& s, int samples) {
    OpSetup result{};
    result.node.in = image_shape(norm_channels, norm_pixels, 1);
    result.node.out = result.node.in;
    result.node.fusion.relu = s.relu;
    result.batch = samples;
    result.wants_input_gradient = s.input_gradient;
    return result;
  }
  [[nodiscard]] std::vector<double> part(std::int64_t first, std::uint64_t seed, double middle) {
    std::int64_t const begin = first * norm_pixels * norm_channels;
    auto const all = test::numbers<double>(begin + elements_, seed, 1, middle);
    return {all.begin() + begin, all.end()};
  }

  Op<L, BasicCuda<Portable, Fp64>> op_;
  std::int64_t elements_;
  DeviceArray<double> x_, dy_, y_, dx_, parameter_, gradient_;
  DeviceArray<std::byte> saved_, scratch_;
  int samples_;
  double share_;
  double const* input_ = nullptr;
  double* input_gradient_ = nullptr;
  double* parameters_[4] = {};
  double* gradients_[4] = {};
};

SpreadResult on_whole_gpu(SpreadSettings const& s, int samples) {
  GpuReplica<BatchNorm2d<>> one{s, 0, samples, samples};
  for (bool const again : {false, true}) {
    if (!again || s.accumulate) {
      one.op().forward(one.operands(), one.pass());
      if (s.input_gradient) {
        one.op().input_gradient(one.operands(), one.pass());
      }
      one.op().weight_gradient(one.operands(), one.pass(again));
    }
  }
  SpreadResult result;
  one.add_to(result);
  return result;
}

struct AddBoth {
  double* a;
  double* b;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const { b[i] = a[i] = a[i] + b[i]; }
};

SpreadResult on_two_replicas(SpreadSettings const& s, int first, int second) {
  using Replica = GpuReplica<SyncBatchNorm2d<>>;
  Replica a{s, 0, first, first + second};
  Replica b{s, first, second, first + second};
  auto const both = [&](auto const& f) {
    f(a);
    f(b);
  };
  auto const add = [&] {
    std::span<double> const own = a.op().sums(a.operands());
    std::span<double> const other = b.op().sums(b.operands());
    cuda::each(gpu().compute, static_cast<std::int64_t>(own.size()),
               AddBoth{own.data(), other.data()});
  };
  for (bool const again : {false, true}) {
    if (again && !s.accumulate) {
      continue;
    }
    both([](Replica& r) { r.op().local_sums(r.operands(), r.pass()); });
    add();
    both([](Replica& r) { r.op().forward_synchronized(r.operands(), r.pass()); });
    if (s.input_gradient) {
      both([](Replica& r) { r.op().local_gradient_sums(r.operands(), r.pass()); });
      add();
      both([](Replica& r) { r.op().input_gradient_synchronized(r.operands(), r.pass()); });
    }
    both([&](Replica& r) { r.op().weight_gradient_synchronized(r.operands(), r.pass(again)); });
  }
  SpreadResult result;
  a.add_to(result);
  b.add_to(result);
  return result;
}

void check_spread(SpreadSettings const& s, int first, int second) {
  CAPTURE(s.relu);
  CAPTURE(s.accumulate);
  CAPTURE(s.input_gradient);
  CAPTURE(first);
  SpreadResult const whole = on_whole_gpu(s, first + second);
  SpreadResult const parts = on_two_replicas(s, first, second);
  // Deviations of about 0.6; the variance loses the digits of (mean - running mean)² besides.
  double const off = 1e-11 * (1 + s.middle * s.middle);
  auto const bound = [=](std::size_t) { return off; };
  test::check_within(parts.y, whole.y, bound);
  if (s.input_gradient) {
    test::check_within(parts.dx, whole.dx, bound);
  }
  test::check_within(parts.gradient, whole.gradient, bound);
}

TEST_CASE("replicas on GPUs have the batch norm of the whole batch") {
  for (bool const relu : {false, true}) {
    for (bool const accumulate : {false, true}) {
      for (bool const input_gradient : {false, true}) {
        SpreadSettings const s{
            .relu = relu, .accumulate = accumulate, .input_gradient = input_gradient};
        check_spread(s, 3, 1);
        check_spread(s, 20, 21);
      }
    }
  }
  check_spread({.middle = 30}, 4, 3);
}

TEST_CASE("without replicas SyncBatchNorm2d on a GPU has BatchNorm2d's bits") {
  SpreadSettings const s{.relu = true};
  GpuReplica<SyncBatchNorm2d<>> one{s, 0, 7, 7};
  one.op().forward(one.operands(), one.pass());
  one.op().input_gradient(one.operands(), one.pass());
  one.op().weight_gradient(one.operands(), one.pass());
  SpreadResult result;
  one.add_to(result);
  SpreadResult const plain = on_whole_gpu(s, 7);
  CHECK(test::same_bits(result.y, plain.y));
  CHECK(test::same_bits(result.dx, plain.dx));
  CHECK(test::same_bits(result.gradient, plain.gradient));
}

}  // namespace
}  // namespace tandem
