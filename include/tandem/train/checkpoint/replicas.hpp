// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Replicas: the parameters that the ranks of this process have, for the calling program.

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/saver.hpp>
#include <tandem/train/checkpoint/states.hpp>
#include <tandem/train/checkpoint/two_models.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>
#include <tandem/train/over_processes.hpp>
#include <tandem/train/ranks/worker_group.hpp>

namespace tandem {

/// On Host these are views of the memory; on a GPU copies, good until the next call for a rank.
/// @tparam Batch  StepBatch
template <class Batch>
class Replicas {
 public:
  using Workers = WorkerGroup<Batch>;
  using T = typename Workers::P;
  using RankType = typename Workers::RankType;

  /// @param workers  outlives this
  explicit Replicas(Workers& workers) : workers_{workers} {}

  /// Whether there are two models that may differ, under names of their own.
  [[nodiscard]] bool has_two() const { return workers_.facts().two_models(); }

  /// Where a process has some devices of a replica only: brings what the others have here, for
  /// of() and whole(); where each rank has its part of the optimizer's states alone, @p states and
  /// gradients; and where it has slices of parameters, all of them. All processes call it.
  void fetch(bool states = true) const {
    fetch_pieces(states);
    if (workers_.elsewhere().needed()) {
      workers_.elsewhere().fetch(workers_);
    }
  }

  /// Whether fetch() communicates.
  [[nodiscard]] bool are_shared(bool states = true) const {
    return gathers(states) || workers_.elsewhere().needed();
  }

  /// Of replica number @p local of this process, in the network's order, and of its model @p copy.
  /// Where it has none whole: of the first of all. @pre fetch() has been called since it changed
  [[nodiscard]] TANDEM_COLD std::vector<NamedParameter<T>> of(int local, int copy = 0) const {
    auto& others = workers_.elsewhere();
    // The replica's devices, of which those of this process are numbered by its ranks.
    MeshGroup const ranks = workers_.mesh().group(others.needed() ? 0 : local, Axis::model);
    std::vector<NamedParameter<T>> list(
        static_cast<std::size_t>(workers_.facts().tables().network.parameters));
    for (int device = ranks.count - 1; device >= 0; --device) {
      bool const here = !others.needed() || others.is_here(device);
      int const first = others.needed() ? workers_.first_rank() : 0;
      for (auto& own : here ? of_rank(ranks[device] - first) : others.of(device)) {
        if (own.copy == copy) {
          list[static_cast<std::size_t>(own.index)] = std::move(own);
        }
      }
    }
    return list;
  }

  /// Of the first replica: of both models if they may differ.
  [[nodiscard]] std::vector<NamedParameter<T>> whole() const {
    std::vector<NamedParameter<T>> list = of(0);
    if (has_two()) {
      for (NamedParameter<T>& second : with_prefix(of(0, 1))) {
        list.push_back(std::move(second));
      }
    }
    return list;
  }

  /// Of every rank.
  [[nodiscard]] TANDEM_COLD std::vector<std::vector<NamedParameter<T>>> of_ranks() const {
    std::vector<std::vector<NamedParameter<T>>> list;
    for (int local = 0; local < workers_.size(); ++local) {
      list.push_back(has_two() ? with_prefix(of_rank(local)) : of_rank(local));
    }
    return list;
  }

  /// Takes what read() gives, a LoadedCheckpoint, when it has done so in every process: else
  /// replicas would go on from different parameters. All processes call it.
  /// @returns what was read
  /// @throws FileError  another process could not read its file; and what read() throws: nothing
  ///                    has changed then
  template <class Read>
  auto load(std::string const& path, Read const& read) const {
    std::optional<std::invoke_result_t<Read const&>> loaded;
    read_in_all(path, [&] { loaded.emplace(read()); });
    loaded->take();
    return *std::move(loaded);
  }

  /// Gives every rank's copies of parameter @p p of the network, and of those that share it, these
  /// numbers, of which there are as many, and so their averages. All processes call it.
  void set(int p, std::span<T const> values) const {
    workers_.check_can(WorkKind::writes);
    fetch_pieces(true);  // since upload() gives the devices all that is here
    int const owner = workers_.facts().tables().network.parameter[p].owner();
    for (auto const& rank : of_ranks()) {
      for (NamedParameter<T> const& own : rank) {
        if (own.owner == owner) {
          std::ranges::copy(values, detail::writable(own.value).begin());
          std::ranges::copy_n(values.begin(), std::ssize(own.average),
                              detail::writable(own.average).begin());
        }
      }
    }
    upload();
  }

  /// Whether the ranks of all processes say so. All call it.
  [[nodiscard]] bool all_agree(bool yes) const {
    if (workers_.facts().streams() || workers_.mesh().size() == 1) {  // in one process
      return yes;
    }
    workers_.run([&](RankType& rank) { rank.vote(yes); }, WorkKind::computes);
    return workers_.run([](RankType& rank) { return rank.collect(); }, WorkKind::computes)
               .non_finite < 0;
  }

  /// Gives the devices what was written there.
  void upload() const {
    workers_.run([](RankType& rank) { rank.upload(); });
  }

 private:
  // read() in every process; throws where one has.
  void read_in_all(std::string const& path, FunctionRef<void()> read) const {
    workers_.check_can(WorkKind::writes);
    try {
      read();
    } catch (...) {
      try {
        static_cast<void>(all_agree(false));
      } catch (Error const&) {  // the group says so at the next call
      }
      throw;
    }
    if (!all_agree(true)) {
      throw FileError{path,
                      "another process could not read its checkpoint, so nothing has changed in "
                      "any; its message says why"};
    }
  }

  // Whether ranks have parts of parameters, or with @p states of these or of gradients.
  [[nodiscard]] bool gathers(bool states) const {
    DeviceTables const& own = workers_.facts().tables();
    return (own.sharded_state || own.layer_slices > 1) &&
           (states || own.slices > 1 || own.sharded_parameters);
  }

  // What other ranks have of the parameters of one of this process.
  void fetch_pieces(bool states) const {
    if (gathers(states)) {
      workers_.run([](RankType& rank) { rank.gather_pieces(); }, WorkKind::gathers);
    }
  }

  [[nodiscard]] std::vector<NamedParameter<T>> of_rank(int local) const {
    workers_.run_on(
        local, [](RankType& rank) { rank.download(); }, WorkKind::looks);
    return workers_.rank(local).parameters();
  }

  Workers& workers_;
};

/// @tparam Batch  StepBatch
template <class Batch>
class SavedWorkers final : public detail::SavedRanks {
 public:
  /// @param workers  outlives this
  explicit SavedWorkers(WorkerGroup<Batch>& workers) : workers_{workers} {}

  void add_up(std::span<double> numbers) override { add_over_processes(workers_, numbers); }
  TANDEM_COLD void with_model(int streams, int processes,
                              FunctionRef<void(detail::SavedModel const&)> f) override {
    auto const states = states_of(workers_, streams, processes);
    Replicas<Batch> const replicas{workers_};
    replicas.fetch();
    f(detail::saved_model(replicas.whole(), states, streams));
  }
  void leave_in_order() override { workers_.leave_in_order(); }

 private:
  WorkerGroup<Batch>& workers_;
};

}  // namespace tandem
