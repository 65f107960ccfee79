// SPDX-License-Identifier: Apache-2.0

/// @file
/// Splits that others have published for measured graphs, beside those of the planner, under the
/// same two cost models.
///
///   bench_rivals FOLDER [SECONDS]
///
/// FOLDER has vgg16.txt and resnet50.txt, the profiles of msr-fiddle/pipedream. The heaviest device
/// is the model of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS
/// 2020): a device's load is what its nodes take, and the transfer of each tensor that leaves or
/// enters it, at the rate of the paper's instances of these graphs. The step is this library's, on
/// links of 25 GB/s; for it nodes are placed for so many seconds (10).
///
/// Splits: PipeDream's for VGG-16 on 4 devices, runtime/image_classification/models/vgg16/
/// gpus=4_straight; the paper's human expert's for ResNet-50 on 6, msr-fiddle/dnn-partitioning,
/// human-experts/resnet50_inference_expert.json. Both repositories are under the MIT licence.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/graph_file.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/place.hpp>

namespace td = tandem;

namespace {

struct Published {
  char const* file;
  char const* whose;
  std::vector<int> last;  // number of each device's last node in the file
};

Published const published[] = {
    {"vgg16.txt", "PipeDream", {4, 13, 24, 41}},
    {"resnet50.txt", "human expert", {5, 37, 79, 121, 163, 177}},
};

/// Device of each node, whose number stands behind "node" in its name.
std::vector<int> split_of(td::CostGraph const& graph, Published const& split) {
  std::vector<int> device;
  for (td::CostNode const& node : graph.node) {
    int const number = std::atoi(node.name.c_str() + 4);
    device.push_back(static_cast<int>(
        std::lower_bound(split.last.begin(), split.last.end(), number) - split.last.begin()));
  }
  return device;
}

/// Consecutive nodes, the heaviest part as light as it can be.
std::vector<int> cut_of(td::CostGraph const& graph, int devices) {
  std::vector<double> loads;
  for (td::CostNode const& node : graph.node) {
    loads.push_back(node.time());
  }
  std::vector<int> device;
  int part = 0;
  for (int const size : td::partition_chain(loads, devices).sizes) {
    device.insert(device.end(), static_cast<std::size_t>(size), part++);
  }
  return device;
}

/// Seconds of the heaviest device. A tensor of b bytes passes in b / 2^31 ms, as in the instances,
/// on its way forward and on its gradient's way back.
double heaviest(td::CostGraph const& graph, std::vector<int> const& device) {
  std::vector<double> load(
      static_cast<std::size_t>(1 + *std::max_element(device.begin(), device.end())));
  std::set<std::pair<int, int>> moved;  // tensor, a device that it leaves or enters
  for (std::size_t n = 0; n < device.size(); ++n) {
    load[static_cast<std::size_t>(device[n])] += graph.node[n].time();
  }
  for (td::CostEdge const& edge : graph.edge) {
    int const from = device[static_cast<std::size_t>(edge.from)];
    int const to = device[static_cast<std::size_t>(edge.to)];
    for (int const end : {from, to}) {
      if (from != to && moved.emplace(edge.from, end).second) {
        load[static_cast<std::size_t>(end)] +=
            2e-3 *
            static_cast<double>(graph.node[static_cast<std::size_t>(edge.from)].output_bytes) /
            2147483648.0;
      }
    }
  }
  return *std::max_element(load.begin(), load.end());
}

void print(std::string const& folder, Published const& split, double seconds) {
  td::CostGraph const graph = td::read_graph_file(folder + "/" + split.file).graph;
  auto const devices = static_cast<int>(split.last.size());
  std::vector<int> const theirs = split_of(graph, split);
  td::PlacementTask const task{.devices = devices};
  td::GraphPlacement const ours = td::place_graph(graph, task, {.seconds = seconds});
  std::printf("%-14s %-14s %7d %14.2f %14.2f %14.2f %14.2f %14.2f\n", split.file, split.whose,
              devices, 1e3 * heaviest(graph, theirs), 1e3 * heaviest(graph, cut_of(graph, devices)),
              1e3 * td::schedule_step(graph, task, theirs), 1e3 * ours.step,
              1e3 * ours.lower_bound);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_rivals FOLDER [SECONDS]\n");
    return 2;
  }
  std::printf("%-14s %-14s %7s %14s %14s %14s %14s %14s\n", "graph", "split of", "devices",
              "heaviest ms", "ours ms", "step ms", "ours ms", "at least ms");
  for (Published const& split : published) {
    print(argv[1], split, argc > 2 ? std::atof(argv[2]) : 10);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
