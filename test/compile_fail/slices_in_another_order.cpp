// SPDX-License-Identifier: Apache-2.0
// expect-error: Slices<L> with TensorParallel<N>: L / N must be a power of two
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<12>, ReLU, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = TensorParallel<2, Slices<6>>;
#else
using S = TensorParallel<3, Slices<6>>;
#endif

int main() { return Program<Net, S, 4>::layer_slices == 6 ? 0 : 1; }
