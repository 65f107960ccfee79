// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer<Net, Strategy, Backend>: the first is a network, such as struct Net :
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Train = Trainer<SingleDevice<>, Net, Host>;
#else
using Train = Trainer<Net, SingleDevice<>, Host>;
#endif

int main() {
  Train trainer{{.batch = 8}};
  for (auto epoch : epochs(1)) {
    trainer.train(TensorDataset<std::int32_t>{Net::input::shape, {0, 0, 0, 0}, {1}}, epoch);
  }
  return trainer.parameters().size() == 2 && trainer.position().step <= 1 ? 0 : 1;
}
