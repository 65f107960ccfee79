// SPDX-License-Identifier: Apache-2.0
// expect-error: BasicCuda<Kernels, Fp32Direct>: this precision is of Host alone; take Fp32
#include <tandem/runtime/cuda/backend.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicCuda<Portable, Fp32Direct>;
#else
using Backend = BasicCuda<Portable, Fp32>;
#endif

int main() { return Backend::rewrites.fuse_relu ? 0 : 1; }
