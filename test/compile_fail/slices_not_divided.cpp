// SPDX-License-Identifier: Apache-2.0
// expect-error: Slices<L> with TensorParallel<N>: each device has as many slices
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<12>, ReLU, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2>, TensorParallel<4, Slices<6>>>;
#else
using S = Hybrid<DataParallel<2>, TensorParallel<6, Slices<6>>>;
#endif

int main() { return Program<Net, S, 4>::layer_slices == 6 ? 0 : 1; }
