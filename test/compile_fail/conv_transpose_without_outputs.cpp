// SPDX-License-Identifier: Apache-2.0
// expect-error: ConvTranspose2d<Out, Options...>: give a positive number of output channels
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv_transpose2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<0>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<1>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
