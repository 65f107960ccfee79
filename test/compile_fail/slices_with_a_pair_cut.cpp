// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible with Slices<L> or TensorParallel<N>: a part of the model ends between
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<12>, ReLU, Linear<2>, Linear<6>, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Split<2>, Split<3>, Slices<2>, Reproducible<>>;
#else
using S = ModelParallel<Split<3>, Split<2>, Slices<2>, Reproducible<>>;
#endif

int main() { return Program<Net, S, 4>::layer_slices == 2 ? 0 : 1; }
