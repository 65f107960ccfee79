// SPDX-License-Identifier: Apache-2.0
// expect-error: TensorParallel<N>: N, the devices that share each layer
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<6>, ReLU, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = TensorParallel<1>;
#else
using S = TensorParallel<2>;
#endif

int main() { return S::ranks == 2 ? 0 : 1; }
