// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/describe.hpp>
#include <tandem/engine/prepare/gradient_plan.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/tandem.hpp>

#include <rank_of.hpp>
#include <tiny_network.hpp>

namespace fits_test {

using namespace tandem;

using Net = test::TinyNet;
using Back = BasicHost<Portable>;

inline constexpr auto table = place<Net>({{"3.body", 1}, {"4.1", 2}, {"6", 1}});

/// Bytes of the gradients of activations that device D of a trainer has, with its ops' own needs.
template <class S, int D>
std::int64_t activation_gradients(Trainer<Net, S, Back>& trainer, int batch) {
  auto& rank = test::rank_of<D>(trainer);
  PlanTask const task{.batch = largest_microbatch(batch, S::batching),
                      .stages = rank.plan().stages,
                      .apart = S::batching.reproducible};
  MemoryPlan const plan =
      plan_memory(test::DeviceOf<Trainer<Net, S, Back>, D>::graph, rank.needs(), task);
  int deferred = 1;
  for (StageLife const& stage : task.stages) {
    deferred = std::max(deferred, stage.deferred);
  }
  return plan.outgoing_bytes + deferred * plan.gradient_bytes;
}

/// Whether each device has at most what was said, and more than half of it.
template <class S, int D = 0>
void check_gradients(Trainer<Net, S, Back>& trainer, int batch) {
  CAPTURE(D);
  std::int64_t const has = activation_gradients<S, D>(trainer, batch);
  std::int64_t const most = device_memory<Net, S, Sgd, Fp32>(batch, D).activation_gradients;
  CHECK(has <= trainer.memory(D).transient);
  CHECK(has <= most);
  CHECK(most < 2 * has);
  if constexpr (D + 1 < S::devices) {
    check_gradients<S, D + 1>(trainer, batch);
  }
}

/// Whether no rank of a trainer has more than was said of its device, and not far less.
template <class S>
void check(int batch) {
  Trainer<Net, S, Back> trainer{{.batch = batch, .optimizer = Sgd{.momentum = 0.9F}}};
  check_gradients<S>(trainer, batch);
  std::int64_t worst = 0;
  for (int rank = 0; rank < S::ranks; ++rank) {
    MemoryReport const has = trainer.memory(rank);
    DeviceMemory const most =
        device_memory<Net, S, Sgd, Fp32>(batch, S::mesh.coordinate(rank, Axis::model));
    CAPTURE(rank);
    CHECK(has.parameters == most.parameters);
    CHECK(has.versions == most.versions);
    CHECK(has.gradients == most.gradients);
    CHECK(has.optimizer_state == most.optimizer_state);
    std::int64_t const activations = has.kept + has.recomputed + has.transient;
    std::int64_t const bound = most.kept + most.recomputed + most.activation_gradients;
    CHECK(activations <= bound);
    CHECK(2 * bound <= 5 * activations);
    worst = std::max(worst, most.total());
  }
  CHECK(fits<Net, S, Sgd, Fp32>(batch, worst));
  CHECK_FALSE(fits<Net, S, Sgd, Fp32>(batch, worst - 1));
}

using R = Reproducible<>;
template <class Schedule, class... Options>
using Two = Pipeline<Schedule, 4, Split<4>, Split<5>, Options...>;

TEST_CASE("whole models") {
  check<SingleDevice<>>(16);
  check<SingleDevice<Microbatches<4>, R>>(16);
  check<DataParallel<2, Microbatches<2>, R>>(13);
}

TEST_CASE("models that are cut") {
  check<ModelParallel<Auto<3>, Microbatches<2>>>(16);
  check<ModelParallel<Placed<table>, Microbatches<2>>>(16);
  check<ModelParallel<Placed<table>, Microbatches<2>, R>>(16);
}

TEST_CASE("pipelines") {
  check<Two<GPipe>>(16);
  check<Two<OneFOneB, R>>(16);
  check<Two<ZeroBubbleH1>>(16);
  check<Two<Chimera, R>>(16);
  check<Pipeline<Interleaved<2>, 4, Auto<4>>>(16);
  check<Pipeline<ZeroBubbleV, 4, Auto<4>, R>>(16);
  check<Pipeline<DualPipeV, 4, Auto<4>>>(16);
  check<Two<DualPipe, R>>(16);
  check<Hybrid<DataParallel<2>, Two<OneFOneB>>>(30);
}

TEST_CASE("pipelines that keep several versions of their weights") {
  using Four = Auto<4>;
  check<Pipeline<PipeDream, 1, Four>>(16);
  check<Pipeline<PipeDreamVerticalSync, 1, Split<4>, Split<5>>>(16);
  check<Pipeline<PipeDream2BW, 4, Four>>(16);
  check<Pipeline<WeightPrediction, 1, Split<4>, Split<5>>>(16);
  check<Pipeline<PipelinedModel, 1, Split<4>, Split<5>>>(16);
  using Kept = Pipeline<PipeDreamVerticalSync, 1, Split<4>, Split<5>>;
  constexpr DeviceMemory memory = device_memory<Net, Kept, Sgd, Bf16>(16, 1);
  CHECK(memory.versions > 0);
  CHECK(2 * memory.weights == memory.parameters + memory.versions);  // both versions are rounded
}

TEST_CASE("what is computed again") {
  check<Two<GPipe, Checkpoint<Boundaries>>>(16);
  check<Two<GPipe, Checkpoint<Every<2>>>>(16);
  check<Two<Chimera, Checkpoint<Every<1>>>>(16);
  using Whole = Two<GPipe>;
  using Again = Two<GPipe, Checkpoint<Boundaries>>;
  CHECK(device_memory<Net, Again, Sgd, Fp32>(64, 0).kept <
        device_memory<Net, Whole, Sgd, Fp32>(64, 0).kept);
}

using Normed = Sequential<Conv2d<8, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>>;
struct OneReLU : Network<Image<3, 8, 8>, Sequential<Normed, ReLU, Flatten, Linear<16>>> {};
struct TwoReLUs
    : Network<Image<3, 8, 8>, Sequential<Normed, Concat<ReLU, ReLU>, Flatten, Linear<16>>> {};

TEST_CASE("a batch norm has memory of its own unless one ReLU alone reads it") {
  constexpr std::int64_t map = 16 * 8 * 64 * 4;  // bytes of 8 channels
  constexpr std::int64_t others = 16 * 16 * 4 + 64 * (8 + 2);
  // Convolution, ReLU and, where channels come last, Flatten's copy ...
  CHECK(device_memory<OneReLU, SingleDevice<>, Sgd, Fp32>(16, 0).kept == 3 * map + others);
  // ... and here batch norm, another ReLU, and twice as much of Concat and Flatten.
  CHECK(device_memory<TwoReLUs, SingleDevice<>, Sgd, Fp32>(16, 0).kept == 8 * map + others);
}

TEST_CASE("types of elements, states of optimizers") {
  using S = SingleDevice<>;
  constexpr DeviceMemory fp32 = device_memory<Net, S, AdamW, Fp32>(8, 0);
  constexpr DeviceMemory fp64 = device_memory<Net, S, AdamW, Fp64>(8, 0);
  constexpr DeviceMemory bf16 = device_memory<Net, S, AdamW, Bf16>(8, 0);
  CHECK(fp64.parameters == 2 * fp32.parameters);
  CHECK(fp32.optimizer_state == 2 * fp32.gradients);
  CHECK(fp32.weights == 0);
  CHECK(bf16.parameters == fp32.parameters);
  CHECK(2 * bf16.weights == bf16.parameters);
  CHECK(bf16.kept < fp32.kept);
  CHECK(device_memory<Net, S, AdamW, Fp16>(8, 0).kept == bf16.kept);
}

static_assert(fits<Net, SingleDevice<>, Sgd, Fp32>(16, std::int64_t{1} << 20));
static_assert(!fits<Net, SingleDevice<>, Sgd, Fp32>(1600, std::int64_t{1} << 20));

TEST_CASE("a device that is not there, a batch of nothing") {
  CHECK_THROWS_AS(static_cast<void>(device_memory<Net, SingleDevice<>, Sgd, Fp32>(8, 1)),
                  ContractError);
  CHECK_THROWS_AS(static_cast<void>(device_memory<Net, SingleDevice<>, Sgd, Fp32>(0, 0)),
                  ContractError);
}

struct Described : OneReLU {};

/// The numbers of a line that begins so.
std::vector<double> numbers_behind(std::string const& text, std::string const& begin) {
  std::istringstream line{text.substr(text.find("\n" + begin) + 1 + begin.size())};
  std::vector<double> list;
  for (double number = 0.0; line.peek() != '\n' && line >> number;) {
    list.push_back(number);
  }
  return list;
}

TEST_CASE("describe prints where a model is cut, and what each part computes and sends") {
  std::string const text = describe<Described, ModelParallel<Auto<2>>>();
  int const begin = balanced_tops<2>(graph<Described>).of[0];
  CHECK(text.find("\ncut into 2 parts, Split<" + std::to_string(begin) + ">, Split<" +
                  std::to_string(4 - begin) + ">;") != std::string::npos);
  std::int64_t macs[2] = {};
  std::int64_t weights[2] = {};
  std::int64_t sent = 0;
  for (int n = 0; n < graph<Described>.nodes; ++n) {
    Node const& node = graph<Described>.node[n];
    macs[node.top < begin ? 0 : 1] += node.macs;
    weights[node.top < begin ? 0 : 1] += tandem::detail::weights_of(graph<Described>, node);
    sent = node.top == begin - 1 ? node.out.elements() * 4 : sent;
  }
  for (int part = 0; part < 2; ++part) {
    std::string const own = text.substr(text.find("cut into"));
    std::string const layers = part == 0 ? "0" : std::to_string(begin);
    std::size_t const at =
        own.find("\n" + std::to_string(part) + "        " + std::to_string(part));
    REQUIRE(at != std::string::npos);
    std::istringstream line{own.substr(at)};
    std::string word;
    line >> word >> word >> word;
    CHECK(word.substr(0, layers.size()) == layers);
    double parameters = 0;
    double mmacs = 0;
    double mflops = 0;
    double kib = 0;
    line >> parameters >> mmacs >> mflops >> kib;
    CHECK(parameters == static_cast<double>(weights[part]));
    CHECK(std::fabs(mmacs - static_cast<double>(macs[part]) / 1e6) <= 0.0051);
    CHECK(std::fabs(mflops - 6 * static_cast<double>(macs[part]) / 1e6) <= 0.0051);
    CHECK(std::fabs(kib - (part == 0 ? static_cast<double>(sent) / 1024 : 0.0)) <= 0.051);
  }
  CHECK(describe<Described>().find("cut into") == std::string::npos);
}

TEST_CASE("describe prints any network, and the memory that fits counts") {
  using S = ModelParallel<Split<2>, Split<2>>;
  std::string const plain = describe<Described>({.title = "Mine"});
  CHECK(plain.starts_with("Mine on 3x8x8, for one sample in fp32\n"));
  CHECK(plain.find("MiB") == std::string::npos);
  CHECK(plain.find("\n3                  Linear                   16") != std::string::npos);
  CHECK(plain.find("\ntotal              4 parts                  16") != std::string::npos);
  std::string const text = describe<Described, S, Fp32>(
      {.top_only = true, .batch = 4096, .optimizer = Adam{}, .average = {.decay = 0.9}});
  CHECK(text.find("MiB for steps of 4096 samples in fp32 with Adam and averages: at most") !=
        std::string::npos);
  auto const near = [](double mib, std::int64_t bytes) {
    return std::fabs(mib - static_cast<double>(bytes) / (1 << 20)) <= 0.051;
  };
  for (int device = 0; device < 2; ++device) {
    DeviceMemory const own =
        device_memory<Described, S, Adam, Fp32>(4096, device, WeightAverages::kept);
    auto const numbers =
        numbers_behind(text.substr(text.find("MiB for")), std::to_string(device) + "       ");
    REQUIRE(numbers.size() == 7);
    CHECK(near(numbers[2], own.optimizer_state));
    CHECK(near(numbers[3], own.kept + own.recomputed + own.passing));
    CHECK(near(numbers[6], own.total()));
  }
  CHECK_THROWS_AS(describe<Described>({.batch = -1}), ContractError);
}

}  // namespace fits_test
