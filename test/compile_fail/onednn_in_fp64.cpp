// SPDX-License-Identifier: Apache-2.0
// expect-error: BasicHost<OneDnn, Fp64>: oneDNN computes in fp32 and bf16; take
#include <tandem/runtime/host/host.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicHost<OneDnn, Fp64>;
#else
using Backend = BasicHost<OneDnn, Bf16>;
#endif

int main() { return sizeof(Backend) > 0 ? 0 : 1; }
