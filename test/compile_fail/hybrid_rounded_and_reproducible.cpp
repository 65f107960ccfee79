// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<N, Wire<E>>, ...> and Reproducible: rounding on the way
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, Wire<BFloat16>>, ModelParallel<Split<2>, Reproducible<>>>;
#else
using S = Hybrid<DataParallel<2, Wire<BFloat16>>, ModelParallel<Split<2>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
