// SPDX-License-Identifier: Apache-2.0
// GNMT in its sizes, as published: parts, names, initial values, and what options change.

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include <tandem/describe.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/models/gnmt.hpp>
#include <tandem/tandem.hpp>

namespace tandem {
namespace gnmt_test {

static_assert(graph<models::Gnmt<32000, 1024, 4>>.parameter_elements() == 160'015'617);
static_assert(graph<models::Gnmt<32320, 1024, 8, 50, models::OwnWords>>.parameter_elements() ==
              277'718'593);

using Small = models::Gnmt<11, 6, 3, 5>;
using Dropped = models::Gnmt<11, 6, 3, 5, Percent<20>>;

template <class Net>
int count(std::string_view name) {
  int found = 0;
  for (int n = 0; n < graph<Net>.nodes; ++n) {
    found += graph<Net>.node[n].name == name ? 1 : 0;
  }
  return found;
}

TEST_CASE("the encoder has N + 1 top-level parts and the decoder N + 3") {
  static_assert(graph<models::Gnmt<11, 6, 2, 5>>.tops == 8);
  static_assert(graph<Small>.tops == 10);
  auto const& net = graph<Small>;
  int memory = 0;  // what attention reads beside its query
  for (int n = 0; n < net.nodes; ++n) {
    if (net.node[n].name == "Bahdanau") {
      memory = net.source[net.node[n].first_edge + 1];
    }
  }
  CHECK(net.node[memory].top == 3);
  CHECK(net.node[memory].named);
}

TEST_CASE("a dropout stands before each recurrent layer and changes no parameter's name") {
  CHECK(count<Dropped>("Dropout") == 6);
  CHECK(count<Small>("Dropout") == 0);
  REQUIRE(graph<Dropped>.parameters == graph<Small>.parameters);
  auto const& net = graph<Small>;
  for (int p = 0; p < net.parameters; ++p) {
    CHECK(parameter_name(graph<Dropped>, p) == parameter_name(net, p));
  }
}

TEST_CASE("words are one parameter, unless the decoder has its own") {
  using Own = models::Gnmt<11, 6, 3, 5, models::OwnWords>;
  CHECK(graph<Own>.parameter_elements() - graph<Small>.parameter_elements() == 11 * 6);
}

TEST_CASE("weights and the first biases begin uniform in ±0.1, the biases of states at 0") {
  auto const& net = graph<Small>;
  for (int p = 0; p < net.parameters; ++p) {
    Parameter const& of = net.parameter[p].parameter;
    std::string_view const name = of.name;
    INFO(name);
    if (name == "bias_hh_l0" || name == "bias_hh_l0_reverse" || name == "normalize_bias") {
      CHECK(of.init.law == Init::Law::constant);
      CHECK(of.init.value == 0.0F);
    } else if (name == "normalize_scalar") {
      CHECK(of.init.law == Init::Law::constant);
      CHECK(of.init.value == doctest::Approx(0.408248));
    } else {
      CHECK(of.init.law == Init::Law::uniform);
      CHECK(of.init.value == 0.1F);
    }
  }
}

TEST_CASE("describe says what a stage hands on that it does not read") {
  using Three = Pipeline<OneFOneB, 4, Split<4>, Split<2>, Split<4>>;
  std::string const text = describe<Small, Three>({.batch = 8});
  CHECK(text.find("relayed: what 3.0 gives, 5x6, goes through stage 1, and its gradient back, 0.1 "
                  "KiB a sample each\n") != std::string::npos);
  CHECK(text.find("shared: 0.weight, counted once, lies with Embedding of part 0 and Embedding of "
                  "part 4") != std::string::npos);
  CHECK(describe<Small, Pipeline<OneFOneB, 4, Split<4>, Split<6>>>().find("relayed") ==
        std::string::npos);
}

}  // namespace gnmt_test
}  // namespace tandem
