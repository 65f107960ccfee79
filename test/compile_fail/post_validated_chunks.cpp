// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<PostValidated<Schedule>, Count, Chunks<K>, ...>: leave one of both out
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4>, Vocabulary<5>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<PostValidated<ZeroBubbleH2>, 2, Chunks<4>, Split<2>, Split<1>>;
#else
using S = Pipeline<PostValidated<ZeroBubbleH2>, 2, Split<2>, Split<1>>;
#endif

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
