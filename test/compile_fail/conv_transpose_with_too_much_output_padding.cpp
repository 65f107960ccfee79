// SPDX-License-Identifier: Apache-2.0
// expect-error: ConvTranspose2d<Out, Options...>: OutputPadding must be smaller than Stride
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv_transpose2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>,
                     Sequential<ConvTranspose2d<4, Kernel<3>, Stride<2>, OutputPadding<2>>>> {};
#else
struct Net : Network<Image<3, 8, 8>,
                     Sequential<ConvTranspose2d<4, Kernel<3>, Stride<2>, OutputPadding<1>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
