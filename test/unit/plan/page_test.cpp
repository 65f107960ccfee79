// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/page/mesh_page.hpp>
#include <tandem/plan/page/page.hpp>

namespace page_test {

using namespace tandem;

Plan plan(StrategyValue const& worker, int devices, double seconds, double memory = 1e9) {
  return {.worker = worker,
          .workers = devices / worker.replica_devices(),
          .step = {.seconds = seconds, .memory = memory, .sizes = {2, 1}},
          .time = {.step = seconds, .steps_per_epoch = 1, .epochs = 1}};
}

StrategyValue const alone{};
StrategyValue const cut = detail::chain_worker("sequential", 2);
StrategyValue const pipeline = detail::chain_worker("gpipe", 2, 4);
StrategyValue const late = detail::chain_worker("pipedream", 2);

/// A hybrid wins from 4 devices on.
SearchResult result() {
  Plan shown = plan(late, 2, 50);
  shown.late_gradients = shown.only_shown = true;
  SearchResult all{.one_device = 1000};
  all.of = {{2, {plan(alone, 2, 500), plan(cut, 2, 600), plan(pipeline, 2, 700), shown}},
            {4, {plan(pipeline, 4, 250), plan(alone, 4, 300), plan(cut, 4, 400)}}};
  return all;
}

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("families: the fastest of a kind, by devices") {
  SearchResult const all = result();
  std::vector<StrategyFamily> const families = strategy_families(all);
  REQUIRE(families.size() == 4);
  CHECK(families[0].name == "DataParallel");
  CHECK(families[1].name == "ModelParallel");
  CHECK(families[2].name == "Pipeline");
  CHECK(families[3].name == "late gradients");
  REQUIRE(families[2].best.size() == 2);
  CHECK(families[2].best[1].devices == 4);
  CHECK(families[2].best[1].plan->time.seconds() == 250);
  CHECK(families[3].best.size() == 1);

  SearchResult two = result();
  two.of[1].plans.push_back(plan(alone, 4, 200));  // not sorted
  two.of[1].plans.push_back(plan(alone, 4, 100));
  two.of[1].plans.back().problem = "too large";
  std::vector<StrategyFamily> const again = strategy_families(two);
  CHECK(again[0].best[1].plan->time.seconds() == 200);
  two.of[0].plans[0].worker = detail::placed_worker(2);
  two.of[0].plans[1].worker = detail::chain_worker("cross_model", 2);
  two.of[0].plans[2].worker.checkpoint = {CheckpointRule::boundaries};
  std::vector<StrategyFamily> const others = strategy_families(two);
  REQUIRE(others.size() == 7);
  CHECK(others[2].name == "ModelParallel, placed");
  CHECK(others[3].name == "CrossModelParallel");
  CHECK(others[5].name == "Pipeline, Checkpoint");
}

TEST_CASE("times on the axis are those that people count in") {
  std::string text;
  for (detail::TimeTick const& tick : detail::time_ticks(20, 2 * 86'400)) {
    text += tick.text + ", ";
  }
  CHECK(text == "30 s, 1 min, 2 min, 5 min, 10 min, 30 min, 1 h, 2 h, 5 h, 12 h, 1 day, 2 days, ");
  std::vector<detail::TimeTick> const small = detail::time_ticks(1.5e-3, 6e-3);
  REQUIRE(small.size() == 2);
  CHECK(small[0].text == "0.002 s");
  CHECK(small[0].seconds == doctest::Approx(2e-3));
  CHECK(detail::time_ticks(90 * 86'400.0, 600 * 86'400.0).front().text == "100 days");
}

TEST_CASE("the crossover is marked where a hybrid begins to win, and only there") {
  std::string const svg = time_svg(result(), strategy_families(result()));
  CHECK(count(svg, "<g class=\"crossover\" data-devices=\"4\">") == 1);
  CHECK(svg.find("a hybrid wins from 4 devices on") != svg.npos);
  CHECK(count(svg, "<circle") == 7);
  SearchResult never = result();
  never.of[1].plans[0].time.step = 350;
  CHECK(count(time_svg(never, strategy_families(never)), "crossover") == 0);
}

TEST_CASE("one number of devices, and nothing that fits") {
  SearchResult none{.one_device = 1000};
  none.of = {{2, {plan(alone, 2, 1, 20e9), plan(cut, 2, 1, 12e9), plan(pipeline, 2, 1, 13e9)}}};
  for (Plan& one : none.of[0].plans) {
    one.problem = "a device needs more";
  }
  std::string const page = search_page(none, {.title = "t", .memory = 10e9});
  CHECK(page.find("Nothing fits") != page.npos);
  CHECK(count(page, "<circle") == 0);
  CHECK(count(page, "class=\"bar full\"") == 3);
  CHECK(count(page, "nan") == 0);
  CHECK(count(page, "inf") == 0);
  SearchResult one = result();
  one.of.pop_back();
  std::string const svg = time_svg(one, strategy_families(one));
  CHECK(count(svg, "<circle") == 4);
  CHECK(count(svg, "nan") == 0);
}

TEST_CASE("bars: of each family the first that is, against what a device has") {
  SearchResult all = result();
  all.of[1].plans[2].problem = "a device needs 20 GB";
  all.of[1].plans[2].step.memory = 20e9;
  std::string const svg = memory_svg(all, 10e9);
  CHECK(count(svg, "class=\"bar\"") == 2);
  CHECK(count(svg, "class=\"bar full\"") == 1);
  CHECK(svg.find("width=\"560.0\" height=\"18\" data-bytes=\"20000000000\"") != svg.npos);
  CHECK(svg.find("x1=\"450.0\" y1=\"18\"") != svg.npos);  // 10 of 20 GB on 560, from 170 on
  CHECK(svg.find("a device has 10 GB") != svg.npos);
}

TEST_CASE("what stands in a page may be any text") {
  PageExtras const extras{.title = "a \"<script>\" & \x01]]> b", .memory = 1, .step_svg = "<svg/>"};
  SearchResult all = result();
  all.sources.nodes = "<b>";
  std::string const page = search_page(all, extras);
  CHECK(count(page, "a &quot;&lt;script&gt;&quot; &amp; ]]&gt; b") == 2);
  CHECK(count(page, "<script>") == 1);
  CHECK(page.find("costs:  &lt;b&gt;") != page.npos);
  CHECK(count(page, "<tr data-devices=\"2\"") == 4);
  CHECK(page.find("A step of the recommended strategy") != page.npos);
  CHECK(page.find("<pre>using Strategy = Hybrid&lt;DataParallel&lt;2&gt;, Pipeline&lt;GPipe, 4,") !=
        page.npos);
  CHECK(search_page(all, {}).find("A step of") == page.npos);
}

TEST_CASE("a page of meshes") {
  MeshTask const task{
      .sizes = {.layers = 24, .width = 2048, .heads = 16, .context = 1024, .vocabulary = 50'304},
      .machine = dgx_a100(),
      .batch = 64};
  MeshResult result;
  std::size_t rows = 0;
  for (int const devices : {1, 8, 64}) {
    MeshSearch found = search_meshes(task, devices);
    rows += found.plans.size();
    auto why = mesh_reasons(task, devices, {}, found.plans.front().layout);
    result.of.push_back({devices, std::move(found), std::move(why)});
  }
  std::string const page = mesh_page(task, result, "gpt <on> a machine", 80e9);
  CHECK(count(page, "<tr data-devices=") == rows);
  CHECK(count(page, "gpt &lt;on&gt; a machine") == 2);
  CHECK(count(page, "data-family=\"DataParallel\"") == 1);
  CHECK(count(page, "data-family=\"Pipeline, TensorParallel\"") == 1);
  CHECK(count(page, "class=\"bar\"") == count(page, "data-family="));
  CHECK(count(page, "data-seconds=") > 3 * 7);  // the parts of three steps, and points
  CHECK(page.find("using Strategy = ") != page.npos);
  CHECK(page.find("One pipeline&#39;s ") + page.find("One pipeline's ") != 2 * page.npos);
  CHECK(count(page, "nan") == 0);
  CHECK(count(page, "inf<") == 0);

  int const from = detail::meshes_win_from(result);
  CHECK(count(page, "class=\"crossover\"") == (from > 0 ? 1U : 0U));
  CHECK(detail::meshes_win_from({}) == 0);
  MeshResult turned = result;
  for (MeshResult::Devices& own : turned.of) {
    own.found.plans.front().layout = own.devices == 1 ? MeshLayout{} : MeshLayout{.pipeline = 8};
  }
  CHECK(detail::meshes_win_from(turned) == 8);
  CHECK(mesh_page(task, turned, "", 80e9)
            .find("a model that is cut or shared wins from 8 devices on") != page.npos);
  for (MeshResult::Devices& own : turned.of) {
    own.found = {};
  }
  CHECK(mesh_page(task, turned, "", 80e9).find("Nothing fits") != page.npos);
}

}  // namespace page_test
