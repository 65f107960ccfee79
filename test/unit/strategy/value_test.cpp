// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/read_strategy.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/model_parallel.hpp>
#include <tandem/strategy/types/pipeline.hpp>
#include <tandem/strategy/value.hpp>
#include <tandem/strategy/value_text.hpp>

namespace value_test {

using namespace tandem;
namespace td = tandem;

/// A type's text is read to the type's value, and what is written of that value is, too.
void check(std::string_view text, StrategyValue const& value) {
  CAPTURE(std::string{text});
  CHECK(read_strategy(text) == value);
  std::string const written = type_text(value);
  CAPTURE(written);
  CHECK(read_strategy(written) == value);
  CHECK(type_text(read_strategy(written)) == written);
}

#define CHECK_TYPE(...) check(#__VA_ARGS__, value_of<__VA_ARGS__>())

TEST_CASE("strategies of whole models") {
  CHECK_TYPE(SingleDevice<>);
  CHECK_TYPE(SingleDevice<Microbatches<4>, Weighted<1, 3>, Reproducible<>, Slices<2>>);
  CHECK_TYPE(SingleDevice<Wire<Float16>, ShardedGradients>);
  CHECK_TYPE(DataParallel<>);
  CHECK_TYPE(DataParallel<1>);
  CHECK_TYPE(tandem::DataParallel<3, td::Weighted<4, 4, 3>, Microbatches<2>, Reproducible<>>);
  CHECK_TYPE(DataParallel<2, Microbatches<8>, Reproducible<4>>);
  CHECK_TYPE(DataParallel<2, Wire<tandem::BFloat16>, BucketBytes<1'000, 25'000'000'000>>);
  CHECK_TYPE(DataParallel<4, ShardedState, Wire<Float16>>);
  CHECK_TYPE(DataParallel<4, ShardedState, ShardedGradients, Microbatches<2>, Microbatches<3>>);
  CHECK_TYPE(DataParallel<1048576, ShardedParameters>);
  CHECK_TYPE(DataParallel<by_world>);
  CHECK_TYPE(DataParallel<by_world, Reproducible<8>>);
  CHECK_TYPE(DataParallel<td::by_world, Microbatches<2>, Reproducible<8>, Slices<1024>>);
  CHECK_TYPE(DataParallel<by_world, Microbatches<3>, Reproducible<>>);
  CHECK_TYPE(DataParallel<by_world, Microbatches<8>, Reproducible<8>>);
  CHECK_TYPE(DataParallel<by_world, Microbatches<1>, Reproducible<8>>);
}

TEST_CASE("strategies that cut a model") {
  CHECK_TYPE(ModelParallel<Split<5>, Split<9>>);
  CHECK_TYPE(ModelParallel<Auto<1>>);
  CHECK_TYPE(ModelParallel<Split<3>, Microbatches<2>, Split<4>, Checkpoint<Every<2>>>);
  CHECK_TYPE(
      ModelParallel<Auto<3>, Microbatches<4>, Reproducible<2>, BucketBytes<1, 2>, Slices<4>>);
  CHECK_TYPE(Pipeline<GPipe, 8, Auto<2>>);
  CHECK_TYPE(Pipeline<OneFOneB, 8, Split<5>, Split<9>, Checkpoint<Boundaries>, Reproducible<>>);
  CHECK_TYPE(Pipeline<Interleaved<2>, 4, Auto<4>>);
  CHECK_TYPE(Pipeline<Interleaved<2>, 4, Split<1>, Split<1>>);
  CHECK_TYPE(Pipeline<ZeroBubbleH1, 4, Auto<3>>);
  CHECK_TYPE(Pipeline<PostValidated<ZeroBubbleH2>, 6, Auto<3>, BucketBytes<7, 8>>);
  CHECK_TYPE(Pipeline<PostValidated<Interleaved<3>>, 4, Auto<6>>);
  CHECK_TYPE(Pipeline<ZeroBubbleV, 4, Auto<4>>);
  CHECK_TYPE(Pipeline<PostValidated<ZeroBubbleV>, 4, Auto<4>, Slices<2>>);
  CHECK_TYPE(Pipeline<VHalf, 4, Auto<4>>);
  CHECK_TYPE(Pipeline<VMin, 4, Auto<4>>);
  CHECK_TYPE(Pipeline<DualPipeV, 4, Auto<4>>);
  CHECK_TYPE(Pipeline<Chimera, 4, Auto<2>, Reproducible<2>>);
  CHECK_TYPE(Pipeline<DualPipe, 4, Auto<2>>);
  CHECK_TYPE(Pipeline<SequentialStages, 3, Auto<2>>);
  CHECK_TYPE(Pipeline<PostValidated<SequentialStages>, 3, Auto<2>>);
  CHECK_TYPE(Pipeline<CrossModel, 2, Auto<3>>);
  CHECK_TYPE(Pipeline<CrossModel, 6, Chunks<2>, Auto<4>>);
  CHECK_TYPE(Pipeline<OneFOneB, 1, Chunks<3>, Split<1>, Split<2>, Slices<2>>);
  CHECK_TYPE(Pipeline<SequentialStages, 3, Chunks<2>, Auto<2>>);
}

TEST_CASE("pipelines on one device, and asynchronous ones") {
  CHECK_TYPE(Pipeline<OneFOneB, 4, Auto<1>>);
  CHECK_TYPE(Pipeline<PostValidated<VMin>, 4, Auto<2>, BucketBytes<3, 4>>);
  CHECK_TYPE(Pipeline<OneFOneB, 4, Chunks<2>, Split<7>>);
  CHECK_TYPE(Pipeline<GPipe, 4, Split<7>, Checkpoint<Every<3>>, Reproducible<2>>);
  CHECK_TYPE(Pipeline<PipeDream, 1, Auto<1>>);
  CHECK_TYPE(Pipeline<PipeDream, 1, Auto<4>, Checkpoint<Every<1>>, BucketBytes<2, 3>>);
  CHECK_TYPE(Pipeline<PipeDreamVerticalSync, 1, Split<2>, Split<3>>);
  CHECK_TYPE(Pipeline<PipeDream2BW, 6, Auto<4>>);
  CHECK_TYPE(Pipeline<DelayedGradient, 1, Auto<4>>);
  CHECK_TYPE(Pipeline<WeightPrediction, 1, Auto<4>>);
  CHECK_TYPE(Pipeline<FeaturesReplay, 1, Auto<127>>);
  CHECK_TYPE(Pipeline<PipelinedModel, 1, Auto<2>, Slices<2>>);
}

TEST_CASE("two models") {
  CHECK_TYPE(CrossModelParallel<AverageGradients, Auto<3>, Reproducible<>>);
  CHECK_TYPE(CrossModelParallel<AverageWeights<>, Split<1>, Split<2>, Checkpoint<Boundaries>>);
  CHECK_TYPE(CrossPipeline<8, AverageWeightsAndState<4>, Auto<3>, BucketBytes<2, 3>>);
  CHECK_TYPE(CrossPipeline<2, Overlapped<AverageWeights<2>>, Auto<3>>);
  CHECK_TYPE(Hybrid<DataParallel<2, ShardedState>,
                    CrossPipeline<4, Overlapped<AverageWeightsAndState<>>, Auto<2>>>);
}

TEST_CASE("devices that share layers or images") {
  CHECK_TYPE(TensorParallel<2>);
  CHECK_TYPE(ChannelParallel<4, Microbatches<2>, Checkpoint<Every<3>>>);
  CHECK_TYPE(TensorParallel<4, SequenceRows, Slices<8>, Reproducible<>, Microbatches<4>>);
  CHECK_TYPE(TensorParallel<2, SplitOutputs<4, "4.body.0">, KeepWhole<"0">, KeepWhole<"shortcut.1">,
                            SplitInputs<12>, KeepWhole<>, SplitInputs<"body">>);
  CHECK_TYPE(SpatialParallel<2, 1>);
  CHECK_TYPE(SpatialParallel<32, 32, Microbatches<2>, Checkpoint<Boundaries>>);
}

TEST_CASE("strategies within strategies") {
  CHECK_TYPE(Hybrid<DataParallel<2>, Pipeline<OneFOneB, 8, Split<5>, Split<9>>>);
  CHECK_TYPE(Hybrid<DataParallel<>, ModelParallel<Auto<2>, Microbatches<4>>>);
  CHECK_TYPE(Hybrid<DataParallel<by_world, Reproducible<8>>, Pipeline<GPipe, 4, Auto<1>>>);
  CHECK_TYPE(Hybrid<DataParallel<by_world, Reproducible<8>>, Pipeline<GPipe, 1, Auto<1>>>);
  CHECK_TYPE(Hybrid<DataParallel<2, Weighted<1, 2, 3, 4, 5, 6>>,
                    Hybrid<DataParallel<3, ShardedGradients>, ModelParallel<Auto<2>>>>);
  CHECK_TYPE(Hybrid<DataParallel<2, BucketBytes<1, 2>>, DataParallel<2, BucketBytes<3, 4>>,
                    Pipeline<GPipe, 2, Auto<2>, BucketBytes<5, 6>>>);
  CHECK_TYPE(Hybrid<DataParallel<2>, ModelParallel<Auto<2>, Microbatches<2>, Reproducible<4>>>);
  CHECK_TYPE(
      Hybrid<DataParallel<2, Slices<4>, BucketBytes<3, 4>>, TensorParallel<2, SequenceRows>>);
  CHECK_TYPE(Hybrid<DataParallel<1, BucketBytes<3, 4>, Wire<BFloat16>>, TensorParallel<2>>);
  CHECK_TYPE(Hybrid<DataParallel<2, Slices<3>>, SpatialParallel<2, 2, Microbatches<2>>>);
  CHECK_TYPE(Hybrid<Pipeline<OneFOneB, 8, Split<5>, Split<9>, Checkpoint<Every<2>>>,
                    TensorParallel<4, SequenceRows, KeepWhole<3>>>);
  CHECK_TYPE(
      Hybrid<ModelParallel<Auto<2>, Slices<4>, Reproducible<>>, TensorParallel<2, Slices<8>>>);
  CHECK_TYPE(Hybrid<Pipeline<GPipe, 2, Auto<1>, Checkpoint<Boundaries>, BucketBytes<8, 9>>,
                    TensorParallel<2>>);
  CHECK_TYPE(Hybrid<Pipeline<CrossModel, 4, Auto<3>>, TensorParallel<2>>);
  CHECK_TYPE(Hybrid<DataParallel<2>, Pipeline<ZeroBubbleV, 4, Auto<4>>, TensorParallel<2>>);
  CHECK_TYPE(Hybrid<DataParallel<2>, Hybrid<ModelParallel<Auto<3>>, SpatialParallel<1, 2>>>);
  CHECK_TYPE(Hybrid<Hybrid<DataParallel<>, ModelParallel<Auto<2>>>, TensorParallel<2>>);
  CHECK_TYPE(Hybrid<DataParallel<2, Reproducible<>>, Pipeline<GPipe, 2, Chunks<2>, Auto<2>>>);
  CHECK_TYPE(Hybrid<DataParallel<1, Reproducible<>>, Pipeline<GPipe, 2, Chunks<2>, Auto<2>>>);
}

TEST_CASE("spaces and namespaces anywhere; what is written is short") {
  CHECK(
      read_strategy(" ::td :: Hybrid\n< ::tandem::DataParallel<2>,ModelParallel < Auto<2>\t> > ") ==
      value_of<Hybrid<DataParallel<2>, ModelParallel<Auto<2>>>>());
  auto const same = [](char const* text) { CHECK(type_text(read_strategy(text)) == text); };
  same("SingleDevice<>");
  same("DataParallel<>");
  same("DataParallel<by_world, Reproducible<8>>");
  same("DataParallel<2, Microbatches<4>, Wire<Float16>>");
  same("Pipeline<PostValidated<Interleaved<2>>, 8, Auto<4>>");
  same("CrossModelParallel<Overlapped<AverageWeights<>>, Split<5>, Split<9>>");
  same("Hybrid<DataParallel<2>, Pipeline<OneFOneB, 8, Chunks<2>, Auto<2>>, TensorParallel<2>>");
  same("TensorParallel<2, SequenceRows, SplitOutputs<4, \"4.body.0\">, Checkpoint<Boundaries>>");
  same("Hybrid<DataParallel<2, Reproducible<>>, ModelParallel<Auto<2>, Microbatches<2>>>");
}

struct Net : Network<Vector<4>, Sequential<Linear<4>, Linear<3>, Linear<2>>> {};
inline constexpr auto placed_table = place<Net>({{"1", 1}, {"2", 2}});

TEST_CASE("a placement is written by its table's name") {
  using S = ModelParallel<Placed<placed_table>, Microbatches<2>>;
  CHECK(type_text(value_of<S>()) == "ModelParallel<Placed<table>, Microbatches<2>>");
  CHECK(type_text(value_of<Hybrid<DataParallel<2>, S>>(), "mine") ==
        "Hybrid<DataParallel<2>, ModelParallel<Placed<mine>, Microbatches<2>>>");
}

/// What is thrown for a text.
std::string fault(std::string const& text) {
  try {
    read_strategy(text);
  } catch (ContractError const& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what is wrong with a text, in a sentence") {
  struct Fault {
    std::string text;
    char const* says;
  };
  Fault const faults[] = {
      {"", "a name or a number is missing"},
      {"DataParallel<2", "closing bracket"},
      {"DataParallel<2>>", "ends before this"},
      {"DataParallel<2,>", "is missing"},
      {"std::DataParallel<2>", "tandem:: or td::"},
      {"DataParallel", "has brackets"},
      {"DataParallels<2>", "there is no such strategy"},
      {"DataParallel<0>", "from 1 to 1048576"},
      {"DataParallel<99999999999999999999>", "from 1 to 1048576"},
      {"DataParallel<010>", "from 1 to 1048576"},
      {"DataParallel<2, Split<3>>", "options are Microbatches, Weighted"},
      {"DataParallel<2, Weighted<1>>", "one a replica"},
      {"DataParallel<2, Weighted<0, 0>>", "not all 0"},
      {"DataParallel<2, Weighted<>>", "1 to 64 numbers"},
      {"DataParallel<by_world, Weighted<1>>", "weights are of so many devices"},
      {"DataParallel<2, Wire<float>>", "BFloat16 or Float16"},
      {"DataParallel<2, Wire<Float16>, Reproducible<>>", "rounding on the way"},
      {"DataParallel<2, Reproducible<3>>", "power of two"},
      {"DataParallel<2, Microbatches<3>, Reproducible<>>", "power of two"},
      {"DataParallel<2, ShardedState<>>", "options are"},
      {"DataParallel<2, Microbatches<2147483647>>", "than an int can count"},
      {"SingleDevice<Microbatches<3>, Weighted<1, 1>>", "multiple of the number of weights"},
      {"SingleDevice<BucketBytes<1>>", "BucketBytes<First, Rest>"},
      {"SingleDevice<Microbatches>", "Microbatches<Count>"},
      {"SingleDevice<Slices<1025>>", "from 1 to 1024"},
      {"SingleDevice<Reproducible<-1>>", "0 (one a microbatch) or more"},
      {"SingleDevice<Checkpoint<Every<1>>>", "options are"},
      {"ModelParallel<>", "say how the model is cut"},
      {"ModelParallel<Auto<2>, Split<1>>", "options behind Split"},
      {"ModelParallel<Split<1>, Auto<2>>", "options behind Split"},
      {"ModelParallel<Auto<2>, Wire<Float16>>", "options behind Split"},
      {"ModelParallel<Placed<table>>", "cannot be read"},
      {"ModelParallel<Split<0>>", "Split<Count>"},
      {"ModelParallel<Auto<0>>", "positive number of parts"},
      {"ModelParallel<Auto<40000>>", "32767"},
      {"ModelParallel<Auto<2>, Checkpoint<Every<0>>>", "Every<Count>"},
      {"ModelParallel<Auto<2>, Checkpoint<2>>", "Checkpoint<What>"},
      {"Pipeline<OneFOneB>", "is cut by How"},
      {"Pipeline<TwoFTwoB, 2, Auto<2>>", "Schedule is GPipe"},
      {"Pipeline<Interleaved, 2, Auto<2>>", "Schedule is GPipe"},
      {"Pipeline<OneFOneB<2>, 2, Auto<2>>", "Schedule is GPipe"},
      {"Pipeline<OneFOneB, 0, Auto<2>>", "Count is the number of microbatches"},
      {"Pipeline<OneFOneB, 2, Auto<2>, Microbatches<2>>", "leave Microbatches out"},
      {"Pipeline<OneFOneB, 2, Auto<2>, Chunks<2>>", "options behind Split"},
      {"Pipeline<OneFOneB, 2, Chunks<2>, Auto<2>, Reproducible<>>", "chunk by chunk"},
      {"Pipeline<OneFOneB, 2, Chunks<2>, Auto<2>, Checkpoint<Every<1>>>", "a chunk has begun with"},
      {"Pipeline<OneFOneB, 2, Chunks<0>, Auto<2>>", "chunks of time"},
      {"Pipeline<PipeDream, 1, Chunks<2>, Auto<2>>", "states that other weights"},
      {"Pipeline<PipeDream, 2, Auto<2>>", "give 1 microbatch"},
      {"Pipeline<PipeDream, 1, Auto<2>, Reproducible<>>", "gradients are late"},
      {"Pipeline<FeaturesReplay, 1, Auto<2>, Checkpoint<Boundaries>>", "FeaturesReplay"},
      {"Pipeline<PipeDream, 1, Auto<128>>", "127 parts"},
      {"Pipeline<ZeroBubbleH1, 2, Auto<2>, Checkpoint<Boundaries>>", "weight gradients"},
      {"Pipeline<Interleaved<2>, 2, Auto<3>>", "multiple of v"},
      {"Pipeline<Interleaved<2>, 5, Auto<4>>", "a multiple of the devices"},
      {"Pipeline<ZeroBubbleV, 2, Auto<3>>", "even number of Splits"},
      {"Pipeline<Chimera, 3, Auto<2>>", "cannot run 3 microbatches on 2 devices"},
      {"Pipeline<PostValidated<Chimera>, 2, Auto<2>>", "two copies"},
      {"CrossModelParallel<Auto<2>>", "AverageGradients, AverageWeights<p>"},
      {"CrossModelParallel<AverageWeights<0>, Auto<2>>", "positive number of steps"},
      {"CrossModelParallel<AverageWeights<>, Auto<2>, Reproducible<>>", "keeps two models"},
      {"CrossModelParallel<AverageGradients, Auto<1>>", "cannot run 2 microbatches on 1"},
      {"CrossModelParallel<Overlapped<AverageGradients>, Auto<2>>", "Overlapped<Rule>"},
      {"CrossModelParallel<AverageGradients, Auto<2>, Microbatches<2>>", "one microbatch a model"},
      {"CrossPipeline<1, AverageGradients, Auto<2>>", "an even number"},
      {"CrossPipeline<3, AverageGradients, Auto<2>>", "cannot run 3 microbatches"},
      {"TensorParallel<1>", "from 2 to 1024"},
      {"TensorParallel<2, BucketBytes<1, 2>>", "options are Slices"},
      {"TensorParallel<2, KeepWhole<\"4.\">>", "as describe prints it"},
      {"TensorParallel<2, KeepWhole<\"4>>", "quote is not closed"},
      {"TensorParallel<2, KeepWhole<body>>", "as describe prints it"},
      {"SpatialParallel<1, 1>", "from 2 to 1024"},
      {"SpatialParallel<2>", "from 2 to 1024"},
      {"SpatialParallel<2, 2, Reproducible<>>", "options are Microbatches and Checkpoint"},
      {"Hybrid<DataParallel<2>>", "a strategy and another within it"},
      {"Hybrid<DataParallel<2>, DataParallel<2>>", "replicas of a whole model"},
      {"Hybrid<DataParallel<2>, SingleDevice<>>", "a strategy that cuts the model"},
      {"Hybrid<ModelParallel<Auto<2>>, ModelParallel<Auto<2>>>", "all but the last"},
      {"Hybrid<DataParallel<2, Microbatches<2>>, ModelParallel<Auto<2>>>", "to the model inside"},
      {"Hybrid<DataParallel<2>, Pipeline<PipeDream, 1, Auto<2>>>", "wait for each other"},
      {"Hybrid<DataParallel<>, DataParallel<2>, ModelParallel<Auto<2>>>", "replicas multiply"},
      {"Hybrid<TensorParallel<2>, TensorParallel<2>>", "not shared yet"},
      {"Hybrid<ModelParallel<Auto<2>>, TensorParallel<2, Microbatches<2>>>", "options are Slices"},
      {"Hybrid<DataParallel<2, Reproducible<>>, SpatialParallel<2, 1>>", "pixels"},
      {"Hybrid<DataParallel<2, ShardedState>, SpatialParallel<2, 1>>", "over the tiles"}};
  std::set<std::string> said;
  for (Fault const& one : faults) {
    CAPTURE(one.text);
    std::string const found = fault(one.text);
    CAPTURE(found);
    CHECK(found.find(one.says) != std::string::npos);
    said.insert(found.substr(0, found.find("; here stands")));
  }
  using detail::Argument;
  std::set<Argument> const only_of_types = {
      Argument::auto_tops,      Argument::split_more,     Argument::split_less,
      Argument::named_replicas, Argument::order,          Argument::late_count,
      Argument::runs,           Argument::runs_in_chunks, Argument::tiles_leaves,
      Argument::tensor_options, Argument::hybrid_weights, Argument::hybrid_exact,
      Argument::hybrid_leaves};
  for (int a = 0; a < static_cast<int>(Argument::none); ++a) {
    auto const argument = static_cast<Argument>(a);
    std::string const sentence = sentence_of(argument);
    CAPTURE(sentence);
    CHECK(said.count(sentence) + only_of_types.count(argument) == 1);
  }
}

TEST_CASE("nested deep, long, or no text at all: a sentence") {
  std::string deep;
  for (int i = 0; i < 1'000; ++i) {
    deep += "Hybrid<";
  }
  CHECK(fault(deep).find("64 levels") != std::string::npos);
  CHECK(fault(std::string(1 << 20, ' ')).find("65536 characters") != std::string::npos);
  CHECK(fault("DataParallel<\x1b[2J>").find("\\x1B[2J") != std::string::npos);
}

TEST_CASE("a text that is changed anywhere is a value or a sentence") {
  std::string const texts[] = {
      "Hybrid<DataParallel<2, Weighted<1, 2>, Wire<Float16>>, Pipeline<PostValidated<"
      "Interleaved<2>>, 4, Split<5>, Split<9>, Checkpoint<Every<2>>>, TensorParallel<2>>",
      "CrossPipeline<4, Overlapped<AverageWeights<3>>, Auto<2>, BucketBytes<1, 200>>",
      "TensorParallel<4, KeepWhole<\"4.body.0\", 3>, SequenceRows, Reproducible<2>, Slices<8>>",
      "Pipeline<PipeDream2BW, 8, Auto<4>>"};
  std::string const signs = "<>,:\" 0123456789-'aStd_\n";
  std::mt19937 random{7};
  auto const below = [&random](std::size_t n) { return random() % n; };
  int values = 0;
  for (int trial = 0; trial < 3'000; ++trial) {
    std::string text = texts[below(4)];
    for (std::size_t changes = 1 + below(2); changes > 0; --changes) {
      std::size_t const at = below(text.size());
      std::string const& other = texts[below(4)];
      std::size_t const from = below(other.size());
      switch (below(4)) {
        case 0:
          text[at] = signs[below(signs.size())];
          break;
        case 1:
          text.insert(at, 1, signs[below(signs.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(3));
          break;
        default:
          text.insert(at, other.substr(from, below(12)));
      }
    }
    try {
      StrategyValue const value = read_strategy(text);
      CAPTURE(text);
      CHECK(read_strategy(type_text(value)) == value);
      ++values;
    } catch (ContractError const& error) {
      CHECK(std::string{error.what()}.size() > 20);
    }
  }
  CHECK(values > 30);
}

}  // namespace value_test
