// SPDX-License-Identifier: Apache-2.0
// expect-only-error: or Inputs of two Tokens (two inputs of numbers are one: Vector<N + M>)
// expect-lines: 12
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Inputs<Vector<4>, Vector<3>>, Sequential<Linear<2>>> {};
#else
struct Net : Network<Vector<4 + 3>, Sequential<Linear<2>>> {};
#endif

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8}};
  for (auto epoch : epochs(1)) {
    trainer.train(TensorDataset<std::int32_t>{vector_shape(7), {0, 0, 0, 0, 0, 0, 0}, {1}}, epoch);
  }
  return trainer.parameters().size() == 2 ? 0 : 1;
}
