// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// type_text(): a strategy that is a value as the text of its type; read_strategy.hpp has the
/// other way.

#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// A type that a value stands for, to paste: "Hybrid<DataParallel<2>, Pipeline<OneFOneB, 8,
/// Auto<2>>>". Of several types with this value it is a short one.
/// @param table  what stands between the brackets of Placed
/// @throws ContractError  the value's schedule is none of the library's
TANDEM_ONCE std::string type_text(StrategyValue const& value, std::string_view table = "table");

}  // namespace tandem

#if TANDEM_BODIES

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/contract.hpp>

namespace tandem::detail {

/// Kinds of options, of which a strategy takes some.
struct OptionKind {
  static constexpr unsigned microbatches = 1, weights = 2, leaves = 4, buckets = 8, wire = 16,
                            shards = 32, slices = 64, checkpoint = 128, sharing = 256;
  static constexpr unsigned batching = 127;                                  // BatchingOption
  static constexpr unsigned model = leaves | buckets | slices | checkpoint;  // ModelOption
};

/// "Interleaved<2>": the type of a schedule.
TANDEM_ONCE std::string schedule_type(NamedSchedule const& schedule, int chunks) {
  std::string_view const words = schedule.words.type;
  if (!words.starts_with("Pipeline<")) {
    return schedule.name == SequentialStages::name ? "SequentialStages" : "CrossModel";
  }
  std::size_t const begin = words.find('<') + 1;
  std::string const name{words.substr(begin, words.find_first_of("<,", begin) - begin)};
  return schedule.takes_chunks ? name + "<" + std::to_string(chunks) + ">" : name;
}

using TypeTexts = std::vector<std::string>;

/// name<a, b, …>
TANDEM_ONCE std::string type_of(std::string_view name, TypeTexts const& arguments) {
  std::string text{name};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    text += (i == 0 ? "<" : ", ") + arguments[i];
  }
  return text + (arguments.empty() ? "<>" : ">");
}
TANDEM_ONCE std::string type_of(std::string_view name, std::int64_t number) {
  return type_of(name, TypeTexts{std::to_string(number)});
}

/// A part of a strategy.
struct TypeText {
  std::string name{};
  TypeTexts arguments{};
  unsigned takes = OptionKind::batching;  ///< of these options
};

/// What a DataParallel, or what stands for it, has but Microbatches, of some kinds.
TANDEM_ONCE TypeTexts batching_texts(Batching const& b, unsigned kinds) {
  TypeTexts weights;
  for (int i = 0; i < b.shards; ++i) {
    weights.push_back(std::to_string(b.weight[i]));
  }
  TypeTexts texts;
  auto const add = [&](bool is, unsigned kind, std::string const& text) {
    if (is && (kinds & kind) != 0) {
      texts.push_back(text);
    }
  };
  add(b.shards > 0, OptionKind::weights, type_of("Weighted", weights));
  add(b.reproducible, OptionKind::leaves,
      b.all_leaves > 0 ? type_of("Reproducible", b.all_leaves) : "Reproducible<>");
  add(b.wire != WireFormat::exact, OptionKind::wire,
      b.wire == WireFormat::float16 ? "Wire<Float16>" : "Wire<BFloat16>");
  add(b.sharded_state, OptionKind::shards,
      b.sharded_parameters  ? "ShardedParameters"
      : b.sharded_gradients ? "ShardedGradients"
                            : "ShardedState");
  add(b.first_bucket_bytes != Batching{}.first_bucket_bytes ||
          b.bucket_bytes != Batching{}.bucket_bytes,
      OptionKind::buckets,
      type_of("BucketBytes",
              {std::to_string(b.first_bucket_bytes), std::to_string(b.bucket_bytes)}));
  add(b.slices > 0, OptionKind::slices, type_of("Slices", b.slices));
  return texts;
}

TANDEM_ONCE std::string averaging_text(Averaging const& averaging) {
  std::string const period = averaging.period > 1 ? std::to_string(averaging.period) : "";
  std::string const rule = averaging.what == Averaged::gradients ? "AverageGradients"
                           : averaging.what == Averaged::weights
                               ? "AverageWeights<" + period + ">"
                               : "AverageWeightsAndState<" + period + ">";
  return averaging.overlapped ? "Overlapped<" + rule + ">" : rule;
}

/// The model that is cut, up to its options.
TANDEM_ONCE TypeText model_text(StrategyValue const& value, std::string_view table) {
  NamedSchedule const* const schedule = find_schedule(value.schedule);
  expects(schedule != nullptr, "type_text(value): the value has no schedule of the library");
  int const count = value.batching.microbatches;
  int const chunks = value.batching.chunks;
  TypeText text{.name = "Pipeline", .takes = OptionKind::buckets | OptionKind::slices};
  text.takes |= chunks == 1 ? OptionKind::leaves : 0;
  if (value.cut == CutKind::whole) {  // and computes passes again, which SingleDevice does not
    text.arguments = {"GPipe", std::to_string(count), "Auto<1>"};
  } else if (value.schedule == SequentialStages::name && !value.post_validated && chunks == 1) {
    text.name = "ModelParallel";
  } else if (value.schedule == CrossModel::name && value.tensor == 1 && chunks == 1) {
    text.name = count == 2 ? "CrossModelParallel" : "CrossPipeline";
    text.arguments = {std::to_string(count), averaging_text(value.averaging)};
    text.arguments.erase(text.arguments.begin(), text.arguments.begin() + (count == 2 ? 1 : 0));
  } else {
    std::string const order = schedule_type(*schedule, value.stages_a_device);
    text.arguments = {value.post_validated ? "PostValidated<" + order + ">" : order,
                      std::to_string(count)};
  }
  if (chunks > 1) {
    text.arguments.push_back(type_of("Chunks", chunks));
  }
  if (value.cut == CutKind::placed) {
    text.arguments.push_back(type_of("Placed", {std::string{table}}));
  } else if (value.cut == CutKind::balanced) {
    text.arguments.push_back(type_of("Auto", value.parts));
  }
  for (int const tops : value.tops) {
    text.arguments.push_back(type_of("Split", tops));
  }
  return text;
}

/// The devices that share layers or images.
TANDEM_ONCE TypeText shared_text(StrategyValue const& value) {
  if (value.has_tiles()) {
    return {.name = "SpatialParallel",
            .arguments = {std::to_string(value.tiles.height), std::to_string(value.tiles.width)},
            .takes = 0};
  }
  TypeText text{.name = "TensorParallel",
                .arguments = {std::to_string(value.tensor)},
                .takes = OptionKind::leaves | OptionKind::slices};
  if (value.sequence_rows) {
    text.arguments.emplace_back("SequenceRows");
  }
  TypeTexts places;
  for (int i = 0; i < value.wishes.count; ++i) {
    auto const& [place, wish] = value.wishes.item[i];
    std::string const path = to_string(place.path);
    bool const is_number = place.path.depth == 1 && place.path.part[0] >= 0;
    places.push_back(is_number ? path : '"' + path + '"');
    if (i + 1 == value.wishes.count || value.wishes.item[i + 1].wish != wish) {
      text.arguments.push_back(type_of(wish == Wish::outputs  ? "SplitOutputs"
                                       : wish == Wish::inputs ? "SplitInputs"
                                                              : "KeepWhole",
                                       places));
      places.clear();
    }
  }
  return text;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string type_text(StrategyValue const& value, std::string_view table) {
  using detail::type_of;
  Batching const& b = value.batching;
  bool const replays =
      value.asynchrony().on() && value.asynchrony().weights == WeightRule::replayed;
  bool const recomputes = value.checkpoint != CheckpointRule{} && !replays;
  bool const is_shared = value.tensor > 1;
  bool const is_cut = value.cut != CutKind::whole || (recomputes && !is_shared);
  bool const is_replicated = b.replicas > 1 || value.any_replicas;
  std::vector<detail::TypeText> parts;
  if (is_cut) {
    parts.push_back(detail::model_text(value, table));
  }
  if (is_shared) {
    parts.push_back(detail::shared_text(value));
  }
  if (parts.empty()) {
    parts.push_back({.name = is_replicated ? "DataParallel" : "SingleDevice"});
  }
  detail::TypeText& own = parts.front();  // which has the options of the model
  bool const has_count = is_cut && own.name != "ModelParallel";
  bool const would_follow = own.name == "DataParallel" && value.any_replicas && b.all_leaves > 0;
  if (would_follow ? value.all_microbatches == 0 : b.microbatches > 1 && !has_count) {
    own.arguments.push_back(type_of("Microbatches", b.microbatches));
  }
  if (recomputes) {
    int const every = value.checkpoint.every;
    own.arguments.push_back(
        type_of("Checkpoint", {every > 0 ? type_of("Every", every) : "Boundaries"}));
  }
  bool const is_around = own.name != "DataParallel" &&
                         (is_replicated || !detail::batching_texts(b, ~own.takes).empty());
  if (is_around) {
    parts.insert(parts.begin(), {.name = "DataParallel"});
  }
  detail::TypeText& outer = parts.front();
  for (std::string const& option : detail::batching_texts(b, detail::OptionKind::batching)) {
    outer.arguments.push_back(option);
  }
  if (outer.name == "DataParallel" && !(value.any_replicas && outer.arguments.empty())) {
    outer.arguments.insert(outer.arguments.begin(),
                           value.any_replicas ? "by_world" : std::to_string(b.replicas));
  }
  detail::TypeTexts texts;
  for (detail::TypeText const& part : parts) {
    texts.push_back(type_of(part.name, part.arguments));
  }
  return texts.size() == 1 ? texts[0] : type_of("Hybrid", texts);
}

}  // namespace tandem

#endif
