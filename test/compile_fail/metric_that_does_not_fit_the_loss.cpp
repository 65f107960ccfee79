// SPDX-License-Identifier: Apache-2.0
// expect-error: MetricOp<Metric, Loss, Backend>: this metric does not fit this loss's targets
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Train = Trainer<Net, SingleDevice<>, Host, MeanSquaredError, Accuracy>;
#else
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<>, Accuracy>;
#endif

int main() { return Train{}.position().step == 0 ? 0 : 1; }
