// SPDX-License-Identifier: Apache-2.0
// expect-error: Linear<Out, Options...>: give a positive number of outputs; options are NoBias
#include <tandem/graph/lower.hpp>
#include <tandem/layers/linear.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<5>, Sequential<Linear<4, Kernel<3>>>> {};
#else
struct Net : Network<Vector<5>, Sequential<Linear<4, NoBias>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
