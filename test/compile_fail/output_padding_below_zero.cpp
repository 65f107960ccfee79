// SPDX-License-Identifier: Apache-2.0
// expect-error: OutputPadding<Height, Width>: give numbers of 0 or more
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv_transpose2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<4, OutputPadding<-1>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<4, OutputPadding<0>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
