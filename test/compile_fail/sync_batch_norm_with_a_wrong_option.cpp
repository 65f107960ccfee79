// SPDX-License-Identifier: Apache-2.0
// expect-error: SyncBatchNorm2d<Options...>: options are Epsilon and Momentum
#include <tandem/graph/lower.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<SyncBatchNorm2d<NoBias>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<SyncBatchNorm2d<Momentum<1, 5>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
