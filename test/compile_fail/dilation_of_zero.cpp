// SPDX-License-Identifier: Apache-2.0
// expect-error: Dilation<Height, Width>: give positive numbers
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Conv2d<4, Dilation<1, 0>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Conv2d<4, Dilation<1, 2>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
