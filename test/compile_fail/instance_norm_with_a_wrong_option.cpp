// SPDX-License-Identifier: Apache-2.0
// expect-error: InstanceNorm2d<Options...>: options are Epsilon and Affine
#include <tandem/graph/lower.hpp>
#include <tandem/layers/group_norm.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<InstanceNorm2d<Momentum<1, 10>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<InstanceNorm2d<Affine>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
