// SPDX-License-Identifier: Apache-2.0
// expect-error: BucketBytes<First, Rest>: give positive numbers
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<2, BucketBytes<0, 1024>>;
#else
using S = DataParallel<2, BucketBytes<1, 1024>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
