// SPDX-License-Identifier: Apache-2.0
// expect-error: Embedding<V, C, Options...>: give a positive number of indices and of channels; the
// options are InitNormal or InitUniform and RowGradient, or Shares<W>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 0>>> {};
#else
struct Net : Network<Tokens<4, 9>, Sequential<Embedding<9, 2, InitNormal<1, 50>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
