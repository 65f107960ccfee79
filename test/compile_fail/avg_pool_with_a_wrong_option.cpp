// SPDX-License-Identifier: Apache-2.0
// expect-error: AvgPool2d<Options...>: options are Kernel, Stride, Padding and ExcludePadding
#include <tandem/graph/lower.hpp>
#include <tandem/layers/pool.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<AvgPool2d<Kernel<2>, NoBias>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<AvgPool2d<Kernel<2>, ExcludePadding>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
