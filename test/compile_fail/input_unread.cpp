// SPDX-License-Identifier: Apache-2.0
// expect-error: a value of the network is read by no layer
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/time_pool.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Inputs<Tokens<4, 5>, Tokens<4, 5>>, Sequential<Input<1>, Embedding<5, 2>>> {};
#else
struct Net : Network<Inputs<Tokens<4, 5>, Tokens<4, 5>>,
                     Residual<Sequential<Input<0>, Embedding<5, 2>, MeanOverTime>,
                              Sequential<Input<1>, Embedding<5, 2>, MeanOverTime>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
