// SPDX-License-Identifier: Apache-2.0
// What plans of transformers on thousands of devices are made of: a block's costs are those of the
// graph, memory is the published formula, steps are their parts, and the search finds the fastest.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/models/gpt.hpp>
#include <tandem/plan/cost/gpt_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/scale/mesh_report.hpp>
#include <tandem/plan/scale/mesh_timeline.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace mesh_test {

using namespace tandem;

bool close(double value, double expected, double bound = 1e-9) {
  return std::fabs(value - expected) <= bound * std::fabs(expected);
}

// Of so many operations, or bytes, a second, so that one of them alone counts.
Machine counting(double math, double bandwidth) {
  Machine machine = dgx_a100();
  machine.peak = {.fp64 = math, .fp32 = math, .tf32 = math, .bf16 = math};
  machine.efficiency = 1;
  machine.kernels = {};
  machine.memory_bandwidth = bandwidth;
  machine.launch_overhead = 0;
  return machine;
}

TransformerSizes sizes_of(GptSizes const& gpt) {
  return {.layers = gpt.layers,
          .width = gpt.width,
          .heads = gpt.heads,
          .context = gpt.context,
          .vocabulary = gpt.vocabulary};
}

TEST_CASE("a block's nodes are those of the graph that models::Gpt lowers to") {
  GptSizes const gpt{.vocabulary = 65, .context = 32, .width = 48, .heads = 4, .layers = 2};
  GptGraph const graph{gpt};  // gpt_test: node by node that of the type
  TransformerSizes const sizes = sizes_of(gpt);
  constexpr MathPrecision fp32 = MathPrecision::fp32;
  Machine const math = counting(1, 1e18);
  Machine const memory = counting(1e18, 1);
  CostGraph const operations = static_costs(graph.view(), math, fp32, 3);
  CostGraph const bytes = static_costs(graph.view(), memory, fp32, 3);
  std::vector<CostNode> const by_math = block_costs(sizes, {math, fp32}, {}, 3);
  std::vector<CostNode> const by_memory = block_costs(sizes, {memory, fp32}, {}, 3);
  REQUIRE(by_math.size() == 10);
  double parameters = 0;
  for (std::size_t n = 0; n < by_math.size(); ++n) {
    CostNode const& own = by_math[n];
    CostNode const& other = operations.node[3 + n];  // behind input, words and positions
    CAPTURE(other.name);
    CHECK(other.name.ends_with(own.name));
    CHECK(own.parameter_bytes == other.parameter_bytes);
    CHECK(own.output_bytes == other.output_bytes);
    if (own.name == "Linear" || own.name == "Attention") {
      CHECK(close(own.forward, other.forward));
      CHECK(close(own.backward, other.backward));
    } else {  // but for the weights themselves, which the graph reads, too
      CHECK(close(by_memory[n].forward, bytes.node[3 + n].forward, 0.03));
      CHECK(close(by_memory[n].backward, bytes.node[3 + n].backward, 0.03));
    }
    parameters += static_cast<double>(own.parameter_bytes) / 4;
  }
  CHECK(parameters == sizes.block_parameters());
  double all = 0;  // the graph has the words twice, tied
  for (CostNode const& node : operations.node) {
    all += static_cast<double>(node.parameter_bytes) / 4;
  }
  CHECK(all - 65 * 48 == sizes.parameters());
}

TEST_CASE("devices that share products have their parts") {
  TransformerSizes const sizes{.layers = 2, .width = 512, .heads = 8, .context = 128};
  Machine const math = counting(1, 1e18);
  auto const seconds = [&](TensorShare share, std::size_t n) {
    return block_costs(sizes, {math, MathPrecision::bf16}, share, 2)[n].time();
  };
  for (std::size_t const product : {1U, 2U, 3U, 6U, 8U}) {
    CHECK(close(seconds({.tensor = 4}, product), seconds({}, product) / 4));
  }
  CHECK_THROWS_AS((void)block_costs(sizes, {math, MathPrecision::bf16}, {.tensor = 3}, 2),
                  ContractError);
}

TEST_CASE("a curve's small products achieve less") {
  KernelCurve const curve{.share = 0.8, .half_side = 100, .half_depth = 50};
  CHECK(close(curve.product_share(100, 1e12, 1e12), 0.4, 1e-6));
  CHECK(close(curve.product_share(1e12, 100, 1e12), 0.4, 1e-6));
  CHECK(close(curve.product_share(1e12, 1e12, 50), 0.4, 1e-6));
  CHECK_FALSE(KernelCurve{}.known());
}

// Of 22 G weights, one of eight devices; Korthikanti et al., arXiv:2205.05198.
MeshTask large() {
  return {.sizes = {.layers = 48,
                    .width = 6144,
                    .heads = 64,
                    .context = 2048,
                    .vocabulary = 51200,
                    .dropout = true,
                    .attention = AttentionKernels::separate},
          .machine = dgx_a100(),
          .batch = 64};
}

TEST_CASE("memory of activations is the published formula") {
  MeshTask const task = large();
  double const sbh = 2048.0 * 4 * 6144;
  double const scores = 5.0 * 64 * 2048 / 6144;
  auto const kept = [&](MeshLayout layout) {
    layout.microbatch = 4;
    return detail::kept_bytes(task, layout);
  };
  using enum Recomputation;
  CHECK(close(kept({}), sbh * (34 + scores)));
  CHECK(close(kept({.tensor = 8}), sbh * (10 + 24.0 / 8 + scores / 8)));
  CHECK(close(kept({.tensor = 8, .sequence_rows = true}), sbh / 8 * (34 + scores)));
  CHECK(
      close(kept({.tensor = 8, .recomputation = selective, .sequence_rows = true}), sbh / 8 * 34));
  // 18 bytes a weight with Adam, of which the replicas share 12.
  MeshLayout layout{.data = 1, .tensor = 8, .microbatch = 4};
  double const weights = task.sizes.parameters() / 8;
  MeshMemory const all = mesh_memory(task, layout);
  CHECK(close(all.weights + all.gradients + all.state, 18 * weights, 1e-3));
  layout.data = 4;
  auto const sharded = [&](Sharding shard) {
    layout.shard = shard;
    MeshMemory const part = mesh_memory(task, layout);
    return (part.weights + part.gradients + part.state) / weights;
  };
  double const passing = 2.0 / 48;  // two blocks of all
  CHECK(close(sharded(Sharding::state), 6 + 12.0 / 4, 1e-3));
  CHECK(close(sharded(Sharding::gradients), 2 + 4 * (1.0 / 4 + passing) + 12.0 / 4, 1e-3));
  CHECK(close(sharded(Sharding::parameters), 6 * (1.0 / 4 + passing) + 12.0 / 4, 1e-3));
}

// Of a device with the whole network, in fp32, where fits<> has it.
TEST_CASE("memory is that of fits<> where the library has the strategy") {
  GptSizes const gpt{.vocabulary = 1000, .context = 256, .width = 256, .heads = 8, .layers = 6};
  GptGraph const graph{gpt};
  SearchTask const search{.machine = dgx_a100(),
                          .batch_per_worker = 8,
                          .samples = 8,
                          .bytes_of_parameter = 4,
                          .network = graph.view(),
                          .precision = MathPrecision::fp32};
  WorkerSteps const steps{search, [&](int samples) {
                            return static_costs(graph.view(), search.machine, search.precision,
                                                samples);
                          }};
  MeshTask const task{
      .sizes = sizes_of(gpt), .machine = dgx_a100(), .precision = MathPrecision::fp32, .batch = 8};
  double const exact = steps.memory(steps.all().front(), 1);
  double const formula = mesh_memory(task, {.microbatch = 8}).total();
  CHECK(exact / formula > 0.9);
  CHECK(exact / formula < 1.1);
}

struct Adamlike {
  static constexpr int states() { return 2; }
};

// Of replicas in fp32, a bucket for each block.
TEST_CASE("memory of what replicas shard is that of fits<>, too") {
  GptSizes const gpt{.vocabulary = 1000, .context = 64, .width = 256, .heads = 8, .layers = 6};
  using Net = models::Gpt<1000, 64, 256, 8, 6>;
  MeshTask const task{
      .sizes = sizes_of(gpt), .machine = dgx_a100(), .precision = MathPrecision::fp32, .batch = 4};
  auto const check = [&](Sharding shard, DeviceMemory const& typed) {
    CAPTURE(sharding_name(shard));
    MeshMemory const own = mesh_memory(task, {.data = 4, .microbatch = 1, .shard = shard});
    auto const close_to = [](double formula, std::int64_t bytes) {
      return std::fabs(formula / static_cast<double>(bytes) - 1) < 0.1;
    };
    CHECK(close_to(own.weights, typed.parameters));
    CHECK(close_to(own.gradients, typed.gradients));
    CHECK(close_to(own.state, typed.optimizer_state));
  };
  auto const typed = [](auto strategy) {
    return device_memory<Net, decltype(strategy), Adamlike, Fp32>(4, 0);
  };
  check(Sharding::none, typed(DataParallel<4>{}));
  check(Sharding::state, typed(DataParallel<4, ShardedState>{}));
  check(Sharding::gradients,
        typed(DataParallel<4, ShardedGradients, BucketBytes<3'000'000, 3'000'000>>{}));
  check(Sharding::parameters,
        typed(DataParallel<4, ShardedParameters, BucketBytes<3'000'000, 3'000'000>>{}));
}

TEST_CASE("a step's parts go as their axes") {
  MeshTask task = large();
  MeshLayout layout{.data = 1, .pipeline = 8, .tensor = 8, .recomputation = Recomputation::full};
  MeshStep const step = mesh_step(task, layout);
  double const one = (step.computing + step.products + step.messages) / 64;
  CHECK(close(step.filling, 7 * one));
  CHECK(step.sums == 0);
  layout.chunks = 3;  // shorter filling, more messages
  MeshStep const interleaved = mesh_step(task, layout);
  CHECK(close(interleaved.messages, 3 * step.messages));
  CHECK(close(interleaved.filling * 3,
              7 * (interleaved.computing + interleaved.products + interleaved.messages) / 64));
  layout.recomputation = Recomputation::selective;  // less again, fewer all-reduces
  MeshStep const selective = mesh_step(task, layout);
  CHECK(close(selective.products * 3, interleaved.products * 2));
  CHECK(selective.computing < interleaved.computing);
  layout.overlap.products = true;
  CHECK(mesh_step(task, layout).products == 0);
  // The all-reduces of Megatron-LM: four of a block, of B T C elements in 2 bytes.
  MeshLayout const two{.tensor = 2, .microbatch = 1};
  double const bytes = 2048.0 * 6144 * 2;
  CHECK(close(mesh_step(task, two).products,
              64 * 48 * 4 * all_reduce_seconds(task.machine, {2, 1}, bytes)));
  task.spread = 0.5;
  MeshLayout const replicas{.data = 8, .microbatch = 1};
  CHECK(close(mesh_step(task, replicas).waiting,
              0.5 * heaviest_of(8) / std::sqrt(8.0) * mesh_step(task, replicas).computing));
}

/// Links without latency, and no time for computing, or any.
MeshTask sending(double math) {
  MeshTask task = large();
  task.sizes.attention = AttentionKernels::fused;
  task.machine = counting(math, 1e30);
  task.machine.inside = {.bandwidth = 1e9, .latency = 0};
  task.batch = 64;
  task.gradient_bytes = 2;  // as a weight
  return task;
}

// Rajbhandari et al., arXiv:1910.02054, section 7: once and a half as much with sharded weights.
TEST_CASE("what replicas send: their volumes") {
  MeshTask const task = sending(1e30);
  auto const sums = [&](Sharding shard, int microbatches) {
    MeshLayout const layout{.data = 8, .microbatch = 8 / microbatches, .shard = shard};
    return mesh_step(task, layout).sums;
  };
  double const reduce = sums(Sharding::none, 1);
  CHECK(close(reduce, 2 * 7.0 / 8 * 2 * task.sizes.parameters() / 1e9, 1e-3));
  for (int const m : {1, 2, 8}) {
    CAPTURE(m);
    CHECK(close(sums(Sharding::none, m), reduce));
    CHECK(close(sums(Sharding::state, m), reduce));
    CHECK(close(sums(Sharding::gradients, m), (m + 1) * reduce / 2));
    CHECK(close(sums(Sharding::parameters, m), 3 * m * reduce / 2));
  }
}

TEST_CASE("sharded weights are gathered beside the blocks, but for the first") {
  static_assert(detail::shown_units(4, 1, 0, 1) == 1);
  static_assert(detail::shown_units(4, 1, 2, 2) == 3 + 3 * 1);
  MeshTask const task = sending(1e3);  // computing takes longer than all else
  MeshLayout layout{.data = 8, .microbatch = 8};
  double const reduce = mesh_step(task, layout).sums;
  layout.shard = Sharding::parameters;
  CHECK(close(mesh_step(task, layout).sums, 3 * reduce / 2 / 48));
  layout.shard = Sharding::gradients;
  CHECK(close(mesh_step(task, layout).sums, reduce));
  layout.overlap.sums = true;
  CHECK(close(mesh_step(task, layout).sums, reduce / 48));
}

// The bound of sequences.md: p K / (K + p - 1) of one microbatch.
TEST_CASE("a pipeline fills with a chunk of time") {
  MeshTask task = sending(1);
  task.sizes.vocabulary = 8;
  task.batch = 1;
  double const one = mesh_step(task, {}).computing;
  for (int const p : {2, 4}) {
    for (int const k : {1, 2, 16}) {
      CAPTURE(p);
      CAPTURE(k);
      MeshStep const step = mesh_step(task, {.pipeline = p, .time_chunks = k});
      CHECK(close(one / (step.computing + step.filling), 1.0 * p * k / (k + p - 1), 1e-3));
    }
  }
  task.batch = 8;
  MeshLayout layout{.pipeline = 4};
  MeshStep const whole = mesh_step(task, layout);
  MeshMemory const memory = mesh_memory(task, layout);
  layout.time_chunks = 4;
  MeshStep const chunks = mesh_step(task, layout);
  CHECK(close(chunks.computing, whole.computing));
  CHECK(close(chunks.messages, whole.messages));  // as many bytes
  CHECK(close(chunks.filling * 4, whole.filling));
  double const keys = 12.0 * 2 * 6144 * 2048 * 2;  // gradients that go from chunk to chunk
  CHECK(close(mesh_memory(task, layout).activations, memory.activations + keys));
  CHECK(mesh_problem(task, {.pipeline = 4, .time_chunks = 3}).find("divide") != std::string::npos);
  CHECK(mesh_problem(task, {.time_chunks = 4}).find("for a pipeline") != std::string::npos);
  CHECK(mesh_problem(large(), {.pipeline = 4, .time_chunks = 4}).find("one kernel") !=
        std::string::npos);
}

TEST_CASE("devices that have parts of sequences") {
  MeshTask task = large();
  task.sizes.attention = AttentionKernels::fused;
  task.sizes.key_heads = 8;
  task.batch = 1;
  MeshLayout layout{.tensor = 8};
  MeshStep const one = mesh_step(task, layout);
  MeshMemory const memory = mesh_memory(task, layout);
  layout.sequence = 4;
  MeshStep const four = mesh_step(task, layout);
  CHECK(layout.devices() == 32);
  CHECK(four.computing > one.computing / 4);
  CHECK(four.computing < one.computing / 3);
  CHECK(close(mesh_memory(task, layout).activations * 4, memory.activations));
  double const bytes = 2048.0 * 2 * 8 * 96 / 8 * 2;  // keys and values of a device's head
  double const reduced = 4 * all_reduce_seconds(task.machine, {8, 1}, 2048.0 * 6144 / 4 * 2);
  CHECK(close(four.products, 48 * (reduced + all_gather_seconds(task.machine, {4, 8}, bytes) +
                                   reduce_scatter_seconds(task.machine, {4, 8}, bytes))));
  CHECK(close(four.sums, all_reduce_seconds(task.machine, {4, 8},
                                            4 * detail::stage_parameters(task.sizes, layout))));
  layout.sequence = 3;
  CHECK(mesh_problem(task, layout).find("sequence") != std::string::npos);
  CHECK(mesh_type({.tensor = 8, .sequence = 2}, 1) == "TensorParallel<8> x sequence 2");
}

TEST_CASE("a step waits for a slow node where there is one") {
  MeshTask task = large();
  MeshLayout const layout{.pipeline = 8, .tensor = 8};
  double const computing = mesh_step(task, layout).computing;
  CHECK(mesh_step(task, layout).waiting == 0);
  task.machine.slow = {.share = 0.5, .by = 0.1};  // 64 devices are 8 nodes
  CHECK(close(mesh_step(task, layout).waiting, 0.1 * (1 - 1.0 / 256) * computing));
}

TEST_CASE("the heaviest of some") {
  CHECK(heaviest_of(1) == 0);
  CHECK(close(heaviest_of(2), 0.5642, 0.05));   // 1 / sqrt(pi)
  CHECK(close(heaviest_of(10), 1.5388, 0.02));  // Harter 1961
  CHECK(close(heaviest_of(100), 2.5076, 0.01));
}

TEST_CASE("layouts that cannot be say why") {
  MeshTask const task = large();
  CHECK(mesh_problem(task, {}).empty());
  CHECK(mesh_problem(task, {.tensor = 3}).find("heads") != std::string::npos);
  CHECK(mesh_problem(task, {.data = 3}).find("batch") != std::string::npos);
  CHECK(mesh_problem(task, {.pipeline = 64}).find("blocks") != std::string::npos);
  CHECK(mesh_problem(task, {.pipeline = 8, .chunks = 4}).find("interleaved") != std::string::npos);
  CHECK(mesh_problem(task, {.sequence_rows = true}).find("rows") != std::string::npos);
}

// The fastest of all layouts by brute force, without a branch that is cut.
double fastest(MeshTask const& task, int devices) {
  double best = 1e300;
  auto const tries = [&](MeshLayout layout) {
    for (int bits = 0; bits < 24; ++bits) {
      layout.recomputation = static_cast<Recomputation>(bits / 8);
      layout.sequence_rows = bits % 2 == 1;
      layout.shard = static_cast<Sharding>(bits / 2 % 4);
      if (mesh_problem(task, layout).empty() &&
          mesh_memory(task, layout).total() <= static_cast<double>(task.machine.memory)) {
        best = std::min(best, mesh_step(task, layout).seconds());
      }
    }
  };
  for (int t = 1; t <= 8; ++t) {
    for (int p = 1; p <= std::min(48, devices / t); ++p) {
      for (int c = 1; c <= 48 && devices % (t * p) == 0; ++c) {
        for (int m = 1; m <= 64; ++m) {
          for (int k = 1; k <= 16; k *= 2) {
            MeshLayout const layout{.data = devices / t / p,
                                    .pipeline = p,
                                    .tensor = t,
                                    .chunks = c,
                                    .time_chunks = k,
                                    .microbatch = m};
            if (mesh_problem(task, layout).empty()) {
              tries(layout);
            }
          }
        }
      }
    }
  }
  return best;
}

TEST_CASE("the search finds what trying everything finds") {
  for (int const devices : {8, 16, 32}) {
    MeshSearch const found = search_meshes(large(), devices);
    REQUIRE_FALSE(found.plans.empty());
    CHECK(close(found.plans.front().step.seconds(), fastest(large(), devices)));
    for (MeshPlan const& plan : found.plans) {
      CHECK(plan.layout.devices() == devices);
      CHECK(plan.memory.total() <= 80e9);
    }
  }
  MeshTask fused = large();
  fused.sizes.attention = AttentionKernels::fused;
  fused.batch = 4;  // so that a pipeline fills for long
  CHECK(close(search_meshes(fused, 16).plans.front().step.seconds(), fastest(fused, 16)));
  MeshLimits const limits{.pipeline = 2, .tensor = 4, .recomputation = Recomputation::full};
  for (MeshPlan const& plan : search_meshes(large(), 32, limits).plans) {
    CHECK(plan.layout.pipeline == 2);
    CHECK(plan.layout.tensor == 4);
    CHECK(plan.layout.recomputation == Recomputation::full);
  }
  CHECK(search_meshes(large(), 1).plans.empty());
  CHECK(search_meshes(large(), 1).least_memory > 80e9);
}

TEST_CASE("why: each choice the other way is slower, or does not fit") {
  MeshTask const task = large();
  MeshPlan const best = search_meshes(task, 32).plans.front();
  std::vector<MeshReason> const why = mesh_reasons(task, 32, {}, best.layout);
  REQUIRE(why.size() >= 4);  // at the least: shards otherwise, and some axis
  bool shares = false;
  for (MeshReason const& reason : why) {
    CAPTURE(reason.other);
    CHECK(reason.seconds >= best.step.seconds());
    shares = shares || reason.other == "without shared products";
  }
  CHECK(shares == (best.layout.tensor > 1));
  MeshReason const alone = mesh_reasons(task, 32, {.tensor = 8}, {.data = 4, .tensor = 8}).front();
  CHECK(alone.other != "without shared products");  // which nobody chose
  CHECK(reasons_text({{"without a pipeline", 3}, {"with nothing sharded"}}, 2) ==
        "why, beside the fastest that chooses otherwise\n"
        "  without a pipeline: 50 % slower\n  with nothing sharded: nothing fits\n");
}

TEST_CASE("65,536 devices are searched") {
  MeshTask task = large();
  task.sizes.layers = 128;
  task.sizes.width = 25600;
  task.sizes.heads = 160;
  task.batch = 16384;
  MeshSearch const found = search_meshes(task, 65'536);
  REQUIRE_FALSE(found.plans.empty());
  CHECK(found.plans.front().layout.devices() == 65'536);
}

TEST_CASE("families: the fastest of each, and the fastest of all among them") {
  MeshTask const task = large();
  MeshSearch const found = search_meshes(task, 64);
  double best = 1e300;
  for (int family = 0; family < mesh_families; ++family) {
    auto const& own = found.of_family[static_cast<std::size_t>(family)];
    if (own) {
      CHECK(mesh_family(own->layout) == family);
      best = std::min(best, own->step.seconds());
    }
  }
  CHECK(best == found.plans.front().step.seconds());
  CHECK(mesh_family({.data = 4}) == 0);
  CHECK(mesh_family({.data = 4, .shard = Sharding::parameters}) == 1);
  CHECK(mesh_family({.tensor = 4}) == 2);
  CHECK(mesh_family({.pipeline = 4}) == 3);
  CHECK(mesh_family({.pipeline = 4, .tensor = 2}) == 4);
}

TEST_CASE("a timeline is the closed form's pipeline, without sums and update") {
  MeshTask task = large();
  task.sizes.layers = 32;
  for (MeshLayout const& layout :
       {MeshLayout{.data = 16, .pipeline = 4, .overlap = {.messages = true}},
        MeshLayout{
            .data = 4, .pipeline = 4, .tensor = 4, .chunks = 2, .overlap = {.messages = true}},
        MeshLayout{.data = 64}}) {
    CAPTURE(mesh_type(layout, 4));
    task.batch = 64;
    task.machine.between = task.machine.inside = {.bandwidth = 1e15, .latency = 0};
    auto const timeline = mesh_timeline(task, layout);
    REQUIRE(timeline);
    task.batch = layout.data * timeline->microbatches;
    MeshStep const step = mesh_step(task, layout);
    double const passes = step.computing + step.products + step.filling;
    CHECK(timeline->step.last_pass == doctest::Approx(passes).epsilon(0.12));  // the ends differ
    CHECK(timeline->step.device.size() == static_cast<std::size_t>(layout.pipeline));
  }
  task.sizes.layers = 64;
  task.batch = 128;
  CHECK_FALSE(mesh_timeline(task, {.pipeline = 64}));
}

// Seconds of a stage's first pass of a kind.
double first_of(SimulatedStep const& step, ActionKind kind) {
  for (SimulatedAction const& one : step.device.at(1).action) {
    if (one.action.kind == kind) {
      return one.span.end - one.span.begin;
    }
  }
  return 0;
}

TEST_CASE("a timeline's passes wait for what devices that share products send") {
  MeshTask task = large();
  task.sizes.layers = 32;
  task.machine.between = {.bandwidth = 1e15, .latency = 0};  // of messages
  MeshLayout layout{.data = 4, .pipeline = 4, .tensor = 4, .overlap = {.messages = true}};
  for (auto const again : {Recomputation::none, Recomputation::full}) {
    layout.recomputation = again;
    struct Waits {
      double step, forward, backward, closed;
    };
    auto const on = [&](double bandwidth) {
      task.machine.inside = {.bandwidth = bandwidth, .latency = 0};
      task.batch = 64;
      auto const timeline = mesh_timeline(task, layout);
      REQUIRE(timeline);
      task.batch = layout.data * timeline->microbatches;
      MeshStep const step = mesh_step(task, layout);
      return Waits{timeline->step.last_pass, first_of(timeline->step, ActionKind::forward),
                   first_of(timeline->step, ActionKind::backward),
                   step.computing + step.products + step.filling};
    };
    Waits const slow = on(2e10);
    Waits const fast = on(1e15);
    CHECK(slow.step > 1.5 * fast.step);
    CHECK(slow.step - fast.step == doctest::Approx(slow.closed - fast.closed).epsilon(0.01));
    double const times = again == Recomputation::full ? 2 : 1;  // forward is in backward, too
    CHECK(slow.backward - fast.backward == doctest::Approx(times * (slow.forward - fast.forward)));
  }
}

TEST_CASE("types are what the library runs, or a plan only") {
  MeshLayout layout{.data = 8, .pipeline = 4, .microbatch = 1, .shard = Sharding::state};
  CHECK(mesh_type(layout, 16) ==
        "Hybrid<DataParallel<8, ShardedState>, Pipeline<OneFOneB, 16, Auto<4>>>");
  CHECK(plan_only(layout).empty());
  layout.chunks = 2;
  layout.recomputation = Recomputation::full;
  CHECK(mesh_type(layout, 16) ==
        "Hybrid<DataParallel<8, ShardedState>, Pipeline<Interleaved<2>, 16, Auto<8>, "
        "Checkpoint<Every<1>>>>");
  layout.tensor = 2;
  CHECK(plan_only(layout).empty());
  CHECK(mesh_type(layout, 16) ==
        "Hybrid<DataParallel<8, ShardedState>, Pipeline<Interleaved<2>, 16, Auto<8>, "
        "Checkpoint<Every<1>>>, TensorParallel<2>>");
  CHECK(mesh_type({.data = 2, .tensor = 4, .sequence_rows = true}, 3) ==
        "Hybrid<DataParallel<2>, TensorParallel<4, SequenceRows, Microbatches<3>>>");
  CHECK(mesh_type({.pipeline = 2, .time_chunks = 4}, 2) ==
        "Pipeline<OneFOneB, 2, Chunks<4>, Auto<2>>");
  CHECK(plan_only({.tensor = 4, .sequence_rows = true}).empty());
  CHECK(plan_only({.data = 2, .shard = Sharding::gradients}).empty());
  CHECK(plan_only({.data = 2, .shard = Sharding::parameters}).empty());
  CHECK(plan_only({.data = 2, .tensor = 4, .sequence_rows = true, .shard = Sharding::gradients}) ==
        "sharded gradients beside rows of sequences");
  MeshLayout chunks{.data = 2, .pipeline = 2, .tensor = 2, .time_chunks = 4};
  CHECK(plan_only(chunks).empty());
  chunks.sequence_rows = true;
  CHECK(plan_only(chunks) == "chunks of time beside rows of sequences");
  chunks.sequence_rows = false;
  chunks.shard = Sharding::gradients;
  CHECK(plan_only(chunks) == "chunks of time beside sharded gradients");
  chunks.shard = Sharding::state;
  CHECK(plan_only(chunks).empty());
  chunks.recomputation = Recomputation::full;
  CHECK(plan_only(chunks) == "chunks of time that are computed again");
  CHECK(mesh_type({.data = 2, .shard = Sharding::parameters}, 1) ==
        "DataParallel<2, ShardedParameters>");
  CHECK(mesh_type({}, 1) == "SingleDevice<>");
  CHECK(mesh_type({.data = 2}, 4) == "DataParallel<2, Microbatches<4>>");
  layout = {.data = 2, .recomputation = Recomputation::full};
  CHECK(mesh_type(layout, 1) == "DataParallel<2>, blocks again");
  CHECK(plan_only(layout) == "recomputation outside of a pipeline");
  MeshTask const task = large();
  MeshSearch const found = search_meshes(task, 64);
  MeshLayout const& best = found.plans.front().layout;
  auto const has = [](std::string const& text, std::string const& part) {
    return text.find(part) != std::string::npos;
  };
  std::string const text = mesh_text(task, 64, found, mesh_reasons(task, 64, {}, best));
  CHECK(has(text, "why, beside the fastest that chooses otherwise\n  "));
  REQUIRE(found.runs);
  MeshLayout const& runs = found.runs->layout;
  CHECK(plan_only(runs).empty());
  CHECK(runs.tensor > 1);
  CHECK(has(text, "using Strategy = " + mesh_type(runs, 64 / runs.data / runs.microbatch)));
  CHECK(has(text, "a plan only: ") == !plan_only(best).empty());
  MeshLimits const limits{.recomputation = Recomputation::selective};
  MeshSearch const only = search_meshes(task, 64, limits);
  REQUIRE_FALSE(only.plans.empty());
  std::string const why = plan_only(only.plans.front().layout);
  CHECK_FALSE(why.empty());
  CHECK(has(mesh_text(task, 64, only), "a plan only: the library has no " + why + " for it yet\n"));
  CHECK_FALSE(only.runs);
  CHECK(mesh_text(task, 1, search_meshes(task, 1)).find("nothing fits") != std::string::npos);
}

}  // namespace mesh_test
