// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// read_strategy(): a strategy as the text of its type, read to a value. What a network must be for
/// it is not asked here.

#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// The value of a strategy that is written as a type, with or without "tandem::" or "td::", and
/// spaces anywhere. Placed<table> is a variable of a program and cannot be read.
/// @throws ContractError  names what cannot be read and what there is instead, as the types do
TANDEM_ONCE StrategyValue read_strategy(std::string_view text);

}  // namespace tandem

#if TANDEM_BODIES

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/rules.hpp>
#include <tandem/strategy/type_term.hpp>
#include <tandem/strategy/types/tensor_parallel.hpp>
#include <tandem/strategy/value_text.hpp>

namespace tandem::detail {

TANDEM_ONCE void read_weights(Batching& batching, TypeTerm const& term) {
  Argument const sentence = Argument::weights;
  type_expects(!term.arguments.empty() && term.arguments.size() <= 64, term, sentence);
  std::int64_t sum = 0;
  batching.shards = 0;
  for (TypeTerm const& weight : term.arguments) {
    auto const number = static_cast<int>(type_number(weight, 0, most_of_int, sentence));
    batching.weight[batching.shards++] = number;
    sum += number;
  }
  type_expects(sum > 0 && sum <= most_of_int, term, sentence);
}

TANDEM_ONCE CheckpointRule read_checkpoint(TypeTerm const& term) {
  TypeTerm const what = term.arguments.size() == 1 ? term.arguments[0] : TypeTerm{};
  type_expects(what.word == "Every" || what.text == "Boundaries", term, Argument::checkpoint);
  return {what.word == "Boundaries" ? CheckpointRule::boundaries
                                    : only_number(what, 1, Argument::every)};
}

TANDEM_ONCE void read_wishes(SpreadWishes& wishes, Wish wish, TypeTerm const& term) {
  char const* const sentence =
      "SplitOutputs<...>, SplitInputs<...>, KeepWhole<...>: write the path of a layer as describe "
      "prints it, \"4.body.0\" or 4";
  type_expects(term.has_brackets, term, sentence);
  for (TypeTerm const& layer : term.arguments) {
    std::string_view const word = layer.word;
    LayerPlace const place =
        word[0] == '"' ? LayerPlace::read(word.substr(1, word.size() - 2))
                       : LayerPlace{static_cast<int>(type_number(layer, 0, most_of_int, sentence))};
    type_expects(place.sound && !layer.has_brackets, layer, sentence);
    type_expects(wishes.count < SpreadWishes::most, layer, "at most 32 layers may be named");
    wishes.add(place, wish);
  }
}

TANDEM_ONCE void read_wire(Batching& batching, TypeTerm const& term) {
  std::string_view const format = term.arguments.size() == 1 ? term.arguments[0].text : "";
  type_expects(format == "BFloat16" || format == "Float16", term, Argument::wire);
  batching.wire = format == "Float16" ? WireFormat::float16 : WireFormat::bfloat16;
}

TANDEM_ONCE void read_buckets(Batching& batching, TypeTerm const& term) {
  Argument const sentence = Argument::buckets;
  std::int64_t const most = std::numeric_limits<std::int64_t>::max();
  type_expects(term.arguments.size() == 2, term, sentence);
  batching.first_bucket_bytes = type_number(term.arguments[0], 1, most, sentence);
  batching.bucket_bytes = type_number(term.arguments[1], 1, most, sentence);
}

/// @throws ContractError  the sentence, where it is no option of these kinds
TANDEM_ONCE void read_option(StrategyValue& value, TypeTerm const& term, unsigned kinds,
                             Sentence sentence) {
  Batching& b = value.batching;
  auto const is = [&](unsigned kind, std::string_view name) {
    return term.word == name && (kinds & kind) != 0;
  };
  int const stage = term.text == "ShardedState"        ? 1
                    : term.text == "ShardedGradients"  ? 2
                    : term.text == "ShardedParameters" ? 3
                                                       : 0;
  if (is(OptionKind::microbatches, "Microbatches")) {
    b.microbatches = only_number(term, 1, Argument::microbatches);
  } else if (is(OptionKind::weights, "Weighted")) {
    read_weights(b, term);
  } else if (is(OptionKind::leaves, "Reproducible") && term.has_brackets) {
    b.reproducible = true;
    b.all_leaves = term.arguments.empty() ? 0 : only_number(term, 0, Argument::leaves);
  } else if (is(OptionKind::buckets, "BucketBytes")) {
    read_buckets(b, term);
  } else if (is(OptionKind::wire, "Wire")) {
    read_wire(b, term);
  } else if (stage > 0 && is(OptionKind::shards, term.word)) {
    b.sharded_state = true;
    b.sharded_gradients = stage >= 2;
    b.sharded_parameters = stage >= 3;
  } else if (is(OptionKind::slices, "Slices")) {
    b.slices = only_number(term, 1, Argument::slices, 1024);
  } else if (is(OptionKind::checkpoint, "Checkpoint")) {
    value.checkpoint = read_checkpoint(term);
  } else if (is(OptionKind::sharing, "SplitOutputs")) {
    read_wishes(value.wishes, Wish::outputs, term);
  } else if (is(OptionKind::sharing, "SplitInputs")) {
    read_wishes(value.wishes, Wish::inputs, term);
  } else if (is(OptionKind::sharing, "KeepWhole")) {
    read_wishes(value.wishes, Wish::whole, term);
  } else {
    type_expects(is(OptionKind::sharing, "SequenceRows") && !term.has_brackets, term, sentence);
    value.sequence_rows = true;
  }
}

TANDEM_ONCE void read_options(StrategyValue& value, std::span<TypeTerm const> terms, unsigned kinds,
                              Sentence sentence) {
  for (TypeTerm const& term : terms) {
    read_option(value, term, kinds, sentence);
  }
}

TANDEM_ONCE bool names_microbatches_in(std::span<TypeTerm const> terms) {
  bool names = false;
  for (TypeTerm const& term : terms) {
    names = names || term.word == "Microbatches";
  }
  return names;
}

/// Split<a>, Split<b>, … or Auto<Parts>, and then what stands behind.
TANDEM_ONCE std::vector<TypeTerm> read_cut(StrategyValue& value, std::span<TypeTerm const> terms,
                                           TypeTerm const& around) {
  std::string_view const how = terms.empty() ? "" : terms[0].word;
  type_expects(how != "Placed", around,
               "Placed<table>: the table is a variable of a program and cannot be read here; cut "
               "by Split<a>, Split<b>, ... or Auto<Parts>");
  type_expects(how == "Split" || how == "Auto", around,
               "say how the model is cut: Split<a>, Split<b>, ... or Auto<Parts>, in a Pipeline "
               "behind Schedule, Count and, perhaps, Chunks<K>");
  std::vector<TypeTerm> rest;
  for (TypeTerm const& term : terms) {
    if (term.word == "Split" && how == "Split") {
      value.tops.push_back(only_number(term, 1, Argument::split));
    } else if (&term != terms.data()) {
      rest.push_back(term);
    }
  }
  value.cut = how == "Split" ? CutKind::splits : CutKind::balanced;
  value.parts = how == "Split" ? static_cast<int>(value.tops.size())
                               : only_number(terms[0], 1, Argument::auto_parts);
  type_expects(value.parts <= 32'767, around, "a model may be cut in 32767 parts at most");
  return rest;
}

inline constexpr char const* model_options =
    "options behind Split<a>, Split<b>, ... or Auto<Parts> are Reproducible, Checkpoint, "
    "BucketBytes and Slices, and Microbatches in ModelParallel";

TANDEM_ONCE NamedSchedule const& read_schedule(StrategyValue& value, TypeTerm const& term) {
  if (term.word == "PostValidated" && term.arguments.size() == 1) {
    NamedSchedule const& schedule = read_schedule(value, term.arguments[0]);
    type_expects(!schedule.is_asynchronous && schedule.copies == 1, term,
                 "PostValidated<Schedule>: the schedule is asynchronous, or has two copies of the "
                 "model, whose gradients are summed before any update; take ZeroBubbleH2, say");
    value.post_validated = true;
    return schedule;
  }
  NamedSchedule const* found = nullptr;
  for (NamedSchedule const& one : all_schedules) {
    std::string const name = schedule_type(one, 1);
    bool const is = one.takes_chunks
                        ? term.word == name.substr(0, name.find('<')) && term.arguments.size() == 1
                        : term.text == name;
    found = is ? &one : found;
  }
  type_expects(found != nullptr, term, Argument::schedule);
  value.schedule = found->name;
  value.stages_a_device = found->chunks;
  if (found->takes_chunks) {
    value.stages_a_device =
        only_number(term, 1, "Interleaved<Chunks>: give a positive number of stages a device");
  }
  return *found;
}

/// The cut, which the schedule must take, and the options behind it.
TANDEM_ONCE void read_stages(StrategyValue& value, NamedSchedule const& schedule, int count,
                             std::span<TypeTerm const> terms, TypeTerm const& around) {
  std::vector<TypeTerm> const options = read_cut(value, terms, around);
  type_expects(!names_microbatches_in(options), around,
               sentence_of(around.word == "Pipeline" ? Argument::count_twice
                                                     : Argument::cross_microbatches));
  read_options(value, options, OptionKind::model, model_options);
  value.batching.microbatches = count;
  int const v = value.stages_a_device;
  type_expects(
      value.parts % v == 0, around,
      sentence_of(schedule.turns_back ? Argument::turning_parts : Argument::interleaved_parts));
  int const devices = value.parts / v;
  std::string const has_none = schedule_type(schedule, v) + " cannot run " + std::to_string(count) +
                               " microbatches on " + std::to_string(devices) + " devices; give " +
                               schedule.words.microbatches +
                               " (devices: " + schedule.words.devices + ")";
  type_expects(schedule.fits(devices, count), around, has_none.c_str());
}

TANDEM_ONCE StrategyValue read_pipeline(TypeTerm const& term) {
  StrategyValue value;
  std::span<TypeTerm const> rest = term.arguments;
  type_expects(rest.size() >= 2, term, "Pipeline<Schedule, Count, How, Options...> is cut by How");
  NamedSchedule const& schedule = read_schedule(value, rest[0]);
  auto const count = static_cast<int>(type_number(rest[1], 1, most_of_int, Argument::count));
  rest = rest.subspan(2);
  bool const has_chunks = !rest.empty() && rest[0].word == "Chunks";
  int chunks = 1;
  if (has_chunks) {
    chunks = only_number(rest[0], 1, Argument::time_chunks);
    rest = rest.subspan(1);
  }
  read_stages(value, schedule, count, rest, term);
  bool const recomputes = value.checkpoint != CheckpointRule{};
  bool const repeats = value.batching.reproducible;
  auto const expect = [&](bool holds, Argument argument) {
    type_expects(holds, term, sentence_of(argument));
  };
  expect(!has_chunks || !schedule.is_asynchronous, Argument::late_chunks);
  expect(!has_chunks || !recomputes, Argument::chunks_checkpoint);
  expect(!has_chunks || !repeats, Argument::chunks_leaves);
  expect(!schedule.splits_backward || !recomputes, Argument::split_backward);
  if (schedule.is_asynchronous) {
    WeightRule const weights = value.asynchrony().weights;
    bool const replays = weights == WeightRule::replayed;
    expect(!repeats, Argument::late_leaves);
    expect(!recomputes || (!replays && weights != WeightRule::predicted),
           Argument::late_checkpoint);
    expect(value.parts <= 127, Argument::late_parts);
    value.checkpoint.every = replays ? CheckpointRule::boundaries : value.checkpoint.every;
  } else if (value.devices() > 1) {
    value.batching.chunks = chunks;
  } else {  // there is nothing to wait for: one stage
    value = {.batching = value.batching, .checkpoint = value.checkpoint};
  }
  return value;
}

TANDEM_ONCE Averaging read_averaging(TypeTerm const& term) {
  bool const has_argument = term.arguments.size() == 1;
  if (term.word == "Overlapped" && has_argument) {
    Averaging averaging = read_averaging(term.arguments[0]);
    type_expects(averaging.keeps_two() && !averaging.overlapped, term,
                 "Overlapped<Rule>: Rule is AverageWeights<...> or AverageWeightsAndState<...>");
    averaging.overlapped = true;
    return averaging;
  }
  bool const with_state = term.word == "AverageWeightsAndState";
  bool const keeps_two = (with_state || term.word == "AverageWeights") && term.has_brackets;
  type_expects(keeps_two || term.text == "AverageGradients", term, Argument::averaging);
  Averaging averaging;
  if (keeps_two) {
    averaging.what = with_state ? Averaged::weights_and_state : Averaged::weights;
    averaging.period =
        term.arguments.empty()
            ? 1
            : only_number(term, 1, "AverageWeights<Period>: give a positive number of steps");
  }
  return averaging;
}

/// CrossModelParallel<Rule, …>, or CrossPipeline<Count, Rule, …>.
TANDEM_ONCE StrategyValue read_cross_model(TypeTerm const& term) {
  StrategyValue value{.schedule = CrossModel::name};
  std::span<TypeTerm const> rest = term.arguments;
  std::size_t const counts = term.word == "CrossPipeline" ? 1 : 0;
  type_expects(rest.size() > counts, term,
               "write CrossModelParallel<Rule, How, Options...>, or CrossPipeline<Count, Rule, "
               "How, Options...>");
  auto const count = static_cast<int>(
      counts == 0 ? 2 : type_number(rest[0], 2, most_of_int, Argument::cross_count));
  value.averaging = read_averaging(rest[counts]);
  read_stages(value, *find_schedule(CrossModel::name), count, rest.subspan(counts + 1), term);
  return value;
}

/// TensorParallel or SpatialParallel, which in a Hybrid may stand behind a model.
TANDEM_ONCE StrategyValue read_shared(TypeTerm const& term, bool is_behind) {
  StrategyValue value;
  std::span<TypeTerm const> const rest = term.arguments;
  unsigned const whole = is_behind ? 0 : OptionKind::microbatches | OptionKind::checkpoint;
  if (term.word == "SpatialParallel") {
    Argument const tiles = Argument::tiles;
    type_expects(rest.size() >= 2, term, tiles);
    value.tiles.height = static_cast<int>(type_number(rest[0], 1, most_slices, tiles));
    value.tiles.width = static_cast<int>(type_number(rest[1], 1, most_slices, tiles));
    value.tensor = value.tiles.height * value.tiles.width;
    type_expects(2 <= value.tensor && value.tensor <= most_slices, term, tiles);
    read_options(value, rest.subspan(2), whole, Argument::tiles_options);
    return value;
  }
  Argument const slices = Argument::tensor;
  type_expects(!rest.empty(), term, slices);
  value.tensor = static_cast<int>(type_number(rest[0], 2, most_slices, slices));
  read_options(
      value, rest.subspan(1),
      OptionKind::sharing | OptionKind::slices | (is_behind ? 0 : whole | OptionKind::leaves),
      "TensorParallel<N, Options...>: options are Slices, SplitOutputs, SplitInputs, "
      "KeepWhole and SequenceRows, and, but in a Hybrid behind a model, Microbatches, "
      "Reproducible and Checkpoint");
  return value;
}

TANDEM_ONCE bool shares_layers(TypeTerm const& term) {
  return term.word == "TensorParallel" || term.word == "ChannelParallel" ||
         term.word == "SpatialParallel";
}

/// A DataParallel around what is there.
TANDEM_ONCE void read_replicas(StrategyValue& value, TypeTerm const& term) {
  Argument const sentence = Argument::replicas;
  std::span<TypeTerm const> options = term.arguments;
  bool const is_worlds = options.empty() || options[0].text == "by_world";
  type_expects(!value.any_replicas && !(is_worlds && value.batching.replicas > 1), term,
               Argument::hybrid_worlds);
  value.any_replicas = is_worlds;
  if (!is_worlds) {
    std::int64_t const all =
        value.batching.replicas * type_number(options[0], 1, most_replicas, sentence);
    type_expects(all <= most_replicas, term, sentence);
    value.batching.replicas = static_cast<int>(all);
  }
  read_options(value, options.subspan(options.empty() ? 0 : 1), OptionKind::batching,
               Argument::replicas_options);
  type_expects(!is_worlds || value.batching.shards == 0, term, Argument::world_weights);
}

TANDEM_ONCE StrategyValue read_part(TypeTerm const& term);

TANDEM_ONCE StrategyValue read_hybrid(TypeTerm const& term) {
  std::span<TypeTerm const> outer = term.arguments;
  type_expects(outer.size() >= 2, term, Argument::hybrid_of_two);
  TypeTerm const& last = outer.back();
  outer = outer.first(outer.size() - 1);
  bool const is_behind = shares_layers(last) && outer.back().word != "DataParallel";
  TypeTerm const& model = is_behind ? outer.back() : last;
  type_expects(model.word != "DataParallel", model, Argument::hybrid_of_replicas);
  type_expects(model.word != "SingleDevice", model, Argument::hybrid_inner);
  StrategyValue value = read_part(model);
  type_expects(!value.asynchrony().on(), model, sentence_of(Rule::replicas_asynchronous));
  if (is_behind) {
    StrategyValue const inner = read_shared(last, true);
    bool const has_two = model.text.find("CrossModelParallel") != std::string_view::npos ||
                         model.text.find("CrossPipeline") != std::string_view::npos;
    type_expects(value.tensor == 1 && !has_two, model,
                 "Hybrid<Outer, TensorParallel<N>>: outside stands one model, not two, which is "
                 "not shared yet");
    value.any_replicas = false;  // the type says no more of them
    value.batching.slices =
        inner.batching.slices > 0 ? inner.batching.slices : value.batching.slices;
    value.tensor = inner.tensor;
    value.tiles = inner.tiles;
    value.wishes = inner.wishes;
    value.sequence_rows = inner.sequence_rows;
    outer = outer.first(outer.size() - 1);
  }
  for (; !outer.empty(); outer = outer.first(outer.size() - 1)) {
    TypeTerm const& part = outer.back();
    type_expects(part.word == "DataParallel", part, Argument::hybrid_outer);
    type_expects(!names_microbatches_in(part.arguments), part, Argument::hybrid_microbatches);
    read_replicas(value, part);
  }
  return value;
}

TANDEM_ONCE StrategyValue read_part(TypeTerm const& term) {
  StrategyValue value;
  type_expects(term.has_brackets, term,
               "a strategy has brackets, as SingleDevice<> or DataParallel<2>");
  if (term.word == "SingleDevice") {
    read_options(value, term.arguments, OptionKind::batching, Argument::single_options);
  } else if (term.word == "DataParallel") {
    read_replicas(value, term);
    bool const by_leaves = value.any_replicas && value.batching.all_leaves > 0;
    if (by_leaves && !names_microbatches_in(term.arguments)) {
      value.all_microbatches = value.batching.all_leaves;
      value.batching.microbatches = value.all_microbatches;
    }
  } else if (term.word == "ModelParallel") {
    std::vector<TypeTerm> const options = read_cut(value, term.arguments, term);
    read_options(value, options, OptionKind::model | OptionKind::microbatches, model_options);
  } else if (term.word == "Pipeline") {
    value = read_pipeline(term);
  } else if (term.word == "CrossModelParallel" || term.word == "CrossPipeline") {
    value = read_cross_model(term);
  } else if (shares_layers(term)) {
    value = read_shared(term, false);
  } else {
    type_expects(term.word == "Hybrid", term,
                 "there is no such strategy; write SingleDevice<>, DataParallel<N>, "
                 "ModelParallel<...>, Pipeline<...>, CrossModelParallel<...>, CrossPipeline<...>, "
                 "TensorParallel<N>, ChannelParallel<N>, SpatialParallel<H, W> or Hybrid<...>");
    value = read_hybrid(term);
  }
  return value;
}

/// What options of the whole strategy do not go together.
TANDEM_ONCE void check_whole(StrategyValue const& value, TypeTerm const& term) {
  Batching const& b = value.batching;
  bool const is_single = term.word == "SingleDevice";
  type_expects(!is_single || b.shards == 0 || b.microbatches % b.shards == 0, term,
               Argument::single_weights);
  type_expects(is_single || value.any_replicas || b.shards == 0 || b.shards == b.replicas, term,
               "DataParallel<N, Weighted<...>>: give N weights, one a replica of the model");
  char const* const fault = fault_of(value);
  type_expects(fault == nullptr, term, fault);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE StrategyValue read_strategy(std::string_view text) {
  detail::TypeTerm const term = detail::read_type(text);
  StrategyValue value = detail::read_part(term);
  value.batching.leaves = detail::leaves_of_replica(value.batching);
  detail::check_whole(value, term);
  return value;
}

}  // namespace tandem

#endif
