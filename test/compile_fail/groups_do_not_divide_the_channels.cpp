// SPDX-License-Identifier: Apache-2.0
// expect-error: the channels must be a multiple of the groups
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Conv2d<4, Groups<2>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Conv2d<6, Groups<3>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
