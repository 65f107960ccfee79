// SPDX-License-Identifier: Apache-2.0
// expect-error: Pad2d: the padding of Reflect must be smaller than the image's height and width
#include <tandem/graph/lower.hpp>
#include <tandem/layers/resample.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Pad2d<Padding<8>, Reflect>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Pad2d<Padding<7>, Reflect>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
