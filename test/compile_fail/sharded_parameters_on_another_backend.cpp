// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer: ShardedParameters runs on Cuda, on Host with Fp32 or Fp64, and on
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Backend : BasicHost<Portable> {
  struct Device : host::Device {
    using host::Device::Device;
  };
};
#else
using Backend = BasicHost<Portable>;
#endif

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};

int main() {
  return Trainer<Net, DataParallel<2, ShardedParameters>, Backend>{{.batch = 8}}.position().step ==
                 0
             ? 0
             : 1;
}
