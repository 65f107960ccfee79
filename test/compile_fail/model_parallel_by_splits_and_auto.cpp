// SPDX-License-Identifier: Apache-2.0
// expect-error: ModelParallel<How, Options...>: options behind Split<a>, Split<b>, ... or
#include <tandem/strategy/types/model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Auto<2>, Split<4>>;
#else
using S = ModelParallel<Auto<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
