// SPDX-License-Identifier: Apache-2.0
// expect-error: Percent<Value>: give a number from 0 to 99
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Dropout<Percent<100>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Dropout<Percent<99>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
