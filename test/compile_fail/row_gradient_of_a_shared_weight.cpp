// SPDX-License-Identifier: Apache-2.0
// expect-error: Shares<W> with RowGradient: the weight that both layers share has one gradient
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Words : Embedding<5, 4, RowGradient> {};
#else
struct Words : Embedding<5, 4> {};
#endif
struct Net : Network<Tokens<8, 5>, Sequential<Words, RmsNorm<>, Vocabulary<5, Shares<Words>>>> {};

int main() { return Program<Net, SingleDevice<>, 4>::has_row_gradients ? 1 : 0; }
