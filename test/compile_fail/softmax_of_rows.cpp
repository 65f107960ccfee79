// SPDX-License-Identifier: Apache-2.0
// expect-error: but this network ends in rows of a sequence; end it with LastRow
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 5>, Linear<3>>> {};
#else
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 5>, LastRow, Linear<3>>> {};
#endif
using Train = Trainer<Net, SingleDevice<>, Host>;

int main() { return Train{}.position().step == 0 ? 0 : 1; }
