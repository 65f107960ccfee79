// SPDX-License-Identifier: Apache-2.0
// expect-error: Stateful in an asynchronous pipeline: its stages are at different steps, so that
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4, Stateful>, Vocabulary<5>>> {
};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<PipeDream, 1, Split<1>, Split<2>>;
#else
using S = Pipeline<OneFOneB, 1, Split<1>, Split<2>>;
#endif

int main() { return Program<Net, S, 4>::stateful ? 0 : 1; }
