// SPDX-License-Identifier: Apache-2.0
// expect-error: Multiply<Branches...>: give two or more branches
#include <tandem/graph/lower.hpp>
#include <tandem/layers/linear.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<3>, Multiply<Linear<4>>> {};
#else
struct Net : Network<Vector<3>, Multiply<Linear<3>, Sequential<>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
