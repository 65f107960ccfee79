// SPDX-License-Identifier: Apache-2.0
// expect-error: Split<...>: the counts exceed the network's top-level layers; take away from the
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

struct Net : Network<Vector<8>, Sequential<Linear<7>, Linear<6>, Linear<5>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<GPipe, 2, Split<1>, Split<3>>;
#else
using S = Pipeline<GPipe, 2, Split<1>, Split<2>>;
#endif

int main() { return S::ranks > 0 && S::Cut<Net>::partition.parts > 0 ? 0 : 1; }
