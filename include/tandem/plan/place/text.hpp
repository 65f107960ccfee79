// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// placed_paths, placed_text: a device for each node of a network, as the shortest list of paths
/// that place<Net> turns into the same.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// An entry of place<Net>'s list.
struct PlacedPath {
  std::string path{};
  int device = 0;

  friend bool operator==(PlacedPath const&, PlacedPath const&) = default;
};

/// The shortest list with which place<Net> gives each node of @p network the device that it has in
/// @p device. The input's device does not count: it is wherever it is read.
///
/// Cost: O(nodes × devices).
/// @pre    one device for each node, counted from 0
/// @throws ContractError  two nodes have the same path, and not the same device
TANDEM_ONCE [[nodiscard]] std::vector<PlacedPath> placed_paths(GraphView network,
                                                               std::vector<int> const& device);

/// The same as a declaration, in lines of 100 columns at most:
/// "inline constexpr auto table = place<Net>({{"3.1", 1}, {"4", 1}});".
TANDEM_ONCE [[nodiscard]] std::string placed_text(GraphView network,
                                                  std::vector<int> const& device);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// The nodes of a network by their paths: a tree whose least list of entries is found from the
/// leaves up, for each device that the entries above may have set.
class PathTree {
 public:
  PathTree(GraphView network, std::vector<int> const& device)
      : devices_{1 + *std::max_element(device.begin(), device.end())} {
    tree_.push_back({});
    for (int n = 1; n < network.nodes; ++n) {
      Branch& branch = tree_[insert(network.node[n].path)];
      int const own = device[static_cast<std::size_t>(n)];
      expects(branch.device < 0 || branch.device == own,
              "placed_paths(network, device): give nodes of one path one device");
      branch.device = own;
    }
    for (std::size_t b = tree_.size(); b-- > 0;) {  // what is below a branch stands behind it
      count(tree_[b]);
    }
  }

  /// Each path before those below it, which take from it.
  [[nodiscard]] std::vector<PlacedPath> entries() const {
    std::vector<PlacedPath> list;
    write(tree_[0], 0, list);
    return list;
  }

 private:
  static constexpr int never = std::numeric_limits<int>::max() / 2;

  struct Branch {
    Path path{};
    int device = -1;                   // of the node that has this path, if one has
    std::vector<std::size_t> below{};  // in tree_
    std::vector<int> entries{};        // needed below, where this one is on device d
    int least_device = 0;              // with the fewest
  };

  std::size_t insert(Path const& path) {
    std::size_t at = 0;
    for (int i = 0; i < path.depth; ++i) {
      std::size_t next = 0;  // the root is below none
      for (std::size_t const child : tree_[at].below) {
        next = tree_[child].path.part[i] == path.part[i] ? child : next;
      }
      if (next == 0) {
        next = tree_.size();
        tree_[at].below.push_back(next);
        tree_.push_back({.path = path});
        tree_.back().path.depth = static_cast<std::int16_t>(i + 1);
      }
      at = next;
    }
    return at;
  }

  // Entries for a branch and all below it, where those above it have set device d.
  [[nodiscard]] int needed(Branch const& branch, int d) const {
    auto const at = [&](int device) { return branch.entries[static_cast<std::size_t>(device)]; };
    return std::min(at(d), 1 + at(branch.least_device));
  }

  void count(Branch& branch) {
    for (int d = 0; d < devices_; ++d) {
      int sum = branch.device < 0 || branch.device == d ? 0 : never;
      for (std::size_t const child : branch.below) {
        sum = std::min(never, sum + needed(tree_[child], d));
      }
      branch.entries.push_back(sum);
    }
    branch.least_device = static_cast<int>(
        std::min_element(branch.entries.begin(), branch.entries.end()) - branch.entries.begin());
  }

  void write(Branch const& branch, int d, std::vector<PlacedPath>& list) const {
    if (branch.entries[static_cast<std::size_t>(d)] > needed(branch, d)) {
      d = branch.least_device;
      list.push_back({to_string(branch.path), d});
    }
    for (std::size_t const child : branch.below) {
      write(tree_[child], d, list);
    }
  }

  int devices_;
  std::vector<Branch> tree_{};
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<PlacedPath> placed_paths(GraphView network,
                                                 std::vector<int> const& device) {
  return detail::PathTree{network, device}.entries();
}

TANDEM_ONCE std::string placed_text(GraphView network, std::vector<int> const& device) {
  std::string text;
  std::string line = "inline constexpr auto table = place<Net>({";
  bool first = true;
  for (PlacedPath const& entry : placed_paths(network, device)) {
    std::string const next = "{\"" + entry.path + "\", " + std::to_string(entry.device) + "}";
    line += first ? "" : ",";
    if (line.size() + next.size() > 95) {
      text += line + "\n";
      line = "   ";
    }
    line += (first ? "" : " ") + next;
    first = false;
  }
  return text + line + "});\n";
}

}  // namespace tandem

#endif
