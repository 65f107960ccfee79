// SPDX-License-Identifier: Apache-2.0
// expect-error: RowGradient with TensorParallel, or Slices: each device would gather the rows
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Words = Embedding<5, 8, RowGradient>;
#else
using Words = Embedding<5, 8>;
#endif
struct Net : Network<Tokens<4, 5>, Sequential<Words, Linear<6>, ReLU, Linear<8>, Vocabulary<5>>> {};

int main() { return Program<Net, TensorParallel<2>, 4>::slices == 2 ? 0 : 1; }
