// SPDX-License-Identifier: Apache-2.0
// expect-error: or a bias would be added on each rank
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<6>, ReLU, Linear<2>>> {};

struct Own {
  static constexpr GraphSize size = spread_size(graph<Net>, {2});
  static constexpr auto graph = [] {
    auto own = spread<size>(tandem::graph<Net>, {2});
#ifdef TANDEM_COMPILE_FAIL
    own.node[4].parameters = 2;
#endif
    return own;
  }();
  static constexpr SpreadVerdict verdict = check_spreads(graph);
};

int main() { return detail::SpreadsAreSound<Own::verdict.fault, Own::verdict.node>::value ? 0 : 1; }
