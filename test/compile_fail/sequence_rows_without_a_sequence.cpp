// SPDX-License-Identifier: Apache-2.0
// expect-error: SequenceRows: this network has no sequences
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<6>, ReLU, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = TensorParallel<2, SequenceRows>;
#else
using S = TensorParallel<2>;
#endif

int main() { return Program<Net, S, 4>::slices == 2 ? 0 : 1; }
