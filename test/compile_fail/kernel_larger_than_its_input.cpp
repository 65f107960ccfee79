// SPDX-License-Identifier: Apache-2.0
// expect-error: the kernel is larger than its padded input
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Conv2d<4, Kernel<9>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Conv2d<4, Kernel<9>, Padding<1>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
