// SPDX-License-Identifier: Apache-2.0
// expect-only-error: TrainerOptions: the global batch is .batch, not .batch_size
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
#ifdef TANDEM_COMPILE_FAIL
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch_size = 8}};
#else
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8}};
#endif
  return trainer.parameters().size() == 2 ? 0 : 1;
}
