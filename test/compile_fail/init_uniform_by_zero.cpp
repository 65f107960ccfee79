// SPDX-License-Identifier: Apache-2.0
// expect-error: InitUniform<Numerator, Denominator>: give the bound as a quotient
#include <tandem/graph/lower.hpp>
#include <tandem/layers/linear.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<5>, Sequential<Linear<2, InitUniform<1, 0>>>> {};
#else
struct Net : Network<Vector<5>, Sequential<Linear<2, InitUniform<1, 50>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
