// SPDX-License-Identifier: Apache-2.0
// expect-error: Trainer<Net, Strategy, Backend>: this type is no backend, or its Device or Buffer
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
/// A backend whose device cannot say when its streams are done.
struct Backend : BasicHost<Portable> {
  struct Device : host::Device {
    using host::Device::Device;
    void await_on() {}
  };
};
#else
using Backend = BasicHost<Portable>;
#endif

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
  Trainer<Net, DataParallel<2>, Backend> trainer{{.batch = 4}};
  return trainer.parameters().size() == 2 && trainer.position().step == 0 ? 0 : 1;
}
