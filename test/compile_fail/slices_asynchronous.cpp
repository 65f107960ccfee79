// SPDX-License-Identifier: Apache-2.0
// expect-error: Slices<L> in an asynchronous pipeline
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<12>, Sequential<Linear<12>, ReLU, Linear<2>>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Order = PipeDream;
#else
using Order = OneFOneB;
#endif
using S = Pipeline<Order, 1, Split<1>, Split<1>, Slices<2>>;

int main() { return Program<Net, S, 4>::layer_slices == 2 ? 0 : 1; }
