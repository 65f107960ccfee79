// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Interleaved<v>, Count, ...>: Count must be a multiple of the devices,
#include <tandem/strategy/types/pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<Interleaved<2>, 5, Split<2>, Split<2>, Split<2>, Split<3>>;
#else
using S = Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<3>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
