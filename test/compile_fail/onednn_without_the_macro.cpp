// SPDX-License-Identifier: Apache-2.0
// expect-error: BasicHost<OneDnn>: compile with -DTANDEM_ONEDNN=1 and link dnnl, or take
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Backend = BasicHost<OneDnn>;
#else
using Backend = BasicHost<Portable>;
#endif

int main() {
  return Trainer<Net, SingleDevice<>, Backend>{{.batch = 2}}.position().step == 0 ? 0 : 1;
}
