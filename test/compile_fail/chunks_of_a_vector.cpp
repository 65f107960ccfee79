// SPDX-License-Identifier: Apache-2.0
// expect-error: Chunks<K>: this network's input is no sequence
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<8>, Sequential<Linear<4>, ReLU, Linear<5>>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4>, Vocabulary<5>>> {};
#endif
using S = Pipeline<OneFOneB, 2, Chunks<4>, Split<2>, Split<1>>;

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
