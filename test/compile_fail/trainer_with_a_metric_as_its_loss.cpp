// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer<Net, Strategy, Backend, Loss>: the fourth is a loss, such as
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
template <class N>
using Train = Trainer<N, SingleDevice<>, Host, Accuracy, NoMetric>;
#else
template <class N>
using Train = Trainer<N, SingleDevice<>, Host, SoftmaxCrossEntropy<>, Accuracy>;
#endif

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
  Train<Net> trainer{{.batch = 8}};
  return trainer.parameters().size() == 2 ? 0 : 1;
}
