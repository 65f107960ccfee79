// SPDX-License-Identifier: Apache-2.0
// expect-error: TensorParallel: a node takes another spread than its input has
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Tokens<4, 3>, Sequential<Embedding<3, 2>, Linear<4>, ReLU, Linear<2>,
                                              LayerNorm<>, Linear<4>, Linear<2>, Vocabulary<3>>> {};

struct Own {
  static constexpr auto dealt = spread<spread_size(graph<Net>, {2})>(graph<Net>, {2});
  static constexpr GraphSize size = dealt_size(dealt, 2);
  static constexpr auto graph = [] {
    auto own = deal_rows<size>(dealt, 2);
#ifdef TANDEM_COMPILE_FAIL
    int enter = 0;
    while (own.node[enter].kind != NodeKind::enter) {
      ++enter;
    }
    own.source[own.node[enter + 1].first_edge] = enter - 1;  // the Linear reads a rank's rows
#endif
    return own;
  }();
  static constexpr SpreadVerdict verdict = check_spreads(graph);
};

int main() { return detail::SpreadsAreSound<Own::verdict.fault, Own::verdict.node>::value ? 0 : 1; }
