// SPDX-License-Identifier: Apache-2.0
// expect-error: SoftCrossEntropy<Options...>: soft labels are no index that could be ignored
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<3>>> {};
#ifdef TANDEM_COMPILE_FAIL
using Train = Trainer<Net, SingleDevice<>, Host, SoftCrossEntropy<IgnoreIndex<0>>>;
#else
using Train = Trainer<Net, SingleDevice<>, Host, SoftCrossEntropy<>>;
#endif

int main() { return Train{}.position().step == 0 ? 0 : 1; }
