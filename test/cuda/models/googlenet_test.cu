// SPDX-License-Identifier: Apache-2.0

/// @file
/// GoogLeNet: on a GPU what it is on the host, whole and in stages, on one rank and on several.

#include <map>
#include <string>

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#endif

#include "check_model.hpp"

namespace tandem::test {
namespace {

struct Google : models::GoogLeNet<10> {};

TEST_CASE("GoogLeNet") { check_model<Google, SingleDevice<>, SingleDevice<>>(); }

#if !defined(TANDEM_CUDA_EMULATED)  // each would take minutes there

TEST_CASE("GoogLeNet on 2 and 4 ranks") {
  check_model<Google, DataParallel<2>, SingleDevice<Microbatches<2>>>();
  check_model<Google, DataParallel<4>, SingleDevice<Microbatches<4>>>();
}

TEST_CASE("GoogLeNet in two stages, on 2 and 4 ranks") {
  using One = SingleDevice<Microbatches<4>>;
  check_model<Google, Pipeline<GPipe, 4, Split<5>, Split<9>, Checkpoint<Boundaries>>, One>();
  check_model<Google, Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<5>, Split<9>>>, One>();
}

TEST_CASE("GoogLeNet, reproducible: the same bits on 1, 2 and 4 ranks") {
  auto const one = bits_of<Google, SingleDevice<Microbatches<4>, Reproducible<>>>();
  CHECK(one == bits_of<Google, DataParallel<2, Microbatches<2>, Reproducible<>>>());
  CHECK(one == bits_of<Google, DataParallel<4, Reproducible<>>>());
}

#endif

#if defined(TANDEM_CUDA_EMULATED) && defined(TANDEM_CUDNN)

// More would cost a GPU time that nobody asked for: mend what added them. Fewer: write the new
// number here.
TEST_CASE("GoogLeNet in bf16 is a graph of 441 nodes, whatever the batch") {
  Trainer<Google, SingleDevice<>, BasicCuda<CuDnn, Bf16>> trainer{
      {.batch = 2, .optimizer = Sgd{.learning_rate = 0.01F, .momentum = 0.9F}}};
  for (int const batch : {1, 2}) {
    Samples<float> const data{trainer.input, 10, batch, 1};
    trainer.step(data.x, data.y);
    trainer.step(data.x, data.y);  // recorded
    std::map<std::string, int> count;
    for (auto const& work : cuda_emulator::graph_work()) {
      ++count[work.name.substr(0, work.name.find('<'))];
    }
    int all = 0;
    std::string list;
    for (auto const& [name, nodes] : count) {
      all += nodes;
      list += std::to_string(nodes) + " " + name + "\n";
    }
    INFO(list);
    CHECK(all == 441);
    CHECK(count["cudnnBackendExecute"] == 137);  // three of 46 convolutions, less one
  }
}

#endif

}  // namespace
}  // namespace tandem::test
