// SPDX-License-Identifier: Apache-2.0
// expect-error: TopK<K>: the network has fewer outputs than K
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<4>>> {};
#ifdef TANDEM_COMPILE_FAIL
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<>, TopK<20>>;
#else
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<>, TopK<3>>;
#endif

int main() { return Train{}.position().step == 0 ? 0 : 1; }
