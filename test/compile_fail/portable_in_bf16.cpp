// SPDX-License-Identifier: Apache-2.0
// expect-error: BasicHost<Portable, Bf16>: the portable kernels compute in fp32 and fp64; take
#include <tandem/runtime/host/host.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicHost<Portable, Bf16>;
#else
using Backend = BasicHost<Portable, Fp64>;
#endif

int main() { return sizeof(Backend) > 0 ? 0 : 1; }
