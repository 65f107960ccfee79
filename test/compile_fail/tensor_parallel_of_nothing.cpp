// SPDX-License-Identifier: Apache-2.0
// expect-error: TensorParallel<N>: this network has nothing that N devices could share
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<4>, Sequential<Linear<7>, ReLU, Linear<2>>> {};
#else
struct Net : Network<Vector<4>, Sequential<Linear<6>, ReLU, Linear<2>>> {};
#endif

int main() { return Program<Net, TensorParallel<2>, 4>::slices == 2 ? 0 : 1; }
