// SPDX-License-Identifier: Apache-2.0
// expect-error: ShardedState where a replica has two copies of the model (Chimera
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Inner = Pipeline<Chimera, 2, Split<1>, Split<1>>;
#else
using Inner = Pipeline<OneFOneB, 2, Split<1>, Split<1>>;
#endif

int main() {
  return Program<Net, Hybrid<DataParallel<2, ShardedState>, Inner>, 4>::sharded_state ? 0 : 1;
}
