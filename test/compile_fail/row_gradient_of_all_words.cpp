// SPDX-License-Identifier: Apache-2.0
// expect-error: a softmax over all words gives each of them a gradient
#include <tandem/graph/lower.hpp>
#include <tandem/layers/vocabulary.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Head = Vocabulary<90, RowGradient>;
#else
using Head = Vocabulary<90, Sampled<10>, RowGradient>;
#endif

int main() { return Head::output(timed_shape(4, 8)).elements() == 12 ? 0 : 1; }
