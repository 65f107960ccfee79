// SPDX-License-Identifier: Apache-2.0
// expect-error: the inputs of this layer cannot be dealt
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Tokens<4, 5>,
                     Sequential<Embedding<5, 8>, Linear<6>, ReLU, Linear<8>, Vocabulary<5>>> {};

// The pair must not be cut.
#ifdef TANDEM_COMPILE_FAIL
using Parts = ModelParallel<Split<2>, Split<3>>;
#else
using Parts = ModelParallel<Split<1>, Split<4>>;
#endif
using Way = Hybrid<Parts, TensorParallel<2, SplitInputs<0, 3>>>;

int main() { return Program<Net, Way, 4>::Device<1>::graph.nodes > 0 ? 0 : 1; }
