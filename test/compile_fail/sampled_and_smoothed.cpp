// SPDX-License-Identifier: Apache-2.0
// expect-error: a sample cannot be smoothed over words that it does not have
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Words = Vocabulary<50, Sampled<8>, Smoothing<Percent<10>>>;
#else
using Words = Vocabulary<50, Sampled<8>>;
#endif
constexpr int rows = Words::output(timed_shape(8, 24))[0];

int main() { return rows == 8 ? 0 : 1; }
