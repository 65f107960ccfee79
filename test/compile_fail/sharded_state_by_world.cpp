// SPDX-License-Identifier: Apache-2.0
// expect-error: DataParallel<by_world, ShardedState>: the compiler deals the optimizer's states
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<by_world, ShardedState>;
#else
using S = DataParallel<2, ShardedState>;
#endif

int main() { return Program<Net, S, 4>::sharded_state ? 0 : 1; }
