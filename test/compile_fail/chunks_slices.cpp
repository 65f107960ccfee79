// SPDX-License-Identifier: Apache-2.0
// expect-error: Chunks<K> with Slices<L>: gradients are added chunk by chunk
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net
    : Network<Tokens<8, 5>,
              Sequential<Embedding<5, 4>, Sequential<Linear<8>, ReLU, Linear<4>>, Vocabulary<5>>> {
};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<OneFOneB, 2, Chunks<4>, Split<2>, Split<1>, Slices<2>>;
#else
using S = Pipeline<OneFOneB, 2, Split<2>, Split<1>, Slices<2>>;
#endif

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
