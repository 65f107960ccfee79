// SPDX-License-Identifier: Apache-2.0
// expect-error: ConvTranspose2d: Padding leaves out all of the output
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv_transpose2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<4, Kernel<2>, Padding<5>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ConvTranspose2d<4, Kernel<2>, Padding<4>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
