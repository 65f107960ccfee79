// SPDX-License-Identifier: Apache-2.0
// expect-error: Positions<Options...>: the option is InitNormal or InitUniform
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 2>, Positions<int>>> {};
#else
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 2>, Positions<>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
