// SPDX-License-Identifier: Apache-2.0
// expect-error: ModelParallel<How, Options...>: say first how the model is cut: Split<a>,
#include <tandem/strategy/types/model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<>;
#else
using S = ModelParallel<Split<4> >;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
