// SPDX-License-Identifier: Apache-2.0
// expect-error: Sequential<Parts...>: every part must be a layer
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<ReLU, int>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ReLU, ReLU>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
