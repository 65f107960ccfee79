// SPDX-License-Identifier: Apache-2.0
// expect-error: Chunks<K>: a network on Inputs<A, B> has two times
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net
    : Network<Inputs<Tokens<8, 5>, Tokens<8, 5>>,
              Sequential<Sequential<Embedding<5, 4>, Gru<4>, Let<struct Memory>, Input<1>,
                                    Embedding<5, 4>>,
                         Join<Bahdanau<3>, Sequential<>, Use<struct Memory>>, Vocabulary<5>>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4>, Vocabulary<5>>> {};
#endif
using S = Pipeline<OneFOneB, 2, Chunks<4>, Split<2>, Split<1>>;

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
