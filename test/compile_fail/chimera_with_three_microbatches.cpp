// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Chimera, Count, ...>: the parts of the model and Count must be even, 2
#include <tandem/strategy/types/pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<Chimera, 3, Auto<2>>;
#else
using S = Pipeline<Chimera, 4, Auto<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
