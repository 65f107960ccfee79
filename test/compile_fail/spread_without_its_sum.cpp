// SPDX-License-Identifier: Apache-2.0
// expect-error: TensorParallel: a node takes another spread than its input has
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<6>, ReLU, Linear<2>>> {};

struct Own {
  static constexpr GraphSize size = spread_size(graph<Net>, {2});
  static constexpr auto graph = [] {
    auto own = spread<size>(tandem::graph<Net>, {2});
#ifdef TANDEM_COMPILE_FAIL
    own.source[own.node[6].first_edge] = 4;  // the bias reads what one rank has, not the Reduce
#endif
    return own;
  }();
  static constexpr SpreadVerdict verdict = check_spreads(graph);
};

int main() { return detail::SpreadsAreSound<Own::verdict.fault, Own::verdict.node>::value ? 0 : 1; }
