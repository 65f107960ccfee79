// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ProgramFacts: what whoever drives a program's ranks knows of it, as values, so that it is
/// compiled once and not for each network and strategy.

#include <span>
#include <utility>

#include <tandem/comm/world.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/train/options/check_asynchrony.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/options/replicas_by_world.hpp>
#include <tandem/train/ranks/imported_table.hpp>

namespace tandem {

struct ProgramFacts {
  std::span<DeviceTables const* const> devices;  ///< of a replica
  GroupFacts groups;
  int result = 0;  ///< the part of the model that gives the network's output
  Asynchrony asynchrony{};
  int all_microbatches = 0;      ///< of all replicas, where a program that takes any number says so
  bool splits_backward = false;  ///< input gradients and weight gradients are compiled apart

  // Null in programs that do not need them, which so do not compile them.
  int (*replicas_there)(World const&, int devices) = nullptr;  ///< where there may be any number
  ImportedTable (*share_table)(ImportedTable, DeviceTables const&, int all,
                               int replicas) = nullptr;  ///< likewise
  ImportedTable (*import_rows)(ActionRows const&, StageMapView const&, Batching const&,
                               bool splits_backward) = nullptr;  ///< of several devices
  void (*check_strategy)(DeviceTables const&, Asynchrony const&, TrainerOptions const&) = nullptr;

  /// What of its tables all devices have alike is read in those of the first.
  [[nodiscard]] constexpr DeviceTables const& tables() const { return *devices[0]; }

  /// The replicas that the strategy names, or as many as @p world has devices for.
  /// @throws ContractError  as detail::replicas_there()
  [[nodiscard]] int replicas_of(World const& world) const {
    return replicas_there != nullptr ? replicas_there(world, tables().devices * tables().slices)
                                     : tables().batching.replicas;
  }

  /// Whether the ranks run without a barrier between steps.
  [[nodiscard]] constexpr bool streams() const {
    return asynchrony.on() || tables().post_validated;
  }
  /// Steps that may be queued before the result of the first is collected. In a pipeline that stays
  /// filled: those that the first stage has not finished, and the next one.
  /// @param of_feed  Feed::steps_in_flight
  [[nodiscard]] constexpr int steps_in_flight(int of_feed) const {
    return asynchrony.on() ? asynchrony.late_steps(0) + 2 : streams() ? 2 : of_feed;
  }
  /// Whether there are two models that may differ, under names of their own.
  [[nodiscard]] bool two_models() const { return !tables().averaging.ends_equal(); }

  /// The rank that has the result of a microbatch, counted over all replicas.
  [[nodiscard]] int rank_of_result(int microbatch, Batching const& batching,
                                   Mesh const& mesh) const {
    StageMapView const& map = tables().map;
    int const copy = batching.copy_of(microbatch, map.copies);
    return mesh.rank({.data = batching.replica_of(microbatch),
                      .model = map.device[copy * map.parts() + result]});
  }
};

namespace detail {

template <class Program, class Devices>
struct TablesOfDevices;
template <class Program, int... D>
struct TablesOfDevices<Program, std::integer_sequence<int, D...>> {
  static constexpr DeviceTables const* of[] = {
      &device_tables<typename Program::template Device<D>>...};
};

template <class Program>
constexpr ProgramFacts facts_of() {
  ProgramFacts facts{
      .devices = TablesOfDevices<Program, std::make_integer_sequence<int, Program::devices>>::of,
      .groups = group_facts<Program>,
      .result = Program::partition.part[Program::network.nodes - 1],
      .asynchrony = Program::asynchrony,
      .all_microbatches = all_microbatches_of<typename Program::Strategy>,
      .splits_backward = Program::splits_backward};
  if constexpr (Program::any_replicas) {
    facts.replicas_there = replicas_there;
    facts.share_table = share_table;
  }
  if constexpr (Program::devices > 1) {
    facts.import_rows = import_rows;
  }
  if constexpr (Program::averaging.keeps_two() || Program::asynchrony.on() ||
                Program::post_validated || Program::sharded_state || Program::layer_slices > 1 ||
                Program::has_row_gradients) {
    facts.check_strategy = check_strategy;
  }
  return facts;
}

}  // namespace detail

template <class Program>
inline constexpr ProgramFacts program_facts = detail::facts_of<Program>();

}  // namespace tandem
