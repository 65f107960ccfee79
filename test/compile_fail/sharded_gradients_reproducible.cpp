// SPDX-License-Identifier: Apache-2.0
// expect-error: ShardedGradients with Reproducible<> and several microbatches a replica: each is
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<2, Microbatches<2>, Reproducible<>, ShardedGradients>;
#else
using S = DataParallel<2, Reproducible<>, ShardedGradients>;
#endif

int main() { return Program<Net, S, 4>::sharded_state ? 0 : 1; }
