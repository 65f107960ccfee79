// SPDX-License-Identifier: Apache-2.0
// What the simulator says that two V100 gain on GNMT and BigLSTM, from costs that were measured,
// beside what Pal et al. 2019 had.
//   bench_two_way ../shared/profiles

#include <cstdio>
#include <filesystem>
#include <string>

#include <tandem/graph/lower.hpp>
#include <tandem/models/big_lstm.hpp>
#include <tandem/plan/cost/graph_file.hpp>

#include "two_way/gains.hpp"

namespace {

void print(char const* what, two_way::Gain const& gain, double published) {
  std::printf("%-34s %9.1f %9.1f %8.2f %10.2f   %s\n", what, 1e3 * gain.one, 1e3 * gain.two,
              gain.speedup(), published, gain.how.c_str());
}

void print_gnmt(std::string const& path) {
  tandem::CostGraph const profile = tandem::read_graph_file(path).graph;
  two_way::Gain const gain = two_way::gnmt(profile);
  two_way::Gain const gpipe = two_way::gnmt(profile, two_way::Tried::gpipe);
  print("GNMT, 4 x 32 sentences", gpipe, two_way::published_gnmt);
  print("  the best schedule", gain, two_way::published_gnmt);
  print("  backward divided as forward", two_way::gnmt(two_way::with_even_backward(profile)),
        two_way::published_gnmt);
  std::printf(
      "  GPipe has 1.15 unless one V100 does 128 sentences at once in less than %.0f %% of that\n",
      100 * two_way::published_gnmt / gpipe.speedup());
}

}  // namespace

int main(int argc, char** argv) {
  using Net =
      tandem::models::BigLstm<793'470, 8192, 1024, 2, tandem::Stateful, tandem::RowGradient>;
  tandem::GraphView const big_lstm = tandem::graph<Net>;
  std::printf("%-34s %9s %9s %8s %10s   %s\n", "", "one, ms", "two, ms", "speedup", "published",
              "how");
  std::string const path = std::string{argc > 1 ? argv[1] : "../shared/profiles"} + "/gnmt.txt";
  if (std::filesystem::exists(path)) {
    print_gnmt(path);
  } else {
    std::printf("GNMT skipped: there is no %s, PipeDream's profile\n", path.c_str());
  }
  print("BigLSTM, 4 x 64 sequences",
        two_way::big_lstm_microbatches(big_lstm, two_way::Tried::gpipe),
        two_way::published_big_lstm);
  print("  the best schedule", two_way::big_lstm_microbatches(big_lstm),
        two_way::published_big_lstm);
  for (int const chunks : {2, 4, 5, 10, 20}) {
    std::string const what = "BigLSTM, 256, chunks of time: " + std::to_string(chunks);
    print(what.c_str(), two_way::big_lstm_chunks(big_lstm, chunks), two_way::published_big_lstm);
  }
}
