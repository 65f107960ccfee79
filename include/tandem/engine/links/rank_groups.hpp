// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankGroups: the groups of a program's ranks, besides that of all: for each part of the model the
/// ranks that have it, for each link and direction its two ends, and where two models are averaged
/// the two ranks that have the same parts of them.

#include <string>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>

namespace tandem {

/// The same on every rank. Group -1 is that of all ranks.
template <class Program>
class RankGroups {
 public:
  static constexpr int all = -1;

  template <class = void>  // compiled where it is called, not by every include
  static std::vector<RankSet> list() {
    std::vector<RankSet> groups;
    for (int stage = 0; stage < reduced(); ++stage) {
      RankSet set{.ranks = {}, .name = "stage " + std::to_string(stage)};
      for (int replica = 0; replica < replicas(); ++replica) {
        for (int s = stage; s < map().stages; s += reduced()) {
          int const rank = rank_of(replica, s);
          if (set.ranks.empty() || set.ranks.back() != rank) {  // a device may have both copies
            set.ranks.push_back(rank);
          }
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
    for (int replica = 0; replica < replicas(); ++replica) {
      for (int pair = 0; pair < pairs(); ++pair) {
        int const first = replica * Program::devices + pair;
        int const second = (replica + 1) * Program::devices - 1 - pair;
        groups.push_back({.ranks = {first, second}, .name = "models " + std::to_string(pair)});
      }
    }
    return groups;
  }

  /// Of the ranks over which the gradients of this stage are summed.
  static int of_stage(int stage) {
    constexpr int groups = reduced();
    if constexpr (groups > 0) {
      return stage % groups;
    } else {
      return all;
    }
  }
  /// The ends of these groups for a device's stages, by connect(group).
  template <int Count, class Connect>
  static auto connect_stages(LocalStages<Count> const& stages, Connect const& connect) {
    std::vector<decltype(connect(all))> ends;
    for (LocalStage const& stage : stages.stage) {
      ends.push_back(connect(of_stage(stage.id)));
    }
    return ends;
  }

  /// Of the ends of a link; the sender is its first rank.
  static int of_link(int replica, int link, bool forward) {
    return reduced() + 2 * (replica * map().links + link) + (forward ? 0 : 1);
  }
  /// The end of (link, forward) of a replica, by connect(group), which outlives this.
  template <class Connect>
  static auto connect_links(int replica, Connect const& connect) {
    return [replica, &connect](int link, bool forward) {
      return connect(of_link(replica, link, forward));
    };
  }

  /// Of device @p device and the one that has the same parts of the other model; `all` stands for
  /// none, also of the one in the middle, which has both.
  static int of_pair(int replica, int device) {
    int const pair = device < pairs() ? device : Program::devices - 1 - device;
    return pair < pairs() ? reduced() + 2 * replicas() * map().links + replica * pairs() + pair
                          : all;
  }

 private:
  static constexpr StageMapView map() { return Program::map; }
  static constexpr int replicas() { return Program::batching.replicas; }
  static constexpr bool keeps_two() { return Program::averaging.keeps_two(); }
  // Stages whose gradients have a group each. Where each device has the whole model, its group is
  // that of all.
  static constexpr int reduced() {
    bool const reduces = replicas() * (keeps_two() ? 1 : map().copies) > 1;
    return Program::devices == 1 || !reduces ? 0 : keeps_two() ? map().stages : map().parts();
  }
  static constexpr int pairs() { return keeps_two() ? Program::devices / 2 : 0; }
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
