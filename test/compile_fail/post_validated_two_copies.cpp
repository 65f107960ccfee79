// SPDX-License-Identifier: Apache-2.0
// expect-error: PostValidated<Schedule>: the schedule has two copies of the model
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<4>, Linear<3>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<PostValidated<Chimera>, 2, Split<1>, Split<1>>;
#else
using S = Pipeline<PostValidated<ZeroBubbleH2>, 2, Split<1>, Split<1>>;
#endif

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
