// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<D, Reproducible<>>, TensorParallel<N>>: a layer's sum
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, Reproducible<>>, TensorParallel<2>>;
#else
using S = Hybrid<DataParallel<2>, TensorParallel<2>>;
#endif

int main() { return S::ranks == 4 ? 0 : 1; }
