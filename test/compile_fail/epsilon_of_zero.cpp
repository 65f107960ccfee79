// SPDX-License-Identifier: Apache-2.0
// expect-error: Epsilon<Numerator, Denominator>: give positive numbers
#include <tandem/graph/lower.hpp>
#include <tandem/layers/batch_norm2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<BatchNorm2d<Epsilon<1, 0>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<BatchNorm2d<Epsilon<1, 1000>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
