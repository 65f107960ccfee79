// SPDX-License-Identifier: Apache-2.0
// expect-error: Dropout<Rate>: Rate is Percent<0> to Percent<99>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<4>, Sequential<Dropout<int>>> {};
#else
struct Net : Network<Vector<4>, Sequential<Dropout<Percent<20>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
