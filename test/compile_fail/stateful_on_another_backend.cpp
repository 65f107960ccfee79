// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer: Stateful layers run on Host, since a GPU has several steps queued
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

struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4, Stateful>, Vocabulary<5>>> {
};

int main() {
  return Trainer<Net, SingleDevice<>, Backend>{{.batch = 8}}.position().step == 0 ? 0 : 1;
}
