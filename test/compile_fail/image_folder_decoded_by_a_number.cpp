// SPDX-License-Identifier: Apache-2.0
// expect-error: ImageFolder<In, Decoder>: Decoder must have decode(bytes, name) -> Pixels
#include <tandem/images.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Decoder = int;
#else
using Decoder = NoImages;
#endif

int main() { return sizeof(ImageFolder<Image<3, 8, 8>, Decoder>) > 0 ? 0 : 1; }
