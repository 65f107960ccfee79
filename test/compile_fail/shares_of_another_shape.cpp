// SPDX-License-Identifier: Apache-2.0
// expect-error: Shares<W>: the weight of W has another shape; a Vocabulary<V, Shares<W>> on C
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

struct Words : Embedding<5, 4> {};

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<8, 5>, Sequential<Words, Vocabulary<6, Shares<Words>>>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Words, Vocabulary<5, Shares<Words>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
