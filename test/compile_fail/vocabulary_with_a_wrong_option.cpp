// SPDX-License-Identifier: Apache-2.0
// expect-error: Vocabulary<V, Options...>: give a positive number of words; options are NoBias,
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
constexpr int rows = Vocabulary<50, Percent<10>>::output(timed_shape(8, 24))[0];
#else
constexpr int rows = Vocabulary<50, Smoothing<Percent<10>>>::output(timed_shape(8, 24))[0];
#endif

int main() { return rows == 8 ? 0 : 1; }
