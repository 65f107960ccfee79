// SPDX-License-Identifier: Apache-2.0
// expect-error: PostValidated<Schedule> with Stateful layers: their states would have to be
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Memory = Lstm<4, Stateful>;
#else
using Memory = Lstm<4>;
#endif
struct Net : Network<Tokens<4, 5>, Sequential<Embedding<5, 4>, Memory, Vocabulary<5>>> {};
using S = Pipeline<PostValidated<ZeroBubbleH2>, 2, Split<2>, Split<1>>;

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
