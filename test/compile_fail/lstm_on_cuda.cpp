// SPDX-License-Identifier: Apache-2.0
// expect-error: Lstm and Gru have kernels for Host only: train this network on tandem::Host
#include <tandem/ops/cuda/recurrent.hpp>
#include <tandem/ops/host/recurrent.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicCuda<Portable>;
#else
using Backend = BasicHost<Portable>;
#endif

int main() {
  Op<Lstm<4>, Backend> const op{OpSetup{.node = {.in = timed_shape(2, 3)}}};
  return op.needs().packed_bytes == 0 ? 0 : 1;
}
