// SPDX-License-Identifier: Apache-2.0
// expect-error: Concat: every branch must give the same height and width
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Concat<Conv2d<4>, Conv2d<4, Kernel<3>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Concat<Conv2d<4>, Conv2d<4, Kernel<3>, Padding<1>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
