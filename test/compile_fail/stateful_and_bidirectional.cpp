// SPDX-License-Identifier: Apache-2.0
// expect-error: Stateful with Bidirectional: the other direction begins at the end of a text
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/recurrent.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 12>, Gru<8, Stateful, Bidirectional>>> {
};
#else
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 12>, Gru<8, Stateful>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
