// SPDX-License-Identifier: Apache-2.0
// expect-error: DataParallel<by_world, Weighted<...>>: weights are of so many devices; write
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<by_world, Weighted<2, 1>>;
#else
using S = DataParallel<2, Weighted<2, 1>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
