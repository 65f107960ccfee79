// SPDX-License-Identifier: Apache-2.0
// expect-error: SequenceRows: the rows of this network's sequences are no multiple
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
constexpr int time_of = 5;
#else
constexpr int time_of = 6;
#endif

struct Net : Network<Tokens<time_of, 3>,
                     Sequential<Embedding<3, 4>, Linear<6>, ReLU, Linear<4>, Vocabulary<3>>> {};

int main() { return Program<Net, TensorParallel<2, SequenceRows>, 4>::slices == 2 ? 0 : 1; }
