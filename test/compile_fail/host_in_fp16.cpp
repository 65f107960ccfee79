// SPDX-License-Identifier: Apache-2.0
// expect-error: BasicHost<Kernels, Fp16>: this precision is of Cuda alone; take
#include <tandem/runtime/host/host.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicHost<Portable, Fp16>;
#else
using Backend = BasicHost<Portable, Fp32>;
#endif

int main() { return sizeof(Backend) > 0 ? 0 : 1; }
