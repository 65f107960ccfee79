// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer<Net, AnyStrategy, Backend>: strategies are chosen at start on
#include <tandem/any_strategy.hpp>
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
  Trainer<Net, AnyStrategy, Backend> const trainer{value_of<DataParallel<2>>(), {.batch = 8}};
  return trainer.strategy().batching.replicas == 2 ? 0 : 1;
}
