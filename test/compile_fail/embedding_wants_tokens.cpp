// SPDX-License-Identifier: Apache-2.0
// expect-error: Embedding wants indices: make it the first layer of a Network<Tokens<T, V>, ...>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Embedding<5, 4>>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
