// SPDX-License-Identifier: Apache-2.0
// expect-error: the outputs of this layer cannot be dealt
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Tokens<4, 5>,
                     Sequential<Embedding<5, 8>, Linear<6>, ReLU, Linear<8>, Vocabulary<5>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Way = TensorParallel<2, SplitOutputs<3>>;
#else
using Way = TensorParallel<2, SplitOutputs<1>>;
#endif

int main() { return Program<Net, Way, 4>::slices == 2 ? 0 : 1; }
