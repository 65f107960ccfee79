// SPDX-License-Identifier: Apache-2.0
// expect-error: PostValidated<Schedule> with RowGradient: an update that is taken back would need
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Words = Embedding<5, 4, RowGradient>;
#else
using Words = Embedding<5, 4>;
#endif
struct Net : Network<Tokens<4, 5>, Sequential<Words, RmsNorm<>, Vocabulary<5>>> {};
using S = Pipeline<PostValidated<ZeroBubbleH2>, 2, Split<2>, Split<1>>;

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
