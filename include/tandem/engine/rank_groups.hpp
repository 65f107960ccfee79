// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankGroups: the groups of a program's ranks, besides that of all: for each part of the model the
/// ranks that have it, and for each link and direction its two ends.

#include <string>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/strategy/stage_map_view.hpp>

namespace tandem {

/// The same on every rank. Group -1 is that of all ranks.
template <class Program>
class RankGroups {
 public:
  static constexpr int all = -1;

  template <class = void>  // compiled where it is called, not by every include
  static std::vector<RankSet> list() {
    std::vector<RankSet> groups;
    for (int part = 0; reduces() && part < map().parts(); ++part) {
      RankSet set{.ranks = {}, .name = "stage " + std::to_string(part)};
      for (int replica = 0; replica < replicas(); ++replica) {
        for (int copy = 0; copy < map().copies; ++copy) {
          set.ranks.push_back(rank_of(replica, copy * map().parts() + part));
        }
      }
      groups.push_back(set);
    }
    for (int replica = 0; replica < replicas(); ++replica) {
      for (int link = 0; link < map().links; ++link) {
        StageEdge const& edge = first_edge(link);
        int const from = rank_of(replica, edge.from);
        int const to = rank_of(replica, edge.to);
        std::string const name =
            "boundary " + std::to_string(edge.from) + "-" + std::to_string(edge.to);
        groups.push_back({.ranks = {from, to}, .name = name + ", forward"});
        groups.push_back({.ranks = {to, from}, .name = name + ", backward"});
      }
    }
    return groups;
  }

  /// Of the ranks that have this part of the model.
  static int of_part(int part) { return reduces() ? part : all; }

  /// Of the ends of a link; the sender is its first rank.
  static int of_link(int replica, int link, bool forward) {
    return (reduces() ? map().parts() : 0) + 2 * (replica * map().links + link) + (forward ? 0 : 1);
  }

 private:
  static constexpr StageMapView map() { return Program::map; }
  static constexpr int replicas() { return Program::batching.replicas; }
  // Where each device has the whole model, its group is that of all.
  static constexpr bool reduces() { return Program::devices > 1 && replicas() * map().copies > 1; }
  static constexpr int rank_of(int replica, int stage) {
    return replica * Program::devices + map().device[stage];
  }
  static StageEdge const& first_edge(int link) {
    int e = 0;
    while (Program::map.edge[e].link != link || !map().crosses(e)) {
      ++e;
    }
    return Program::map.edge[e];
  }
};

}  // namespace tandem
