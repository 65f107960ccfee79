// SPDX-License-Identifier: Apache-2.0
// expect-error: Shares<W>: one of both is Frozen and the other is trained; freeze both
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

struct Words : Embedding<5, 4> {};

#ifdef TANDEM_COMPILE_FAIL
struct Net
    : Network<Tokens<8, 5>, Sequential<Frozen<Words>, RmsNorm<>, Vocabulary<5, Shares<Words>>>> {};
#else
struct Net : Network<Tokens<8, 5>,
                     Sequential<Frozen<Words>, RmsNorm<>, Frozen<Vocabulary<5, Shares<Words>>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
