// SPDX-License-Identifier: Apache-2.0
// expect-error: but this network ends in an image; end it with GlobalAvgPool
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<1, 4, 4>, Sequential<Conv2d<3>>> {};
#else
struct Net : Network<Image<1, 4, 4>, Sequential<Conv2d<3, Kernel<4>>>> {};  // 3x1x1: three classes
#endif
using Train = Trainer<Net, SingleDevice<>, Host>;

int main() { return Train{}.position().step == 0 ? 0 : 1; }
