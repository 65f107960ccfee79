// SPDX-License-Identifier: Apache-2.0
// expect-error: the parts that meet here are of different times
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/time_pool.hpp>

using namespace tandem;

struct Memory;
struct Source : Sequential<Input<0>, Embedding<5, 2>, Let<Memory>> {};

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Inputs<Tokens<4, 5>, Tokens<4, 5>>,
                     Sequential<Source, Input<1>, Embedding<5, 2>,
                                Concat<Sequential<>, Use<Memory>>, LastRow>> {};
#else
struct Net : Network<Inputs<Tokens<4, 5>, Tokens<4, 5>>,
                     Sequential<Source, Input<1>, Embedding<5, 2>, LastRow,
                                Concat<Sequential<>, Sequential<Use<Memory>, LastRow>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
