// SPDX-License-Identifier: Apache-2.0
// expect-error: this layer wants a sequence (T, C): begin the network with Tokens<T, V> and an
#include <tandem/graph/lower.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/layers/embedding.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<12>, Sequential<Attention<4>>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 12>, Attention<4>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
