// SPDX-License-Identifier: Apache-2.0
// expect-error: a layer that gives the loss, such as Vocabulary, must be the network's last
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Vocabulary<5>, Gelu>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Gelu, Vocabulary<5>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
