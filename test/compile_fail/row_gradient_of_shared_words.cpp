// SPDX-License-Identifier: Apache-2.0
// expect-error: Shares<W> with RowGradient: the weight that both layers share has one gradient
#include <tandem/tandem.hpp>

using namespace tandem;

struct Words : Embedding<9, 4> {};
#ifdef TANDEM_COMPILE_FAIL
using Guess = Vocabulary<9, Sampled<5>, Shares<Words>, RowGradient>;
#else
using Guess = Vocabulary<9, Sampled<5>, Shares<Words>>;
#endif
struct Net : Network<Tokens<8, 9>, Sequential<Words, RmsNorm<>, Guess>> {};

int main() { return Program<Net, SingleDevice<>, 4>::has_row_gradients ? 1 : 0; }
