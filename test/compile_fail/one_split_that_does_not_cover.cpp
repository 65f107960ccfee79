// SPDX-License-Identifier: Apache-2.0
// expect-error: Split<...>: the counts do not cover the network; add what is missing to the last,
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

struct Net : Network<Vector<8>, Sequential<Linear<7>, Linear<6>, Linear<5>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<GPipe, 2, Split<2>>;
#else
using S = Pipeline<GPipe, 2, Split<3>>;
#endif

int main() { return S::ranks > 0 && S::Cut<Net>::map.devices > 0 ? 0 : 1; }
