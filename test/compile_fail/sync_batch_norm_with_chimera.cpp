// SPDX-License-Identifier: Apache-2.0
// expect-error: SyncBatchNorm2d with Chimera: replicas of a stage run different microbatches
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Image<3, 8, 8>, Sequential<SyncBatchNorm2d<>, GlobalAvgPool, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Passes = Chimera;
#else
using Passes = OneFOneB;
#endif
using Chosen = Hybrid<DataParallel<2>, Pipeline<Passes, 2, Split<1>, Split<2>>>;

int main() { return Program<Net, Chosen, 4>::ranks == 4 ? 0 : 1; }
