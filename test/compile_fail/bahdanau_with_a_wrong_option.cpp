// SPDX-License-Identifier: Apache-2.0
// expect-error: Bahdanau<H, Options...>: give a positive number of hidden numbers
#include <tandem/graph/lower.hpp>
#include <tandem/layers/bahdanau.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/options.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Attends : Bahdanau<4, NoBias> {};
#else
struct Attends : Bahdanau<4, InitUniform<1, 10>> {};
#endif
struct Net : Network<Tokens<4, 5>,
                     Sequential<Embedding<5, 2>, Join<Attends, Sequential<>, Sequential<>>>> {};

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
