// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StrategyValue: a strategy as a value, where a type would be compiled for each; value_of: the
/// value that a strategy's type stands for.

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/graph/spread/wishes.hpp>
#include <tandem/schedule/orders/all.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/rules.hpp>

namespace tandem {

/// How a model is cut into parts.
enum class CutKind : std::uint8_t {
  whole,     ///< in none: a device has all layers
  splits,    ///< Split<a>, Split<b>, …: so many top-level layers each
  balanced,  ///< Auto<parts>
  placed     ///< Placed<table>: a device for each node
};

/// What a strategy's type says. Everything is of one replica but for what `batching` says of all.
struct StrategyValue {
  Batching batching{};
  bool any_replicas = false;  ///< DataParallel<>: `batching` is of one replica
  int all_microbatches = 0;   ///< then, of all replicas; 0: each has those of `batching`
  CutKind cut = CutKind::whole;
  int parts = 1;                       ///< of one copy of the model; of `placed`, devices at least
  std::vector<int> tops{};             ///< of `splits`: top-level layers of each part
  std::vector<std::int16_t> device{};  ///< of `placed`: of each node
  std::string schedule = SequentialStages::name;  ///< a name of make_schedule()
  int stages_a_device = 1;                        ///< v of Interleaved<v>
  bool post_validated = false;                    ///< PostValidated<Schedule>
  CheckpointRule checkpoint{};
  Averaging averaging{};       ///< of two models
  int tensor = 1;              ///< devices that share each layer, or each image
  bool sequence_rows = false;  ///< these have their rows of what stands between
  Extent2d tiles{};            ///< of each image, one a device; none: these share layers
  SpreadWishes wishes{};       ///< of layers that they share

  [[nodiscard]] bool has_tiles() const { return tiles != Extent2d{}; }
  /// Devices over which a replica's parts are spread.
  [[nodiscard]] int devices() const {
    return cut == CutKind::whole ? 1 : cut == CutKind::placed ? placed_devices() : chain_devices();
  }
  /// Devices of a replica.
  [[nodiscard]] int replica_devices() const { return devices() * tensor; }
  /// Whether all of these share each layer, or each image.
  [[nodiscard]] bool shares_all() const { return tensor > 1 && devices() == 1; }
  /// Whether devices have other layers or shapes than the network.
  [[nodiscard]] bool rewrites() const { return tensor > 1 || batching.chunks > 1; }
  /// Whether forward passes are computed again, by whole stages.
  [[nodiscard]] bool repeats_stages() const {
    return checkpoint.every == CheckpointRule::boundaries;
  }
  /// In how many slices layers are computed that devices share; 1: none is.
  [[nodiscard]] int layer_slices() const {
    return has_tiles() ? 1 : batching.slices > 0 ? batching.slices : tensor;
  }
  [[nodiscard]] bool shards_state() const {
    return batching.sharded_state && batching.replicas > 1;
  }
  [[nodiscard]] bool shards_gradients() const {
    return batching.sharded_gradients && shards_state();
  }
  [[nodiscard]] bool shards_parameters() const {
    return batching.sharded_parameters && shards_state();
  }
  /// Ranks that each have a part of the optimizer's states; 1: all have all.
  [[nodiscard]] int state_shares() const { return batching.sharded_state ? batching.replicas : 1; }
  [[nodiscard]] Asynchrony asynchrony() const {
    return cut == CutKind::whole
               ? Asynchrony{}
               : detail::asynchrony_named(schedule, devices(), batching.microbatches);
  }
  /// How all ranks are arranged; where there are any number of replicas, those of one.
  [[nodiscard]] Mesh mesh() const {
    return Mesh{Axis::data, batching.replicas} * Mesh{Axis::model, devices()} *
           Mesh{Axis::tensor, tensor};
  }

  friend bool operator==(StrategyValue const&, StrategyValue const&) = default;

 private:
  [[nodiscard]] int placed_devices() const {
    int most = parts - 1;
    for (int const d : device) {
      most = d > most ? d : most;
    }
    return most + 1;
  }
  [[nodiscard]] int chain_devices() const {
    detail::NamedSchedule const* const found = detail::find_schedule(schedule);
    return parts / (found != nullptr ? detail::chunks_of(*found, stages_a_device) : 1);
  }
};

namespace detail {

/// What of a value no strategy's type says, whatever the network is; null: nothing.
TANDEM_ONCE char const* fault_of(StrategyValue const& value);

/// What the rules ask of a strategy, but of its network.
/// @param widest_tie  devices that share a parameter, at most
TANDEM_ONCE RuleFacts rule_facts(StrategyValue const& value, int widest_tie);

/// The class that a strategy's model is cut by: the strategy itself, or what stands in it.
template <class S>
constexpr auto model_of() {
  if constexpr (requires { typename S::Model; }) {
    return model_of<typename S::Model>();
  } else {
    return std::type_identity<S>{};
  }
}

template <class S, class Model>
struct StrategyIsValue {
  static constexpr bool is_own =
      !std::is_same_v<typename S::template Cut<void>, typename Model::template Cut<void>>;
  static constexpr bool value = true;
  static_assert(
      !is_own && requires { typename Model::HowType; },
      "value_of<S>(): this strategy cuts networks in a way of its own, which no value "
      "says; train with a Trainer of the type");
};

template <class How>
void take_cut(StrategyValue& value) {
  if constexpr (requires { How::is_whole; }) {
    return;
  } else if constexpr (IsPlacement<How>) {
    value.cut = CutKind::placed;
    value.device.assign(std::begin(How::table.places.device), std::end(How::table.places.device));
  } else {
    value.parts = How::parts;
    value.cut = CutKind::balanced;
    if constexpr (requires { How::tops[0]; }) {
      value.cut = CutKind::splits;
      value.tops.assign(How::tops, How::tops + How::parts);
    }
  }
}

}  // namespace detail

/// The value that a strategy's type stands for.
template <Strategy S>
TANDEM_COLD StrategyValue value_of() {
  using Model = typename decltype(detail::model_of<S>())::type;
  static_assert(detail::StrategyIsValue<S, Model>::value);
  StrategyValue value{.batching = S::batching,
                      .any_replicas = detail::takes_any_replicas<S>,
                      .all_microbatches = detail::all_microbatches_of<S>,
                      .checkpoint = S::checkpoint,
                      .averaging = detail::averaging_of<S>(),
                      .tensor = S::mesh.extent(Axis::tensor),
                      .sequence_rows = detail::deals_rows<S>,
                      .tiles = detail::tiles_of<S>(),
                      .wishes = detail::wishes_of<S>()};
  if constexpr (requires { typename Model::HowType; }) {
    detail::take_cut<typename Model::HowType>(value);
  }
  if constexpr (requires { typename Model::ScheduleType; }) {
    using Order = typename Model::ScheduleType;
    static_assert(detail::is_schedule(Order::name),
                  "value_of<S>(): this schedule is none of schedule/orders/all.hpp; train with a "
                  "Trainer of the type");
    value.schedule = Order::name;
    value.post_validated = detail::validates_behind<S>();
    if constexpr (requires { Order::chunks; }) {
      value.stages_a_device = Order::chunks;
    }
  }
  return value;
}

}  // namespace tandem

#if TANDEM_BODIES

#include <limits>

namespace tandem::detail {

TANDEM_ONCE char const* fault_of(StrategyValue const& value) {
  Batching const& b = value.batching;
  constexpr int most = std::numeric_limits<int>::max();
  int const copies = has_two_copies(value.schedule) ? 2 : 1;
  bool const repeats = b.reproducible;
  bool const several = b.replicas > 1 || value.any_replicas;
  if (b.replicas < 1 || b.microbatches < 1 || b.chunks < 1 || value.tensor < 1 || value.parts < 1 ||
      value.stages_a_device < 1 || value.parts % value.stages_a_device != 0) {
    return "a strategy's numbers are positive, and each device has as many parts";
  }
  if (several && b.wire != WireFormat::exact && repeats) {
    return sentence_of(Argument::replicas_exact);
  }
  if (value.averaging.keeps_two() && repeats) {
    return sentence_of(Argument::cross_leaves);
  }
  if (repeats && !value.any_replicas &&
      (b.microbatches % copies != 0 || b.leaves < copies || b.leaves % copies != 0 ||
       !leaves_fit({.microbatches = b.microbatches / copies, .leaves = b.leaves / copies}))) {
    return "Reproducible<Leaves>: the leaves of one copy of the model (Leaves / replicas, and half "
           "of that in Chimera) must be a power of two that divides its microbatches";
  }
  if (value.has_tiles() && (repeats || b.sharded_state)) {
    return sentence_of(repeats ? Rule::tiles_reproducible : Rule::tiles_state);
  }
  if (value.has_tiles() && value.tiles.height * value.tiles.width != value.tensor) {
    return "SpatialParallel<H, W>: each of the devices that share an image has one tile";
  }
  if (value.devices() > most / b.replicas / value.tensor ||
      b.microbatches > most / b.replicas / b.chunks) {
    return "there are more devices, or more microbatches, than an int can count";
  }
  return nullptr;
}

TANDEM_ONCE RuleFacts rule_facts(StrategyValue const& value, int widest_tie) {
  Batching const& batching = value.batching;
  return {.slices = value.tensor,
          .layer_slices = value.layer_slices(),
          .tiles = value.tiles,
          .copies = has_two_copies(value.schedule) ? 2 : 1,
          .microbatches = batching.microbatches,
          .chunks = batching.chunks,
          .asynchronous = value.asynchrony().on(),
          .post_validated = value.post_validated,
          .keeps_two = value.averaging.keeps_two(),
          .reproducible = batching.reproducible,
          .rounds = batching.wire != WireFormat::exact,
          .any_replicas = value.any_replicas,
          .several_replicas = value.any_replicas || batching.replicas > 1,
          .asks_sharded_state = batching.sharded_state,
          .sharded_state = value.shards_state(),
          .sharded_gradients = value.shards_gradients(),
          .sequence_rows = value.tensor > 1 && value.sequence_rows,
          .ties_cross = widest_tie > 1,
          .widest_tie = widest_tie};
}

}  // namespace tandem::detail

#endif
