// SPDX-License-Identifier: Apache-2.0
// expect-error: Base<Value>: give a number of 2 or more
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/rotary_positions.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 12>, RotaryPositions<2, Base<1>>>> {};
#else
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 12>, RotaryPositions<2, Base<2>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
