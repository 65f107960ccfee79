// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer: Chunks run on Host and Cuda, and on a backend that says
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

struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4>, Vocabulary<5>>> {};
using S = Pipeline<OneFOneB, 2, Chunks<4>, Split<1>, Split<2>>;

int main() { return Trainer<Net, S, Backend>{{.batch = 8}}.position().step == 0 ? 0 : 1; }
