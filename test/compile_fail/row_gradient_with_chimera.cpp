// SPDX-License-Identifier: Apache-2.0
// expect-error: RowGradient where each device has parts of two copies of the model (Chimera
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net
    : Network<Tokens<8, 5>, Sequential<Embedding<5, 4, RowGradient>, RmsNorm<>, Vocabulary<5>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<Chimera, 4, Split<1>, Split<2>>;
#else
using S = Pipeline<OneFOneB, 4, Split<1>, Split<2>>;
#endif

int main() { return Program<Net, S, 4>::has_row_gradients ? 0 : 1; }
