// SPDX-License-Identifier: Apache-2.0
// expect-error: layers that share a table of words have it
#include <tandem/tandem.hpp>

using namespace tandem;

struct Words : Embedding<5, 8> {};
struct Net : Network<Tokens<4, 5>,
                     Sequential<Words, Linear<6>, ReLU, Linear<8>, Vocabulary<5, Shares<Words>>>> {
};

#ifdef TANDEM_COMPILE_FAIL
using Way = TensorParallel<2, SplitInputs<0>, KeepWhole<4>>;
#else
using Way = TensorParallel<2, SplitInputs<0>>;
#endif

int main() { return Program<Net, Way, 4>::slices == 2 ? 0 : 1; }
