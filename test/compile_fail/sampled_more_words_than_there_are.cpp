// SPDX-License-Identifier: Apache-2.0
// expect-error: a sample has each word once, so at most V of them
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
constexpr int rows = Vocabulary<50, Sampled<51>>::output(timed_shape(8, 24))[0];
#else
constexpr int rows = Vocabulary<50, Sampled<50>>::output(timed_shape(8, 24))[0];
#endif

int main() { return rows == 8 ? 0 : 1; }
