// SPDX-License-Identifier: Apache-2.0
// expect-error: Recording<C>: C must be a communicator
#include <tandem/comm/recording.hpp>
#include <tandem/comm/self.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Communicator = Recording<int>;
#else
using Communicator = Recording<SelfCommunicator>;
#endif

int main() { return sizeof(Communicator) > 0 ? 0 : 1; }
