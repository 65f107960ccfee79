// SPDX-License-Identifier: Apache-2.0
// Runs of layers that are computed again though backward reads nothing of them but what enters: the
// gradient that their output already has must stay as it is meanwhile.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <tandem/strategy/fits.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace checkpointed_memory_test {

using Portably = BasicHost<Portable>;

/// The first tensor whose gradient differs in any bit.
template <class T>
std::string first_gradient(std::vector<NamedParameter<T>> const& a,
                           std::vector<NamedParameter<T>> const& b) {
  for (std::size_t p = 0; p < a.size(); ++p) {
    if (!same_bits(a[p].gradient, b[p].gradient)) {
      return a[p].name;
    }
  }
  return a.size() == b.size() ? "" : "different numbers of parameters";
}

/// Losses, gradients and weights of three steps have the bits of one device, in the memory that the
/// compiler was told of.
template <class Net, class S>
void check() {
  Watchdog const watchdog{"checkpoints that remember nothing"};
  TrainerOptions const options{
      .batch = 8, .optimizer = Sgd{.learning_rate = 0.1F}, .seed = 5, .threads_per_device = 1};
  using Many = Trainer<Net, S, Portably>;
  constexpr int microbatches = Many::ProgramType::batching.microbatches;
  Trainer<Net, SingleDevice<Microbatches<microbatches>>, Portably> one{options};
  Many many{options};
  for (int step = 0; step < 3; ++step) {
    Samples<float> const data{Many::input, 3, step == 1 ? 5 : 8, static_cast<std::uint64_t>(step)};
    CHECK(one.step(data.x, data.y).loss == many.step(data.x, data.y).loss);
    CHECK(first_gradient(many.parameters(), one.parameters()) == "");
  }
  CHECK(first_difference(many.parameters(), one.parameters()) == "");
  for (int device = 0; device < S::devices; ++device) {
    MemoryReport const has = many.memory(device);
    DeviceMemory const most = device_memory<Net, S, Sgd, Fp32>(options.batch, device);
    CHECK(has.kept + has.recomputed + has.transient <=
          most.kept + most.recomputed + most.activation_gradients);
  }
}

struct Convolutions
    : Network<Image<2, 4, 4>,
              Sequential<Conv2d<3>, Conv2d<3>, AvgPool2d<Kernel<2>>, Flatten, Linear<3>>> {};

TEST_CASE("convolutions and a pool, computed again, leave the gradient behind them as it is") {
  check<Convolutions, ModelParallel<Split<1>, Split<2>, Split<2>, Checkpoint<Every<2>>>>();
  check<Convolutions, Pipeline<GPipe, 2, Split<3>, Split<2>, Checkpoint<Boundaries>>>();
}

struct Joins
    : Network<Vector<4>,
              Sequential<Linear<4>, Residual<Linear<4>>, Linear<3>, Concat<Linear<2>, Linear<2>>>> {
};

TEST_CASE("sums and concatenations, computed again, leave the gradient behind them as it is") {
  check<Joins, ModelParallel<Split<1>, Split<3>, Checkpoint<Every<1>>>>();
}

/// Products, norms of groups and enlarged images; a product of one value by itself.
struct Gates
    : Network<
          Image<2, 4, 4>,
          Sequential<Conv2d<4>, Multiply<Conv2d<4>, Sequential<Conv2d<4>, Sigmoid>, Sequential<>>,
                     GroupNorm<2>, ReLU, Upsample<2, Bilinear>, Pad2d<Padding<1>, Reflect>,
                     ConvTranspose2d<3, Kernel<2>, Stride<2>>,  // 6 (3, 20, 20)
                     InstanceNorm2d<>, Multiply<Sequential<>, Sequential<>>, AvgPool2d<Kernel<4>>,
                     Flatten, GroupNorm<5>, Linear<3>>> {};
inline constexpr auto gates = place<Gates>({{"1.1", 1}, {"4", 1}, {"8", 2}});

TEST_CASE("products, norms of groups and enlarged images have one device's bits, in any cut") {
  check<Gates, ModelParallel<Placed<gates>, Microbatches<2>>>();
  check<Gates, ModelParallel<Split<2>, Split<11>, Checkpoint<Every<1>>>>();
  check<Gates, Pipeline<ZeroBubbleH1, 2, Split<3>, Split<10>>>();
}

struct Blocks : Network<Image<2, 4, 4>, Sequential<Sequential<Conv2d<3>, AvgPool2d<Kernel<2>>>,
                                                   Sequential<Conv2d<3>, GlobalAvgPool>>> {};

TEST_CASE("on one device, too") { check<Blocks, ModelParallel<Split<2>, Checkpoint<Every<1>>>>(); }

}  // namespace checkpointed_memory_test
}  // namespace tandem::test
