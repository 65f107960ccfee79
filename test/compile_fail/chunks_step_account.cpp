// SPDX-License-Identifier: Apache-2.0
// expect-error: it counts the kernels of a GPU, and Chunks run on Host; leave Chunks out
#include <tandem/measure/account/step_account.hpp>
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4>, Vocabulary<5>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<OneFOneB, 2, Chunks<4>, Split<1>, Split<2>>;
#else
using S = Pipeline<OneFOneB, 2, Split<1>, Split<2>>;
#endif

int main() { return step_account<Net, S>({.batch = 4}).devices == 2 ? 0 : 1; }
