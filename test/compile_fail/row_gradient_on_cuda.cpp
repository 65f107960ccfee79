// SPDX-License-Identifier: Apache-2.0
// expect-error: Embedding<V, C, RowGradient> has kernels for Host only: leave RowGradient out
#include <tandem/ops/cuda/row_gradient.hpp>
#include <tandem/ops/host/embedding.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicCuda<Portable>;
#else
using Backend = BasicHost<Portable>;
#endif

int main() {
  Op<Embedding<9, 4, RowGradient>, Backend> const op{
      OpSetup{.node = {.in = tokens_shape(2), .out = timed_shape(2, 4)}}};
  return op.needs().packed_bytes == 0 ? 0 : 1;
}
