// SPDX-License-Identifier: Apache-2.0
// expect-error: ConvTranspose2d<Out, Options...>: options are Kernel, Stride, Padding,
// OutputPadding, Dilation, Groups and NoBias
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv_transpose2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<4, ExcludePadding>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<4, NoBias>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
