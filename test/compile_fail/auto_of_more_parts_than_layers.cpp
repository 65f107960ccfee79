// SPDX-License-Identifier: Apache-2.0
// expect-error: Auto<Parts>: the network has fewer top-level layers than Parts; give fewer parts,
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

struct Net : Network<Vector<8>, Sequential<Linear<7>, Linear<6>, Linear<5>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Auto<4>>;
#else
using S = ModelParallel<Auto<3>>;
#endif

int main() { return S::ranks > 0 && S::Cut<Net>::partition.parts > 0 ? 0 : 1; }
