// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/ops/onednn/loss.hpp>

#include <algorithm>
#include <limits>

#include <doctest/doctest.h>

#include <tandem/ops/host/loss.hpp>

#include "channels_last.hpp"

namespace loss_test {

using namespace tandem;

constexpr int samples = 5;

/// Scratch memory of a device with canaries behind it.
class Scratch {
 public:
  Scratch(host::Device& device, std::int64_t bytes)
      : bytes_{static_cast<std::size_t>(bytes)}, memory_(bytes_ + 128, std::byte{0x5A}) {
    auto const start = reinterpret_cast<std::uintptr_t>(memory_.data());
    offset_ = (64 - start % 64) % 64;
    device.scratch = memory_.data() + offset_;
    device.scratch_bytes = bytes;
  }
  [[nodiscard]] bool intact() const {
    return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(offset_ + bytes_),
                       memory_.end(), [](std::byte b) { return b == std::byte{0x5A}; });
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::size_t offset_ = 0;
};

template <class Target>
std::vector<Target> targets_for(Shape shape, int each) {
  std::vector<Target> targets;
  auto const x = test::random<float>(std::int64_t{samples} * each, 5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if constexpr (std::is_same_v<Target, float>) {
      targets.push_back(x[i]);
    } else {
      targets.push_back(
          static_cast<Target>((i * 7 + 3) % static_cast<std::size_t>(shape.elements())));
    }
  }
  return targets;
}

/// The loss and its gradient have the portable op's bits, the latter rounded to T.
template <class L, class Precision>
void loss_agrees(Shape shape) {
  using T = typename Precision::Scalar;
  auto const x = test::exact<T>(samples * shape.elements(), 1);
  auto const targets = targets_for<typename L::Target>(shape, L::targets(shape));
  double const scale = 0.37;

  host::Device reference{1};
  LossOp<L, BasicHost<Portable, Fp32>> const portable{shape, samples};
  Scratch const first{reference, portable.scratch_bytes()};
  double expected = 0;
  std::vector<float> expected_dy(x.size());
  Pass<host::Device> const reference_pass{
      .device = reference, .batch = samples, .criterion = {.row_scale = &scale}};
  portable.forward(reference_pass, x.data(), targets.data(), &expected);
  portable.gradient(reference_pass, x.data(), targets.data(), scale, expected_dy.data());

  for (int const threads : {1, 3}) {
    host::Device device{threads};
    LossOp<L, BasicHost<OneDnn, Precision>> const op{shape, samples + 1};
    Scratch const scratch{device, op.scratch_bytes()};
    auto y = test::stored<T>(samples, shape);
    y.set(x);
    auto dy = test::stored<T>(samples, shape);
    double loss = -1;
    Pass<host::Device> const pass{
        .device = device, .batch = samples, .criterion = {.row_scale = &scale}};
    op.forward(pass, y.data(), targets.data(), &loss);
    op.gradient(pass, y.data(), targets.data(), scale, dy.data());
    CHECK(loss == expected);
    CHECK(test::same_bits(dy.get(), test::rounded<T>(expected_dy)));
    CHECK(test::same_bits(y.get(), x));
    CHECK(dy.canaries_live(samples));
    CHECK(scratch.intact());
  }
}

struct Smoothing {
  static constexpr double value = 0.1;
};

constexpr Shape shapes[] = {vector_shape(1),       vector_shape(10),     vector_shape(37),
                            image_shape(24, 1, 1), image_shape(5, 3, 2), image_shape(17, 4, 4)};

TEST_CASE_TEMPLATE("softmax cross entropy gives the portable op's bits", Precision, Fp32, Bf16) {
  for (Shape const& shape : shapes) {
    loss_agrees<SoftmaxCrossEntropy<>, Precision>(shape);
    loss_agrees<SoftmaxCrossEntropy<Smoothing>, Precision>(shape);
  }
}

struct Weights {  // of the shape with 10 elements
  static constexpr double class_weights[] = {1, 2, 0, 1, 0.5, 1, 1, 4, 1, 3};
};

TEST_CASE_TEMPLATE("class weights, ignored labels and soft labels give the portable op's bits",
                   Precision, Fp32, Bf16) {
  loss_agrees<SoftmaxCrossEntropy<Smoothing, Weights>, Precision>(vector_shape(10));
  loss_agrees<SoftCrossEntropy<Weights>, Precision>(vector_shape(10));
  for (Shape const& shape : shapes) {
    loss_agrees<SoftmaxCrossEntropy<IgnoreIndex<0>>, Precision>(shape);
    loss_agrees<SoftCrossEntropy<Smoothing>, Precision>(shape);
  }
}

TEST_CASE_TEMPLATE("mean squared error takes targets in the order (C, H, W)", Precision, Fp32,
                   Bf16) {
  for (Shape const& shape : shapes) {
    loss_agrees<MeanSquaredError, Precision>(shape);
  }
}

template <class M, class Precision>
double counted(Shape shape, std::vector<float> const& x, std::vector<std::int32_t> const& labels) {
  using T = typename Precision::Scalar;
  host::Device device{1};
  int const batch = static_cast<int>(labels.size());
  MetricOp<M, SoftmaxCrossEntropy<>, BasicHost<OneDnn, Precision>> const op{shape};
  Scratch const scratch{device, op.scratch_bytes(batch)};
  auto y = test::stored<T>(batch, shape);
  y.set(x);
  double sum = -1;
  op.count({.device = device, .batch = batch}, y.data(), labels.data(), &sum);
  CHECK(scratch.intact());
  return sum;
}

TEST_CASE_TEMPLATE("top-k counts as the portable op does, in (C, H, W) order", Precision, Fp32,
                   Bf16) {
  using T = typename Precision::Scalar;
  for (Shape const& shape : shapes) {
    auto const x = test::exact<T>(samples * shape.elements(), 3);
    auto const labels = targets_for<std::int32_t>(shape, 1);
    host::Device device{1};
    double expected = -1;
    MetricOp<TopK<3>, SoftmaxCrossEntropy<>, BasicHost<Portable, Fp32>>{shape}.count(
        {.device = device, .batch = samples}, x.data(), labels.data(), &expected);
    CHECK(counted<TopK<3>, Precision>(shape, x, labels) == expected);
  }
  float const nan = std::numeric_limits<float>::quiet_NaN();
  // The label's own output is the largest, is a NaN, is tied with an earlier and with a later one.
  std::vector<float> const x{1, 3, 2, 1, nan, 2, 3, 3, 1, 3, 3, 1};
  CHECK(counted<Accuracy, Precision>(vector_shape(3), x, {1, 1, 1, 0}) == 2);
  CHECK(counted<TopK<2>, Precision>(vector_shape(3), x, {1, 1, 1, 0}) == 3);
}

}  // namespace loss_test

#endif
