// Places a measured dataflow graph on devices, or cuts a chain of loads into parts.
//   plan --place --graph resnet50.txt --devices 2 --link-gbps 25
//   plan --partition "3,1,4,1,5" --parts 2
// Flags: plan --help. Needs no device.

#include <cstdio>

#include <tandem/plan/chain_partition.hpp>
#include <tandem/plan/pipedream_graph.hpp>
#include <tandem/plan/place.hpp>
#include <tandem/plan/placement_report.hpp>

#include "plan_arguments.hpp"

namespace td = tandem;

std::string place(PlanArguments const& a) {
  td::PlacementTask const task{.devices = a.devices,
                               .bandwidth = a.link_gbps * 1e9,
                               .latency = a.latency_us * 1e-6,
                               .memory = a.memory < 0 ? -1 : static_cast<std::int64_t>(a.memory),
                               .bytes_of_parameter = a.optimizer == "sgd"
                                                         ? 2.0  // weights and gradients
                                                     : a.optimizer == "adam" ? 4.0
                                                                             : 3.0};
  td::CostGraph const graph = td::read_pipedream_graph(a.graph);
  td::GraphPlacement const placement = td::place_graph(graph, task, {.seconds = a.seconds});
  return a.format == "json" ? td::placement_json(graph, task, placement)
                            : td::placement_text(graph, task, placement);
}

std::string partition(PlanArguments const& a) {
  td::ChainPartition const parts = td::partition_chain(a.loads, a.parts);
  std::string sizes;
  for (int const size : parts.sizes)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  std::string const load = td::detail::digits(parts.max_load, 15);
  if (a.format == "json")
    return "{\"max_load\": " + load + ", \"sizes\": [" + sizes + "]}\n";
  return "sizes " + sizes + "; the heaviest part has " + load + "\n";
}

int main(int argc, char** argv) try {
  PlanArguments const a = parse_plan_arguments({argv + 1, argv + argc});
  std::string const text = a.help ? plan_help : a.place ? place(a) : partition(a);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw std::runtime_error{"the output cannot be written; is the disk full?"};
} catch (td::FileError const& error) {  // says the file, line and column
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
} catch (std::exception const& error) {
  std::fprintf(stderr, "plan: %s\n", error.what());
  return 2;
}
