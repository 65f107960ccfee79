// SPDX-License-Identifier: Apache-2.0
// expect-error: RmsNorm<Options...>: the option is Epsilon
#include <tandem/graph/lower.hpp>
#include <tandem/layers/layer_norm.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<5>, Sequential<RmsNorm<NoBias>>> {};
#else
struct Net : Network<Vector<5>, Sequential<RmsNorm<Epsilon<1, 1000>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
