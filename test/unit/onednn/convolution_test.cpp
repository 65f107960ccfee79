// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <onednn_op.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/kernels/channels_last/winograd.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/ops/host/convolution.hpp>
#include <tandem/ops/onednn/convolution.hpp>
#include <tandem/ops/op.hpp>

namespace convolution_test {

using namespace tandem;

/// Convolutions of one input, side by side: one, or several pointwise ones.
struct Case {
  std::string name;
  ConvolutionGeometry geometry;    ///< the first one's
  std::vector<int> channels = {};  ///< of all, where there are several
};

Case make_case(std::string const& name, int in, int out, Extent2d image, Window const& window,
               int groups = 1) {
  return {name,
          {.in_channels = in,
           .out_channels = out,
           .groups = groups,
           .in = image,
           .out = window.positions(image),
           .window = window}};
}

std::vector<Case> cases() {
  std::vector<Case> list{
      make_case("3x3", 24, 17, {9, 7}, {{3, 3}, {1, 1}, {1, 1}}),
      make_case("3x3, wide", 64, 96, {8, 8}, {{3, 3}, {1, 1}, {1, 1}}),
      make_case("3x3, not padded, ragged tiles", 32, 48, {11, 14}, {{3, 3}, {1, 1}, {0, 0}}),
      make_case("3x3, one tile", 16, 16, {4, 4}, {{3, 3}, {1, 1}, {1, 1}}),
      make_case("3x3, smaller than a tile", 16, 16, {2, 3}, {{3, 3}, {1, 1}, {1, 1}}),
      make_case("3x3, stride 2", 16, 32, {9, 8}, {{3, 3}, {2, 2}, {1, 1}}),
      make_case("3x3, stride 2, 3 channels", 3, 32, {15, 11}, {{3, 3}, {2, 2}, {0, 0}}),
      make_case("5x5", 16, 24, {10, 10}, {{5, 5}, {1, 1}, {2, 2}}),
      make_case("7x7, stride 2, 3 channels", 3, 64, {21, 19}, {{7, 7}, {2, 2}, {3, 3}}),
      make_case("3x3, dilation 2", 24, 17, {9, 7}, {{3, 3}, {1, 1}, {2, 2}, {2, 2}}),
      make_case("3x3, stride 2, dilation 3 and 1", 16, 32, {11, 8},
                {{3, 3}, {2, 2}, {3, 1}, {3, 1}}),
      make_case("1x1", 24, 40, {6, 5}, {}),
      make_case("1x1, few channels", 3, 17, {6, 5}, {}),
      make_case("1x1, odd number of pixels", 15, 18, {5, 5}, {}),
      make_case("1x1, stride 2", 32, 64, {7, 8}, {{1, 1}, {2, 2}, {0, 0}}),
      // What oneDNN 2.6.3 gets wrong in one of its types, on one thread or two, or for one
      // processor.
      make_case("1x4, stride 3", 64, 31, {10, 10}, {{1, 4}, {3, 3}, {0, 1}}),
      make_case("1x5, stride 1 and 4", 96, 8, {14, 12}, {{1, 5}, {1, 4}, {0, 4}}),
      make_case("1x1, stride 2, few channels", 4, 8, {8, 6}, {{1, 1}, {2, 2}, {0, 0}}),
      make_case("1x1, stride 2 and 1, few channels", 3, 2, {8, 8}, {{1, 1}, {2, 1}, {0, 0}}),
      make_case("1x1, stride 1 and 2, few channels", 1, 4, {9, 6}, {{1, 1}, {1, 2}, {0, 0}}),
      make_case("1x1, stride 3 and 1, some channels", 9, 2, {9, 8}, {{1, 1}, {3, 1}, {0, 0}}),
      make_case("3x3, stride 2, one pixel wide", 4, 9, {16, 1}, {{3, 3}, {2, 2}, {1, 2}}),
      make_case("2x3, stride 3, two pixels wide", 16, 32, {6, 2}, {{2, 3}, {1, 3}, {0, 1}}),
      make_case("3x3, dilation 2, 40 channels", 40, 9, {8, 5}, {{3, 3}, {1, 1}, {2, 2}, {2, 2}}),
      make_case("1x1, dilation 3 and 1, 56 channels", 56, 5, {9, 4},
                {{1, 1}, {1, 1}, {0, 0}, {3, 1}}),
      make_case("1x1, padded", 8, 8, {4, 4}, {{1, 1}, {1, 1}, {1, 1}}),
      make_case("1x7", 24, 32, {9, 9}, {{1, 7}, {1, 1}, {0, 3}}),
      make_case("7x1", 24, 32, {9, 9}, {{7, 1}, {1, 1}, {3, 0}}),
      make_case("3x3, 4 groups", 32, 64, {6, 6}, {{3, 3}, {1, 1}, {1, 1}}, 4),
      make_case("3x3, 3 groups of odd size", 15, 9, {6, 6}, {{3, 3}, {1, 1}, {1, 1}}, 3),
      make_case("1x1, 2 groups", 8, 12, {6, 6}, {}, 2),
      make_case("depthwise", 32, 32, {8, 7}, {{3, 3}, {1, 1}, {1, 1}}, 32),
      make_case("depthwise, odd, stride 2", 17, 17, {8, 7}, {{3, 3}, {2, 2}, {1, 1}}, 17),
  };
  Case merged = make_case("3 pointwise ones", 24, 32, {6, 5}, {});
  merged.channels = {32, 17, 8};
  list.push_back(merged);
  return list;
}

using Numbers = std::vector<double>;

/// (B, C, pixels) into channels [first, first + C) of (B, pixels, wide).
void to_wide(Numbers const& from, std::int64_t batch, std::int64_t channels, std::int64_t first,
             std::int64_t wide, Numbers& to) {
  std::int64_t const pixels = static_cast<std::int64_t>(from.size()) / (batch * channels);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        to[static_cast<std::size_t>((b * pixels + p) * wide + first + c)] =
            from[static_cast<std::size_t>((b * channels + c) * pixels + p)];
      }
    }
  }
}

/// Operands and results of all siblings; images (B, C, H, W), or channels-last in what is compared.
struct Values {
  Numbers x, y, dx;
  std::vector<Numbers> weight, bias, dy, weight_gradient, bias_gradient;
};

struct Setting {
  int planned = 5;
  int batch = 5;
  int threads = 1;
  bool accumulate = false;
  unsigned seed = 1;
};

template <class T>
class Problem {
 public:
  Problem(Case const& c, Setting const& s) : setting_{s}, channels_{c.channels} {
    if (channels_.empty()) {
      channels_ = {c.geometry.out_channels};
    }
    siblings_.count = static_cast<int>(channels_.size());
    ConvolutionGeometry g = c.geometry;
    unsigned seed = 100 * s.seed;
    values_.x =
        test::numbers<T>(std::int64_t{s.batch} * g.in_channels * g.in.height * g.in.width, ++seed);
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      g.out_channels = channels_[i];
      geometry_.push_back(g);
      siblings_.channels[i] = channels_[i];
      wide_ += channels_[i];
      values_.weight.push_back(test::numbers<float>(weights(g), ++seed));  // T is for pack() to do
      values_.bias.push_back(test::numbers<float>(g.out_channels, ++seed));
      values_.dy.push_back(test::numbers<T>(
          std::int64_t{s.batch} * g.out_channels * g.out.height * g.out.width, ++seed));
    }
  }

  /// The largest error of any result, over its bound.
  template <bool Bias>
  double error(onednn::ConvolutionOp<T, Bias>& op) {
    host::Device device{setting_.threads};
    test::OpMemory memory{op.needs()};
    memory.give(device);
    return error(op, device, memory);
  }

  template <bool Bias>
  double error(onednn::ConvolutionOp<T, Bias>& op, host::Device& device, test::OpMemory& memory) {
    constexpr int each = Bias ? 2 : 1;
    Numbers x(values_.x.size());
    ConvolutionGeometry const& g = geometry_[0];
    to_wide(values_.x, setting_.batch, g.in_channels, 0, g.in_channels, x);
    Numbers dy(outputs());
    std::int64_t first = 0;
    for (std::size_t i = 0; i < geometry_.size(); ++i) {
      to_wide(values_.dy[i], setting_.batch, channels_[i], first, wide_, dy);
      first += channels_[i];
    }
    auto const x_t = test::as<T>(x);
    auto const dy_t = test::as<T>(dy);
    std::vector<T> y_t(outputs(), T{NAN});
    std::vector<T> dx_t(x.size(), T{NAN});
    std::vector<std::vector<float>> parameters;
    std::vector<std::vector<float>> gradients;
    for (std::size_t i = 0; i < geometry_.size(); ++i) {
      parameters.push_back(test::as<float>(values_.weight[i]));
      if (Bias) {
        parameters.push_back(test::as<float>(values_.bias[i]));
      }
    }
    std::vector<float*> parameter;
    std::vector<float*> gradient;
    for (auto& list : parameters) {
      gradients.emplace_back(list.size(), setting_.accumulate ? 0.25F : NAN);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameter.push_back(parameters[i].data());
      gradient.push_back(gradients[i].data());
    }
    T const* inputs[] = {x_t.data()};
    T* input_gradients[] = {dx_t.data()};
    Operands<T, float> const o{.x = inputs,
                               .y = y_t.data(),
                               .dy = dy_t.data(),
                               .dx = input_gradients,
                               .parameter = parameter.data(),
                               .gradient = gradient.data(),
                               .packed = memory.packed()};
    Pass<host::Device> const p{
        .device = device, .batch = setting_.batch, .accumulate = setting_.accumulate};
    op.pack(o, device);
    op.forward(o, p);
    op.input_gradient(o, p);
    op.weight_gradient(o, p);
    CHECK(memory.guards_hold());
    bits.clear();
    auto const keep = [&](auto const& list) {
      auto const* const bytes = reinterpret_cast<unsigned char const*>(list.data());
      bits.insert(bits.end(), bytes, bytes + list.size() * sizeof(list[0]));
    };
    keep(y_t);
    keep(dx_t);
    for (auto const& list : gradients) {
      keep(list);
    }

    Values const wanted = reference<Bias>(false);
    Values const sums = reference<Bias>(true);
    double const fan_in = static_cast<double>(weights(g)) / g.out_channels;
    double const pixels = static_cast<double>(outputs()) / static_cast<double>(wide_);
    double worst = test::error_over_bound(y_t, wanted.y, sums.y, fan_in + 1);
    auto const count = [&](double ratio) {
      worst = std::isnan(worst) || ratio <= worst ? worst : ratio;
    };
    count(test::error_over_bound(
        dx_t, wanted.dx, sums.dx,
        fan_in / g.in_channels * g.groups * static_cast<double>(wide_) / g.groups));
    for (std::size_t i = 0; i < geometry_.size(); ++i) {
      count(test::error_over_bound(gradients[i * each], wanted.weight_gradient[i],
                                   sums.weight_gradient[i], pixels));
      if (Bias) {
        count(test::error_over_bound(gradients[i * each + 1], wanted.bias_gradient[i],
                                     sums.bias_gradient[i], pixels));
      }
    }
    return worst;
  }

  [[nodiscard]] OpSetup setup() const {
    OpSetup setup{.batch = setting_.planned, .threads = setting_.threads};
    setup.merged = siblings_;
    for (int i = 0; i < siblings_.count; ++i) {
      setup.merged.parameter[i] = i * parameters_each;
    }
    return setup;
  }
  [[nodiscard]] ConvolutionGeometry const& geometry() const { return geometry_[0]; }
  int parameters_each = 1;
  std::vector<unsigned char> bits;  ///< of all results of the last error()

 private:
  static std::int64_t weights(ConvolutionGeometry const& g) {
    return std::int64_t{g.out_channels} * (g.in_channels / g.groups) * g.window.kernel.height *
           g.window.kernel.width;
  }
  [[nodiscard]] std::size_t outputs() const {
    ConvolutionGeometry const& g = geometry_[0];
    return static_cast<std::size_t>(setting_.batch * wide_ * g.out.height * g.out.width);
  }

  /// By the portable op in double, for each sibling; of magnitudes alone for the bounds.
  template <bool Bias>
  Values reference(bool of_magnitudes) const {
    auto const take = [&](Numbers const& list) {
      return of_magnitudes ? test::magnitudes(list) : list;
    };
    ConvolutionGeometry const& g = geometry_[0];
    Values out;
    out.y.resize(outputs());
    Numbers dx(values_.x.size());
    Numbers const x = take(values_.x);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < geometry_.size(); ++i) {
      Numbers weight = take(test::as_doubles(test::as<T>(values_.weight[i])));
      Numbers bias = take(values_.bias[i]);
      Numbers const dy = take(values_.dy[i]);
      Numbers y(dy.size());
      Numbers one_dx(dx.size());
      double const before = setting_.accumulate ? 0.25 : 0.0;
      Numbers weight_gradient(weight.size(), before);
      Numbers bias_gradient(bias.size(), before);
      host::ConvolutionOp<double, Bias> op{{.threads = 1}, geometry_[i]};
      host::Device device{1};
      test::OpMemory memory{op.needs()};
      memory.give(device);
      double const* inputs[] = {x.data()};
      double* input_gradients[] = {one_dx.data()};
      double* parameters[] = {weight.data(), bias.data()};
      double* gradients[] = {weight_gradient.data(), bias_gradient.data()};
      Operands<double> const o{.x = inputs,
                               .y = y.data(),
                               .dy = dy.data(),
                               .dx = input_gradients,
                               .parameter = parameters,
                               .gradient = gradients};
      Pass<host::Device> const p{.device = device, .batch = setting_.batch, .accumulate = true};
      op.forward(o, p);
      op.input_gradient(o, p);
      op.weight_gradient(o, p);
      to_wide(y, setting_.batch, channels_[i], first, wide_, out.y);
      first += channels_[i];
      for (std::size_t j = 0; j < dx.size(); ++j) {
        dx[j] += one_dx[j];
      }
      out.weight_gradient.push_back(weight_gradient);
      out.bias_gradient.push_back(bias_gradient);
    }
    out.dx.resize(dx.size());
    to_wide(dx, setting_.batch, g.in_channels, 0, g.in_channels, out.dx);
    return out;
  }

  Setting setting_;
  std::vector<int> channels_;
  std::vector<ConvolutionGeometry> geometry_;  // of each sibling
  MergedOutputs siblings_;
  std::int64_t wide_ = 0;
  Values values_;
};

/// Bounds for a sum of the terms: Winograd's transforms add roundings of their own.
template <class T>
double most(Case const& c) {
  bool const fp32 = std::is_same_v<T, float>;
  return fp32 && host::channels_last::suits_winograd(c.geometry) ? 2.0 : 1.0;
}

template <class T, bool Bias>
double error_of(Case const& c, Setting const& setting) {
  Problem<T> problem{c, setting};
  problem.parameters_each = Bias ? 2 : 1;
  onednn::ConvolutionOp<T, Bias> op{problem.setup(), problem.geometry()};
  return problem.error(op);
}

TEST_CASE_TEMPLATE("a convolution by oneDNN gives the portable kernels' numbers", T, float,
                   BFloat16) {
  if (!test::computes<T>()) {
    return;
  }
  for (Case const& c : cases()) {
    for (Setting const& setting :
         {Setting{.planned = 5, .batch = 5}, Setting{.planned = 1, .batch = 1, .accumulate = true},
          Setting{.planned = 8, .batch = 3, .threads = 2},
          Setting{.planned = 3, .batch = 5, .threads = 2, .accumulate = true}}) {
      CAPTURE(c.name);
      CAPTURE(setting.batch);
      CAPTURE(setting.threads);
      CHECK(error_of<T, true>(c, setting) <= most<T>(c));
      CHECK(error_of<T, false>(c, setting) <= most<T>(c));
    }
  }
}

TEST_CASE_TEMPLATE("one op computes batches of several sizes, with weights that change", T, float,
                   BFloat16) {
  if (!test::computes<T>()) {
    return;
  }
  for (Case const& c : cases()) {
    CAPTURE(c.name);
    Problem<T> first{c, {.planned = 4, .batch = 4}};
    onednn::ConvolutionOp<T, false> op{first.setup(), first.geometry()};
    host::Device device{1};
    test::OpMemory memory{op.needs()};
    memory.give(device);
    CHECK(first.error(op, device, memory) <= most<T>(c));
    for (int const batch : {3, 4, 7}) {
      CAPTURE(batch);
      Problem<T> other{c, {.planned = 4, .batch = batch, .seed = static_cast<unsigned>(batch)}};
      CHECK(other.error(op, device, memory) <= most<T>(c));
    }
  }
}

TEST_CASE_TEMPLATE("results repeat bit for bit with the same number of threads", T, float,
                   BFloat16) {
  if (!test::computes<T>()) {
    return;
  }
  for (Case const& c : cases()) {
    for (int const threads : {1, 2}) {
      CAPTURE(c.name);
      CAPTURE(threads);
      Problem<T> problem{c, {.planned = 6, .batch = 6, .threads = threads}};
      std::vector<unsigned char> bits[2];
      for (auto& list : bits) {
        onednn::ConvolutionOp<T, false> op{problem.setup(), problem.geometry()};
        CHECK(problem.error(op) <= most<T>(c));
        list = problem.bits;
      }
      CHECK(bits[0] == bits[1]);
    }
  }
}

TEST_CASE("Fp32Direct computes no convolution by Winograd's method") {
  Case const c = make_case("3x3, wide", 64, 96, {8, 8}, {{3, 3}, {1, 1}, {1, 1}});
  Problem<float> problem{c, {}};
  OpSetup setup = problem.setup();
  setup.node.in = image_shape(64, 8, 8);
  setup.node.out = image_shape(96, 8, 8);
  onednn::ConvolutionOp<float, false> direct{setup, c.geometry, true};
  CHECK(problem.error(direct) <= 1.0);
  auto const bits = problem.bits;
  Op<Conv2d<96, Kernel<3>, Padding<1>, NoBias>, BasicHost<OneDnn, Fp32Direct>> op{setup};
  CHECK(problem.error(op) <= 1.0);
  CHECK(problem.bits == bits);
  Op<Conv2d<96, Kernel<3>, Padding<1>, NoBias>, BasicHost<OneDnn>> fast{setup};
  CHECK(problem.error(fast) <= 2.0);
  CHECK(problem.bits != bits);
}

TEST_CASE_TEMPLATE("Conv2d on BasicHost<OneDnn> is such an op", Precision, Fp32, Bf16) {
  using T = typename Precision::Scalar;
  if (!test::computes<T>()) {
    return;
  }
  using Layer = Conv2d<2, Kernel<1>, Padding<0>>;
  Shape const in = image_shape(2, 1, 1);
  Op<Layer, BasicHost<OneDnn, Precision>> op{
      {.node = {.in = in, .out = Layer::output(in)}, .batch = 1, .wants_input_gradient = false}};
  host::Device device{1};
  test::OpMemory memory{op.needs()};
  memory.give(device);
  CHECK(op.needs().input);
  T const x[] = {T{1.0F}, T{2.0F}};
  T const dy[] = {T{3.0F}, T{-1.0F}};
  T y[2] = {};
  float weight[] = {1.0F, 10.0F, 100.0F, 1.0F};
  float bias[] = {0.5F, -0.5F};
  float weight_gradient[] = {9.0F, 9.0F, 9.0F, 9.0F};
  float bias_gradient[] = {9.0F, 9.0F};
  T const* inputs[] = {x};
  float* parameters[] = {weight, bias};
  float* gradients[] = {weight_gradient, bias_gradient};
  Operands<T, float> const o{.x = inputs,
                             .y = y,
                             .dy = dy,
                             .parameter = parameters,
                             .gradient = gradients,
                             .packed = memory.packed()};
  op.pack(o, device);
  op.forward(o, {.device = device, .batch = 1});
  op.weight_gradient(o, {.device = device, .batch = 1});
  CHECK(static_cast<float>(y[0]) == 21.5F);
  CHECK(static_cast<float>(y[1]) == 101.5F);
  CHECK(std::vector<float>(weight_gradient, weight_gradient + 4) ==
        std::vector<float>{3.0F, 6.0F, -1.0F, -2.0F});
  CHECK(std::vector<float>(bias_gradient, bias_gradient + 2) == std::vector<float>{3.0F, -1.0F});

  op.forward(o, {.device = device});
  op.input_gradient(o, {.device = device});
  op.weight_gradient(o, {.device = device, .accumulate = true});
  CHECK(weight_gradient[3] == -2.0F);
  op.weight_gradient(o, {.device = device});  // of no samples
  CHECK(std::vector<float>(weight_gradient, weight_gradient + 4) == std::vector<float>(4, 0.0F));
  CHECK(std::vector<float>(bias_gradient, bias_gradient + 2) == std::vector<float>(2, 0.0F));
}

TEST_CASE("a message names the convolution") {
  CHECK(
      onednn::to_string({.geometry = make_case("", 3, 8, {9, 7}, {{3, 5}, {2, 1}, {1, 2}}).geometry,
                         .batch = 4,
                         .type = dnnl_bf16}) ==
      "Conv2d of 3 to 8 channels in 1 group, kernel 3 x 5, stride 2 x 1, padding 1 x 2, images "
      "9 x 7, batch 4, bf16");
}

}  // namespace convolution_test

#endif
