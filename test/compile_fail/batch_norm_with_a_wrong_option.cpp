// SPDX-License-Identifier: Apache-2.0
// expect-error: BatchNorm2d<Options...>: options are Epsilon and Momentum
#include <tandem/graph/lower.hpp>
#include <tandem/layers/batch_norm2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<BatchNorm2d<NoBias>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<BatchNorm2d<Momentum<1, 5>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
