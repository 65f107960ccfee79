// SPDX-License-Identifier: Apache-2.0
// expect-error: Split<Count>: give a positive number of top-level layers
#include <tandem/strategy/types/model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Split<4>, Split<0>>;
#else
using S = ModelParallel<Split<4>, Split<1>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
