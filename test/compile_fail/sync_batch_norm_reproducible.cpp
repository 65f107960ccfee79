// SPDX-License-Identifier: Apache-2.0
// expect-error: SyncBatchNorm2d with Reproducible<>: its statistics are sums over the replicas
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Image<3, 8, 8>, Sequential<SyncBatchNorm2d<>, GlobalAvgPool, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Chosen = DataParallel<2, Reproducible<>>;
#else
using Chosen = DataParallel<2>;
#endif

int main() { return Program<Net, Chosen, 4>::ranks == 2 ? 0 : 1; }
