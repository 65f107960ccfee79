// SPDX-License-Identifier: Apache-2.0
// expect-error: InitNormal<Numerator, Denominator, Root>: give the standard deviation as a
// quotient, of which Root divides the square
#include <tandem/graph/lower.hpp>
#include <tandem/layers/linear.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<5>, Sequential<Linear<2, InitNormal<1, 0>>>> {};
#else
struct Net : Network<Vector<5>, Sequential<Linear<2, InitNormal<1, 50, 8>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
