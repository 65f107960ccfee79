// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<N, Weighted<...>>, Inner>: give one weight a replica of the
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<3, Weighted<2, 1>>, ModelParallel<Split<2>>>;
#else
using S = Hybrid<DataParallel<2, Weighted<2, 1>>, ModelParallel<Split<2>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
