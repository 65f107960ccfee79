// SPDX-License-Identifier: Apache-2.0
// expect-error: Momentum<Numerator, Denominator>: give a share from 0 to 1
#include <tandem/graph/lower.hpp>
#include <tandem/layers/batch_norm2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<BatchNorm2d<Momentum<3, 2>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<BatchNorm2d<Momentum<2, 3>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
