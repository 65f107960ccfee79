// SPDX-License-Identifier: Apache-2.0
// expect-error: MaxPool2d<Options...>: options are Kernel, Stride and Padding
#include <tandem/graph/lower.hpp>
#include <tandem/layers/pool.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<MaxPool2d<Kernel<2>, Groups<1>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<MaxPool2d<Kernel<2>, Stride<2>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
