// SPDX-License-Identifier: Apache-2.0
// expect-error: Metrics<M...>: each is a metric, such as Accuracy or TopK<5>
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<4>>> {};
#ifdef TANDEM_COMPILE_FAIL
using Both = Metrics<Accuracy, int>;
#else
using Both = Metrics<Accuracy, TopK<3>>;
#endif
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<>, Both>;

int main() { return Train{}.position().step == 0 ? 0 : 1; }
