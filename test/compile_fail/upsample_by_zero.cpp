// SPDX-License-Identifier: Apache-2.0
// expect-error: Upsample<Scale, Mode>: give a positive number, and Nearest or Bilinear
#include <tandem/graph/lower.hpp>
#include <tandem/layers/resample.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Upsample<0>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Upsample<2>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
