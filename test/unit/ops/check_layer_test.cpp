// SPDX-License-Identifier: Apache-2.0
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
#include <tandem/ops/check_layer.hpp>
#include <tandem/ops/host/all.hpp>

#include <own_parts.hpp>

namespace check_layer_test {

using namespace tandem;

template <class L, class Input>
void holds() {
  LayerCheck const check = check_layer<L, Input>();
  CHECK_MESSAGE(check.ok(), check.problem);
}

/// y = a x², with each mistake that check_layer must see, by its number.
template <int Mistake>
struct Square {
  static constexpr std::string_view name = "Square";
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape) {
    return Parameters{Parameter{"a", vector_shape(1), Init::constant(1.0F)}};
  }
  static void forward(auto const& c) {
    for (std::size_t i = 0; i < c.x.size() - (Mistake == 1 ? 1 : 0); ++i) {
      c.y[i] = c.parameter(0)[0] * c.x[i] * c.x[i];
    }
  }
  static void input_gradient(auto const& c) {
    for (std::size_t i = 0; i < c.x.size() - (Mistake == 2 ? 1 : 0); ++i) {
      c.dx[i] = (Mistake == 3 ? 1 : 2) * c.parameter(0)[0] * c.x[i] * c.dy[i];
    }
  }
  static void weight_gradient(auto const& c) {
    c.gradient(0)[0] *= Mistake == 4 ? 0 : 1;
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.gradient(0)[0] += c.x[i] * c.x[i] * c.dy[i] * (Mistake == 5 ? 2 : 1);
    }
  }
};

/// y = x², with nothing to learn, so without weight_gradient.
struct Plain {
  static constexpr std::string_view name = "Plain";
  static constexpr Shape output(Shape in) { return in; }
  static void forward(auto const& c) {
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.y[i] = c.x[i] * c.x[i];
    }
  }
  static void input_gradient(auto const& c) {
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.dx[i] = 2 * c.x[i] * c.dy[i];
    }
  }
};

/// The same with a parameter, but without its gradient.
struct Forgetful : Plain {
  static constexpr Parameters parameters(Shape) {
    return Parameters{Parameter{"a", vector_shape(1), Init::constant(1.0F)}};
  }
};

template <int Mistake>
std::string problem() {
  return check_layer<Square<Mistake>, Vector<7>>().problem;
}

bool contains(std::string const& text, char const* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("convolutions pass finite differences") {
  holds<Conv2d<5, Kernel<3>, Padding<1>>, Image<3, 6, 5>>();
  holds<Conv2d<4, Kernel<1>>, Image<3, 5, 5>>();
  holds<Conv2d<4, Kernel<3>, Stride<2>, Padding<1>, NoBias>, Image<3, 7, 6>>();
  holds<Conv2d<6, Kernel<1, 3>, Padding<0, 1>, Groups<2>>, Image<4, 5, 6>>();
  holds<Conv2d<6, Kernel<5, 2>, Stride<3, 1>, Padding<2, 0>, Groups<3>>, Image<3, 9, 5>>();
  holds<Conv2d<4, Kernel<3, 2>, Stride<2, 1>, Padding<2, 1>, Dilation<2, 3>>, Image<2, 7, 6>>();
}

TEST_CASE("transposed convolutions pass finite differences") {
  holds<ConvTranspose2d<3, Kernel<2>, Stride<2>>, Image<4, 3, 2>>();
  holds<ConvTranspose2d<5, Kernel<3>, Stride<2>, Padding<1>, OutputPadding<1>>, Image<3, 3, 4>>();
  holds<ConvTranspose2d<4, Kernel<3, 4>, Stride<1, 3>, Padding<1, 0>, OutputPadding<0, 2>, NoBias>,
        Image<2, 4, 2>>();
  holds<ConvTranspose2d<4, Kernel<3>, Groups<2>, Dilation<2>, Stride<2>>, Image<6, 2, 3>>();
}

TEST_CASE("the other layers pass finite differences") {
  holds<BatchNorm2d<>, Image<3, 4, 5>>();
  holds<BatchNorm2d<Epsilon<1, 10>, Momentum<1, 5>>, Image<2, 3, 3>>();
  holds<GroupNorm<2>, Image<6, 3, 4>>();
  holds<GroupNorm<1, Epsilon<1, 10>>, Image<3, 5, 5>>();
  holds<GroupNorm<3, NoAffine>, Vector<12>>();
  holds<InstanceNorm2d<>, Image<3, 4, 5>>();
  holds<InstanceNorm2d<Affine>, Image<2, 5, 3>>();
  holds<ReLU, Image<2, 4, 4>>();
  holds<Dropout<Percent<30>>, Vector<33>>();
  holds<MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>, Image<2, 7, 6>>();
  holds<MaxPool2d<Kernel<2>>, Image<2, 6, 4>>();
  holds<AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>, Image<2, 5, 4>>();
  holds<AvgPool2d<Kernel<3, 2>, Stride<2, 1>, Padding<1, 1>, ExcludePadding>, Image<2, 5, 4>>();
  holds<GlobalAvgPool, Image<4, 3, 5>>();
  holds<Linear<7>, Vector<13>>();
  holds<Linear<3, NoBias>, Vector<1>>();
  holds<Subsample2d<6, 2>, Image<3, 5, 4>>();
  holds<Pad2d<Padding<2, 1>>, Image<2, 3, 4>>();
  holds<Pad2d<Padding<2>, Reflect>, Image<2, 3, 5>>();
  holds<Pad2d<Reflect, Padding<0, 3>>, Image<2, 1, 4>>();
  holds<Pad2d<Padding<3, 2>, Replicate>, Image<2, 1, 4>>();
  holds<Pad2d<Padding<3, 1>, Circular>, Image<2, 3, 4>>();
  holds<Upsample<3>, Image<2, 2, 3>>();
  holds<Upsample<2, Bilinear>, Image<2, 3, 1>>();
  holds<Upsample<3, Bilinear>, Image<2, 4, 2>>();
}

TEST_CASE("a layer of the user's without parameters passes") { holds<Plain, Vector<7>>(); }

TEST_CASE("layers given by functions of one element pass, whatever their slope reads") {
  holds<test::Softsign, Image<2, 4, 3>>();
  holds<test::Square, Vector<7>>();
  holds<test::OwnSilu, Image<2, 4, 3>>();
  static_assert(!test::Softsign::kept({}).input && test::Softsign::kept({}).output);
  static_assert(test::Square::kept({}).input && !test::Square::kept({}).output);
  static_assert(test::OwnSilu::kept({}).input && test::OwnSilu::kept({}).output);
  static_assert(!OwnElementLayer<Plain> && !OwnElementLayer<test::OwnPrelu>);
}

TEST_CASE("and those with a weight a channel, or one for all") {
  holds<test::OwnPrelu, Image<3, 4, 5>>();
  holds<test::OwnPrelu, Vector<9>>();
  holds<test::OwnSwish, Image<3, 40, 50>>();
  holds<test::OwnSwish, Vector<1>>();
  static_assert(test::OwnPrelu::parameters(timed_shape(9, 5)).item[0].shape == vector_shape(5));
  static_assert(test::OwnSwish::parameters(image_shape(3, 4, 5)).item[0].shape == vector_shape(1));
}

TEST_CASE("a right layer of the user's passes, and each mistake is named") {
  CHECK(problem<0>() == "");
  CHECK(contains(problem<1>(), "forward leaves an element of y unwritten"));
  CHECK(contains(problem<2>(), "input_gradient leaves an element of dx unwritten"));
  CHECK(contains(problem<3>(), "the gradient of x at element 0 is"));
  CHECK(contains(problem<4>(), "a second, accumulating gradient of a"));
  CHECK(contains(problem<5>(), "the gradient of a at element 0 is"));
  CHECK(contains(check_layer<Forgetful, Vector<7>>().problem, "but no weight_gradient(call)"));
}

}  // namespace check_layer_test
