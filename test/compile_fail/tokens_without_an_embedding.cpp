// SPDX-License-Identifier: Apache-2.0
// expect-error: this layer wants numbers, but its input are the network's Tokens: put an
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/smooth_activation.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<8, 5>, Sequential<Gelu, Embedding<5, 4>>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Gelu>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
