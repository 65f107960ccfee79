// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<Outer, ..., Inner>: give a strategy and another within it, such as
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<>;
#else
using S = Hybrid<DataParallel<2>, ModelParallel<Split<2> > >;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
