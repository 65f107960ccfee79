// SPDX-License-Identifier: Apache-2.0
// Output shapes, parameters and work of each layer, by hand and by PyTorch's formulas.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/resample.hpp>
#include <tandem/layers/subsample2d.hpp>

namespace layers_test {

using namespace tandem;

static_assert(Layer<Conv2d<3>> && Layer<Linear<3>> && Layer<BatchNorm2d<>> && Layer<ReLU> &&
              Layer<Dropout<>> && Layer<Flatten> && Layer<GlobalAvgPool> &&
              Layer<MaxPool2d<Kernel<2>>> && Layer<AvgPool2d<Kernel<2>>> &&
              Layer<Subsample2d<8, 2>>);
static_assert(ConvolutionOption<Kernel<1>> && ConvolutionOption<NoBias> &&
              !ConvolutionOption<ExcludePadding> && !ConvolutionOption<Epsilon<1, 2>>);
static_assert(WindowOption<Stride<1>> && WindowOption<Padding<0>> && !WindowOption<Groups<1>>);
static_assert(AveragePoolOption<ExcludePadding> && !AveragePoolOption<NoBias>);
static_assert(NormOption<Momentum<1, 10>> && NormOption<Epsilon<1, 10>> && !NormOption<NoBias>);
static_assert(LinearOption<NoBias> && !LinearOption<Kernel<1>>);

Shape const image = image_shape(6, 13, 10);

std::int64_t elements(Parameters const& list) {
  std::int64_t sum = 0;
  for (int p = 0; p < list.count; ++p) {
    sum += list.item[p].shape.elements();
  }
  return sum;
}

TEST_CASE("Conv2d: defaults are those of PyTorch") {
  using L = Conv2d<8>;
  CHECK(L::output(image) == image_shape(8, 13, 10));
  CHECK(L::macs(image) == 8 * 13 * 10 * 6);
  Parameters const list = L::parameters(image);
  REQUIRE(list.count == 2);
  CHECK(list.item[0].name == std::string{"weight"});
  CHECK(list.item[0].shape == Shape{4, {8, 6, 1, 1}});
  CHECK(list.item[1].name == std::string{"bias"});
  CHECK(list.item[1].shape == vector_shape(8));
}

TEST_CASE("Conv2d: every option, and floor((H + 2 p - k) / s) + 1") {
  using L = Conv2d<9, Stride<3, 2>, NoBias, Groups<3>, Padding<2, 0>, Kernel<5, 3>>;
  // rows (13 + 4 - 5) / 3 + 1 = 5, columns floor((10 - 3) / 2) + 1 = 4
  CHECK(L::output(image) == image_shape(9, 5, 4));
  CHECK(L::macs(image) == 9 * 5 * 4 * 2 * 5 * 3);
  Parameters const list = L::parameters(image);
  REQUIRE(list.count == 1);
  CHECK(list.item[0].shape == Shape{4, {9, 2, 5, 3}});
  CHECK(list.item[0].init.law == Init::Law::uniform_fan_in);
  CHECK(list.item[0].init.fan_in == 2 * 5 * 3);
}

TEST_CASE("Conv2d: with dilation k is (k - 1) d + 1") {
  using L = Conv2d<4, Kernel<3, 2>, Dilation<4, 3>, Padding<1, 0>, Stride<2, 1>>;
  // rows floor((13 + 2 - 9) / 2) + 1 = 4, columns 10 - 4 + 1 = 7
  CHECK(L::output(image) == image_shape(4, 4, 7));
  CHECK(L::macs(image) == 4 * 4 * 7 * 6 * 3 * 2);
  CHECK(L::fault(image_shape(3, 6, 4)) == Fault::window_too_large);
  CHECK(L::fault(image_shape(3, 7, 4)) == Fault::none);
  CHECK(Conv2d<4, Dilation<2>>::kind == LayerKind::convolution);
}

TEST_CASE("Conv2d: what it refuses") {
  CHECK(Conv2d<8>::fault(vector_shape(3)) == Fault::not_an_image);
  CHECK(Conv2d<8, Groups<4>>::fault(image) == Fault::groups);  // 6 inputs
  CHECK(Conv2d<8, Groups<3>>::fault(image) == Fault::groups);  // 8 outputs
  CHECK(Conv2d<9, Groups<3>>::fault(image) == Fault::none);
  CHECK(Conv2d<8, Kernel<1, 11>>::fault(image) == Fault::window_too_large);
  CHECK(Conv2d<8, Kernel<1, 10>>::fault(image) == Fault::none);
  CHECK(Conv2d<8, Kernel<15>, Padding<1, 3>>::fault(image) == Fault::none);
  CHECK(Conv2d<8, Kernel<16>, Padding<1, 3>>::fault(image) == Fault::window_too_large);
}

TEST_CASE("Linear") {
  Shape const in = vector_shape(7);
  CHECK(Linear<5>::output(in) == vector_shape(5));
  CHECK(Linear<5>::macs(in) == 35);
  CHECK(elements(Linear<5>::parameters(in)) == 40);
  CHECK(elements(Linear<5, NoBias>::parameters(in)) == 35);
  CHECK(Linear<5>::parameters(in).item[0].shape == Shape{2, {5, 7}});
  CHECK(Linear<5>::parameters(in).item[1].init.fan_in == 7);
  CHECK(Linear<5>::fault(in) == Fault::none);
  CHECK(Linear<5>::fault(image) == Fault::not_a_vector);
}

TEST_CASE("BatchNorm2d: two weights and two statistics a channel") {
  using L = BatchNorm2d<>;
  CHECK(L::output(image) == image);
  Parameters const list = L::parameters(image);
  REQUIRE(list.count == 4);
  CHECK(elements(list) == 4 * 6);
  char const* const names[] = {"weight", "bias", "running_mean", "running_var"};
  float const initial[] = {1.0F, 0.0F, 0.0F, 1.0F};
  for (int p = 0; p < 4; ++p) {
    CHECK(list.item[p].name == std::string{names[p]});
    CHECK(list.item[p].init.value == initial[p]);
    CHECK((list.item[p].role == Role::statistic) == (p >= 2));
    CHECK(list.item[p].rate == (p >= 2 ? 0.1F : 0.0F));
  }
  CHECK(L::epsilon == 1e-5);
  CHECK(BatchNorm2d<Momentum<1, 4>, Epsilon<1, 1000>>::momentum == 0.25);
  CHECK(BatchNorm2d<Momentum<1, 4>, Epsilon<1, 1000>>::epsilon == doctest::Approx(1e-3));
  CHECK(L::fault(vector_shape(3)) == Fault::not_an_image);
}

TEST_CASE("pools: the stride is the kernel unless given") {
  CHECK(MaxPool2d<Kernel<3, 2>>::output(image) == image_shape(6, 4, 5));
  CHECK(MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>::output(image) == image_shape(6, 7, 5));
  CHECK(MaxPool2d<Stride<1>, Kernel<3>, Padding<1>>::output(image) == image);
  CHECK(AvgPool2d<Kernel<13, 10>>::output(image) == image_shape(6, 1, 1));
  CHECK(AvgPool2d<Kernel<2>, ExcludePadding>::options.count_padding == false);
  CHECK(AvgPool2d<Kernel<2>>::options.count_padding == true);
}

TEST_CASE("pools: what they refuse") {
  CHECK(MaxPool2d<Kernel<2>>::fault(vector_shape(3)) == Fault::not_an_image);
  CHECK(MaxPool2d<Kernel<3>, Padding<2>>::fault(image) == Fault::padding);
  CHECK(MaxPool2d<Kernel<2>, Padding<1>>::fault(image) == Fault::none);
  CHECK(AvgPool2d<Kernel<4, 3>, Padding<2>>::fault(image) == Fault::padding);
  CHECK(AvgPool2d<Kernel<14, 1>>::fault(image) == Fault::window_too_large);
  CHECK(GlobalAvgPool::fault(vector_shape(3)) == Fault::not_an_image);
}

TEST_CASE("layers without parameters") {
  CHECK(GlobalAvgPool::output(image) == vector_shape(6));
  CHECK(Flatten::output(image) == vector_shape(6 * 13 * 10));
  CHECK(is_view<Flatten>);
  CHECK(ReLU::output(image) == image);
  CHECK_FALSE(is_view<ReLU>);
  CHECK(Dropout<>::output(image) == image);
  CHECK(Dropout<>::rate == 0.5);
  CHECK(Dropout<Percent<20>>::rate == doctest::Approx(0.2));
  CHECK(parameters_of<ReLU>(image).count == 0);
  CHECK(macs_of<MaxPool2d<Kernel<2>>>(image) == 0);
}

TEST_CASE("Subsample2d: every Step-th row and column, rounded up") {
  CHECK(Subsample2d<10, 2>::output(image) == image_shape(10, 7, 5));
  CHECK(Subsample2d<6, 3>::output(image) == image_shape(6, 5, 4));
  CHECK(Subsample2d<6, 1>::fault(image) == Fault::none);
  CHECK(Subsample2d<5, 1>::fault(image) == Fault::channels);
  CHECK(Subsample2d<8, 2>::fault(vector_shape(3)) == Fault::not_an_image);
}

TEST_CASE(
    "ConvTranspose2d: (H - 1) s + (k - 1) d + 1 + o - 2 p, its weight (In, Out / Groups, …)") {
  using L = ConvTranspose2d<8, Kernel<3, 2>, Stride<2, 3>, Padding<1, 0>, OutputPadding<1, 2>,
                            Dilation<1, 4>, Groups<2>>;
  CHECK(L::output(image) == image_shape(8, 12 * 2 + 3 + 1 - 2, 9 * 3 + 5 + 2));
  CHECK(L::macs(image) == 6 * 13 * 10 * 4 * 3 * 2);
  Parameters const list = L::parameters(image);
  REQUIRE(list.count == 2);
  CHECK(list.item[0].shape == Shape{4, {6, 4, 3, 2}});
  CHECK(list.item[0].init.fan_in == 4 * 3 * 2);
  CHECK(list.item[1].shape == vector_shape(8));
  CHECK(L::geometry(image).window.positions(L::geometry(image).in) == Extent2d{13, 10});
  CHECK(ConvTranspose2d<3, NoBias>::parameters(image).count == 1);
  CHECK(ConvTranspose2d<3>::fault(vector_shape(3)) == Fault::not_an_image);
  CHECK(ConvTranspose2d<3, Groups<2>>::fault(image) == Fault::groups);
  CHECK(ConvTranspose2d<3, Padding<0, 5>>::fault(image) == Fault::all_padding);
  CHECK(ConvTranspose2d<3, Padding<0, 4>>::fault(image) == Fault::none);
}

TEST_CASE("GroupNorm: images and vectors whose channels are a multiple of the groups") {
  CHECK(GroupNorm<3>::output(image) == image);
  CHECK(GroupNorm<3>::fault(image) == Fault::none);
  CHECK(GroupNorm<4>::fault(image) == Fault::groups);
  CHECK(GroupNorm<4>::fault(vector_shape(8)) == Fault::none);
  CHECK(GroupNorm<4>::fault(timed_shape(8, 8)) == Fault::a_sequence);
  CHECK(elements(GroupNorm<3>::parameters(image)) == 12);
  CHECK(GroupNorm<3, NoAffine>::parameters(image).count == 0);
  CHECK(GroupNorm<3>::kept(image).numbers == 2 * (3 + 6));
  CHECK(InstanceNorm2d<>::parameters(image).count == 0);
  CHECK(elements(InstanceNorm2d<Affine>::parameters(image)) == 12);
  CHECK(InstanceNorm2d<>::kept(image).numbers == 2 * (6 + 6));
  CHECK(InstanceNorm2d<>::fault(vector_shape(8)) == Fault::not_an_image);
}

TEST_CASE("Pad2d: rows above and below, columns on both sides; what each mode refuses") {
  CHECK(Pad2d<Padding<2, 1>, Reflect>::output(image) == image_shape(6, 17, 12));
  CHECK(Pad2d<>::output(image) == image);
  CHECK(Pad2d<Padding<12, 9>, Reflect>::fault(image) == Fault::none);
  CHECK(Pad2d<Padding<13, 9>, Reflect>::fault(image) == Fault::border);
  CHECK(Pad2d<Padding<12, 10>, Reflect>::fault(image) == Fault::border);
  CHECK(Pad2d<Padding<13, 10>, Circular>::fault(image) == Fault::none);
  CHECK(Pad2d<Padding<13, 11>, Circular>::fault(image) == Fault::border);
  CHECK(Pad2d<Padding<40>, Replicate>::fault(image) == Fault::none);
  CHECK(Pad2d<Padding<1>>::fault(vector_shape(3)) == Fault::not_an_image);
  CHECK(kept_of<Pad2d<>>(image).known);
}

TEST_CASE("Upsample: as many times the rows and columns") {
  CHECK(Upsample<3>::output(image) == image_shape(6, 39, 30));
  CHECK(Upsample<2, Bilinear>::output(image) == image_shape(6, 26, 20));
  CHECK(Upsample<2>::fault(vector_shape(3)) == Fault::not_an_image);
}

}  // namespace layers_test
