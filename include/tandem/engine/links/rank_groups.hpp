// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankGroups: the groups of a program's ranks, besides that of all: for each part of the model the
/// ranks that have it, or its slice, for each link and direction its two ends, where two models are
/// averaged the two ranks that have the same parts of them, and the ranks that have its slices.

#include <string>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/cut/ties.hpp>

namespace tandem {

/// The same on every rank. Group -1 is that of all ranks. A line is a group of the mesh along the
/// model: the devices that send each other activations.
template <class Program>
class RankGroups {
 public:
  static constexpr int all = -1;

  /// @param replicas  of the world, where the strategy takes any number
  explicit RankGroups(int replicas = 1) : mesh_{Program::mesh_of(replicas)} {}

  template <class = void>  // compiled where it is called, not by every include
  TANDEM_COLD std::vector<RankSet> list() const {
    std::vector<RankSet> groups;
    for (int stage = 0; stage < reduced(); ++stage) {
      for (int slice = 0; slice < slices(); ++slice) {
        RankSet set{.ranks = {}, .name = "stage " + std::to_string(stage) + of_slice(slice)};
        for (int line = 0; line < lines(); ++line) {
          for (int s = stage; s < map().stages; s += reduced()) {
            int const rank = rank_of(line, s);
            bool const again = !set.ranks.empty() && set.ranks.back() == rank;  // has both copies
            if (!again && mesh_.coordinate(rank, Axis::tensor) == slice) {
              set.ranks.push_back(rank);
            }
          }
        }
        groups.push_back(set);
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
        for (int tie = 0; tie < Program::ties.count; ++tie) {
          TieDevices const& of = Program::ties.of[copy][tie];
          RankSet set{.ranks = {}, .name = "shared parameter " + std::to_string(tie)};
          for (int d = 0; of.crosses() && d < of.count; ++d) {
            set.ranks.push_back(devices[of.device[d]]);
          }
          if (of.crosses()) {
            groups.push_back(set);
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
      groups.push_back(set);
    }
    return groups;
  }

  /// Of the ranks of a line that hold a shared parameter in one of the model's copies; `all` stands
  /// for none.
  TANDEM_COLD int of_tie(int rank, int copy, int tie) const {
    return !Program::ties.of[copy][tie].crosses()
               ? all
               : before_ties() + line_of(rank) * Program::ties.groups() +
                     Program::ties.group(copy, tie);
  }

  /// Of the ranks that have the slices of a rank's layers; `all` also stands for none.
  [[nodiscard]] int of_slices(int rank) const {
    return has_slice_groups() ? before_ties() + lines() * Program::ties.groups() +
                                    mesh_.group_of(rank, Axis::tensor)
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
  static constexpr StageMapView map() { return Program::map; }
  [[nodiscard]] int lines() const { return mesh_.groups(Axis::model); }
  static constexpr bool keeps_two() { return Program::averaging.keeps_two(); }
  static constexpr int slices() { return Program::slices; }
  static std::string of_slice(int slice) {
    return slices() > 1 ? ", slice " + std::to_string(slice) : "";
  }
  // Where there is nothing else than slices their group is that of all.
  [[nodiscard]] bool has_slice_groups() const { return slices() > 1 && slices() < mesh_.size(); }
  [[nodiscard]] int before_links() const { return reduced() * slices(); }
  [[nodiscard]] int before_pairs() const { return before_links() + 2 * lines() * map().links; }
  [[nodiscard]] int before_ties() const { return before_pairs() + lines() * pairs(); }
  // Stages whose gradients have a group each, of each slice. Where each rank has the whole model,
  // its group is that of all.
  [[nodiscard]] int reduced() const {
    bool const reduces = mesh_.extent(Axis::data) * (keeps_two() ? 1 : map().copies) > 1;
    return Program::devices * slices() == 1 || !reduces ? 0
           : keeps_two()                                ? map().stages
                                                        : map().parts();
  }
  static constexpr int pairs() { return keeps_two() ? Program::devices / 2 : 0; }
  // The device that has the same parts of the other model.
  static constexpr int opposite(int device) { return Program::devices - 1 - device; }
  [[nodiscard]] int rank_of(int line, int stage) const {
    return mesh_.group(line, Axis::model)[map().device[stage]];
  }
  static StageEdge const& first_edge(int link) {
    int e = 0;
    while (Program::map.edge[e].link != link || !map().crosses(e)) {
      ++e;
    }
    return Program::map.edge[e];
  }

  Mesh mesh_;
};

}  // namespace tandem
