// SPDX-License-Identifier: Apache-2.0
// expect-error: a pool's padding must be at most half of its kernel
#include <tandem/graph/lower.hpp>
#include <tandem/layers/pool.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<MaxPool2d<Kernel<3>, Padding<2>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<MaxPool2d<Kernel<3>, Padding<1>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
