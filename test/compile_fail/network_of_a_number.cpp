// SPDX-License-Identifier: Apache-2.0
// expect-error: Network<Input, Body>: Input must be Image<C, H, W>, Vector<N>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, int> {};
#else
struct Net : Network<Image<3, 8, 8>, ReLU> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
