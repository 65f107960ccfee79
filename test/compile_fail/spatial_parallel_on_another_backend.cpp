// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer: SpatialParallel runs on Host and Cuda, and on a backend that says
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

struct Net : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<3>, Padding<1>>, Flatten>> {};

int main() {
  return Trainer<Net, SpatialParallel<2, 1>, Backend>{{.batch = 8}}.position().step == 0 ? 0 : 1;
}
