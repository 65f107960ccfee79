// SPDX-License-Identifier: Apache-2.0
// expect-error: LayerNorm<Options...>: options are Epsilon and NoBias
#include <tandem/graph/lower.hpp>
#include <tandem/layers/layer_norm.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<5>, Sequential<LayerNorm<Kernel<3>>>> {};
#else
struct Net : Network<Vector<5>, Sequential<LayerNorm<NoBias>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
