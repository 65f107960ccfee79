// SPDX-License-Identifier: Apache-2.0
// expect-error: Shares<W> between stages of an asynchronous pipeline: its stages update at
#include <tandem/tandem.hpp>

using namespace tandem;

struct Words : Embedding<5, 4> {};
struct Net : Network<Tokens<8, 5>, Sequential<Words, RmsNorm<>, Vocabulary<5, Shares<Words>>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<PipeDream, 1, Split<1>, Split<2>>;
#else
using S = Pipeline<OneFOneB, 1, Split<1>, Split<2>>;
#endif

int main() { return Program<Net, S, 4>::ties.widest() > 0 ? 0 : 1; }
