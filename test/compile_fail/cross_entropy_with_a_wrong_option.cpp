// SPDX-License-Identifier: Apache-2.0
// expect-error: SoftmaxCrossEntropy<Options...>: its options are Percent<10> or another type
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<4>>> {};
#ifdef TANDEM_COMPILE_FAIL
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<Kernel<3>>>;
#else
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<IgnoreIndex<3>>>;
#endif

int main() { return Train{}.position().step == 0 ? 0 : 1; }
