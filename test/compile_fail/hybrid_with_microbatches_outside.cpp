// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<N, Microbatches<k>>, Inner>: give the microbatches to the
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, Microbatches<4>>, ModelParallel<Split<2>>>;
#else
using S = Hybrid<DataParallel<2>, ModelParallel<Split<2>, Microbatches<4>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
