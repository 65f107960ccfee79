// SPDX-License-Identifier: Apache-2.0
// expect-error: InitBias<Law>: Law is InitNormal or InitUniform
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/recurrent.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Law = InitBias<NoBias>;
#else
using Law = InitBias<InitUniform<1, 10>>;
#endif
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 12>, Lstm<8, Law>>> {};

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
