// SPDX-License-Identifier: Apache-2.0
// expect-error: ShardedParameters with Checkpoint<...>: layers that are computed again would
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Model = ModelParallel<Split<1>, Split<1>, Checkpoint<Boundaries>>;
#else
using Model = ModelParallel<Split<1>, Split<1>>;
#endif
using S = Hybrid<DataParallel<2, ShardedParameters>, Model>;

int main() { return Program<Net, S, 4>::sharded_parameters ? 0 : 1; }
