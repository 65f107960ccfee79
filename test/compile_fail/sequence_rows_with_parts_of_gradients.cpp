// SPDX-License-Identifier: Apache-2.0
// expect-error: SequenceRows with ShardedGradients or ShardedParameters
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net
    : Network<Tokens<4, 3>, Sequential<Embedding<3, 2>, Linear<2>, Linear<2>, Vocabulary<3>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Around = DataParallel<2, ShardedGradients>;
#else
using Around = DataParallel<2, ShardedState>;
#endif

int main() {
  return Program<Net, Hybrid<Around, TensorParallel<2, SequenceRows>>, 4>::slices == 2 ? 0 : 1;
}
