// SPDX-License-Identifier: Apache-2.0
// expect-error: Lstm<Hidden, Options...>: give a positive number; options are OneBias or NoBias
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/recurrent.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 12>, Lstm<8, int>>> {};
#else
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 12>, Lstm<8, NoBias>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
