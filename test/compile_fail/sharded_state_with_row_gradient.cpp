// SPDX-License-Identifier: Apache-2.0
// expect-error: ShardedState with RowGradient: a step changes the states of some rows only
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Words = Embedding<5, 4, RowGradient>;
#else
using Words = Embedding<5, 4>;
#endif

struct Net : Network<Tokens<8, 5>, Sequential<Words, RmsNorm<>, Vocabulary<5>>> {};

int main() { return Program<Net, DataParallel<2, ShardedState>, 4>::sharded_state ? 0 : 1; }
