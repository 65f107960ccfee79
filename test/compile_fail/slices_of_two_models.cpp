// SPDX-License-Identifier: Apache-2.0
// expect-error: Slices<L> with an averaging rule that keeps two models
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<12>, Sequential<Linear<12>, ReLU, Linear<2>>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Rule = AverageWeights<1>;
#else
using Rule = AverageGradients;
#endif
using S = CrossModelParallel<Rule, Split<1>, Split<1>, Slices<2>>;

int main() { return Program<Net, S, 4>::layer_slices == 2 ? 0 : 1; }
