// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer: SequenceRows with Slices or Reproducible<> run on Host; take Host, or
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Backend : BasicHost<Portable> {
  static constexpr bool shares_layers = true;
  static constexpr bool deals_rows = true;
  struct Device : host::Device {
    using host::Device::Device;
  };
};
#else
using Backend = BasicHost<Portable>;
#endif

struct Net
    : Network<Tokens<4, 3>, Sequential<Embedding<3, 2>, Linear<2>, Linear<2>, Vocabulary<3>>> {};

int main() {
  return Trainer<Net, TensorParallel<2, SequenceRows, Reproducible<>>, Backend>{{.batch = 8}}
                     .position()
                     .step == 0
             ? 0
             : 1;
}
