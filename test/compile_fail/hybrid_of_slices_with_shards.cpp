// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<D, ShardedState>, TensorParallel<N>>: a device has its slices
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, ShardedState>, TensorParallel<2>>;
#else
using S = Hybrid<DataParallel<2>, TensorParallel<2>>;
#endif

int main() { return S::ranks == 4 ? 0 : 1; }
