// SPDX-License-Identifier: Apache-2.0
// expect-error: Metrics<M...>: two metrics have the same name; give each a name of its own
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<4>>> {};
#ifdef TANDEM_COMPILE_FAIL
using Both = Metrics<TopK<2>, TopK<2>>;
#else
using Both = Metrics<TopK<2>, TopK<3>>;
#endif
using Train = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<>, Both>;

int main() { return Train{}.position().step == 0 ? 0 : 1; }
