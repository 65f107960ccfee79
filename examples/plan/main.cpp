// Says which strategy trains a network fastest, end to end, or a language model on thousands of
// devices; places a graph; simulates an action table on a machine; cuts a chain; compares two
// results.
//   plan --net inception_v3 --machine dgx-1-v100 --devices 1..256 --epochs "2048:4,16384:23"
//   plan --net gpt --layers 96 --width 12288 --heads 96 --machine dgx-a100 --devices 1024
//        --global-batch 1536
//   plan --place --graph resnet50.txt --devices 2 --link-gbps 25
//   plan --simulate 1f1b.csv --net resnet50 --machine dgx-1-v100 --svg 1f1b.svg
//   plan --partition "3,1,4,1,5" --parts 2
//   plan --compare before.json after.json
// Flags: plan --help. Needs no device.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <tandem/plan/place/place.hpp>
#include <tandem/plan/place/report.hpp>
#include <tandem/plan/search/bounded_search.hpp>
#include <tandem/plan/search/compare.hpp>
#include <tandem/plan/search/report.hpp>

#include "arguments.hpp"
#include "inputs.hpp"
#include "pictures.hpp"
#include "scaling.hpp"
#include "simulation.hpp"

namespace td = tandem;

/// Of up to 1,024 devices all plans; of more, or with --wide, those that may be the best, of wider
/// workers, too.
td::SearchResult found(PlanArguments const& a, td::SearchTask const& task) {
  auto const costs = [&](int samples) { return costs_of(a, samples); };
  auto const many =
      std::upper_bound(a.counts.begin(), a.counts.end(), a.wide ? 0 : most_listed_devices);
  td::SearchResult result = td::search_all(td::WorkerSteps{task, costs}, epochs_of(a),
                                           {a.counts.begin(), many}, sources_of(a, task));
  if (many != a.counts.end()) {
    td::SearchTask wide = task;
    wide.wide = true;
    wide.most_devices_a_worker = 128;
    for (auto& own : td::search_bounded(wide, costs, epochs_of(a), {many, a.counts.end()}).of) {
      result.of.push_back(std::move(own));
    }
  }
  return result;
}

std::string search(PlanArguments const& a) {
  td::SearchTask const task = search_task(a);
  td::SearchResult const result = found(a, task);
  draw(a, result, task);
  return a.format == "json" ? td::search_json(result) : td::search_text(result);
}

std::string place(PlanArguments const& a) {
  td::CostGraph const graph = costs_of(a, a.batch);
  td::PlacementTask const task = placement_task(a);
  double const seconds = a.net.empty() ? a.seconds : 0.8 * a.seconds;  // the rest is for the type
  td::GraphPlacement const placement = td::place_graph(graph, task, {.seconds = seconds});
  draw(a, graph, task, placement);
  std::string const type = placed_type(a, graph, task, placement.device);
  return a.format == "json" ? td::placement_json(graph, task, placement, type)
                            : td::placement_text(graph, task, placement) + type;
}

std::string compare(PlanArguments const& a) {
  auto const& [one, other] = a.compared;
  std::string const text = td::compare_results(read_text(one), one, read_text(other), other);
  return text.empty() ? "nothing differs\n" : text;
}

std::string text_of(std::vector<std::string> words) {
  PlanArguments const a = parse_plan_arguments(std::move(words));
  return !a.help.empty()          ? a.help
         : a.mode == placing      ? place(a)
         : a.mode == scaling      ? scaling_text(a)
         : a.mode == simulating   ? simulation_text(a)
         : a.mode == partitioning ? partition_text(a)
         : a.mode == comparing    ? compare(a)
                                  : search(a);
}

int main(int argc, char** argv) { return run("plan", text_of, {argv + 1, argv + argc}); }
