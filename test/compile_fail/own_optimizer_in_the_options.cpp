// SPDX-License-Identifier: Apache-2.0
// expect-only-error: TrainerOptions: only Sgd, Adam and AdamW stand in .optimizer as they are
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
#ifdef TANDEM_COMPILE_FAIL
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8, .optimizer = Lion{}}};
#else
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8}, Lion{}};
#endif
  return trainer.parameters().size() == 2 ? 0 : 1;
}
