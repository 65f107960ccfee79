// SPDX-License-Identifier: Apache-2.0
// expect-error: Sampled<Words> has kernels for Host only: train this network on tandem::Host
#include <tandem/ops/cuda/sampled_vocabulary.hpp>
#include <tandem/ops/host/sampled_vocabulary.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicCuda<Portable>;
#else
using Backend = BasicHost<Portable>;
#endif

int main() {
  Op<Vocabulary<9, Sampled<4>>, Backend> const op{
      OpSetup{.node = {.in = timed_shape(2, 3), .out = timed_shape(2, 3)}, .batch = 1}};
  return op.needs().packed_bytes == 0 ? 0 : 1;
}
