// SPDX-License-Identifier: Apache-2.0
// expect-error: Auto<Parts>: give a positive number of parts
#include <tandem/strategy/types/model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Auto<0>>;
#else
using S = ModelParallel<Auto<1>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
