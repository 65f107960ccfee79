// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Transport<Ranks>: ranks in one process, by ThreadsTransport or
// VirtualTransport, are at most 256
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<257>;
#else
using S = DataParallel<256>;
#endif

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
  Trainer<Net, S, Host> trainer{{.batch = 512}};
  return trainer.parameters().size() == 2 ? 0 : 1;
}
