// SPDX-License-Identifier: Apache-2.0
// expect-error: ImageFolder<In>: In must be what a network takes, Image<C, H, W> with C of 1
#include <tandem/images.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using In = Image<2, 8, 8>;
#else
using In = Image<3, 8, 8>;
#endif

int main() { return sizeof(ImageFolder<In>) > 0 ? 0 : 1; }
