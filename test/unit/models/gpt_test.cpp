// SPDX-License-Identifier: Apache-2.0
// GPT-2 in its sizes, as published, and what options change of a GPT.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/models/gpt.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace tandem {
namespace gpt_test {

static_assert(graph<models::Gpt2<>>.parameter_elements() == 124'439'808);
static_assert(graph<models::Gpt2Medium<>>.parameter_elements() == 354'823'168);
static_assert(graph<models::Gpt2Large<>>.parameter_elements() == 774'030'080);
static_assert(graph<models::Gpt2Xl<>>.parameter_elements() == 1'557'611'200);

TEST_CASE("each block is a top-level part, as Split counts them") {
  static_assert(graph<models::Gpt2<>>.tops == 16);
  static_assert(graph<models::Gpt2Xl<>>.tops == 52);
}

template <class... Options>
std::string mebibytes() {
  DeviceMemory const of =
      device_memory<models::Gpt2<>, DataParallel<8, Options...>, AdamW, Fp32>(8, 0);
  auto const rounded = [](std::int64_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20); };
  return rounded(of.parameters) + " " + rounded(of.gradients) + " " + rounded(of.optimizer_state) +
         " " + rounded(of.parameters + of.gradients + of.optimizer_state);
}

TEST_CASE("what eight replicas have of GPT-2 small: the table of docs/data_parallel.md") {
  CHECK(mebibytes() == "622 622 1244 2488");
  CHECK(mebibytes<ShardedState>() == "622 622 155 1399");
  CHECK(mebibytes<ShardedGradients>() == "622 378 155 1156");
  CHECK(mebibytes<ShardedParameters>() == "378 378 155 912");
}

TEST_CASE("without biases there are 11 C fewer a block, and C at the end") {
  using With = models::Gpt<65, 64, 128, 4, 4, Gelu>;
  using Without = models::Gpt<65, 64, 128, 4, 4, NoBias, Gelu>;
  // products 9 C, norms 2 C, of each block; the last norm's C
  CHECK(graph<With>.parameter_elements() - graph<Without>.parameter_elements() ==
        4 * 11 * 128 + 128);
}

template <class Net>
int count(std::string_view name) {
  int found = 0;
  for (int n = 0; n < graph<Net>.nodes; ++n) {
    found += graph<Net>.node[n].name == name ? 1 : 0;
  }
  return found;
}

TEST_CASE("a dropout stands behind the positions and at the end of each branch") {
  using Net = models::Gpt<65, 64, 128, 4, 3, Percent<10>>;
  CHECK(count<Net>("Dropout") == 1 + 2 * 3);
  CHECK(count<Net>("GeluTanh") == 3);
  CHECK(count<models::Gpt<65, 64, 128, 4, 3, Gelu>>("Dropout") == 0);
  CHECK(count<models::Gpt<65, 64, 128, 4, 3, Gelu>>("Gelu") == 3);
}

TEST_CASE("weights before a residual sum begin smaller, by the root of how many there are") {
  using Net = models::Gpt<65, 64, 128, 4, 8>;
  auto const& net = graph<Net>;
  int small = 0;
  for (int p = 0; p < net.parameters; ++p) {
    Init const& init = net.parameter[p].parameter.init;
    small += init.law == Init::Law::normal && init.value == doctest::Approx(0.02 / 4.0) ? 1 : 0;
  }
  CHECK(small == 16);
}

}  // namespace gpt_test
}  // namespace tandem
