// SPDX-License-Identifier: Apache-2.0
// expect-error: PostValidated<Schedule> with ShardedState: parameters are gathered
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<4>, Linear<3>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Data = DataParallel<2, ShardedState>;
#else
using Data = DataParallel<2>;
#endif
using S = Hybrid<Data, Pipeline<PostValidated<ZeroBubbleH2>, 2, Split<1>, Split<1>>>;

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
