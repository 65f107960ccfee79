// SPDX-License-Identifier: Apache-2.0
// expect-error: Join<Rule, Branches...>: give two or more branches
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/own_join.hpp>

using namespace tandem;

struct Product : ElementJoin<Product> {
  static constexpr std::string_view name = "Product";
  static auto value(auto a, auto b) { return a * b; }
  static auto first_slope(auto, auto b) { return b; }
  static auto second_slope(auto a, auto) { return a; }
};

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<8>, Sequential<Join<Product, Linear<8>>>> {};
#else
struct Net : Network<Vector<8>, Sequential<Join<Product, Linear<8>, Sequential<>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
