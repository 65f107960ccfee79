// SPDX-License-Identifier: Apache-2.0
// expect-only-error: TrainerOptions: the learning rate is the optimizer
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
#ifdef TANDEM_COMPILE_FAIL
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8, .learning_rate = 0.1F}};
#else
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8, .optimizer = Sgd{.learning_rate = 0.1F}}};
#endif
  return trainer.parameters().size() == 2 ? 0 : 1;
}
