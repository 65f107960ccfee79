// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer<Net, Strategy, Backend>: the first is a network, such as struct Net :
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Net = Sequential<Linear<3>>;
#else
struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};
#endif

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8}};
  return trainer.parameters().size() == 2 ? 0 : 1;
}
