// SPDX-License-Identifier: Apache-2.0
// expect-error: Pad2d<Options...>: options are Padding, and Zeros, Reflect, Replicate or Circular
#include <tandem/graph/lower.hpp>
#include <tandem/layers/resample.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Pad2d<Padding<1>, Stride<2>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Pad2d<Padding<1>, Reflect>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
