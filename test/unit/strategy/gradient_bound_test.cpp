// SPDX-License-Identifier: Apache-2.0
// The bound of activation gradients is what the engine plans with the greediest backend.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/engine/prepare/gradient_plan.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/strategy/cut/device_graph.hpp>
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

/// What gradients of a device are planned for.
struct DeviceTask {
  GraphView graph;  ///< before rewrites
  PlanTask plan{};
  std::vector<int> segment{};
};

/// @param deferred  of a stage, by its number in the map
template <class Deferred>
DeviceTask device_task(GraphView graph, int batch, bool reproducible, CheckpointRule rule,
                       Deferred const& deferred) {
  DeviceTask task{.graph = graph,
                  .plan = {.batch = batch, .apart = reproducible},
                  .segment = std::vector<int>(static_cast<std::size_t>(graph.nodes))};
  detail::fill_checkpoint_segments(graph, rule, task.segment.data());
  for (int n = 0; n < graph.nodes; ++n) {
    int const stage = graph.node[n].stage;
    if (n == 0 || stage != graph.node[n - 1].stage) {
      task.plan.stages.push_back({.first = n, .deferred = deferred(stage)});
    }
    task.plan.stages.back().last = n + 1;
  }
  return task;
}

/// Passes whose gradients are held at once.
int deferred_of(DeviceTask const& device) {
  int deferred = 0;
  for (StageLife const& stage : device.plan.stages) {
    deferred = std::max(deferred, stage.deferred);
  }
  return deferred;
}

/// Bytes of the gradients of a device in the engine's plan.
/// @param streams  on which branches run at the same time
std::int64_t planned(DeviceTask const& device, Like const& backend, int streams = 1) {
  GraphView graph = device.graph;
  detail::NodeCopies copy{graph};
  detail::rewrite_in(copy, detail::NodeReaders{graph},
                     detail::allowed(backend.rewrites, device.plan.apart, false),
                     device.segment.data());
  graph.node = copy.node;
  std::vector<OpNeeds> needs(static_cast<std::size_t>(graph.nodes));
  for (int n = 0; n < graph.nodes; ++n) {
    LayerKind const layer = graph.node[n].layer;
    needs[static_cast<std::size_t>(n)].in_place =
        backend.in_place && (layer == LayerKind::relu || layer == LayerKind::dropout);
  }
  PlanTask task = device.plan;
  Branches const at_once{graph, streams, device.segment.data()};
  task.branches = streams > 1 ? &at_once : nullptr;
  MemoryPlan const plan = plan_memory(graph, needs, task);
  return plan.outgoing_bytes + std::max(deferred_of(device), 1) * plan.gradient_bytes;
}

/// Whether a device's bound is the most of all backends, and none has less than half of it.
void check_bound(std::int64_t bound, DeviceTask const& device) {
  std::int64_t const all[] = {planned(device, portable), planned(device, cuda),
                              planned(device, onednn)};
  CHECK(bound == *std::max_element(all, all + 3));
  CHECK(bound <= 2 * *std::min_element(all, all + 3));
}

/// A strategy of values.
struct Cut {
  std::string schedule{};
  int microbatches = 4;
  bool reproducible = false;
  int every = CheckpointRule::none;
};
std::vector<Cut> const cuts{{"sequential", 1},  // the model is whole
                            {"sequential", 4, true},
                            {"gpipe", 1},  // as ModelParallel
                            {"gpipe", 1, true},
                            {"gpipe", 1, false, 1},
                            {"gpipe"},
                            {"gpipe", 4, true},
                            {"gpipe", 4, false, 1},
                            {"one_f_one_b"},
                            {"one_f_one_b", 4, true},
                            {"one_f_one_b", 4, false, 1},
                            {"zero_bubble_h1"},  // weight gradients are deferred
                            {"zero_bubble_h1", 4, true},
                            {"chimera"},  // two copies
                            {"cross_model", 2},
                            {"pipedream", 1}};

/// The part of a network that a device has.
/// @param first  top-level layers of the first of two parts
detail::RuntimeGraph cut_graph(GraphView network, int first, bool reproducible,
                               RuntimeMap const& map, int device) {
  auto const nodes = static_cast<std::size_t>(network.nodes);
  auto const edges = static_cast<std::size_t>(network.edges);
  std::vector<std::int16_t> part(nodes), local(nodes);
  std::vector<int> reader(edges), first_reading(nodes), next_reading(edges);
  for (std::size_t n = 0; n < nodes; ++n) {
    part[n] = map.device.size() > 1 && network.node[n].top >= first ? 1 : 0;
  }
  detail::CutScratch const scratch{local.data(), reader.data(), first_reading.data(),
                                   next_reading.data()};
  detail::DeviceCutter counter{network, part.data(), map, device, reproducible, scratch};
  detail::DeviceCutter cutter = counter;
  detail::RuntimeGraph graph;
  counter.cut(static_cast<detail::RuntimeGraph*>(nullptr));
  graph.resize(counter.size);
  cutter.cut(&graph);
  return graph;
}

/// Each device of each strategy, for 16 samples a step.
void check_cuts(GraphView network, int first) {
  for (Cut const& cut : cuts) {
    CAPTURE(cut.schedule);
    CAPTURE(cut.reproducible);
    CAPTURE(cut.every);
    int const devices = cut.schedule == "sequential" ? 1 : 2;
    RuntimeMap const map = make_map(cut.schedule, devices);
    ActionRows const rows = make_schedule(cut.schedule, devices, cut.microbatches);
    for (int device = 0; device < devices; ++device) {
      CAPTURE(device);
      auto const part = cut_graph(network, first, cut.reproducible, map, device);
      DeviceTask const task =
          device_task(part.view(network), 16 / cut.microbatches, cut.reproducible, {cut.every},
                      [&](int stage) { return deferred_microbatches(rows, map, stage); });
      int const deferred = deferred_of(task);
      check_bound(
          gradient_bound(
              task.graph,
              {.batch = task.plan.batch, .deferred = deferred > 0, .apart = cut.reproducible},
              std::max(deferred, 1), task.segment.data()),
          task);
    }
  }
}

template <class Net, class S, int D = 0>
DeviceTask task_of(int batch) {
  using Whole = Program<Net, S, 4>;
  return device_task(Whole::template Device<D>::graph, largest_microbatch(batch, S::batching),
                     S::batching.reproducible, S::checkpoint, [](int stage) {
                       return deferred_microbatches(Whole::table, Whole::map, stage);
                     });
}

/// The bound that device_memory() gives of a strategy that is a type.
template <class Net, class S>
void check(int batch) {
  [&]<int... D>(std::integer_sequence<int, D...>) {
    (check_bound(device_memory<Net, S, Sgd, Fp32>(batch, D).activation_gradients,
                 task_of<Net, S, D>(batch)),
     ...);
  }
  (std::make_integer_sequence<int, S::devices>{});
}

template <class Net, class First, class Rest, class... Options>
void check_types(int batch) {
  check<Net, ModelParallel<First, Rest, Options...>>(batch);
  check<Net, Pipeline<GPipe, 4, First, Rest, Options...>>(batch);
  check<Net, Pipeline<OneFOneB, 4, First, Rest, Options...>>(batch);
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
  CHECK(planned(task_of<test::InceptionNet, SingleDevice<>>(16), cuda, 4) <=
        bound_with<test::InceptionNet, SingleDevice<>>(4));
  std::int64_t const chains = planned(task_of<Chains, SingleDevice<>>(16), cuda, 3);
  CHECK(chains == bound_with<Chains, SingleDevice<>>(3));
  CHECK(chains > 2 * bound_with<Chains, SingleDevice<>>(1));
  using Again = Pipeline<OneFOneB, 4, Split<2>, Split<2>, Checkpoint<Every<2>>>;
  CHECK(planned(task_of<Chains, Again>(16), cuda, 3) <= bound_with<Chains, Again>(3));
  constexpr std::int64_t alone = device_memory<Chains, SingleDevice<>, Sgd, Fp32>(16, 0).total();
  static_assert(fits<Chains, SingleDevice<>, Sgd, Fp32>(16, alone));
  static_assert(!fits<Chains, SingleDevice<>, Sgd, Fp32>(16, alone, WeightAverages::none, 3));
}

/// Activations between products.
struct Perceptron : Network<Image<2, 4, 4>,
                            Sequential<Flatten, Linear<24>, GeluTanh, Linear<40>, ReLU, Linear<16>,
                                       Residual<Sequential<Linear<32>, GeluTanh, Linear<16>>>,
                                       Linear<8>, GeluTanh, Dropout<>, Linear<5>>> {};

/// Sums before norms.
struct Norms
    : Network<Vector<16>,
              Sequential<Linear<16>, Residual<Sequential<LayerNorm<>, Linear<16>, Dropout<>>>,
                         Residual<Sequential<RmsNorm<>, Linear<48>, GeluTanh, Linear<16>>>,
                         Residual<Sequential<LayerNorm<>, Linear<16>>>, LayerNorm<>, Linear<5>>> {};

/// Products, and enlarged images.
struct Gates
    : Network<Image<2, 8, 8>,
              Sequential<Conv2d<6>, Multiply<Conv2d<6>, Sequential<Conv2d<6>, Sigmoid>>,
                         GroupNorm<2>, ReLU, Upsample<2>, ConvTranspose2d<4, Kernel<2>, Stride<2>>,
                         Multiply<Conv2d<3>, Conv2d<3>, Conv2d<3>>, GlobalAvgPool, Linear<3>>> {};

TEST_CASE("every kind of node, on every device of every kind of strategy") {
  check_cuts(graph<test::TinyNet>, 4);
  check_cuts(graph<test::DeepNet>, 5);
  check_cuts(graph<test::InceptionNet>, 2);
  check_cuts(graph<DenseNet>, 3);
  check_cuts(graph<Constant>, 3);
  check_cuts(graph<Perceptron>, 5);
  check_cuts(graph<Norms>, 3);
  check_cuts(graph<Gates>, 3);
}

TEST_CASE("strategies that are types") {
  using Net = test::TinyNet;
  using First = Split<4>;
  using Rest = Split<5>;
  using R = Reproducible<>;
  check<Net, SingleDevice<>>(16);
  check<Net, SingleDevice<Microbatches<4>, R>>(16);
  check_types<Net, First, Rest>(16);
  check_types<Net, First, Rest, R>(16);
  check_types<Net, First, Rest, Checkpoint<Every<1>>>(16);
  check<Net, Pipeline<ZeroBubbleH1, 4, First, Rest>>(16);
  check<Net, Pipeline<ZeroBubbleH1, 4, First, Rest, R>>(16);
  check<Net, Pipeline<Chimera, 4, First, Rest>>(16);
  check<Net, CrossModelParallel<AverageGradients, First, Rest>>(16);
  check<Net, Pipeline<PipeDream, 1, First, Rest>>(16);
}

inline constexpr auto places = place<test::InceptionNet>({{"1.1", 1}, {"1.2", 2}, {"2", 1}});
TEST_CASE("several stages a device, and placed nodes") {
  using Net = test::InceptionNet;
  check<Net, Pipeline<Interleaved<2>, 4, Split<1>, Split<1>, Split<2>, Split<4>>>(16);
  check<Net, ModelParallel<Placed<places>, Microbatches<2>>>(16);
  check<Net, ModelParallel<Placed<places>, Microbatches<2>, Reproducible<>>>(16);
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
