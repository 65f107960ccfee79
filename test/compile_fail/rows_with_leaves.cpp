// SPDX-License-Identifier: Apache-2.0
// expect-error: SequenceRows with Reproducible<>, or with several slices a device
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net
    : Network<Tokens<4, 5>,
              Sequential<Embedding<5, 8>, LayerNorm<>, Linear<6>, ReLU, Linear<8>, Vocabulary<5>>> {
};

#ifdef TANDEM_COMPILE_FAIL
using S = TensorParallel<2, SequenceRows, Reproducible<>>;
#else
using S = TensorParallel<2, SequenceRows>;
#endif

int main() { return Program<Net, S, 4>::slices == 2 ? 0 : 1; }
