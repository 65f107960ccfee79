// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankGroups: the groups of a program's ranks, besides that of all: for each part of the model the
/// ranks that have it, or its slice, for each link and direction its two ends, where two models are
/// averaged the two ranks that have the same parts of them, and the ranks that have its slices.

#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/cut/ties.hpp>

namespace tandem {

/// What decides on the groups of a program.
struct GroupFacts {
  StageMapView map;
  TieDevices const* ties[2];  ///< of each copy of the model, of each tie
  int tie_count;
  int devices;
  int slices;
  bool keeps_two;

  /// How many ties before this one, copy by copy, are of several devices: the number of its group,
  /// and behind the last copy the number of groups.
  [[nodiscard]] constexpr int tie_group(int copy, int tie) const {
    int number = 0;
    for (int c = 0; c <= copy && c < map.copies; ++c) {
      for (int t = 0; t < (c == copy ? tie : tie_count); ++t) {
        number += ties[c][t].crosses() ? 1 : 0;
      }
    }
    return number;
  }
};

template <class Program>
inline constexpr GroupFacts group_facts{.map = Program::map,
                                        .ties = {Program::ties.of[0], Program::ties.of[1]},
                                        .tie_count = Program::ties.count,
                                        .devices = Program::devices,
                                        .slices = Program::slices,
                                        .keeps_two = Program::averaging.keeps_two()};

/// The same on every rank. Group -1 is that of all ranks. A line is a group of the mesh along the
/// model: the devices that send each other activations.
class RankGroups {
 public:
  static constexpr int all = -1;

  /// @param mesh  of all ranks
  RankGroups(GroupFacts const& facts, Mesh const& mesh) : facts_{facts}, mesh_{mesh} {}

  TANDEM_ONCE TANDEM_COLD std::vector<RankSet> list() const;

  /// Of the ranks of a line that hold a shared parameter in one of the model's copies; `all` stands
  /// for none.
  [[nodiscard]] int of_tie(int rank, int copy, int tie) const {
    return !facts_.ties[copy][tie].crosses()
               ? all
               : before_ties() + line_of(rank) * tie_groups() + facts_.tie_group(copy, tie);
  }

  /// Of the ranks that have the slices of a rank's layers; `all` also stands for none.
  [[nodiscard]] int of_slices(int rank) const {
    return has_slice_groups()
               ? before_ties() + lines() * tie_groups() + mesh_.group_of(rank, Axis::tensor)
               : all;
  }

  /// Of the ranks over which the gradients of this stage of a rank are summed.
  [[nodiscard]] int of_stage(int rank, int stage) const {
    int const groups = reduced();
    return groups > 0 ? stage % groups * slices() + mesh_.coordinate(rank, Axis::tensor) : all;
  }

  /// Of the ends of a link; the sender is its first rank.
  [[nodiscard]] int of_link(int line, int link, bool forward) const {
    return before_links() + 2 * (line * map().links + link) + (forward ? 0 : 1);
  }
  [[nodiscard]] int line_of(int rank) const { return mesh_.group_of(rank, Axis::model); }

  /// Of a rank and the one that has the same parts of the other model; `all` stands for none, also
  /// of the one in the middle, which has both.
  [[nodiscard]] int of_pair(int rank) const {
    int const device = mesh_.coordinate(rank, Axis::model);
    int const pair = device < pairs() ? device : opposite(device);
    return pair < pairs() ? before_pairs() + line_of(rank) * pairs() + pair : all;
  }

 private:
  [[nodiscard]] StageMapView const& map() const { return facts_.map; }
  [[nodiscard]] int lines() const { return mesh_.groups(Axis::model); }
  [[nodiscard]] int slices() const { return facts_.slices; }
  [[nodiscard]] int tie_groups() const { return facts_.tie_group(map().copies, 0); }
  // Where there is nothing else than slices their group is that of all.
  [[nodiscard]] bool has_slice_groups() const { return slices() > 1 && slices() < mesh_.size(); }
  [[nodiscard]] int before_links() const { return reduced() * slices(); }
  [[nodiscard]] int before_pairs() const { return before_links() + 2 * lines() * map().links; }
  [[nodiscard]] int before_ties() const { return before_pairs() + lines() * pairs(); }
  // Stages whose gradients have a group each, of each slice. Where each rank has the whole model,
  // its group is that of all.
  [[nodiscard]] int reduced() const {
    bool const reduces = mesh_.extent(Axis::data) * (facts_.keeps_two ? 1 : map().copies) > 1;
    return facts_.devices * slices() == 1 || !reduces ? 0
           : facts_.keeps_two                         ? map().stages
                                                      : map().parts();
  }
  [[nodiscard]] int pairs() const { return facts_.keeps_two ? facts_.devices / 2 : 0; }
  // The device that has the same parts of the other model.
  [[nodiscard]] int opposite(int device) const { return facts_.devices - 1 - device; }
  [[nodiscard]] int rank_of(int line, int stage) const {
    return mesh_.group(line, Axis::model)[map().device[stage]];
  }
  [[nodiscard]] StageEdge const& first_edge(int link) const {
    int e = 0;
    while (map().edge[e].link != link || !map().crosses(e)) {
      ++e;
    }
    return map().edge[e];
  }

  GroupFacts facts_;
  Mesh mesh_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::vector<RankSet> RankGroups::list() const {
  std::vector<RankSet> groups;
  for (int stage = 0; stage < reduced(); ++stage) {
    for (int slice = 0; slice < slices(); ++slice) {
      RankSet set{.ranks = {}, .name = "stage " + std::to_string(stage)};
      set.name += slices() > 1 ? ", slice " + std::to_string(slice) : "";
      for (int line = 0; line < lines(); ++line) {
        for (int s = stage; s < map().stages; s += reduced()) {
          int const rank = rank_of(line, s);
          bool const again = !set.ranks.empty() && set.ranks.back() == rank;  // has both copies
          if (!again && mesh_.coordinate(rank, Axis::tensor) == slice) {
            set.ranks.push_back(rank);
          }
        }
      }
      groups.push_back(std::move(set));
    }
  }
  for (int line = 0; line < lines(); ++line) {
    for (int link = 0; link < map().links; ++link) {
      StageEdge const& edge = first_edge(link);
      int const from = rank_of(line, edge.from);
      int const to = rank_of(line, edge.to);
      std::string const name =
          "boundary " + std::to_string(edge.from) + "-" + std::to_string(edge.to);
      groups.push_back({.ranks = {from, to}, .name = name + ", forward", .sends = true});
      groups.push_back({.ranks = {to, from}, .name = name + ", backward", .sends = true});
    }
  }
  for (int line = 0; line < lines(); ++line) {
    MeshGroup const devices = mesh_.group(line, Axis::model);
    for (int pair = 0; pair < pairs(); ++pair) {
      groups.push_back({.ranks = {devices[pair], devices[opposite(pair)]},
                        .name = "models " + std::to_string(pair)});
    }
  }
  for (int line = 0; line < lines(); ++line) {
    MeshGroup const devices = mesh_.group(line, Axis::model);
    for (int copy = 0; copy < map().copies; ++copy) {
      for (int tie = 0; tie < facts_.tie_count; ++tie) {
        TieDevices const& of = facts_.ties[copy][tie];
        RankSet set{.ranks = {}, .name = "shared parameter " + std::to_string(tie)};
        for (int d = 0; of.crosses() && d < of.count; ++d) {
          set.ranks.push_back(devices[of.device[d]]);
        }
        if (of.crosses()) {
          groups.push_back(std::move(set));
        }
      }
    }
  }
  for (int g = 0; has_slice_groups() && g < mesh_.groups(Axis::tensor); ++g) {
    MeshGroup const ranks = mesh_.group(g, Axis::tensor);
    RankSet set{.ranks = {}, .name = "slices of rank " + std::to_string(ranks.first)};
    for (int slice = 0; slice < ranks.count; ++slice) {
      set.ranks.push_back(ranks[slice]);
    }
    groups.push_back(std::move(set));
  }
  return groups;
}

}  // namespace tandem

#endif
