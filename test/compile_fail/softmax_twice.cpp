// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer<Net, ...>: SoftmaxCrossEntropy takes the softmax itself, so Softmax at
// the network's end
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>, Softmax>> {};

#ifdef TANDEM_COMPILE_FAIL
using Train = Trainer<Net, SingleDevice<>, Host>;
#else
using Train = Trainer<Net, SingleDevice<>, Host, MeanSquaredError>;
#endif

int main() {
  Train trainer{{.batch = 8}};
  return trainer.parameters().size() == 2 ? 0 : 1;
}
