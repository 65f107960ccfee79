// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<Leaves>: the leaves of one copy of the model
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, Reproducible<6>>, Pipeline<GPipe, 3, Split<2>>>;
#else
using S = Hybrid<DataParallel<2, Reproducible<2>>, Pipeline<GPipe, 3, Split<2>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
