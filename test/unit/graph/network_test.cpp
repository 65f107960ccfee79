// SPDX-License-Identifier: Apache-2.0
// The concepts of networks, losses and metrics: an archetype, and one that lacks each requirement.
#include <cstdint>
#include <string_view>

#include <doctest/doctest.h>

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/loss.hpp>

namespace network_test {

using namespace tandem;

struct ALayer {
  static constexpr std::string_view name = "A";
  static constexpr Shape output(Shape in) { return in; }
};
struct WithoutName {
  static constexpr Shape output(Shape in) { return in; }
};
struct WithoutOutput {
  static constexpr std::string_view name = "A";
};
struct NameOfAnotherType {
  static constexpr int name = 1;
  static constexpr Shape output(Shape in) { return in; }
};
struct OutputOfAnotherType {
  static constexpr std::string_view name = "A";
  static constexpr int output(Shape) { return 1; }
};
struct OutputOfSomethingElse {
  static constexpr std::string_view name = "A";
  static constexpr Shape output(char const*) { return {}; }
};
static_assert(Layer<ALayer>);
static_assert(!Layer<WithoutName> && !Layer<WithoutOutput> && !Layer<NameOfAnotherType> &&
              !Layer<OutputOfAnotherType> && !Layer<OutputOfSomethingElse> && !Layer<int>);

struct Block : Sequential<ALayer> {};
static_assert(NetworkPart<ALayer> && NetworkPart<Block> && NetworkPart<Sequential<>>);
static_assert(NetworkPart<Concat<ALayer, Block>> && NetworkPart<Residual<ALayer>> &&
              NetworkPart<Frozen<Block>>);
static_assert(!NetworkPart<WithoutName> && !NetworkPart<int> &&
              !NetworkPart<Network<Vector<1>, ALayer>>);

static_assert(NetworkInput<Image<1, 2, 3>> && NetworkInput<Vector<4>>);
static_assert(!NetworkInput<ALayer> && !NetworkInput<int>);

struct ALoss {
  using Target = float;
  static constexpr std::string_view name = "A";
  static constexpr int targets(Shape) { return 1; }
};
struct LossWithoutTarget {
  static constexpr std::string_view name = "A";
  static constexpr int targets(Shape) { return 1; }
};
struct LossWithoutName {
  using Target = float;
  static constexpr int targets(Shape) { return 1; }
};
struct LossWithoutTargets {
  using Target = float;
  static constexpr std::string_view name = "A";
};
struct LossWithLongTargets {
  using Target = float;
  static constexpr std::string_view name = "A";
  static constexpr long targets(Shape) { return 1; }
};
static_assert(Loss<ALoss> && Loss<SoftmaxCrossEntropy<>> &&
              Loss<SoftmaxCrossEntropy<Percent<10>>> && Loss<MeanSquaredError>);
static_assert(!Loss<LossWithoutTarget> && !Loss<LossWithoutName> && !Loss<LossWithoutTargets> &&
              !Loss<LossWithLongTargets> && !Loss<int>);

static_assert(Metric<Accuracy> && Metric<TopK<5>> && Metric<ALayer>);
static_assert(!Metric<WithoutName> && !Metric<NameOfAnotherType> && !Metric<int>);

struct Full {
  static constexpr std::string_view name = "Full";
  static constexpr bool is_view = true;
  static constexpr Shape output(Shape in) { return in[0] < 9 ? in : Shape{}; }
  static constexpr Fault fault(Shape in) {
    return in.rank == 1 ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Parameters parameters(Shape in) { return Parameters{Parameter{"weight", in}}; }
  static constexpr std::int64_t macs(Shape in) { return in.elements(); }
};

TEST_CASE("what a layer does not say is nothing") {
  Shape const in = vector_shape(4);
  CHECK(parameters_of<ALayer>(in).count == 0);
  CHECK(macs_of<ALayer>(in) == 0);
  CHECK(fault_of<ALayer>(in) == Fault::none);
  CHECK_FALSE(is_view<ALayer>);
}

TEST_CASE("what a layer says is taken") {
  Shape const in = vector_shape(4);
  CHECK(parameters_of<Full>(in).count == 1);
  CHECK(parameters_of<Full>(in).item[0].shape == in);
  CHECK(macs_of<Full>(in) == 4);
  CHECK(fault_of<Full>(in) == Fault::none);
  CHECK(fault_of<Full>(image_shape(1, 1, 1)) == Fault::not_a_vector);
  CHECK(fault_of<Full>(vector_shape(9)) == Fault::rejected);
  CHECK(is_view<Full>);
}

TEST_CASE("losses and metrics say what a target is") {
  CHECK(SoftmaxCrossEntropy<>::targets(vector_shape(10)) == 1);
  CHECK(MeanSquaredError::targets(image_shape(2, 3, 4)) == 24);
  CHECK(SoftmaxCrossEntropy<Percent<10>>::smoothing == doctest::Approx(0.1));
  CHECK(SoftmaxCrossEntropy<>::smoothing == 0.0);
  CHECK(Accuracy::k == 1);
  CHECK(Accuracy::name != TopK<1>::name);
}

}  // namespace network_test
