// SPDX-License-Identifier: Apache-2.0
// expect-error: Stateful with TensorParallel, or Slices: the devices that share a layer
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Memory = Lstm<8, Stateful>;
#else
using Memory = Lstm<8>;
#endif
struct Net
    : Network<Tokens<4, 5>,
              Sequential<Embedding<5, 8>, Memory, Linear<6>, ReLU, Linear<8>, Vocabulary<5>>> {};

int main() { return Program<Net, TensorParallel<2>, 4>::slices == 2 ? 0 : 1; }
