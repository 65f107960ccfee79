// SPDX-License-Identifier: Apache-2.0
// expect-error: Attention<Heads, Options...>: give a positive number of heads; options are Causal,
#include <tandem/layers/attention.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
constexpr int width = Attention<4, KeyHeads<3>>::output(timed_shape(8, 20))[1];
#else
constexpr int width = Attention<4, KeyHeads<2>>::output(timed_shape(8, 24))[1];
#endif

int main() { return width == 12 ? 0 : 1; }
