// SPDX-License-Identifier: Apache-2.0
// expect-error: Trainer<Net, ...>: class_weights of the loss has another number of classes
#include <tandem/tandem.hpp>

using namespace tandem;

struct Rare {
#ifdef TANDEM_COMPILE_FAIL
  static constexpr double class_weights[] = {1.0, 4.0};
#else
  static constexpr double class_weights[] = {1.0, 1.0, 4.0};
#endif
};
struct Net : Network<Vector<3>, Sequential<Linear<3>>> {};
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<Rare>>;

int main() { return Train{}.position().step == 0 ? 0 : 1; }
