// SPDX-License-Identifier: Apache-2.0
// What the planner says of published training runs (published/rows.txt), and how far off it is:
// the rows that gave constants, then all others, the worst first.
//   bench_published bench/plan/published/rows.txt

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <tandem/io/file.hpp>

#include "published/networks.hpp"
#include "published/rows.hpp"

namespace {

struct Line {
  published::Row row;
  double seconds = 0;
  double error = 0;
  std::string how{};
};

std::string how(tandem::MeshPlan const& plan) {
  tandem::MeshStep const& step = plan.step;
  double const all = step.seconds() / 100;
  char text[200] = {};
  std::snprintf(text, sizeof text,
                "microbatch %d, %d chunks, %.0f GB; %%: computing %.0f products %.0f messages %.0f "
                "filling %.0f waiting %.0f sums %.0f update %.0f",
                plan.layout.microbatch, plan.layout.chunks, plan.memory.total() / 1e9,
                step.computing / all, step.products / all, step.messages / all, step.filling / all,
                step.waiting / all, step.sums / all, step.update / all);
  return text;
}

void print(char const* title, std::vector<Line> const& lines) {
  std::vector<double> errors;
  std::printf("%s\n  published       ours   error\n", title);
  for (Line const& line : lines) {
    std::printf("%9.4g s %9.4g s %+6.1f %%  %s: %s (%s)\n", published::published_seconds(line.row),
                line.seconds, 100 * line.error, line.row.source.c_str(), line.row.name.c_str(),
                line.how.c_str());
    errors.push_back(line.error);
  }
  if (!errors.empty()) {
    published::Errors const all = published::errors_of(errors);
    std::printf("%zu rows: median error %.1f %%, worst %.1f %%\n\n", errors.size(),
                100 * all.median, 100 * all.worst);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto const bytes =
      tandem::read_file(argc > 1 ? argv[1] : "bench/plan/published/rows.txt", std::size_t{1} << 20);
  std::vector<Line> fitted, others;
  for (published::Row const& row : published::read_rows({bytes.begin(), bytes.end()})) {
    Line line{.row = row};
    if (row.text("net") == "gpt") {
      auto const plan = published::plan_of(row);
      if (!plan) {
        std::printf("%s %s: nothing fits\n", row.source.c_str(), row.name.c_str());
        continue;
      }
      line.seconds = plan->step.seconds();
      line.how = how(*plan);
    } else {
      line.seconds = published::network_seconds(row);
      line.how = "data parallel";
    }
    line.error = line.seconds / published::published_seconds(row) - 1;
    (row.fitted ? fitted : others).push_back(line);
  }
  std::stable_sort(others.begin(), others.end(), [](Line const& a, Line const& b) {
    return std::fabs(a.error) > std::fabs(b.error);
  });
  print("constants were fitted to", fitted);
  print("held out, the worst first", others);
}
