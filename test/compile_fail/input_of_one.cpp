// SPDX-License-Identifier: Apache-2.0
// expect-error: Input<1>: this network has one input
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/time_pool.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 5>, Sequential<Input<1>, Embedding<5, 2>>> {};
#else
struct Net : Network<Tokens<4, 5>, Sequential<Input<0>, Embedding<5, 2>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
