// SPDX-License-Identifier: Apache-2.0
// expect-error: Concat<Branches...>: give two or more branches
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Concat<Conv2d<4>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Concat<Conv2d<4>, Conv2d<8>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
