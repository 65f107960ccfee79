// SPDX-License-Identifier: Apache-2.0
// expect-error: the network's input has no elements: give positive numbers
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 0, 8>, Sequential<ReLU>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ReLU>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
