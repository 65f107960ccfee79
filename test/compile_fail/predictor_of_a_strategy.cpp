// SPDX-License-Identifier: Apache-2.0
// expect-error: Predictor<Net, Backend>: the first is a network, such as struct Net
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<5>, Linear<5>> {};

#ifdef TANDEM_COMPILE_FAIL
using Used = Predictor<SingleDevice<>, Net>;
#else
using Used = Predictor<Net, Host>;
#endif

int main() { return Used{}.memory().parameters > 0 ? 0 : 1; }
