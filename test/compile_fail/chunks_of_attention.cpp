// SPDX-License-Identifier: Apache-2.0
// expect-error: Chunks<K>: a layer of this network looks at rows that come later, or at all of
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 12>, Attention<2>, Vocabulary<5>>> {};
#else
struct Net
    : Network<Tokens<8, 5>, Sequential<Embedding<5, 12>, Attention<2, Causal>, Vocabulary<5>>> {};
#endif
using S = Pipeline<OneFOneB, 2, Chunks<4>, Split<2>, Split<1>>;

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
