// SPDX-License-Identifier: Apache-2.0
// expect-error: DataParallel<N>: N must be from 1 to 1048576
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<0>;
#else
using S = DataParallel<1>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
