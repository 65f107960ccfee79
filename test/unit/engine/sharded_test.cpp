// SPDX-License-Identifier: Apache-2.0
// Replicas that each have a part of the optimizer's states, of the gradients or of the parameters,
// too: the bits of those that have all, the memory of a part (of gradients and parameters, and of
// two buckets), and what goes over the wire.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace sharded_test {

using Small = BucketBytes<64, 256>;  // several buckets, of which none has a multiple of 3 parts
template <class... Options>
using Three = DataParallel<3, Small, Options...>;
using Two = Microbatches<2>;

template <class S>
using Tiny = Trainer<TinyNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport>;

/// Of every replica: values, gradients, averages and states.
template <class T>
std::vector<std::vector<float>> all_of(T const& trainer) {
  std::vector<std::vector<float>> all;
  auto const add = [&](std::span<float const> numbers) {
    all.emplace_back(numbers.begin(), numbers.end());
  };
  for (int replica = 0; replica < T::ProgramType::batching.replicas; ++replica) {
    for (NamedParameter<float> const& p : trainer.parameters(replica)) {
      add(p.value);
      add(p.gradient);
      add(p.average);
      for (auto const& state : p.states) {
        add(state);
      }
    }
  }
  return all;
}

/// Losses, metrics and norms of five steps, and what all replicas have behind them.
template <class S>
Run steps_of(TrainerOptions const& options) {
  Watchdog const watchdog{"five steps of replicas"};
  Tiny<S> trainer{options};
  Run run;
  for (int s = 0; s < 5; ++s) {
    StepResult const r = parity_step(trainer, s);
    run.numbers.insert(run.numbers.end(), {r.loss, r.metric, r.gradient_norm});
  }
  run.values = all_of(trainer);
  return run;
}

template <class Parts, class Whole>
void check_bits(std::initializer_list<Optimizer> optimizers) {
  auto const check = [](TrainerOptions const& options) {
    CHECK(steps_of<Parts>(options) == steps_of<Whole>(options));
  };
  for (Optimizer const& optimizer : optimizers) {
    TrainerOptions options = unclipped(optimizer);
    check(options);
    options.groups = {{.pattern = "*.bias", .learning_rate_scale = 0.5F},
                      {.pattern = "0.*", .frozen = true}};
    check(options);
  }
  check(parity_options());  // whose norm of all gradients bounds them
}

TEST_CASE("a part of the states each gives the bits of all of them each") {
  check_bits<Three<Two, ShardedState>, Three<Two>>(
      {Sgd{.learning_rate = 0.05F, .momentum = 0.9F}, AdamW{}, Sgd{}});
}

TEST_CASE("of one microbatch, so does a part of the gradients") {
  check_bits<Three<ShardedGradients>, Three<>>({AdamW{}});
}

TEST_CASE("so does a part of the parameters, in files and averages, too") {
  Watchdog const watchdog{"parts of parameters"};
  TemporaryFolder const folder;
  TrainerOptions options = parity_options();
  options.groups = {{.pattern = "0.*", .frozen = true}};
  options.average = {.decay = 0.75, .pattern = "8.weight"};
  Tiny<Three<>> plain{options};
  Tiny<Three<ShardedParameters>> parts{options};
  for (int step = 0; step < 3; ++step) {
    StepResult const wanted = parity_step(plain, step);
    StepResult const got = parity_step(parts, step);
    CHECK(got.loss == wanted.loss);
    CHECK(got.gradient_norm == wanted.gradient_norm);
  }
  CHECK(all_of(parts) == all_of(plain));
  auto const data = dataset(plain.input, 5, 14);
  CHECK(parts.evaluate(data).loss == plain.evaluate(data).loss);  // of averages, a replica idle
  CHECK(all_of(parts) == all_of(plain));
  parts.save(folder.file("parts"));
  plain.save(folder.file("plain"));
  CHECK(content(folder.file("parts")) == content(folder.file("plain")));
  parts.export_model(folder.file("model of parts"));
  plain.export_model(folder.file("model"));
  CHECK(content(folder.file("model of parts")) == content(folder.file("model")));
  Tiny<Three<ShardedParameters>> other{options};
  other.load(folder.file("plain"));
  CHECK(parity_step(other, 3).loss == parity_step(plain, 3).loss);
  CHECK(all_of(other) == all_of(plain));
}

TEST_CASE("states: the bits are those of one device where Reproducible asks for them") {
  using One = SingleDevice<Microbatches<4>, Reproducible<>>;
  using Parts = DataParallel<2, Two, Reproducible<>, ShardedState, Small>;
  CHECK(five_steps<Parts>(unclipped(AdamW{})) == five_steps<One>(unclipped(AdamW{})));
  CHECK(five_steps<Parts>(parity_options()) == five_steps<One>(parity_options()));
}

TEST_CASE("states: rounded gradients, and shards without samples") {
  using Rounded = Three<Weighted<2, 0, 1>, Wire<BFloat16>>;
  using Parts = Three<Weighted<2, 0, 1>, Wire<BFloat16>, ShardedState>;
  CHECK(steps_of<Parts>(unclipped(AdamW{})) == steps_of<Rounded>(unclipped(AdamW{})));
}

TEST_CASE("states: one replica has all of them") {
  CHECK(five_steps<DataParallel<1, ShardedState>>(parity_options()) ==
        five_steps<SingleDevice<>>(parity_options()));
}

TEST_CASE("gradients: several microbatches, some empty, have one device's sums in another order") {
  check_alike<TinyNet, SingleDevice<Microbatches<6>, Weighted<2, 0, 1>>,
              Three<Two, Weighted<2, 0, 1>, ShardedGradients>, Double>(Alike::numbers);
}

template <class... Options>
using Turning = Hybrid<DataParallel<2, Small, Options...>,
                       Pipeline<ZeroBubbleV, 4, Split<2>, Split<2>, Split<2>, Split<3>>>;

// Of several microbatches gradients in parts are added in another order.
TEST_CASE("replicas of a pipeline, two stages a device, weight gradients apart") {
  Watchdog const watchdog{"replicas of a pipeline"};
  Trainer<TinyNet, Turning<>, Double> plain{parity_options()};
  Trainer<TinyNet, Turning<ShardedState>, Double> states{parity_options()};
  Trainer<TinyNet, Turning<ShardedGradients>, Double> parts{parity_options()};
  for (int s = 0; s < 5; ++s) {
    StepResult const a = parity_step(plain, s);
    StepResult const b = parity_step(parts, s);
    CHECK(parity_step(states, s).gradient_norm == a.gradient_norm);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-12 * a.gradient_norm);
  }
  Difference const off = difference(parts.parameters(), plain.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-12);
  CHECK(first_difference(parts.parameters(1), parts.parameters()) == "");
  CHECK(first_difference(states.parameters(0), plain.parameters()) == "");
  CHECK(first_difference(states.parameters(1), plain.parameters()) == "");
}

/// Three steps of a GPT have the same losses and norms, and all replicas the same behind them.
void check_gpt(auto& parts, auto& plain) {
  for (int step = 0; step < 3; ++step) {
    StepResult const wanted = gpt_step(plain, step);
    StepResult const got = gpt_step(parts, step);
    CHECK(got.loss == wanted.loss);
    CHECK(got.gradient_norm == wanted.gradient_norm);
  }
  CHECK(all_of(parts) == all_of(plain));
}
template <class S>
using OnGpt = Trainer<SmallGpt, S, Host>;

// Its buckets are summed whole, since its two gradients are added.
TEST_CASE("a weight that two layers share has one value on all replicas") {
  Watchdog const watchdog{"shared words"};
  OnGpt<DataParallel<2, Small>> plain{gpt_options()};
  OnGpt<DataParallel<2, Small, ShardedState>> states{gpt_options()};
  check_gpt(states, plain);
  OnGpt<DataParallel<2, Small>> again{gpt_options()};
  OnGpt<DataParallel<2, Small, ShardedGradients>> parts{gpt_options()};
  check_gpt(parts, again);
}

template <class... Options>
using Slices2 = Hybrid<DataParallel<2, BucketBytes<256, 512>, Options...>, TensorParallel<2>>;

TEST_CASE("replicas of devices that share layers have parts of a slice, in one format of files") {
  Watchdog const watchdog{"shares of slices"};
  TemporaryFolder const folder;
  OnGpt<Slices2<>> plain{gpt_options()};
  OnGpt<Slices2<ShardedState>> states{gpt_options()};
  check_gpt(states, plain);
  plain.save(folder.file("plain"));
  states.save(folder.file("states"));
  states.export_model(folder.file("model of states"));
  plain.export_model(folder.file("model"));
  CHECK(content(folder.file("states")) == content(folder.file("plain")));
  CHECK(content(folder.file("model of states")) == content(folder.file("model")));
  OnGpt<Slices2<>> again{gpt_options()};
  OnGpt<Slices2<ShardedGradients>> gradients{gpt_options()};
  check_gpt(gradients, again);
  gradients.load(folder.file("states"));
  CHECK(gpt_step(gradients, 3).loss == gpt_step(plain, 3).loss);
  CHECK(all_of(gradients) == all_of(plain));
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(states.memory(rank).optimizer_state ==
          std::int64_t{2} * 4 * DeviceOf<decltype(states)>::layout.trained / 2);
  }
}

TEST_CASE("replicas that have several slices each deal their parameters") {
  Watchdog const watchdog{"shares of several slices"};
  OnGpt<DataParallel<2, BucketBytes<256, 512>, Slices<2>>> plain{gpt_options()};
  OnGpt<DataParallel<2, BucketBytes<256, 512>, Slices<2>, ShardedParameters>> parts{gpt_options()};
  check_gpt(parts, plain);
}

template <class... Options>
using Pipe = Hybrid<DataParallel<2, Weighted<3, 1>, BucketBytes<256, 512>, Options...>,
                    Pipeline<OneFOneB, 4, Split<3>, Split<3>, Checkpoint<Every<2>>>>;

// The second replica has two samples or three for four microbatches.
TEST_CASE("parameters in a pipeline that computes again, with microbatches without samples") {
  Watchdog const watchdog{"parts of a pipeline"};
  Trainer<SmallGpt, Pipe<ShardedGradients>, Host> gradients{gpt_options()};
  Trainer<SmallGpt, Pipe<ShardedParameters>, Host> parts{gpt_options()};
  for (int step = 0; step < 2; ++step) {
    CHECK(gpt_step(parts, step).loss == gpt_step(gradients, step).loss);
  }
  CHECK(all_of(parts) == all_of(gradients));
}

TEST_CASE("gradients: what is between parameters stays 0, though slots had other buckets there") {
  Tiny<Three<ShardedGradients>> trainer{unclipped(AdamW{})};
  parity_step(trainer, 0);
  for (NamedParameter<float> const& p : trainer.parameters()) {
    INFO(p.name);
    CHECK((p.gradient.size() % parameter_alignment == 0 ||
           p.gradient.data()[p.gradient.size()] == 0.0F));
  }
}

template <class S>
constexpr auto const& layout_of = DeviceOf<Tiny<S>>::layout;
template <class S>
constexpr DeviceMemory memory_of = device_memory<TinyNet, S, AdamW, Fp32>(13, 0);
/// A part of all, and two buckets.
template <class S>
constexpr std::int64_t part_of = 4 * (layout_of<S>.trained / 3 + 2 * largest_bucket(layout_of<S>));

/// A step's memory on each rank, by @p field, and what it sends: gradients are scattered, and
/// @p gathered of parameters.
template <class S>
void check_step(std::int64_t MemoryReport::*field, std::int64_t bytes, Volume const& gathered) {
  Tiny<S> trainer{unclipped(AdamW{})};
  LoggingTransport<3>::clear();
  parity_step(trainer, 0);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(trainer.memory(rank).*field == bytes);
    auto const& log = LoggingTransport<3>::log(rank);
    CHECK(volume(log, Operation::reduce_scatter, "bucket") ==
          Volume{layout_of<S>.buckets, 4 * layout_of<S>.trained});
    CHECK(volume(log, Operation::all_gather, "parameters") == gathered);
    CHECK(volume(log, Operation::all_reduce, "bucket") == Volume{});
  }
}

TEST_CASE("a rank allocates 1/N of the states, fits<> counts as many, and as much is sent") {
  using S = Three<Two, ShardedState>;
  constexpr auto const& layout = layout_of<S>;
  static_assert(layout.trained % (3 * parameter_alignment) == 0 && layout.buckets > 2);
  constexpr std::int64_t whole = 2 * 4 * layout.trained;  // two arrays of floats
  constexpr std::int64_t gaps = whole - 2 * 4 * layout_of<Three<Two>>.trained;
  static_assert(gaps >= 0 && gaps < std::int64_t{2} * 4 * 3 * parameter_alignment * layout.buckets);
  static_assert(memory_of<S>.optimizer_state == whole / 3);
  static_assert(memory_of<Three<Two>>.optimizer_state == whole - gaps);
  check_step<S>(&MemoryReport::optimizer_state, whole / 3, {layout.buckets, 4 * layout.trained});
  Tiny<Three<Two>> const plain{unclipped(AdamW{})};
  CHECK(plain.memory(1).optimizer_state == whole - gaps);
  static_assert(reduce_scatter_bytes(2, 64) + all_gather_bytes(2, 64) == all_reduce_bytes(2, 64));
}

TEST_CASE("a rank allocates its part of the gradients and two buckets, and fits<> counts as many") {
  using S = Three<ShardedGradients>;
  static_assert(layout_of<S>.buckets > 2 && memory_of<S>.gradients == part_of<S>);
  check_step<S>(&MemoryReport::gradients, part_of<S>,
                {layout_of<S>.buckets, 4 * layout_of<S>.trained});
}

// Forward ends where backward begins: two buckets are there.
TEST_CASE("so it does of the parameters, which are gathered as passes read them") {
  using S = Three<ShardedParameters>;
  constexpr auto const& layout = layout_of<S>;
  static_assert(layout.buckets > 2 && layout.elements == layout.trained);
  static_assert(memory_of<S>.parameters == part_of<S> && memory_of<S>.gradients == part_of<S>);
  check_step<S>(&MemoryReport::parameters, part_of<S>,
                {2 * layout.buckets - 2, 4 * (2 * layout.trained - layout.bucket_begin[2])});
}

/// Of sixteen buckets, all of one size.
using Alike16 = Sequential<Linear<16>, Linear<16>, Linear<16>, Linear<16>>;
struct Deep : Network<Vector<16>, Sequential<Alike16, Alike16, Alike16, Alike16>> {};
template <class... Options>
constexpr std::int64_t gradients_of =
    device_memory<Deep, DataParallel<4, Small, Options...>, AdamW, Fp32>(8, 0).gradients;
static_assert(gradients_of<> == std::int64_t{16} * 4 * (16 * 16 + 16));
static_assert(gradients_of<ShardedState> == std::int64_t{16} * 4 * 320);  // whole in 4 parts
static_assert(gradients_of<ShardedGradients> == gradients_of<ShardedState> / 4 + 2 * 4 * 320);

static_assert(DataParallel<2, Two, ShardedGradients>::batching.leaf(1) == 1);
static_assert(DataParallel<1, Two, ShardedGradients>::batching.leaf(1) == 2);

TEST_CASE("what parts cannot have is refused: an optimizer by tensor, rows in another order") {
  std::string const why = message<ContractError>([] {
    Tiny<Three<Two, ShardedState>>{parity_options(), Lamb{}};
  });
  CHECK(contains(why, "ShardedState"));
  CHECK(contains(why, "take AdamW"));
  TrainerOptions options = parity_options();
  options.rows = make_schedule("sequential", 1, 2);
  using S = DataParallel<2, Reproducible<>, Small, ShardedGradients>;
  CHECK(contains(message<ContractError>([&] { Trainer<TinyNet, S, Host>{options}; }),
                 ".rows may have several microbatches"));
}

}  // namespace sharded_test
}  // namespace tandem::test
