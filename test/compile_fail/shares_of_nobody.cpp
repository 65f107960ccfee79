// SPDX-License-Identifier: Apache-2.0
// expect-error: Shares<W>: W must stand before it in the network, as a layer type of its own:
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

struct Words : Embedding<5, 4> {};

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Vocabulary<5, Shares<Words>>>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Words, Vocabulary<5, Shares<Words>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
