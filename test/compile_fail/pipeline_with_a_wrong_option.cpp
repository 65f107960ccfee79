// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Schedule, Count, How, Options...>: options behind Split<a>, Split<b>,
#include <tandem/strategy/types/pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<GPipe, 4, Split<2>, Split<2>, int>;
#else
using S = Pipeline<GPipe, 4, Split<2>, Split<2>, BucketBytes<1, 1> >;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
