// SPDX-License-Identifier: Apache-2.0
// expect-error: PostValidated<Schedule> with TensorParallel, SpatialParallel or Slices: leave one
// of
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<8>, ReLU, Linear<4>, Linear<3>>> {};

using Cut = Pipeline<PostValidated<ZeroBubbleH2>, 2, Split<3>, Split<1>>;
#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<Cut, TensorParallel<2>>;
#else
using S = Hybrid<DataParallel<2>, Cut>;
#endif

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
