// SPDX-License-Identifier: Apache-2.0
// Tables made at start from a strategy's value, against those that the compiler makes of its type.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/any_strategy.hpp>
#include <tandem/engine/prepare/runtime_program.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

namespace runtime_program_test {

using namespace tandem;

struct Images
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<6, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,
                         Residual<Sequential<Conv2d<6, Kernel<3>, Padding<1>>, ReLU, Conv2d<6>>>,
                         Concat<Conv2d<4>, MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                Sequential<AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>, Conv2d<2>>>,
                         MaxPool2d<Kernel<2>>, Dropout<Percent<25>>, GlobalAvgPool, Linear<5>>> {};
struct Wide : Network<Image<3, 8, 8>,
                      Sequential<Conv2d<8, Kernel<3>, Padding<1>>, SyncBatchNorm2d<>, ReLU,
                                 Conv2d<4, Kernel<3>, Padding<1>>, GlobalAvgPool, Linear<5>>> {};
struct Writer : models::Gpt<13, 6, 8, 2, 2, Percent<20>> {};
struct Words : models::BigLstm<13, 8, 6, 2, Stateful> {};
struct Translator : models::Gnmt<13, 4, 3, 6, Percent<20>> {};

constexpr auto table = place<Images>({{"4.1", 1}, {"4.2", 1}, {"6", 1}});

constexpr Rewrites all{.fuse_relu = true,
                       .fuse_linear = true,
                       .fuse_sum = true,
                       .channels_last = true,
                       .merge_pointwise = true,
                       .place_concat = true,
                       .absorb_bias = true};

template <class T>
bool same(T const* a, T const* b, int count) {
  return std::equal(a, a + count, b);
}

void check(StageMapView const& a, StageMapView const& b) {
  REQUIRE(a.stages == b.stages);
  REQUIRE(a.edges == b.edges);
  CHECK(a.devices == b.devices);
  CHECK(a.copies == b.copies);
  CHECK(a.links == b.links);
  CHECK(same(a.device, b.device, a.stages));
  CHECK(same(a.edge, b.edge, a.edges));
}

void check(GraphView a, GraphView b) {
  REQUIRE(a.nodes == b.nodes);
  REQUIRE(a.edges == b.edges);
  REQUIRE(a.parameters == b.parameters);
  CHECK(a.result == b.result);
  CHECK(same(a.node, b.node, a.nodes));
  CHECK(same(a.source, b.source, a.edges));
  CHECK(same(a.edge_origin, b.edge_origin, a.edges));
  CHECK(same(a.parameter, b.parameter, a.parameters));
}

void check(LayoutView const& a, LayoutView const& b, GraphView graph) {
  CHECK(a.dense == b.dense);
  CHECK(a.trained == b.trained);
  CHECK(a.elements == b.elements);
  REQUIRE(a.buckets == b.buckets);
  REQUIRE(a.row_gradients == b.row_gradients);
  CHECK(same(a.offset, b.offset, graph.parameters));
  CHECK(same(a.bucket_begin, b.bucket_begin, a.buckets + 1));
  CHECK(same(a.bucket_stage, b.bucket_stage, a.buckets));
  CHECK(same(a.closes, b.closes, graph.nodes));
  CHECK(same(a.row_parameter, b.row_parameter, a.row_gradients));
  CHECK(same(a.row_bucket, b.row_bucket, a.row_gradients));
}

void check(DeviceTables const& a, DeviceTables const& b) {
  CHECK(a.device == b.device);
  check(a.map, b.map);
  check(a.network, b.network);
  check(a.graph, b.graph);
  check(a.layout, b.layout, a.graph);
  check(a.whole_graph, b.whole_graph);
  check(a.whole_layout, b.whole_layout, a.whole_graph);
  CHECK(std::ranges::equal(a.stages, b.stages));
  CHECK(same(a.segments, b.segments, a.graph.nodes));
  CHECK(same(a.twin_buckets, b.twin_buckets, a.layout.buckets));
  CHECK(std::ranges::equal(a.tied, b.tied));
  CHECK(a.places.rule == b.places.rule);
  CHECK(a.places.stage == b.places.stage);
  CHECK(a.averaging == b.averaging);
  CHECK(a.mesh == b.mesh);
#define TANDEM_SAME(member) CHECK(a.member == b.member)
  TANDEM_SAME(devices);
  TANDEM_SAME(slices);
  TANDEM_SAME(layer_slices);
  TANDEM_SAME(state_shares);
  TANDEM_SAME(gradient_copies);
  TANDEM_SAME(state_elements);
  TANDEM_SAME(gradient_slot);
  TANDEM_SAME(parameter_slot);
  TANDEM_SAME(parameter_elements);
  TANDEM_SAME(weight_elements);
  TANDEM_SAME(gradient_elements);
  TANDEM_SAME(any_replicas);
  TANDEM_SAME(several_replicas);
  TANDEM_SAME(sums_gradients);
  TANDEM_SAME(sharded_state);
  TANDEM_SAME(sharded_gradients);
  TANDEM_SAME(sharded_parameters);
  TANDEM_SAME(has_twins);
  TANDEM_SAME(has_tiles);
  TANDEM_SAME(sequence_rows);
  TANDEM_SAME(stateful);
  TANDEM_SAME(post_validated);
  TANDEM_SAME(recomputes);
  TANDEM_SAME(ties_cross);
  TANDEM_SAME(has_input);
  TANDEM_SAME(has_result);
  TANDEM_SAME(reads_two);
#undef TANDEM_SAME
  CHECK((a.order == nullptr) == (b.order == nullptr));
}

template <class Net, class S, Rewrites R = Rewrites{}>
void check(char const* name) {
  INFO(name);
  using P = Program<Net, S, 4, R>;
  RuntimeProgram const made{graph<Net>, graph<Net>.tops, value_of<S>(), R, 4};
  REQUIRE(made.devices() == P::devices);
  CHECK(std::ranges::equal(made.cut().part, P::partition.part));
  CHECK(made.cut().table == rows_of(P::table));
  [&]<int... D>(std::integer_sequence<int, D...> /*devices*/) {
    (check(made.device(D), device_tables<typename P::template Device<D>>), ...);
  }
  (std::make_integer_sequence<int, P::devices>{});
}

#define TANDEM_CHECK(...) check<__VA_ARGS__>(#__VA_ARGS__)

TEST_CASE("tables of a strategy's value are those of its type: replicas") {
  TANDEM_CHECK(Images, SingleDevice<>);
  TANDEM_CHECK(Images, SingleDevice<>, all);
  TANDEM_CHECK(Images, SingleDevice<Microbatches<3>, Weighted<4, 4, 3>>);
  TANDEM_CHECK(Images, DataParallel<3>);
  TANDEM_CHECK(Images, DataParallel<>);
  TANDEM_CHECK(Images, DataParallel<2, Microbatches<2>, Reproducible<>, BucketBytes<64, 256>>, all);
  TANDEM_CHECK(Images, DataParallel<2, ShardedState>);
  TANDEM_CHECK(Images, DataParallel<3, ShardedGradients>, all);
  TANDEM_CHECK(Images, DataParallel<2, ShardedParameters>, all);
  TANDEM_CHECK(Images, DataParallel<2, Wire<BFloat16>>);
  TANDEM_CHECK(Wide, ChannelParallel<2>);
  TANDEM_CHECK(Wide, SpatialParallel<2, 2, Microbatches<2>>, all);
}

TEST_CASE("tables of a strategy's value are those of its type: parts") {
  TANDEM_CHECK(Images, ModelParallel<Split<4>, Split<5>>);
  TANDEM_CHECK(Images, ModelParallel<Auto<3>, Microbatches<2>>, all);
  TANDEM_CHECK(Images, ModelParallel<Placed<table>>);
  TANDEM_CHECK(Images, ModelParallel<Placed<table>, Microbatches<2>>, all);
  TANDEM_CHECK(Images, Pipeline<GPipe, 4, Split<4>, Split<5>, Checkpoint<Boundaries>>, all);
  TANDEM_CHECK(Images, Pipeline<OneFOneB, 4, Auto<3>, Checkpoint<Every<2>>>, all);
  TANDEM_CHECK(Images, Pipeline<OneFOneB, 4, Auto<1>>);
  TANDEM_CHECK(Images, Pipeline<Interleaved<2>, 4, Auto<4>>);
  TANDEM_CHECK(Images, Pipeline<Interleaved<2>, 4, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<ZeroBubbleH1, 4, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<PostValidated<ZeroBubbleH2>, 4, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<PostValidated<ZeroBubbleV>, 4, Auto<4>>);
  TANDEM_CHECK(Images, Pipeline<VHalf, 4, Auto<4>>);
  TANDEM_CHECK(Images, Pipeline<VMin, 4, Auto<4>>);
  TANDEM_CHECK(Images, Pipeline<DualPipeV, 4, Auto<4>>);
  TANDEM_CHECK(Images, Pipeline<DualPipe, 4, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<Chimera, 4, Auto<2>, Reproducible<>>);
  TANDEM_CHECK(Images, Hybrid<DataParallel<2, ShardedState>, Pipeline<OneFOneB, 2, Auto<2>>>, all);
  TANDEM_CHECK(Images, Hybrid<DataParallel<>, DataParallel<1>, ModelParallel<Auto<2>>>);
}

TEST_CASE("tables of a strategy's value are those of its type: two models, late gradients") {
  TANDEM_CHECK(Images, CrossModelParallel<AverageGradients, Split<4>, Split<5>>);
  TANDEM_CHECK(Images, CrossModelParallel<AverageWeights<2>, Auto<3>>, all);
  TANDEM_CHECK(Images, CrossModelParallel<Overlapped<AverageWeightsAndState<1>>, Auto<2>>);
  TANDEM_CHECK(Images, Hybrid<DataParallel<2>, CrossPipeline<4, AverageGradients, Auto<2>>>);
  TANDEM_CHECK(Images, Pipeline<PipeDream, 1, Auto<3>>);
  TANDEM_CHECK(Images, Pipeline<PipeDreamVerticalSync, 1, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<PipeDream2BW, 2, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<DelayedGradient, 1, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<WeightPrediction, 1, Auto<2>>);
  TANDEM_CHECK(Images, Pipeline<FeaturesReplay, 1, Auto<2>>, all);
  TANDEM_CHECK(Images, Pipeline<PipelinedModel, 1, Auto<2>>);
}

TEST_CASE("tables of a strategy's value are those of its type: sequences") {
  TANDEM_CHECK(Writer, SingleDevice<>, all);
  TANDEM_CHECK(Writer, SingleDevice<Slices<2>, Reproducible<>>);
  TANDEM_CHECK(Writer, TensorParallel<2, Slices<2>, Reproducible<>>);
  TANDEM_CHECK(Writer, TensorParallel<2, SequenceRows>, all);
  TANDEM_CHECK(Writer, TensorParallel<2, SplitInputs<0>, KeepWhole<"2">>);
  TANDEM_CHECK(Writer, Pipeline<OneFOneB, 2, Auto<3>>);
  TANDEM_CHECK(Writer, Pipeline<ZeroBubbleH1, 2, Chunks<3>, Split<3>, Split<3>>);
  TANDEM_CHECK(
      Writer,
      Hybrid<DataParallel<2, ShardedState>, Pipeline<OneFOneB, 2, Auto<2>>, TensorParallel<2>>,
      all);
  TANDEM_CHECK(Words, SingleDevice<>);
  TANDEM_CHECK(Words, Pipeline<OneFOneB, 1, Chunks<4>, Auto<2>>);
  TANDEM_CHECK(Translator, Hybrid<DataParallel<2>, ModelParallel<Split<4>, Split<6>>>, all);
  TANDEM_CHECK(Translator, Pipeline<OneFOneB, 2, Auto<4>>);
}

template <class Net>
std::string refusal(StrategyValue const& value) {
  try {
    RuntimeProgram const made{graph<Net>, graph<Net>.tops, value, {}, 4};
  } catch (ContractError const& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("what does not go together has the compiler's sentence") {
  auto const begins = [](std::string const& text, std::string const& with) {
    INFO(text);
    CHECK(text.substr(0, with.size()) == with);
  };
  StrategyValue value = value_of<Pipeline<OneFOneB, 4, Auto<3>>>();
  CHECK(refusal<Images>(value) == "none");
  value.parts = 10;
  begins(refusal<Images>(value), "Auto<10>: the network has 9 top-level layers");
  value = value_of<ModelParallel<Split<4>, Split<4>>>();
  begins(refusal<Images>(value), "Split<...>: the counts add up to 8");
  value = value_of<TensorParallel<3, Slices<4>>>();
  CHECK(refusal<Writer>(value) ==
        "Slices<L> with TensorParallel<N>: each device has as many slices, so L must be a multiple "
        "of N (4, 3)");
  value = value_of<TensorParallel<3>>();
  begins(refusal<Writer>(value), "TensorParallel<N>: this network has nothing that N devices");
  value = value_of<TensorParallel<2, SplitInputs<"7.3">>>();
  begins(refusal<Writer>(value),
         "TensorParallel<N, SplitOutputs<...>, SplitInputs<...>, KeepWhole");
  value = value_of<SpatialParallel<3, 1>>();
  begins(refusal<Images>(value), "SpatialParallel<H, W>: this network has nothing");
  value = value_of<Pipeline<PipeDream, 1, Auto<2>>>();
  begins(refusal<Words>(value), "Stateful in an asynchronous pipeline");
  begins(refusal<Writer>(value), "Shares<W> between stages of an asynchronous pipeline");
  value.batching.replicas = 2;
  begins(refusal<Images>(value), "Hybrid<DataParallel<N>, Pipeline<asynchronous schedule");
  value = value_of<Pipeline<OneFOneB, 2, Chunks<5>, Auto<2>>>();
  begins(refusal<Writer>(value), "Chunks<K>: K must divide the network's rows");
  begins(refusal<Images>(value), "Chunks<K>: this network's input is no sequence");
  value = value_of<ModelParallel<Placed<table>>>();
  begins(refusal<Wide>(value), "Placed<table>: the table is of another network");
  value = value_of<DataParallel<2, Microbatches<2>, Reproducible<>>>();
  value.batching.leaves = 3;
  begins(refusal<Images>(value), "Reproducible<Leaves>: the leaves of one copy");
  value.batching.leaves = 2;
  value.batching.microbatches = 0;
  begins(refusal<Images>(value), "a strategy's numbers are positive");
  value.batching.microbatches = 2;
  begins(refusal<Wide>(value), "SyncBatchNorm2d with Reproducible<>");
  value.batching.sharded_state = value.batching.sharded_gradients = true;
  begins(refusal<Images>(value), "ShardedGradients with Reproducible<>");
}

/// The parameters behind two steps, of uneven microbatches.
template <class S, class... Value>
std::vector<float> trained(TrainerOptions const& options, Value const&... value) {
  Trainer<Images, S, Host> trainer{value..., options};
  auto const pixels = static_cast<std::size_t>(Images::input::shape.elements());
  std::vector<float> x(pixels * static_cast<std::size_t>(options.batch));
  std::vector<std::int32_t> y(static_cast<std::size_t>(options.batch));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * i % 257) / 128.0F - 1.0F;
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<std::int32_t>(i % 5);
  }
  std::vector<float> numbers{static_cast<float>(trainer.step(x, y).loss),
                             static_cast<float>(trainer.step(x, y).loss)};
  for (auto const& parameter : trainer.parameters()) {
    numbers.insert(numbers.end(), parameter.value.begin(), parameter.value.end());
  }
  return numbers;
}

template <class S>
void trains_alike(TrainerOptions const& options) {
  CHECK(trained<AnyStrategy>(options, value_of<S>()) == trained<S>(options));
}

TEST_CASE("a strategy's value runs the rows that are imported, and takes any number of replicas") {
  TrainerOptions options{.batch = 13, .optimizer = Sgd{.learning_rate = 0.05F}};
  options.rows = make_schedule("sequential", 1, 6);
  trains_alike<SingleDevice<>>(options);
  options.rows = make_schedule("sequential", 1, 4);
  trains_alike<DataParallel<2, Reproducible<>>>(options);
  options.rows = make_schedule("one_f_one_b", 3, 5);
  trains_alike<Pipeline<GPipe, 2, Auto<3>>>(options);
  options.rows = {};
  options.world.devices = 3;
  trains_alike<DataParallel<by_world, Microbatches<2>>>(options);
  options.microbatches = 12;
  trains_alike<DataParallel<by_world>>(options);
}

}  // namespace runtime_program_test
