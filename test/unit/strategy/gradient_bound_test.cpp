// SPDX-License-Identifier: Apache-2.0
// The bound of activation gradients is what the engine plans with the greediest backend.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/engine/prepare/gradient_plan.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>
#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <inception_network.hpp>
#include <tiny_network.hpp>

namespace gradient_bound_test {

using namespace tandem;

// Buffers: the first that fits; from the start where all before have died.
static_assert([] {
  detail::FirstFit region{5};
  bool const stacked = region.place(64, 1, 3) == 0 && region.place(128, 1, 1) == 64;
  bool const reused = region.place(64, 2, 9) == 64 && region.place(128, 3, 9) == 128;
  return stacked && reused && region.place(64, 4, 9) == 0 && region.peak() == 256;
}());

/// What a backend does with a graph, and with ReLU and Dropout.
struct Like {
  Rewrites rewrites{};
  bool in_place = false;
};
constexpr Like portable{.in_place = true};
constexpr Like cuda{.rewrites = rewrites_of<BasicCuda<>>()};
constexpr Like onednn{.rewrites = rewrites_of<BasicHost<OneDnn>>()};

template <class Device>
PlanTask task_of(int batch) {
  using Whole = typename Device::Program;
  PlanTask task{.batch = largest_microbatch(batch, Whole::batching),
                .microbatches = Whole::batching.microbatches,
                .apart = Whole::batching.reproducible};
  for (LocalStage const& own : Device::stages.stage) {
    task.stages.push_back({.first = own.first,
                           .last = own.last,
                           .deferred = deferred_microbatches(Whole::table, Whole::map, own.id)});
  }
  return task;
}

/// Bytes of the gradients of device D in the engine's plan.
/// @param streams  on which branches run at the same time
template <class Net, class S, int D, Like Backend>
std::int64_t planned(int batch, int streams = 1) {
  using Whole = Program<Net, S, 4, Backend.rewrites>;
  using Device = typename Whole::template Device<D>;
  std::vector<OpNeeds> needs(static_cast<std::size_t>(Device::graph.nodes));
  for (int n = 0; n < Device::graph.nodes; ++n) {
    LayerKind const layer = Device::graph.node[n].layer;
    needs[static_cast<std::size_t>(n)].in_place =
        Backend.in_place && (layer == LayerKind::relu || layer == LayerKind::dropout);
  }
  PlanTask task = task_of<Device>(batch);
  Branches const at_once{Device::graph, streams, Device::segments.of};
  task.branches = streams > 1 ? &at_once : nullptr;
  MemoryPlan const plan = plan_memory(Device::graph, needs, task);
  int deferred = 1;
  for (StageLife const& stage : task.stages) {
    deferred = std::max(deferred, stage.deferred);
  }
  return plan.outgoing_bytes + deferred * plan.gradient_bytes;
}

/// Whether each device's bound is the most of all backends, and none has less than half of it.
template <class Net, class S, int D = 0>
void check(int batch) {
  CAPTURE(D);
  std::int64_t const all[] = {planned<Net, S, D, portable>(batch), planned<Net, S, D, cuda>(batch),
                              planned<Net, S, D, onednn>(batch)};
  std::int64_t const bound = device_memory<Net, S, Sgd, Fp32>(batch, D).activation_gradients;
  CHECK(bound == *std::max_element(all, all + 3));
  CHECK(bound <= 2 * *std::min_element(all, all + 3));
  if constexpr (D + 1 < S::devices) {
    check<Net, S, D + 1>(batch);
  }
}

template <class Net, class First, class Rest, class... Options>
void check_cuts(int batch) {
  check<Net, ModelParallel<First, Rest, Options...>>(batch);
  check<Net, Pipeline<GPipe, 4, First, Rest, Options...>>(batch);
  check<Net, Pipeline<OneFOneB, 4, First, Rest, Options...>>(batch);
}

template <class Net, class First, class Rest>
void check_all(int batch) {
  using R = Reproducible<>;
  check<Net, SingleDevice<>>(batch);
  check<Net, SingleDevice<Microbatches<4>, R>>(batch);
  check_cuts<Net, First, Rest>(batch);
  check_cuts<Net, First, Rest, R>(batch);
  check_cuts<Net, First, Rest, Checkpoint<Every<1>>>(batch);
  check<Net, Pipeline<ZeroBubbleH1, 4, First, Rest>>(batch);  // weight gradients are deferred
  check<Net, Pipeline<ZeroBubbleH1, 4, First, Rest, R>>(batch);
  check<Net, Pipeline<Chimera, 4, First, Rest>>(batch);  // two copies
  check<Net, CrossModelParallel<AverageGradients, First, Rest>>(batch);
  check<Net, Pipeline<PipeDream, 1, First, Rest>>(batch);
}

/// Each layer reads what all before it gave.
template <int Growth>
using Dense =
    Concat<Sequential<>, Sequential<BatchNorm2d<>, ReLU, Conv2d<4 * Growth, NoBias>, BatchNorm2d<>,
                                    ReLU, Conv2d<Growth, Kernel<3>, Padding<1>, NoBias>>>;
struct DenseNet
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<8, Kernel<3>, Padding<1>, NoBias>, Dense<4>, Dense<4>, Dense<4>,
                         test::Norm<10>, AvgPool2d<Kernel<2>>, Dense<5>, BatchNorm2d<>, ReLU,
                         Flatten, Linear<64>, ReLU, Dropout<>, Linear<5>>> {};

/// Lower layers are constants: no gradient reaches them.
struct Constant : Network<Image<3, 8, 8>, Sequential<Frozen<Conv2d<8, Kernel<3>>>, ReLU, Conv2d<4>,
                                                     ReLU, Flatten, Linear<9>, ReLU, Linear<5>>> {};

TEST_CASE("every kind of node") {
  check_all<test::TinyNet, Split<4>, Split<5>>(16);
  check_all<test::DeepNet, Split<5>, Split<7>>(16);
}
TEST_CASE("branches that are merged and placed") {
  check_all<test::InceptionNet, Split<2>, Split<6>>(16);
  check<test::InceptionNet, Pipeline<Interleaved<2>, 4, Split<1>, Split<1>, Split<2>, Split<4>>>(
      16);
}

/// Each branch has more on its way than it gives.
struct Chain : Sequential<Conv2d<32>, Tanh, Conv2d<32>, Tanh, Conv2d<4>> {};
struct Chains
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<4>, Concat<Chain, Chain, Chain>, GlobalAvgPool, Linear<5>>> {};

template <class Net, class S>
std::int64_t bound_with(int streams) {
  return device_memory<Net, S, Sgd, Fp32>(16, 0, WeightAverages::none, streams)
      .activation_gradients;
}
TEST_CASE("branches that run at the same time keep what they have") {
  CHECK(planned<test::InceptionNet, SingleDevice<>, 0, cuda>(16, 4) <=
        bound_with<test::InceptionNet, SingleDevice<>>(4));
  std::int64_t const chains = planned<Chains, SingleDevice<>, 0, cuda>(16, 3);
  CHECK(chains == bound_with<Chains, SingleDevice<>>(3));
  CHECK(chains > 2 * bound_with<Chains, SingleDevice<>>(1));
  using Again = Pipeline<OneFOneB, 4, Split<2>, Split<2>, Checkpoint<Every<2>>>;
  CHECK(planned<Chains, Again, 0, cuda>(16, 3) <= bound_with<Chains, Again>(3));
  constexpr std::int64_t alone = device_memory<Chains, SingleDevice<>, Sgd, Fp32>(16, 0).total();
  static_assert(fits<Chains, SingleDevice<>, Sgd, Fp32>(16, alone));
  static_assert(!fits<Chains, SingleDevice<>, Sgd, Fp32>(16, alone, WeightAverages::none, 3));
}

TEST_CASE("concatenations of all before") { check_all<DenseNet, Split<3>, Split<11>>(16); }
TEST_CASE("frozen layers") { check_all<Constant, Split<3>, Split<5>>(16); }

struct Perceptron : Network<Image<2, 4, 4>,
                            Sequential<Flatten, Linear<24>, GeluTanh, Linear<40>, ReLU, Linear<16>,
                                       Residual<Sequential<Linear<32>, GeluTanh, Linear<16>>>,
                                       Linear<8>, GeluTanh, Dropout<>, Linear<5>>> {};
TEST_CASE("activations between products") { check_all<Perceptron, Split<5>, Split<6>>(16); }

struct Norms
    : Network<Vector<16>,
              Sequential<Linear<16>, Residual<Sequential<LayerNorm<>, Linear<16>, Dropout<>>>,
                         Residual<Sequential<RmsNorm<>, Linear<48>, GeluTanh, Linear<16>>>,
                         Residual<Sequential<LayerNorm<>, Linear<16>>>, LayerNorm<>, Linear<5>>> {};
TEST_CASE("sums before norms") { check_all<Norms, Split<3>, Split<3>>(16); }

inline constexpr auto places = place<test::InceptionNet>({{"1.1", 1}, {"1.2", 2}, {"2", 1}});
struct Gates
    : Network<Image<2, 8, 8>,
              Sequential<Conv2d<6>, Multiply<Conv2d<6>, Sequential<Conv2d<6>, Sigmoid>>,
                         GroupNorm<2>, ReLU, Upsample<2>, ConvTranspose2d<4, Kernel<2>, Stride<2>>,
                         Multiply<Conv2d<3>, Conv2d<3>, Conv2d<3>>, GlobalAvgPool, Linear<3>>> {};
TEST_CASE("products and enlarged images") { check_cuts<Gates, Split<3>, Split<6>>(16); }

TEST_CASE("placed nodes") {
  check<test::InceptionNet, ModelParallel<Placed<places>, Microbatches<2>>>(16);
  check<test::InceptionNet, ModelParallel<Placed<places>, Microbatches<2>, Reproducible<>>>(16);
}

// As large as networks get here, on 2 devices with two copies of the model: within the compilers'
// limits of one constant evaluation.
static_assert(fits<models::InceptionV3<1000>, SingleDevice<>, Sgd, Fp32>(64,
                                                                         std::int64_t{8} << 30));
static_assert(fits<models::InceptionV3<1000>, Pipeline<Chimera, 4, Auto<2>>, Sgd, Fp32>(
    64, std::int64_t{8} << 30));

TEST_CASE("GoogLeNet and ResNet-20") {
  check<models::GoogLeNet<10>, SingleDevice<>>(64);
  check<models::GoogLeNet<10>, Pipeline<ZeroBubbleH1, 4, Auto<2>>>(64);
  check<models::ResNet20<10>, SingleDevice<>>(64);
  check<models::ResNet20<10>, Pipeline<Chimera, 4, Auto<2>>>(64);
}

}  // namespace gradient_bound_test
